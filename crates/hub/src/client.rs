//! A hub that people ask: it waits for each answer for a while, and says in one line what went wrong.

use futures::future::join_all;
use kube::api::{GetParams, ListParams};
use kube::core::{ObjectList, Request};
use kube::{Client, Config};
use serde::de::DeserializeOwned;

use super::connection::{asking, url};
use super::discovery::served_beside;
use super::error::{HubError, innermost};
use super::pages::Pages;
use super::request_timeout::RequestTimeout;
use policy_sync_api::names::{ControllerName, GroupVersionResource, ObjectKey};
use policy_sync_api::object::{HubObject, WithText};
use policy_sync_mirror::{Extent, Source};

/// How many objects a page has.
const PAGE: u32 = 500;

/// An API without which a cluster is no hub.
#[derive(Clone, Copy, Debug)]
pub struct Requirement {
    /// The group.
    pub group: &'static str,
    /// The version in which it is read.
    pub version: &'static str,
    /// The plural of a kind that a hub serves.
    pub resource: &'static str,
    /// The plural of a kind of the same group and version that spokes serve.
    pub of_spokes: Option<&'static str>,
    /// Kinds of it, for words.
    pub kinds: &'static str,
    /// Who brings it.
    pub project: &'static str,
}

/// Which kinds of a required group a cluster serves.
enum Serves<'r> {
    /// The required one.
    Required,
    /// Only the one that spokes have.
    OfSpokes,
    /// Neither kind.
    Neither(&'r Requirement),
}

