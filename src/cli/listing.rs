//! Reading objects of a hub, with a failure in one line that names what could not be read.

use anyhow::bail;
use kube::api::{GetParams, ListParams};
use kube::core::{ObjectList, Request};
use serde::de::DeserializeOwned;

use super::live::Live;
use crate::api::names::{GroupVersionResource, ObjectKey};
use crate::api::object::HubObject;

/// How many objects a page has.
const PAGE: u32 = 500;

impl Live {
    /// All objects of a kind, or those that the label selector `labels` selects.
    ///
    /// # Errors
    ///
    /// Where the hub does not serve the kind, or does not let it be listed.
    pub(super) async fn list(
        &self,
        gvr: &GroupVersionResource,
        labels: Option<&str>,
    ) -> anyhow::Result<Vec<HubObject>> {
        let request = Request::new(path(gvr, ""));
        let mut params = ListParams::default().limit(PAGE);
        params.label_selector = labels.map(str::to_owned);
        let mut objects = Vec::new();
        loop {
            let page = match request.list(&params) {
                Ok(page) => self.client.request::<ObjectList<HubObject>>(page).await,
                Err(error) => Err(kube::Error::BuildRequest(error)),
            };
            let page = match page {
                Ok(page) => page,
                Err(kube::Error::Api(status)) if status.code == 404 => {
                    bail!("the hub at {} has no {}", self.url, gvr.kind);
                }
                Err(error) => return Err(self.failure(&format!("list {}", gvr.kind), &error)),
            };
            objects.extend(page.items);
            params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
            if params.continue_token.is_none() {
                return Ok(objects);
            }
        }
    }

    /// One object, `None` where it does not exist; `kind` is for the words.
    ///
    /// # Errors
    ///
    /// Where it cannot be read.
    pub(super) async fn get<T: DeserializeOwned>(
        &self,
        gvr: &GroupVersionResource,
        kind: &str,
        key: &ObjectKey,
    ) -> anyhow::Result<Option<T>> {
        let request = Request::new(path(gvr, &key.namespace)).get(&key.name, &GetParams::default());
        let found = match request {
            Ok(request) => self.client.request(request).await,
            Err(error) => Err(kube::Error::BuildRequest(error)),
        };
        match found {
            Ok(object) => Ok(Some(object)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(self.failure(&format!("get {kind} {key}"), &error)),
        }
    }
}

/// The path of a kind, in all namespaces where `namespace` is empty.
fn path(gvr: &GroupVersionResource, namespace: &str) -> String {
    let version = &gvr.version;
    let api = match &*gvr.kind.group {
        "" => format!("/api/{version}"),
        group => format!("/apis/{group}/{version}"),
    };
    match namespace {
        "" => format!("{api}/{}", gvr.kind.resource),
        namespace => format!("{api}/namespaces/{namespace}/{}", gvr.kind.resource),
    }
}
