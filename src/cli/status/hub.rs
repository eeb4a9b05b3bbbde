//! What is read of the hub: classes, their parameters, and the metadata of the policies.

use std::collections::BTreeMap;

use futures::{Stream, StreamExt, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use kube::api::{DynamicObject, ListParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client, Config};

use crate::api::cluster::ManagedCluster;
use crate::api::names::{ControllerName, GroupVersionResource, ObjectKey};
use crate::api::object::HubObject;
use crate::cli::kinds::PolicyKind;
use crate::cli::listing::Part;
use crate::cli::live::Live;
use crate::cli::scratch::Scratch;
use crate::hub::Wanted;
use crate::hub::watch::SILENCE;
use crate::plan::standing::versions;
use crate::plan::watches;
use crate::sync::ClassParams;
use crate::sync::kinds::{CLASSES, CLUSTERS, POLICIES, WORKS};
use crate::sync::rows::Strings;

/// A hub to read.
pub(super) struct Hub {
    live: Live,
    /// For requests that are answered for as long as they are let.
    watching: Client,
}

/// The kinds that the classes of ours list, and what is wrong with the others.
pub(super) struct Kinds {
    pub(super) kinds: Vec<PolicyKind>,
    pub(super) faults: Vec<String>,
    /// What could not be read.
    pub(super) unread: Vec<String>,
}

/// What a watch sees.
pub(super) type Seen = watcher::Event<DynamicObject>;

/// Something to watch.
#[derive(Clone, Debug)]
pub(super) enum Watched {
    /// The policies of a kind.
    Policies(PolicyKind),
    /// The Gateways.
    Gateways(PolicyKind),
    /// The works of a selector.
    Works {
        /// Their kind.
        kind: PolicyKind,
        /// In this cluster, or in all.
        cluster: Option<String>,
        /// Which of them.
        selector: String,
    },
}

impl Watched {
    pub(super) fn gateways() -> Self {
        Self::Gateways(PolicyKind::gateways())
    }

    pub(super) fn works(cluster: Option<&str>, selector: String) -> Self {
        let kind = PolicyKind::named(WORKS.gvr(), "ManifestWork");
        Self::Works { kind, cluster: cluster.map(str::to_owned), selector }
    }

    /// Its kind.
    pub(super) fn kind(&self) -> &PolicyKind {
        match self {
            Self::Policies(kind) | Self::Gateways(kind) | Self::Works { kind, .. } => kind,
        }
    }
}

/// Which policies of a kind to read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Selection<'s> {
    /// In this namespace, or in all.
    pub(super) namespace: Option<&'s str>,
    /// Of this name, or all.
    pub(super) name: Option<&'s str>,
}

impl Selection<'_> {
    /// As the API selects it, besides the namespace.
    fn fields(&self) -> Option<String> {
        self.name.map(|name| format!("metadata.name={name}"))
    }
}

impl Hub {
    /// The hub that `config` leads to. Nothing is asked of it yet.
    pub(super) fn new(mut config: Config) -> anyhow::Result<Self> {
        let live = Live::new(config.clone())?;
        config.read_timeout = Some(SILENCE);
        Ok(Self { live, watching: Live::client_of(config)? })
    }

    /// The GatewayClasses of the hub, in a mirror for `controller`.
    pub(super) async fn classes(&self, controller: &ControllerName) -> anyhow::Result<Scratch> {
        self.live.is_hub().await?;
        let classes = self.live.pages(&CLASSES.gvr(), "", ListParams::default(), Part::Whole).await;
        let classes = classes.map_err(|error| self.live.failure("list GatewayClasses", &error))?;
        let scratch = Scratch::new(controller.clone());
        scratch.list(&CLASSES.all(), &classes);
        Ok(scratch)
    }

    /// The kinds that the parameters of the classes of ours list.
    pub(super) async fn kinds(&self, classes: &Scratch) -> anyhow::Result<Kinds> {
        let (mut faults, mut unread) = (Vec::new(), Vec::new());
        for (source, gvr) in &wanted(classes) {
            if let Some(key) = source.object() {
                match self.live.find::<HubObject>(gvr, key).await {
                    Ok(config_map) => classes.list(source, &config_map),
                    Err(error) => {
                        let failure = self.live.failure(&format!("read ConfigMap {key}"), &error);
                        match error {
                            kube::Error::Api(_) => unread.push(failure.to_string()),
                            _ => return Err(failure),
                        }
                    }
                }
            }
        }
        let guard = classes.read();
        let view = guard.view(Scratch::settled());
        for class in view.our_classes().keys() {
            if let Some(ClassParams::Invalid { place, error, .. }) = view.class_params(&class.name) {
                faults.push(format!("GatewayClass {class}: {place}: {error}"));
            }
        }
        let watched = watches::plan(view);
        let kinds = watched.keys().filter_map(|source| POLICIES.resource_of(source));
        let listed: Vec<Vec<GroupVersionResource>> =
            kinds.map(|kind| versions(view, kind).into_iter().map(|(gvr, _)| gvr).collect()).collect();
        drop(guard);
        let kinds = self.resolve(listed, &mut faults).await?;
        Ok(Kinds { kinds, faults, unread })
    }