/// A hub to ask.
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
    /// The hub that `config` leads to. Nothing is asked of it yet.
    ///
    /// # Errors
    ///
    /// Where its credentials cannot be read or had.
    pub fn new(config: Config, timeout: RequestTimeout) -> Result<Self, HubError> {
        let url = url(&config);
        Ok(Self { client: asking(config, timeout)?, url })
    }

    /// What sends the requests.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Where it is.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Finds out whether it has all that is `required`. Who may not ask for that will see what else may not be read.
    ///
    /// # Errors
    ///
    /// What it lacks, or why it cannot be asked.
    pub async fn has(&self, required: &[Requirement]) -> Result<(), HubError> {
        let groups = match self
            .client
            .list_api_groups()
            .await
            .map_err(|error| self.failure("ask for the APIs", &error))
        {
            Ok(list) => list.groups,
            Err(error) if error.is_forbidden() => return Ok(()),
            Err(error) => return Err(error),
        };
        let has_group = |required: &&Requirement| groups.iter().any(|served| served.name == required.group);
        let looks = required.iter().filter(has_group).map(|required| self.serves(required));
        // A spoke is reported first: it may lack any of the others.
        let mut missing: Vec<&Requirement> =
            required.iter().filter(|required| !has_group(required)).collect();
        for look in join_all(looks).await {
            match look? {
                Serves::Required => {}
                Serves::OfSpokes => return Err(HubError::Spoke { url: self.url.clone() }),
                Serves::Neither(requirement) => missing.push(requirement),
            }
        }
        match missing.first() {
            None => Ok(()),
            Some(Requirement { kinds, project, .. }) => {
                Err(self.lacks(format!("{kinds}: {project} is not installed")))
            }
        }
    }

    /// Which kinds of the group of `required` are served.
    async fn serves<'r>(&self, required: &'r Requirement) -> Result<Serves<'r>, HubError> {
        let Requirement { group, version, resource, of_spokes, .. } = *required;
        let gvr = GroupVersionResource::new(group, version, resource);
        let served = match served_beside(&self.client, &gvr).await {
            Ok(served) => served.map(|list| list.resources).unwrap_or_default(),
            // A later request to list its objects fails, and names the missing right.
            Err(kube::Error::Api(status)) if status.code == 403 => return Ok(Serves::Required),
            Err(error) => return Err(self.failure(&format!("look {gvr} up"), &error)),
        };
        let has = |plural: &str| served.iter().any(|served| served.name == plural);
        Ok(match (has(resource), of_spokes) {
            (true, _) => Serves::Required,
            (false, Some(plural)) if has(plural) => Serves::OfSpokes,
            (false, _) => Serves::Neither(required),
        })
    }

    /// All objects of `source`, read as `gvr` for `controller`; `what` is for the words, as in `list Gateways`.
    ///
    /// # Errors
    ///
    /// Where they cannot be listed.
    pub async fn list(
        &self,
        source: &Source,
        gvr: &GroupVersionResource,
        controller: &ControllerName,
        what: &str,
    ) -> Result<Vec<HubObject>, HubError> {
        self.list_pages(Pages::of_source(source, gvr, controller, PAGE), source.extent(), gvr, what).await
    }

    /// All objects of `gvr` in `namespace`, in all where that is empty, that `labels` select.
    ///
    /// # Errors
    ///
    /// Where they cannot be listed.
    pub async fn objects(
        &self,
        gvr: &GroupVersionResource,
        namespace: &str,
        labels: Option<&str>,
        extent: Extent,
        what: &str,
    ) -> Result<Vec<HubObject>, HubError> {
        let mut params = ListParams::default().limit(PAGE);
        params.label_selector = labels.map(str::to_owned);
        self.list_pages(Pages::new(gvr, namespace, params, extent), extent, gvr, what).await
    }

    async fn list_pages(
        &self,
        pages: Pages,
        extent: Extent,
        gvr: &GroupVersionResource,
        what: &str,
    ) -> Result<Vec<HubObject>, HubError> {
        let listed = match extent {
            Extent::Text => self.list_of::<WithText>(pages).await,
            Extent::Metadata | Extent::Whole => self.list_of::<HubObject>(pages).await,
        };
        listed.map_err(|error| match error {
            kube::Error::Api(status) if status.code == 404 => self.lacks(gvr.kind.to_string()),
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
            if !pages.turn(page.metadata.continue_) {
                return Ok(objects);
            }
        }
    }

    /// The names of the first objects of `gvr` in `namespace`, in all where that is empty, as many as one answer has.
    ///
    /// # Errors
    ///
    /// Where they cannot be listed.
    pub async fn names(
        &self,
        gvr: &GroupVersionResource,
        namespace: &str,
        what: &str,
    ) -> Result<Vec<String>, HubError> {
        let pages = Pages::new(gvr, namespace, ListParams::default().limit(PAGE), Extent::Metadata);
        let page = async { self.client.request(pages.request().map_err(kube::Error::BuildRequest)?).await };
        let page: ObjectList<HubObject> = page.await.map_err(|error| self.failure(what, &error))?;
        Ok(page.items.into_iter().map(|object| object.metadata.name).collect())
    }

    /// One object, `None` where it does not exist; `what` is for the words, as in `get ConfigMap shop/params`.
    ///
    /// # Errors
    ///
    /// Where it cannot be read.
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

    /// That it does not have `what`.
    #[must_use]
    pub fn lacks(&self, what: impl Into<String>) -> HubError {
        HubError::NotServed { url: self.url.clone(), what: what.into() }
    }

    /// That it has no object `what`: its kind and its name.
    #[must_use]
    pub fn absent(&self, what: impl Into<String>) -> HubError {
        HubError::Absent { url: self.url.clone(), what: what.into() }
    }

    /// Why it was not to be asked to `what`, as in `list GatewayClasses`.
    #[must_use]
    pub fn failure(&self, what: &str, error: &kube::Error) -> HubError {
        let url = self.url.clone();
        match error {
            kube::Error::Api(status) => {
                let words = if status.message.is_empty() { &status.reason } else { &status.message };
                let (what, cause) = (what.to_owned(), format!("{words} ({})", status.code));
                HubError::Refused { what, url, cause, code: status.code }
            }
            error => HubError::Unreachable { url, cause: innermost(error).to_string() },
        }
    }
}
