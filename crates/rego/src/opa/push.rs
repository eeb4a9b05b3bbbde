//! Fills OPA: with what has changed where it is known what it has, else with everything.
//!
//! A module or data alone is taken as a whole or not at all. Where more is to change together, the marker is taken away first, and
//! comes back once all of it is there. In its place is a word of who fills it meanwhile: only who still finds it sets the marker, so
//! that an OPA that was started again in the middle is not marked.
//!
//! The module that proves that all modules are `installed` calls each of them. It calls a new one after that is
//! there, and no longer calls one that is to be deleted or moved to another package.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher;
use std::time::Duration;

use axum::body::Bytes;
use http::{Method, StatusCode};
use regorus::Value;
use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::answers::refusals;
use super::changed::{Policy, policies};
use super::contents::{Contents, Differing, PREFIX};
use super::installed;
use super::push_error::PushError;
use super::server::Opa;
use crate::bundle::Bundle;
use crate::fault::Fault;
use crate::module::ModuleId;
use policy_sync_hub::json_client::{Answer, AskError, JsonClient};

/// How long a request may take: one has all objects of a kind.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
/// What is ours in OPA, and the marker.
const OURS: &str = "/v1/data/policysync";

/// What is ours in OPA.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Ours {
    modules: BTreeSet<String>,
    roots: BTreeSet<String>,
}

/// Has `opa` have `contents`, which is `bundle` and its data, where it has `before`, or nobody knows what it has.
///
/// # Errors
///
/// Where it has not all of it now: what it has then, nobody knows.
pub async fn push(
    opa: &Opa,
    bundle: &Bundle,
    before: Option<&Contents>,
    contents: &Contents,
) -> Result<(), PushError> {
    // Each hasher of the standard library has keys of its own, from the system's dice.
    let word = format!("{:016x}", RandomState::new().hash_one(0));
    let pushing = Pushing { client: &opa.0.client, bundle, word };
    let pushed = pushed(opa, &pushing, before, contents).await;
    if let Some(metrics) = &opa.0.metrics {
        metrics.pushed(&pushed);
    }
    pushed
}

async fn pushed(
    opa: &Opa,
    pushing: &Pushing<'_>,
    before: Option<&Contents>,
    contents: &Contents,
) -> Result<(), PushError> {
    let Some(before) = before.filter(|before| before.owned() == contents.owned()) else {
        let others = pushing.everything(contents).await?;
        opa.0.state.lock().others = others;
        return Ok(());
    };
    let (modules, patch) = (contents.modules_since(before), contents.data_since(before));
    let added = !contents.calls().is_subset(before.calls());
    let dropped = !before.calls().is_subset(contents.calls());
    let is_one = modules.count() + usize::from(!patch.is_empty()) <= 1 && !(added && dropped);
    if !is_one {
        pushing.unmark().await?;
    }
    if !patch.is_empty() {
        pushing.patch(&patch).await?;
    }
    if modules.count() > 0 {
        // What is taken away is still noted until it is.
        pushing.note(contents, before.modules().keys().map(ModuleId::as_str)).await?;
        if dropped {
            pushing.prove(&installed::common(before.calls(), contents.calls())).await?;
        }
        pushing.change(modules).await?;
        if added {
            pushing.prove(contents.calls()).await?;
        }
    }
    match (is_one, before.revision() == contents.revision()) {
        (true, true) => Ok(()),
        (true, false) => pushing.mark_again(contents).await,
        (false, _) => pushing.mark(contents).await,
    }
}

struct Pushing<'p> {
    client: &'p JsonClient,
    bundle: &'p Bundle,
    /// What nobody else says while they fill it.
    word: String,
}

