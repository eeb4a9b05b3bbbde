//! Queries of the hub for `status`: resolves the requested kinds, lists the objects that the user may read,
//! and records missing rights.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;

use super::kinds::{COPIES, GATEWAY_WORKS, GATEWAYS};
use super::known::Known;
use super::report_mirror::ReportMirror;
use super::served::{KindMatch, ServedKind, discover, match_kind, qualified_names};
use policy_sync_api::cluster::ManagedClusterStatus;
use policy_sync_api::names::{ClusterName, ControllerName, GroupResource, GroupVersionResource, ObjectKey};
use policy_sync_api::object::HubObject;
use policy_sync_api::params::{Merge, Role};
use policy_sync_hub::clock::Clock;
use policy_sync_hub::{HubClient, HubError, group_version_resources};
use policy_sync_mirror::{Scope, WatchedSources};
use policy_sync_sync::desired::eligibility::versions;
use policy_sync_sync::desired::watches;
use policy_sync_sync::kinds::{CLASSES, CLUSTERS, REQUIRED, role_of};
use policy_sync_sync::{ClassParams, OfflineMirror};

/// The objects that a user requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestedKinds<'a> {
    /// Gateways, policies and resources.
    Everything,
    /// Only Gateways.
    Gateways,
    /// All kinds that parameters list under this role.
    All(Role),
    /// The kind with this name. Its objects are policies or resources.
    Kind(&'a str),
    /// Everything on one cluster.
    Cluster,
}

impl<'a> RequestedKinds<'a> {
    /// Parses the first argument of `status`.
    #[must_use]
    pub fn parse(word: Option<&'a str>) -> Self {
        match word {
            None => Self::Everything,
            Some("policies") => Self::All(Role::Policy),
            Some("resources") => Self::All(Role::Resource),
            Some("cluster" | "clusters" | "managedcluster" | "managedclusters") => Self::Cluster,
            Some(word) if ServedKind::gateways().matches_name(word) => Self::Gateways,
            Some(word) => Self::Kind(word),
        }
    }

    /// The noun for the requested objects in the message that none was found.
    #[must_use]
    pub fn noun(self) -> &'static str {
        match self {
            Self::Everything | Self::Cluster => "Gateway and no policy",
            Self::Gateways => "Gateway",
            Self::All(Role::Policy) | Self::Kind(_) => "policy",
            Self::All(Role::Resource) => "resource",
        }
    }
}

/// A query of the hub.
#[derive(Clone, Debug)]
pub struct Query<'a> {
    /// The controller whose GatewayClasses and works are considered.
    pub controller: &'a ControllerName,
    /// The requested kinds.
    pub requested: RequestedKinds<'a>,
    /// The requested namespaces and names.
    pub scope: Scope,
    /// Restricts the report to the copies on one cluster.
    pub cluster: Option<ClusterName>,
    /// A hint on how to obtain missing rights, appended to the message about them.
    pub hint: &'a str,
}

/// Why a query failed.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// The hub cannot be read.
    #[error(transparent)]
    Hub(#[from] HubError),
    /// An argument names no synced kind, or several kinds.
    #[error("{0}")]
    Kind(String),
    /// The user may read none of the requested objects.
    #[error("{0}")]
    Unread(String),
}

/// The result of a query.
#[derive(Debug)]
pub struct Report {
    /// The objects that were read.
    pub report_mirror: ReportMirror,
    /// Errors in the parameters of GatewayClasses.
    pub faults: Vec<String>,
    /// Objects that the user may not read, one line each.
    pub unread: Vec<String>,
    /// Why the user may not read the works of Gateways. Without works, the rows of Gateways have gaps.
    pub works_unread: Option<String>,
    /// Whether a GatewayClass of the controller exists.
    pub has_classes: bool,
}

/// Reads a ManagedCluster; `None` if it does not exist.
///
/// # Errors
///
/// If the ManagedCluster cannot be read.
pub async fn cluster(hub: &HubClient, name: &ClusterName) -> Result<Option<HubObject>, HubError> {
    hub.get(&CLUSTERS.gvr(), &ObjectKey::new("", &name.0), &format!("read ManagedCluster {name}")).await
}

