//! Pushes contents to OPA. If the present contents of OPA are known, pushes only the changes, otherwise everything.
//!
//! OPA accepts a single module or document completely or not at all. A change of several modules or documents begins
//! with the removal of the marker, and ends with setting the marker again. Meanwhile, a random token of the writer is
//! in place of the marker. A writer sets the marker only if its token is still present, so an OPA that was restarted in
//! between gets no marker.
//!
//! The proof module ([`installed`]) calls a function of each module, which proves that all modules are installed. A new
//! module is installed before its call is added. If a module is deleted, or moved to another package, its call is
//! removed first.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher;
use std::time::Duration;

use axum::body::Bytes;
use http::{Method, StatusCode};
use regorus::Value;
use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::contents::{ModuleDiff, OpaContents, PREFIX};
use super::drift::{ListedPolicy, policies};
use super::installed;
use super::responses::compile_errors;
use super::server::Opa;
use crate::bundle::Bundle;
use crate::fault::Fault;
use crate::module::ModuleId;
use policy_sync_hub::json_client::{HttpResponse, JsonClient, JsonClientError};

/// The time limit of a request. A request may contain all objects of a kind.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// The path of this project's records in OPA, and of the marker.
const OURS: &str = "/v1/data/policysync";

/// The records of this project in OPA: the modules and the roots of data that this project has written.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OwnedRecords {
    modules: BTreeSet<String>,
    roots: BTreeSet<String>,
}

/// Why a push to OPA failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PushError {
    /// OPA is unreachable or rejected a request.
    #[error(transparent)]
    Request(#[from] JsonClientError),
    /// OPA rejected modules, with the faults of each.
    #[error("it refuses {}", .0.values().flatten().next().map(ToString::to_string).unwrap_or_default())]
    Rejected(BTreeMap<ModuleId, Vec<Fault>>),
}

/// Uploads `contents` to `opa`: the modules of `bundle`, and data. `before` has the present contents of OPA, if known.
///
/// # Errors
///
/// If a request fails. The contents of OPA are then unknown.
pub async fn push(
    opa: &Opa,
    bundle: &Bundle,
    before: Option<&OpaContents>,
    contents: &OpaContents,
) -> Result<(), PushError> {
    // Each hasher of the standard library has random keys from the operating system.
    let writer_token = format!("{:016x}", RandomState::new().hash_one(0));
    let session = PushSession { client: &opa.0.client, bundle, writer_token };
    let pushed = push_contents(opa, &session, before, contents).await;
    if let Some(metrics) = &opa.0.metrics {
        metrics.count_push(&pushed);
    }
    pushed
}

async fn push_contents(
    opa: &Opa,
    session: &PushSession<'_>,
    before: Option<&OpaContents>,
    contents: &OpaContents,
) -> Result<(), PushError> {
    let Some(before) = before.filter(|before| before.root_names() == contents.root_names()) else {
        let foreign_modules = session.push_all(contents).await?;
        opa.0.state.lock().foreign_modules = foreign_modules;
        return Ok(());
    };
    let (modules, patch) = (contents.module_diff(before), contents.data_patch(before));
    let added = !contents.calls().is_subset(before.calls());
    let dropped = !before.calls().is_subset(contents.calls());
    let is_one = modules.count() + usize::from(!patch.is_empty()) <= 1 && !(added && dropped);
    if !is_one {
        session.unmark().await?;
    }
    if !patch.is_empty() {
        session.patch(&patch).await?;
    }
    if modules.count() > 0 {
        // Modules to delete remain recorded until they are deleted.
        session.record(contents, before.modules().keys().map(ModuleId::as_str)).await?;
        if dropped {
            session.write_proof(&installed::common(before.calls(), contents.calls())).await?;
        }
        session.apply_diff(modules).await?;
        if added {
            session.write_proof(contents.calls()).await?;
        }
    }
    match (is_one, before.revision() == contents.revision()) {
        (true, true) => Ok(()),
        (true, false) => session.mark_again(contents).await,
        (false, _) => session.mark(contents).await,
    }
}

struct PushSession<'p> {
    client: &'p JsonClient,
    bundle: &'p Bundle,
    /// The random token of this writer.
    writer_token: String,
}