impl Pushing<'_> {
    /// Has it have all of `contents`; returns the modules of others that are there.
    async fn everything(&self, contents: &Contents) -> Result<Vec<String>, PushError> {
        let ours = self.ours().await?;
        let known = ours.modules.iter().map(String::as_str);
        let roots = ours.roots.iter().map(String::as_str);
        // Also without a marker: nothing of it counts until all of it is there.
        self.begin(contents, known.clone(), roots).await?;
        let (listed, others) = self.listed().await;
        let is_wanted = |id: &ModuleId| contents.modules().contains_key(id);
        let known = known.map(ModuleId::new).chain(listed);
        let gone = known.filter(|id| !is_wanted(id)).collect();
        self.prove(&BTreeSet::new()).await?;
        self.change(Differing { gone, put: contents.modules().clone() }).await?;
        self.prove(contents.calls()).await?;
        let owned = contents.owned();
        for root in ours.roots.iter().filter(|root| !owned.contains(root.as_str())) {
            self.removed(&format!("/v1/data/{}", part(root))).await?;
        }
        for (root, value) in contents.roots() {
            self.root(root, value).await?;
        }
        self.note(contents, std::iter::empty()).await?;
        self.mark(contents).await?;
        Ok(others)
    }

    /// What is below `root`: each kind by itself, that no request has all of them.
    async fn root(&self, root: &str, value: &Value) -> Result<(), PushError> {
        let at = format!("/v1/data/{}", part(root));
        let Ok(fields) = value.as_object() else {
            return self.sent(Method::PUT, &at, json(value)).await.map(drop);
        };
        self.sent(Method::PUT, &at, Bytes::from_static(b"{}")).await?;
        for (name, value) in fields.iter() {
            let name = name.as_string().map(ToString::to_string).unwrap_or_default();
            self.sent(Method::PUT, &format!("{at}/{}", part(&name)), json(value)).await?;
        }
        Ok(())
    }

    /// Changes modules. Each has to fit those that are there: one that does not yet is tried again after the others.
    async fn change(&self, differing: Differing) -> Result<(), PushError> {
        let Differing { mut gone, mut put } = differing;
        loop {
            let before = gone.len() + put.len();
            let mut refused: BTreeMap<ModuleId, Vec<Fault>> = BTreeMap::new();
            let mut last = None;
            for id in std::mem::take(&mut gone) {
                match self.tried(Method::DELETE, &id, Bytes::new()).await? {
                    answer if answer.status.is_success() || answer.status == StatusCode::NOT_FOUND => {}
                    answer => {
                        last = Some(answer);
                        gone.insert(id);
                    }
                }
            }
            for (id, text) in std::mem::take(&mut put) {
                let answer = self.tried(Method::PUT, &id, Bytes::from(text.as_bytes().to_vec())).await?;
                if !answer.status.is_success() {
                    for (id, faults) in refusals(self.bundle, &answer.body) {
                        refused.entry(id).or_default().extend(faults);
                    }
                    last = Some(answer);
                    put.insert(id, text);
                }
            }
            match last {
                None => return Ok(()),
                Some(_) if gone.len() + put.len() < before => {}
                Some(answer) if refused.is_empty() => return Err(self.client.refused(&answer).into()),
                Some(_) => return Err(PushError::Refused(refused)),
            }
        }
    }

    async fn tried(&self, method: Method, id: &ModuleId, body: Bytes) -> Result<Answer, AskError> {
        let path = format!("/v1/policies/{PREFIX}{}", id.as_str());
        let answer = self.client.once(method, &path, body, PATIENCE).await?;
        match answer.status {
            StatusCode::OK | StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND => Ok(answer),
            _ => Err(self.client.refused(&answer)),
        }
    }

    /// Takes the marker away, which is there.
    async fn unmark(&self) -> Result<(), PushError> {
        let filling = json!({&self.word: true});
        let remove = json!({"op": "remove", "path": "/policysync/revision"});
        self.patch(&[remove, json!({"op": "add", "path": "/policysync/filling", "value": filling})]).await
    }

    /// Marks that all of it is there, where nobody else has begun to fill it.
    async fn mark(&self, contents: &Contents) -> Result<(), PushError> {
        let filled = json!({"op": "remove", "path": format!("/policysync/filling/{}", self.word)});
        let revision = json!({"op": "add", "path": "/policysync/revision", "value": contents.revision()});
        self.patch(&[filled, revision]).await
    }

    /// Has the marker, which is there, stand for `contents`.
    async fn mark_again(&self, contents: &Contents) -> Result<(), PushError> {
        let revision = json!({"op": "replace", "path": "/policysync/revision", "value": contents.revision()});
        self.patch(&[revision]).await
    }

    async fn patch(&self, operations: &[Json]) -> Result<(), PushError> {
        self.sent(Method::PATCH, "/v1/data", json(&operations)).await.map(drop)
    }

    /// Notes what is ours, of `contents` and of these modules, beside the marker.
    async fn note<'m>(
        &self,
        contents: &'m Contents,
        modules: impl Iterator<Item = &'m str>,
    ) -> Result<(), PushError> {
        let modules: BTreeSet<&str> =
            contents.modules().keys().map(ModuleId::as_str).chain(modules).collect();
        for (name, value) in [("modules", json!(modules)), ("roots", json!(contents.owned()))] {
            self.sent(Method::PUT, &format!("{OURS}/{name}"), json(&value)).await?;
        }
        Ok(())
    }

    /// The same with these roots as well, in place of all that is noted, and of the marker.
    async fn begin<'m>(
        &self,
        contents: &'m Contents,
        modules: impl Iterator<Item = &'m str>,
        roots: impl Iterator<Item = &'m str>,
    ) -> Result<(), PushError> {
        let modules: BTreeSet<&str> =
            contents.modules().keys().map(ModuleId::as_str).chain(modules).collect();
        let roots: BTreeSet<&str> = contents.owned().into_iter().chain(roots).collect();
        let ours = json!({"modules": modules, "roots": roots, "filling": {&self.word: true}});
        self.sent(Method::PUT, OURS, json(&ours)).await.map(drop)
    }

    async fn ours(&self) -> Result<Ours, PushError> {
        let answer = self.sent(Method::GET, OURS, Bytes::new()).await?;
        let answer: Json =
            serde_json::from_slice(&answer.body).map_err(|error| self.client.unread(&error))?;
        // What somebody else has written there says nothing.
        Ok(Ours::deserialize(&answer["result"]).unwrap_or_default())
    }

    /// Our modules and those of others, if OPA lists them.
    async fn listed(&self) -> (Vec<ModuleId>, Vec<String>) {
        let mut listed = (Vec::new(), Vec::new());
        for Policy { id, .. } in policies(self.client).await.unwrap_or_default() {
            match id.strip_prefix(PREFIX) {
                Some(installed::ID) => {}
                Some(ours) => listed.0.push(ModuleId::new(ours)),
                None => listed.1.push(id),
            }
        }
        listed
    }

    /// Has the module that proves that modules are installed make these calls.
    async fn prove(&self, calls: &BTreeSet<String>) -> Result<(), PushError> {
        let path = format!("/v1/policies/{PREFIX}{}", installed::ID);
        self.sent(Method::PUT, &path, Bytes::from(installed::module(calls))).await.map(drop)
    }

    async fn removed(&self, path: &str) -> Result<(), PushError> {
        let answer = self.client.once(Method::DELETE, path, Bytes::new(), PATIENCE).await?;
        match answer.status {
            StatusCode::NO_CONTENT | StatusCode::OK | StatusCode::NOT_FOUND => Ok(()),
            _ => Err(self.client.refused(&answer).into()),
        }
    }

    async fn sent(&self, method: Method, path: &str, body: Bytes) -> Result<Answer, PushError> {
        let answer = self.client.once(method, path, body, PATIENCE).await?;
        if answer.status.is_success() { Ok(answer) } else { Err(self.client.refused(&answer).into()) }
    }
}

fn json(value: &impl serde::Serialize) -> Bytes {
    // What Rego holds is JSON.
    serde_json::to_vec(value).unwrap_or_default().into()
}

/// `name` as a part of a path: names of the hub are, but for keys of ConfigMaps in no way of a path's own.
pub(super) fn part(name: &str) -> String {
    let mut part = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => part.push(char::from(byte)),
            // Writing to a String cannot fail.
            _ => part.push_str(&format!("%{byte:02X}")),
        }
    }
    part
}