/// The clusters that the hub reports as unavailable. If the user may not list ManagedClusters, returns no clusters and
/// the error.
///
/// # Errors
///
/// If the hub cannot be reached.
pub async fn unavailable(
    hub: &HubClient,
    controller: &ControllerName,
) -> Result<(BTreeSet<ClusterName>, Option<HubError>), HubError> {
    match hub.list(&CLUSTERS.all(), &CLUSTERS.gvr(), controller, "list ManagedClusters").await {
        Ok(clusters) => Ok((unavailable_of(&clusters), None)),
        Err(error) if error.is_response() => Ok((BTreeSet::new(), Some(error))),
        Err(error) => Err(error),
    }
}

/// The names of the `clusters` that are unavailable.
pub fn unavailable_of<'c>(clusters: impl IntoIterator<Item = &'c HubObject>) -> BTreeSet<ClusterName> {
    let is_unavailable =
        |cluster: &&HubObject| cluster.status_as::<ManagedClusterStatus>().unavailable_since().is_some();
    let unavailable = clusters.into_iter().filter(is_unavailable);
    unavailable.map(|cluster| ClusterName::from(&*cluster.metadata.name)).collect()
}

/// The kinds that the hub serves and that parameters of the controller's GatewayClasses list.
///
/// # Errors
///
/// If the hub cannot be read.
pub async fn synced_kinds(hub: &HubClient, controller: &ControllerName) -> Result<Vec<ServedKind>, HubError> {
    hub.has(&REQUIRED).await?;
    Ok(ClassParameters::read(hub, controller).await?.kinds)
}

/// The content of the parameters of a controller's GatewayClasses.
#[derive(Debug)]
pub struct ClassParameters {
    /// The listed kinds that the hub serves.
    pub kinds: Vec<ServedKind>,
    /// The merge settings in the parameters, each with its kind of policies. The settings of the oldest class come
    /// first.
    pub merges: Vec<(GroupResource, Merge)>,
    /// Errors in the parameters.
    pub faults: Vec<String>,
    /// The parameters that the user may not read.
    pub unread: Vec<String>,
    /// Whether a GatewayClass of the controller exists.
    pub has_classes: bool,
}

impl ClassParameters {
    /// Reads the parameters of the GatewayClasses of `controller`.
    ///
    /// # Errors
    ///
    /// If the hub cannot be read.
    pub async fn read(hub: &HubClient, controller: &ControllerName) -> Result<Self, HubError> {
        let classes = classes(hub, controller).await?;
        let mut report = Report::new(ReportMirror::new(controller.clone(), Scope::All));
        let kinds = report.kinds(hub, &classes).await?;
        let guard = classes.read();
        let view = guard.view(OfflineMirror::settled(Clock::start().now()));
        Ok(Self {
            kinds,
            merges: view.merges(),
            faults: report.faults,
            unread: report.unread,
            has_classes: !view.our_classes().is_empty(),
        })
    }
}

impl Report {
    pub(super) fn new(report_mirror: ReportMirror) -> Self {
        let has_classes = !report_mirror.classes.is_empty();
        Self { report_mirror, faults: Vec::new(), unread: Vec::new(), works_unread: None, has_classes }
    }

    /// Runs `query`.
    ///
    /// # Errors
    ///
    /// If an argument names no kind, or if the user may read none of the requested objects.
    pub async fn read(hub: &HubClient, query: &Query<'_>) -> Result<Self, QueryError> {
        let mut report_mirror = ReportMirror::new(query.controller.clone(), query.scope.clone());
        if let Some(name) = &query.cluster {
            let (source, what) =
                (ReportMirror::copies_source(name), format!("list ManifestWorks of cluster {name}"));
            report_mirror.list(&source, &hub.list(&source, &COPIES.gvr(), query.controller, &what).await?);
            report_mirror.cluster = Some(name.clone());
        }
        hub.has(&REQUIRED).await?;
        let classes = classes(hub, query.controller).await?;
        report_mirror.classes = our_classes(&classes);
        let mut report = Self::new(report_mirror);
        if query.requested != RequestedKinds::Gateways {
            report.policies(hub, &classes, query).await?;
        }
        if !matches!(query.requested, RequestedKinds::All(_) | RequestedKinds::Kind(_)) {
            report.gateways(hub, query).await?;
        }
        let none = report.report_mirror.kinds.is_empty() && !report.report_mirror.gateways;
        if none && query.requested != RequestedKinds::Cluster && !report.unread.is_empty() {
            return Err(QueryError::Unread(report.unread.join("; ")));
        }
        Ok(report)
    }