impl PushSession<'_> {
    /// Pushes all of `contents`. Returns the modules of other clients in OPA.
    async fn push_all(&self, contents: &OpaContents) -> Result<Vec<String>, PushError> {
        let owned_records = self.owned_records().await?;
        let known = owned_records.modules.iter().map(String::as_str);
        let roots = owned_records.roots.iter().map(String::as_str);
        // This also removes the marker, so the contents are not used until they are complete.
        self.begin(contents, known.clone(), roots).await?;
        let (listed, foreign_modules) = self.list_modules().await;
        let is_desired = |id: &ModuleId| contents.modules().contains_key(id);
        let known = known.map(ModuleId::new).chain(listed);
        let deleted = known.filter(|id| !is_desired(id)).collect();
        self.write_proof(&BTreeSet::new()).await?;
        self.apply_diff(ModuleDiff { deleted, written: contents.modules().clone() }).await?;
        self.write_proof(contents.calls()).await?;
        let root_names = contents.root_names();
        for root in owned_records.roots.iter().filter(|root| !root_names.contains(root.as_str())) {
            self.delete(&format!("/v1/data/{}", part(root))).await?;
        }
        for (root, value) in contents.roots() {
            self.push_root(root, value).await?;
        }
        self.record(contents, std::iter::empty()).await?;
        self.mark(contents).await?;
        Ok(foreign_modules)
    }

    /// Writes the data at `root`, with one request for each kind, which limits the size of a request.
    async fn push_root(&self, root: &str, value: &Value) -> Result<(), PushError> {
        let at = format!("/v1/data/{}", part(root));
        let Ok(fields) = value.as_object() else {
            return self.send(Method::PUT, &at, json(value)).await.map(drop);
        };
        self.send(Method::PUT, &at, Bytes::from_static(b"{}")).await?;
        for (name, value) in fields.iter() {
            let name = name.as_string().map(ToString::to_string).unwrap_or_default();
            self.send(Method::PUT, &format!("{at}/{}", part(&name)), json(value)).await?;
        }
        Ok(())
    }

    /// Changes modules. OPA rejects a module that does not compile with the present modules, so rejected modules are
    /// tried again after all others.
    async fn apply_diff(&self, diff: ModuleDiff) -> Result<(), PushError> {
        let ModuleDiff { mut deleted, mut written } = diff;
        loop {
            let before = deleted.len() + written.len();
            let mut refused: BTreeMap<ModuleId, Vec<Fault>> = BTreeMap::new();
            let mut last = None;
            for id in std::mem::take(&mut deleted) {
                match self.request_module(Method::DELETE, &id, Bytes::new()).await? {
                    response if response.status.is_success() || response.status == StatusCode::NOT_FOUND => {}
                    response => {
                        last = Some(response);
                        deleted.insert(id);
                    }
                }
            }
            for (id, text) in std::mem::take(&mut written) {
                let response =
                    self.request_module(Method::PUT, &id, Bytes::from(text.as_bytes().to_vec())).await?;
                if !response.status.is_success() {
                    for (id, faults) in compile_errors(self.bundle, &response.body) {
                        refused.entry(id).or_default().extend(faults);
                    }
                    last = Some(response);
                    written.insert(id, text);
                }
            }
            match last {
                None => return Ok(()),
                Some(_) if deleted.len() + written.len() < before => {}
                Some(response) if refused.is_empty() => {
                    return Err(self.client.status_error(&response).into());
                }
                Some(_) => return Err(PushError::Rejected(refused)),
            }
        }
    }

    async fn request_module(
        &self,
        method: Method,
        id: &ModuleId,
        body: Bytes,
    ) -> Result<HttpResponse, JsonClientError> {
        let path = format!("/v1/policies/{PREFIX}{}", id.as_str());
        let response = self.client.send_once(method, &path, body, REQUEST_TIMEOUT).await?;
        match response.status {
            StatusCode::OK | StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND => Ok(response),
            _ => Err(self.client.status_error(&response)),
        }
    }

    /// Replaces the marker, which must be set, by the token of this writer.
    async fn unmark(&self) -> Result<(), PushError> {
        let filling = json!({&self.writer_token: true});
        let remove = json!({"op": "remove", "path": "/policysync/revision"});
        self.patch(&[remove, json!({"op": "add", "path": "/policysync/filling", "value": filling})]).await
    }

    /// Sets the marker. Fails if another writer has begun meanwhile.
    async fn mark(&self, contents: &OpaContents) -> Result<(), PushError> {
        let filled = json!({"op": "remove", "path": format!("/policysync/filling/{}", self.writer_token)});
        let revision = json!({"op": "add", "path": "/policysync/revision", "value": contents.revision()});
        self.patch(&[filled, revision]).await
    }

    /// Changes the marker, which must be set, to the marker of `contents`.
    async fn mark_again(&self, contents: &OpaContents) -> Result<(), PushError> {
        let revision = json!({"op": "replace", "path": "/policysync/revision", "value": contents.revision()});
        self.patch(&[revision]).await
    }

    async fn patch(&self, operations: &[Json]) -> Result<(), PushError> {
        self.send(Method::PATCH, "/v1/data", json(&operations)).await.map(drop)
    }

    /// Records the modules and roots of `contents`, and the additional `modules`.
    async fn record<'m>(
        &self,
        contents: &'m OpaContents,
        modules: impl Iterator<Item = &'m str>,
    ) -> Result<(), PushError> {
        let modules: BTreeSet<&str> =
            contents.modules().keys().map(ModuleId::as_str).chain(modules).collect();
        for (name, value) in [("modules", json!(modules)), ("roots", json!(contents.root_names()))] {
            self.send(Method::PUT, &format!("{OURS}/{name}"), json(&value)).await?;
        }
        Ok(())
    }

    /// Begins a complete push: replaces all records and removes the marker. Also records the additional `modules` and
    /// `roots`.
    async fn begin<'m>(
        &self,
        contents: &'m OpaContents,
        modules: impl Iterator<Item = &'m str>,
        roots: impl Iterator<Item = &'m str>,
    ) -> Result<(), PushError> {
        let modules: BTreeSet<&str> =
            contents.modules().keys().map(ModuleId::as_str).chain(modules).collect();
        let roots: BTreeSet<&str> = contents.root_names().into_iter().chain(roots).collect();
        let records = json!({"modules": modules, "roots": roots, "filling": {&self.writer_token: true}});
        self.send(Method::PUT, OURS, json(&records)).await.map(drop)
    }

    async fn owned_records(&self) -> Result<OwnedRecords, PushError> {
        let response = self.send(Method::GET, OURS, Bytes::new()).await?;
        let response: Json =
            serde_json::from_slice(&response.body).map_err(|error| self.client.parse_error(&error))?;
        // If another client has written records of other types, they are ignored.
        Ok(OwnedRecords::deserialize(&response["result"]).unwrap_or_default())
    }

    /// This project's modules and the modules of other clients, if OPA lists them.
    async fn list_modules(&self) -> (Vec<ModuleId>, Vec<String>) {
        let mut listed = (Vec::new(), Vec::new());
        for ListedPolicy { id, .. } in policies(self.client).await.unwrap_or_default() {
            match id.strip_prefix(PREFIX) {
                Some(installed::ID) => {}
                Some(own) => listed.0.push(ModuleId::new(own)),
                None => listed.1.push(id),
            }
        }
        listed
    }

    /// Writes the proof module with these calls.
    async fn write_proof(&self, calls: &BTreeSet<String>) -> Result<(), PushError> {
        let path = format!("/v1/policies/{PREFIX}{}", installed::ID);
        self.send(Method::PUT, &path, Bytes::from(installed::module(calls))).await.map(drop)
    }

    async fn delete(&self, path: &str) -> Result<(), PushError> {
        let response = self.client.send_once(Method::DELETE, path, Bytes::new(), REQUEST_TIMEOUT).await?;
        match response.status {
            StatusCode::NO_CONTENT | StatusCode::OK | StatusCode::NOT_FOUND => Ok(()),
            _ => Err(self.client.status_error(&response).into()),
        }
    }

    async fn send(&self, method: Method, path: &str, body: Bytes) -> Result<HttpResponse, PushError> {
        let response = self.client.send_once(method, path, body, REQUEST_TIMEOUT).await?;
        if response.status.is_success() {
            Ok(response)
        } else {
            Err(self.client.status_error(&response).into())
        }
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
