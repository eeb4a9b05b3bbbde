//! A client of the hub for commands: requests have a time limit, and errors are one line long.

use futures::future::join_all;
use kube::api::{GetParams, ListParams};
use kube::core::{ObjectList, Request};
use kube::{Client, Config};
use serde::de::DeserializeOwned;

use super::connection::{command_client, url};
use super::discovery::group_version_resources;
use super::error::{HubError, root_cause};
use super::pages::Pages;
use super::request_timeout::RequestTimeout;
use policy_sync_api::names::{ControllerName, GroupVersionResource, ObjectKey};
use policy_sync_api::object::{HubObject, WithText};
use policy_sync_mirror::{Projection, RequiredApi, Source};

/// The maximum number of objects per page.
const PAGE_SIZE: u32 = 500;

/// Which kinds of a required API group a cluster serves.
enum ApiSupport<'r> {
    /// The kind that hubs serve.
    Hub,
    /// Only the kind that spokes serve, not the kind that hubs serve.
    Spoke,
    /// Neither the kind of hubs nor the kind of spokes.
    Missing(&'r RequiredApi),
}

/// A client of one hub.
#[derive(Clone)]
pub struct HubClient {
    client: Client,
    url: String,
}

impl std::fmt::Debug for HubClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HubClient").field("url", &self.url).finish_non_exhaustive()
    }
}

impl HubClient {
    /// A client for the cluster of `config`. Sends no request yet.
    ///
    /// # Errors
    ///
    /// If the credentials of `config` cannot be loaded.
    pub fn new(config: Config, timeout: RequestTimeout) -> Result<Self, HubError> {
        let url = url(&config);
        Ok(Self { client: command_client(config, timeout)?, url })
    }

    /// The Kubernetes client that sends the requests.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The hub's URL, for messages.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Checks that the hub serves all `required` APIs. Without the right to query discovery, the check passes. In that
    /// case, later requests fail and name each missing right.
    ///
    /// # Errors
    ///
    /// The first API that is missing, or why discovery failed.
    pub async fn has(&self, required: &[RequiredApi]) -> Result<(), HubError> {
        let groups = match self
            .client
            .list_api_groups()
            .await
            .map_err(|error| self.failure("list the APIs", &error))
        {
            Ok(list) => list.groups,
            Err(error) if error.is_forbidden() => return Ok(()),
            Err(error) => return Err(error),
        };
        let has_group = |required: &&RequiredApi| groups.iter().any(|served| served.name == required.group);
        let lookups = required.iter().filter(has_group).map(|required| self.api_support(required));
        // A spoke is reported as such, even if other APIs are missing, too.
        let mut missing: Vec<&RequiredApi> =
            required.iter().filter(|required| !has_group(required)).collect();
        for support in join_all(lookups).await {
            match support? {
                ApiSupport::Hub => {}
                ApiSupport::Spoke => return Err(HubError::Spoke { url: self.url.clone() }),
                ApiSupport::Missing(requirement) => missing.push(requirement),
            }
        }
        match missing.first() {
            None => Ok(()),
            Some(RequiredApi { kinds, project, .. }) => {
                Err(self.not_served(format!("{kinds}: {project} is not installed")))
            }
        }
    }