    async fn policies(
        &mut self,
        hub: &HubClient,
        classes: &OfflineMirror,
        query: &Query<'_>,
    ) -> Result<(), QueryError> {
        let mut kinds = self.kinds(hub, classes).await?;
        if let RequestedKinds::All(role) = query.requested {
            kinds.retain(|kind| kind.role == role);
        }
        if let RequestedKinds::Kind(word) = query.requested {
            if kinds.is_empty() && !self.unread.is_empty() {
                return Err(QueryError::Unread(self.unread.join("; ")));
            }
            kinds = vec![kind_of(hub, &kinds, word).await?.clone()];
        }
        let mut forbidden = Vec::new();
        for kind in kinds {
            let (source, what) =
                (self.report_mirror.policies_source(&kind), format!("list {}", kind.gvr.kind));
            match Known::of(hub.list(&source, &kind.gvr, query.controller, &what).await)? {
                Known::Known(policies) => {
                    self.report_mirror.list(&source, &policies);
                    self.report_mirror.kinds.push(kind);
                }
                Known::Unknown(error) => forbidden.push((kind, error)),
            }
        }
        let names: Vec<String> = forbidden.iter().map(|(kind, _)| kind.kind.clone()).collect();
        if let Some((_, error)) = forbidden.into_iter().next() {
            let error = error.on(format!("list {}", names.join(", ")));
            self.unread.push(format!("{error}{}", query.hint));
        }
        Ok(())
    }

    async fn gateways(&mut self, hub: &HubClient, query: &Query<'_>) -> Result<(), QueryError> {
        let source = self.report_mirror.gateways_source();
        match Known::of(hub.list(&source, &GATEWAYS.gvr(), query.controller, "list Gateways").await)? {
            Known::Known(gateways) => self.report_mirror.list(&source, &gateways),
            Known::Unknown(error) => {
                self.unread.push(format!("{error}{}", query.hint));
                return Ok(());
            }
        }
        self.report_mirror.gateways = true;
        // A report on one cluster uses the more detailed rows of `COPIES`, which include the works of Gateways.
        if query.requested != RequestedKinds::Cluster {
            let (source, gvr) = (GATEWAY_WORKS.all(), GATEWAY_WORKS.gvr());
            match Known::of(hub.list(&source, &gvr, query.controller, "list ManifestWorks").await)? {
                Known::Known(works) => {
                    self.report_mirror.list(&source, &works);
                    self.report_mirror.works = true;
                }
                // Tenants may often read their Gateways, but not the namespaces of clusters.
                Known::Unknown(error) => self.works_unread = Some(error.to_string()),
            }
        }
        Ok(())
    }

    /// The kinds that the parameters of the controller's classes list. Errors in parameters become faults.
    async fn kinds(&mut self, hub: &HubClient, classes: &OfflineMirror) -> Result<Vec<ServedKind>, HubError> {
        for (source, gvr) in &wanted(classes) {
            let Some(key) = source.object() else { continue };
            match hub.get::<HubObject>(gvr, key, &format!("read ConfigMap {key}")).await {
                Ok(config_map) => classes.list(source, &config_map, Clock::start().now()),
                Err(error) if error.is_response() => self.unread.push(error.to_string()),
                Err(error) => return Err(error),
            }
        }
        let kinds: Vec<(Role, Vec<GroupVersionResource>)> = {
            let guard = classes.read();
            let view = guard.view(OfflineMirror::settled(Clock::start().now()));
            for class in view.our_classes().keys() {
                if let Some(ClassParams::Invalid { fault, .. }) = view.class_params(&class.name) {
                    self.faults.push(format!("GatewayClass {class}: {fault}"));
                }
            }
            let watched = watches::plan(view);
            let kinds = watched.keys().filter_map(role_of);
            let versions = |kind| versions(view, kind).into_iter().map(|(gvr, _)| gvr).collect();
            kinds.map(|(role, kind)| (role, versions(kind))).collect()
        };
        self.resolve(hub, kinds).await
    }

