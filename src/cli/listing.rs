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

/// How much of each object to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// All of it.
    Whole,
    /// Its metadata.
    Metadata,
}

impl Live {
    /// All objects of a kind that `params` select.
    ///
    /// # Errors
    ///
    /// Where the hub does not serve the kind, or does not let it be listed.
    pub(super) async fn list(
        &self,
        gvr: &GroupVersionResource,
        params: ListParams,
    ) -> anyhow::Result<Vec<HubObject>> {
        match self.pages(gvr, "", params, Part::Whole).await {
            Ok(objects) => Ok(objects),
            Err(kube::Error::Api(status)) if status.code == 404 => {
                bail!("the hub at {} has no {}", self.url, gvr.kind);
            }
            Err(error) => Err(self.failure(&format!("list {}", gvr.kind), &error)),
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
        self.find(gvr, key).await.map_err(|error| self.failure(&format!("get {kind} {key}"), &error))
    }

    /// The objects of a kind in `namespace`, in all where that is empty, that `params` select; page by page.
    ///
    /// # Errors
    ///
    /// As the hub says it.
    pub(super) async fn pages(
        &self,
        gvr: &GroupVersionResource,
        namespace: &str,
        params: ListParams,
        part: Part,
    ) -> Result<Vec<HubObject>, kube::Error> {
        let request = Request::new(gvr.path(namespace));
        let mut params = params.limit(PAGE);
        let mut objects = Vec::new();
        loop {
            let page = match part {
                Part::Whole => request.list(&params),
                Part::Metadata => request.list_metadata(&params),
            };
            let page: ObjectList<HubObject> =
                self.client.request(page.map_err(kube::Error::BuildRequest)?).await?;
            objects.extend(page.items);
            params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
            if params.continue_token.is_none() {
                return Ok(objects);
            }
        }
    }

    /// One object, `None` where it does not exist.
    ///
    /// # Errors
    ///
    /// As the hub says it.
    pub(super) async fn find<T: DeserializeOwned>(
        &self,
        gvr: &GroupVersionResource,
        key: &ObjectKey,
    ) -> Result<Option<T>, kube::Error> {
        let request = Request::new(gvr.path(&key.namespace)).get(&key.name, &GetParams::default());
        match self.client.request(request.map_err(kube::Error::BuildRequest)?).await {
            Ok(object) => Ok(Some(object)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error),
        }
    }
}