    /// Queries which kinds are served in the group and version of `required`.
    async fn api_support<'r>(&self, required: &'r RequiredApi) -> Result<ApiSupport<'r>, HubError> {
        let RequiredApi { group, version, resource, spoke_resource, .. } = *required;
        let gvr = GroupVersionResource::new(group, version, resource);
        let served = match group_version_resources(&self.client, &gvr).await {
            Ok(served) => served.map(|list| list.resources).unwrap_or_default(),
            // A later list request fails and names the missing right.
            Err(kube::Error::Api(status)) if status.code == 403 => return Ok(ApiSupport::Hub),
            Err(error) => return Err(self.failure(&format!("look up {gvr}"), &error)),
        };
        let has = |plural: &str| served.iter().any(|served| served.name == plural);
        Ok(match (has(resource), spoke_resource) {
            (true, _) => ApiSupport::Hub,
            (false, Some(plural)) if has(plural) => ApiSupport::Spoke,
            (false, _) => ApiSupport::Missing(required),
        })
    }

    /// Lists all objects of `source` as `gvr`. The label selector of `source` may depend on the name `controller`.
    /// `what` is the action for error messages, for example `list Gateways`.
    ///
    /// # Errors
    ///
    /// If a page cannot be listed.
    pub async fn list(
        &self,
        source: &Source,
        gvr: &GroupVersionResource,
        controller: &ControllerName,
        what: &str,
    ) -> Result<Vec<HubObject>, HubError> {
        self.list_pages(Pages::of_source(source, gvr, controller, PAGE_SIZE), source.projection(), gvr, what)
            .await
    }

    /// Lists the objects of `gvr` in `namespace` that match the label selector `labels`. An empty namespace means all
    /// namespaces.
    ///
    /// # Errors
    ///
    /// If a page cannot be listed.
    pub async fn objects(
        &self,
        gvr: &GroupVersionResource,
        namespace: &str,
        labels: Option<&str>,
        projection: Projection,
        what: &str,
    ) -> Result<Vec<HubObject>, HubError> {
        let mut params = ListParams::default().limit(PAGE_SIZE);
        params.label_selector = labels.map(str::to_owned);
        self.list_pages(Pages::new(gvr, namespace, params, projection), projection, gvr, what).await
    }

    async fn list_pages(
        &self,
        pages: Pages,
        projection: Projection,
        gvr: &GroupVersionResource,
        what: &str,
    ) -> Result<Vec<HubObject>, HubError> {
        let listed = match projection {
            Projection::FullWithText => self.list_of::<WithText>(pages).await,
            Projection::Metadata | Projection::Full => self.list_of::<HubObject>(pages).await,
        };
        listed.map_err(|error| match error {
            kube::Error::Api(status) if status.code == 404 => self.not_served(gvr.kind.to_string()),
            error => self.failure(what, &error),
        })
    }

    async fn list_of<O>(&self, mut pages: Pages) -> Result<Vec<HubObject>, kube::Error>
    where
        O: DeserializeOwned + Clone + Into<HubObject>,
    {
        let mut objects = Vec::new();
        loop {
            let request = pages.request().map_err(kube::Error::BuildRequest)?;
            let page: ObjectList<O> = self.client.request(request).await?;
            objects.extend(page.items.into_iter().map(Into::into));
            if !pages.advance(page.metadata.continue_) {
                return Ok(objects);
            }
        }
    }

    /// Lists the names of the objects of `gvr` in `namespace`; empty means all namespaces. Returns the first page only,
    /// at most 500 names.
    ///
    /// # Errors
    ///
    /// If the page cannot be listed.
    pub async fn names(
        &self,
        gvr: &GroupVersionResource,
        namespace: &str,
        what: &str,
    ) -> Result<Vec<String>, HubError> {
        let pages = Pages::new(gvr, namespace, ListParams::default().limit(PAGE_SIZE), Projection::Metadata);
        let page = async { self.client.request(pages.request().map_err(kube::Error::BuildRequest)?).await };
        let page: ObjectList<HubObject> = page.await.map_err(|error| self.failure(what, &error))?;
        Ok(page.items.into_iter().map(|object| object.metadata.name).collect())
    }

    /// Reads one object; `None` if it does not exist. `what` is the action for error messages, for example `get
    /// ConfigMap shop/params`.
    ///
    /// # Errors
    ///
    /// If the object cannot be read.
    pub async fn get<T: DeserializeOwned>(
        &self,
        gvr: &GroupVersionResource,
        key: &ObjectKey,
        what: &str,
    ) -> Result<Option<T>, HubError> {
        let request = Request::new(gvr.path(&key.namespace)).get(&key.name, &GetParams::default());
        let object = async { self.client.request(request.map_err(kube::Error::BuildRequest)?).await };
        match object.await {
            Ok(object) => Ok(Some(object)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(self.failure(what, &error)),
        }
    }

    /// The error for an API that the hub does not serve.
    #[must_use]
    pub fn not_served(&self, what: impl Into<String>) -> HubError {
        HubError::NotServed { url: self.url.clone(), what: what.into() }
    }

    /// The error for an object that does not exist. `what` is the object's kind and name.
    #[must_use]
    pub fn not_found(&self, what: impl Into<String>) -> HubError {
        HubError::Absent { url: self.url.clone(), what: what.into() }
    }

    /// The error for a failed request. `what` is the action, for example `list GatewayClasses`.
    #[must_use]
    pub fn failure(&self, what: &str, error: &kube::Error) -> HubError {
        let url = self.url.clone();
        match error {
            kube::Error::Api(status) => {
                let message = if status.message.is_empty() { &status.reason } else { &status.message };
                let (what, cause) = (what.to_owned(), format!("{message} ({})", status.code));
                HubError::Rejected { what, url, cause, code: status.code }
            }
            error => HubError::Unreachable { url, cause: root_cause(error).to_string() },
        }
    }
}