    async fn resolve(
        &self,
        listed: Vec<Vec<GroupVersionResource>>,
        faults: &mut Vec<String>,
    ) -> anyhow::Result<Vec<PolicyKind>> {
        let mut served: BTreeMap<String, Option<APIResourceList>> = BTreeMap::new();
        let mut kinds: Vec<PolicyKind> = Vec::new();
        for gvr in listed.into_iter().flatten() {
            // Of several versions that are served, the first holds.
            if kinds.iter().any(|kind| kind.gvr.kind == gvr.kind) {
                continue;
            }
            let api_version = gvr.api_version();
            if !served.contains_key(&api_version) {
                let list = match self.live.client.list_api_group_resources(&api_version).await {
                    Ok(list) => Some(list),
                    Err(kube::Error::Api(status)) if status.code == 404 => None,
                    Err(error) => return Err(self.live.failure(&format!("look {gvr} up"), &error)),
                };
                served.insert(api_version.clone(), list);
            }
            let list = served.get(&api_version).and_then(Option::as_ref);
            let found = list.and_then(|list| list.resources.iter().find(|r| *r.name == *gvr.kind.resource));
            match found {
                Some(found) => kinds.push(PolicyKind::new(gvr, found)),
                None => faults.push(format!("{gvr}: the hub has no such custom resource")),
            }
        }
        Ok(kinds)
    }

    /// All kinds that the hub serves; empty where it does not say.
    pub(super) async fn served(&self) -> Vec<PolicyKind> {
        self.live.served().await
    }

    /// The metadata of the policies of `kind`.
    pub(super) async fn policies(
        &self,
        kind: &PolicyKind,
        selection: Selection<'_>,
    ) -> Result<Vec<HubObject>, kube::Error> {
        let params = ListParams { field_selector: selection.fields(), ..ListParams::default() };
        self.live.pages(&kind.gvr, selection.namespace.unwrap_or_default(), params, Part::Metadata).await
    }

    /// The Gateways of all classes.
    pub(super) async fn gateways(&self, selection: Selection<'_>) -> Result<Vec<HubObject>, kube::Error> {
        let gvr = PolicyKind::gateways().gvr;
        let params = ListParams { field_selector: selection.fields(), ..ListParams::default() };
        self.live.pages(&gvr, selection.namespace.unwrap_or_default(), params, Part::Whole).await
    }

    /// The works of `selector`, of all clusters where `cluster` is empty.
    pub(super) async fn works(&self, cluster: &str, selector: &str) -> Result<Vec<HubObject>, kube::Error> {
        let params = ListParams { label_selector: Some(selector.to_owned()), ..ListParams::default() };
        self.live.pages(&WORKS.gvr(), cluster, params, Part::Whole).await
    }

    /// The ManagedCluster `name`, `None` where the hub has none of this name.
    pub(super) async fn cluster(&self, name: &str) -> Result<Option<HubObject>, kube::Error> {
        let gvr = CLUSTERS.gvr();
        self.live.find(&gvr, &ObjectKey::new("", name)).await
    }

    /// The labels of the ManagedCluster `name`, `None` where the hub has none of this name.
    pub(super) async fn labels(&self, name: &str) -> Result<Option<Strings>, kube::Error> {
        let clusters: Api<ManagedCluster> = Api::all(self.live.client.clone());
        let found = clusters.get_metadata_opt(name).await?;
        Ok(found.map(|cluster| cluster.metadata.labels.unwrap_or_default()))
    }

    /// The labels of all ManagedClusters.
    pub(super) async fn all_labels(&self) -> Result<BTreeMap<String, Strings>, kube::Error> {
        let gvr = CLUSTERS.gvr();
        let clusters = self.live.pages(&gvr, "", ListParams::default(), Part::Metadata).await?;
        Ok(clusters.into_iter().map(|cluster| (cluster.metadata.name, cluster.metadata.labels)).collect())
    }

    /// Where it is.
    pub(super) fn url(&self) -> &str {
        &self.live.url
    }

    /// What becomes of what is `watched`, for ever. After a failure, the kind is listed anew: that is how it is known
    /// that the hub is back, and nothing depends on a version that it may have forgotten.
    pub(super) fn events<'w>(
        &self,
        watched: &'w [Watched],
        selection: Selection<'_>,
    ) -> impl Stream<Item = (&'w Watched, watcher::Result<Seen>)> {
        let streams = watched.iter().map(|watched| {
            let resource = watched.kind().resource();
            let (namespace, config) = match watched {
                Watched::Works { cluster, selector, .. } => {
                    (cluster.as_deref(), watcher::Config::default().labels(selector))
                }
                Watched::Policies(_) | Watched::Gateways(_) => {
                    let fields = selection.fields();
                    (
                        selection.namespace,
                        watcher::Config { field_selector: fields, ..watcher::Config::default() },
                    )
                }
            };
            let api: Api<DynamicObject> = match namespace {
                Some(namespace) => Api::namespaced_with(self.watching.clone(), namespace, &resource),
                None => Api::all_with(self.watching.clone(), &resource),
            };
            let begin = move || watcher(api.clone(), config.clone()).boxed();
            let events = stream::unfold(None, move |current| {
                let mut events = current.unwrap_or_else(&begin);
                async move {
                    let event = events.next().await?;
                    let current = event.is_ok().then_some(events);
                    Some((event, current))
                }
            });
            events.default_backoff().map(move |event| (watched, event)).boxed()
        });
        stream::select_all(streams)
    }

    /// Why it could not be asked to `what`.
    pub(super) fn failure(&self, what: &str, error: &kube::Error) -> anyhow::Error {
        self.live.failure(what, error)
    }
}

fn wanted(scratch: &Scratch) -> Wanted {
    watches::plan(scratch.read().view(Scratch::settled()))
}

#[cfg(test)]
pub(super) mod tests;