    async fn resolve(
        &mut self,
        hub: &HubClient,
        listed: Vec<(Role, Vec<GroupVersionResource>)>,
    ) -> Result<Vec<ServedKind>, HubError> {
        let mut served: BTreeMap<String, Option<APIResourceList>> = BTreeMap::new();
        let mut kinds: Vec<ServedKind> = Vec::new();
        let listed = listed.into_iter().flat_map(|(role, gvrs)| gvrs.into_iter().map(move |gvr| (role, gvr)));
        for (role, gvr) in listed {
            // If parameters list several versions, the first one is used.
            if kinds.iter().any(|kind| kind.gvr.kind == gvr.kind) {
                continue;
            }
            let api_version = gvr.api_version();
            if !served.contains_key(&api_version) {
                let list = group_version_resources(hub.client(), &gvr).await;
                let list = list.map_err(|error| hub.failure(&format!("discover {gvr}"), &error))?;
                served.insert(api_version.clone(), list);
            }
            let list = served.get(&api_version).and_then(Option::as_ref);
            let found = list.and_then(|list| list.resources.iter().find(|r| *r.name == *gvr.kind.resource));
            match found {
                Some(found) => kinds.push(ServedKind::new(role, gvr, found)),
                None => self.faults.push(format!("{gvr}: the hub has no such custom resource")),
            }
        }
        Ok(kinds)
    }
}

/// The names of the controller's classes in `mirror`.
pub(super) fn our_classes(mirror: &OfflineMirror) -> BTreeSet<Arc<str>> {
    let guard = mirror.read();
    let view = guard.view(OfflineMirror::settled(Clock::start().now()));
    view.our_classes().into_keys().map(|key| key.name.clone()).collect()
}

/// Lists the GatewayClasses of the hub.
async fn classes(hub: &HubClient, controller: &ControllerName) -> Result<OfflineMirror, HubError> {
    let source = CLASSES.all();
    let classes = hub.list(&source, &CLASSES.gvr(), controller, "list GatewayClasses").await?;
    let mirror = OfflineMirror::new(controller.clone());
    mirror.list(&source, &classes, Clock::start().now());
    Ok(mirror)
}

fn wanted(classes: &OfflineMirror) -> WatchedSources {
    watches::plan(classes.read().view(OfflineMirror::settled(Clock::start().now())))
}

/// The synced kind that a user means by `word`.
async fn kind_of<'k>(
    hub: &HubClient,
    kinds: &'k [ServedKind],
    word: &str,
) -> Result<&'k ServedKind, QueryError> {
    let listed = || match kinds {
        [] => "none".to_owned(),
        kinds => kinds.iter().map(|kind| &*kind.kind).collect::<Vec<_>>().join(", "),
    };
    let none = match match_kind(kinds, word) {
        KindMatch::Kind(kind) => return Ok(kind),
        KindMatch::Ambiguous(several) => {
            return Err(QueryError::Kind(format!(
                "{word:?} is ambiguous: write {}",
                qualified_names(&several)
            )));
        }
        KindMatch::Nothing => format!("{word:?} is not a synced kind"),
    };
    let discovered = discover(hub).await?;
    let known = match match_kind(&discovered.kinds, word) {
        KindMatch::Kind(kind) => qualified_names(&[kind]),
        KindMatch::Ambiguous(several) => qualified_names(&several),
        KindMatch::Nothing => {
            let none = discovered.unread().map_or_else(|| none.clone(), |unread| format!("{none}: {unread}"));
            let text = format!("{none}: the parameters of the controller's GatewayClasses list {}", listed());
            return Err(QueryError::Kind(text));
        }
    };
    let text = format!(
        "{none}: the parameters of the controller's GatewayClasses list {}, but not {known}",
        listed()
    );
    Err(QueryError::Kind(text))
}
