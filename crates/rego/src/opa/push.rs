//! Pushes contents to OPA: only the changes if its contents are known, otherwise everything.
//!
//! OPA accepts a single module or document completely or not at all. For a change of several, the marker is removed
//! first, and set again once all are complete. Meanwhile, a random token of the writer takes its place. A writer sets
//! the marker only if its token is still present, so an OPA that was restarted in between gets no marker.
//!
//! The module that proves that all modules are `installed` calls each of them. Calls of a new module are added after
//! the module itself. Calls of a module that is to be deleted or moved to another package are removed before.

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

/// The time limit of a request. A request may contain all objects of a kind.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
/// The path of this project's records in OPA, and of the marker.
const OURS: &str = "/v1/data/policysync";

/// The records of this project in OPA: the modules and roots that it has written.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Ours {
    modules: BTreeSet<String>,
    roots: BTreeSet<String>,
}

/// Uploads `contents` to `opa`: the modules of `bundle`, and data. `before` has the present contents of OPA, if known.
///
/// # Errors
///
/// If a request fails. The contents of OPA are then unknown.
pub async fn push(
    opa: &Opa,
    bundle: &Bundle,
    before: Option<&Contents>,
    contents: &Contents,
) -> Result<(), PushError> {
    // Each hasher of the standard library has random keys from the operating system.
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
        // Modules to delete remain recorded until they are deleted.
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
    /// The random token of this writer.
    word: String,
}

impl Pushing<'_> {
    /// Pushes all of `contents`. Returns the modules of others in OPA.
    async fn everything(&self, contents: &Contents) -> Result<Vec<String>, PushError> {
        let ours = self.ours().await?;
        let known = ours.modules.iter().map(String::as_str);
        let roots = ours.roots.iter().map(String::as_str);
        // This also removes the marker, so the contents are not used until they are complete.
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

    /// Writes the data at `root`, with one request for each kind, which limits the size of a request.
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

    /// Changes modules. OPA rejects a module that does not compile with the present ones, so rejected modules are tried
    /// again after the others.
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

    /// Replaces the marker, which is set, by the token of this writer.
    async fn unmark(&self) -> Result<(), PushError> {
        let filling = json!({&self.word: true});
        let remove = json!({"op": "remove", "path": "/policysync/revision"});
        self.patch(&[remove, json!({"op": "add", "path": "/policysync/filling", "value": filling})]).await
    }

    /// Sets the marker. Fails if another writer has begun meanwhile.
    async fn mark(&self, contents: &Contents) -> Result<(), PushError> {
        let filled = json!({"op": "remove", "path": format!("/policysync/filling/{}", self.word)});
        let revision = json!({"op": "add", "path": "/policysync/revision", "value": contents.revision()});
        self.patch(&[filled, revision]).await
    }

    /// Changes the marker, which is set, to that of `contents`.
    async fn mark_again(&self, contents: &Contents) -> Result<(), PushError> {
        let revision = json!({"op": "replace", "path": "/policysync/revision", "value": contents.revision()});
        self.patch(&[revision]).await
    }

    async fn patch(&self, operations: &[Json]) -> Result<(), PushError> {
        self.sent(Method::PATCH, "/v1/data", json(&operations)).await.map(drop)
    }

    /// Records the modules and roots of `contents`, and these further modules.
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

    /// Records these roots as well, and replaces all records and the marker.
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
        // Values that other clients have written there are ignored.
        Ok(Ours::deserialize(&answer["result"]).unwrap_or_default())
    }

    /// This project's modules and those of others, if OPA lists them.
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

    /// Writes the proof module with these calls.
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
    // Values of Rego are valid JSON.
    serde_json::to_vec(value).unwrap_or_default().into()
}

/// Escapes `name` for a URL path. Most names on the hub need no escape, except keys of ConfigMaps.
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
