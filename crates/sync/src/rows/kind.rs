//! Rows of the kinds that parameters list: whether each version can be synced.

use std::sync::Arc;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionSpec, CustomResourceDefinitionVersion, JSONSchemaProps,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResource;

use policy_sync_api::names::{GroupResource, GroupVersionResource};
use policy_sync_api::params::Role;
use policy_sync_api::schema::Schema;
use policy_sync_api::{gateway, rego_policy};
use policy_sync_mirror::Row;

/// The verbs without which the objects of a kind cannot be watched.
const VERBS: [&str; 3] = ["get", "list", "watch"];

/// A kind that can be synced, as discovered on the hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindInfo {
    /// The `kind` in objects, such as `RateLimitPolicy`.
    pub kind: Arc<str>,
    /// Whether this controller may patch the annotations of objects of the kind.
    pub can_patch: bool,
    /// Whether the status of objects of the kind lists ancestors.
    pub has_ancestors: bool,
    /// Whether the CustomResourceDefinition marks the kind as a direct policy. Direct policies are not merged, and
    /// apply only to their targets.
    pub direct: bool,
    /// The schema of the spec, if the kind has a CustomResourceDefinition.
    pub schema: Option<Arc<Schema>>,
}

impl KindInfo {
    /// Creates the information about a kind if only its `kind` in objects is known.
    #[must_use]
    pub fn named(kind: &str) -> Self {
        Self { kind: kind.into(), can_patch: true, has_ancestors: false, direct: false, schema: None }
    }
}

/// The result of checking whether a kind that parameters list can be synced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// The kind can be synced.
    Resolved(KindInfo),
    /// The CustomResourceDefinition of the kind was deleted, and with it all objects of the kind.
    Gone,
    /// The version is not served, or the definition is not established yet.
    UnknownVersion(String),
    /// The kind is cluster-scoped or has no target reference.
    NotAPolicy(String),
    /// Resources of this kind must not be copied to spokes.
    NotSyncable(String),
    /// This controller lacks a permission.
    Forbidden(String),
    /// The API server returned no result.
    Unknown(String),
}

/// The result for a kind that parameters list: a reason of the condition `PoliciesResolved`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KindReason {
    /// The kind can be synced.
    Resolved,
    /// The hub has no such custom resource or does not serve the version.
    UnknownResource,
    /// The kind is cluster-scoped or has no target reference.
    NotAPolicy,
    /// Resources of this kind must not be copied to spokes.
    NotSyncable,
    /// This controller lacks a permission.
    Forbidden,
    /// The kind is synced in another version, which another class lists.
    VersionConflict,
}

impl KindReason {
    /// All reasons.
    pub const ALL: [Self; 6] = [
        Self::Resolved,
        Self::UnknownResource,
        Self::NotAPolicy,
        Self::NotSyncable,
        Self::Forbidden,
        Self::VersionConflict,
    ];

    /// The reason as it appears in the condition.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Resolved => "Resolved",
            Self::UnknownResource => "UnknownResource",
            Self::NotAPolicy => "NotAPolicy",
            Self::NotSyncable => "NotSyncable",
            Self::Forbidden => "Forbidden",
            Self::VersionConflict => "VersionConflict",
        }
    }
}

impl Resolution {
    /// The reason for the condition `PoliciesResolved`.
    #[must_use]
    pub fn reason(&self) -> KindReason {
        match self {
            Self::Resolved(_) => KindReason::Resolved,
            Self::Gone | Self::UnknownVersion(_) | Self::Unknown(_) => KindReason::UnknownResource,
            Self::NotAPolicy(_) => KindReason::NotAPolicy,
            Self::NotSyncable(_) => KindReason::NotSyncable,
            Self::Forbidden(_) => KindReason::Forbidden,
        }
    }

    /// The error message; empty if the kind can be synced.
    #[must_use]
    pub fn fault(&self) -> &str {
        match self {
            Self::Resolved(_) => "",
            Self::Gone => "the hub has no such custom resource",
            Self::UnknownVersion(fault)
            | Self::NotAPolicy(fault)
            | Self::NotSyncable(fault)
            | Self::Forbidden(fault)
            | Self::Unknown(fault) => fault,
        }
    }
}

/// The state of one version of a kind that parameters list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindState {
    /// The version.
    pub gvr: GroupVersionResource,
    /// Whether the kind can be synced in this version.
    pub resolution: Resolution,
    /// The result of the last successful check, if any.
    pub known: Option<KindInfo>,
}

impl KindState {
    /// Carries over the parts of the previous state `before` that remain valid.
    pub(crate) fn carry_over(&mut self, before: Option<&Self>) {
        let known = before.and_then(|before| before.known.clone());
        // A single failure of the API server does not change an earlier result.
        if let (Resolution::Unknown(_), Some(before)) = (&self.resolution, before)
            && !matches!(before.resolution, Resolution::Unknown(_))
        {
            self.resolution = before.resolution.clone();
        }
        self.known = match &self.resolution {
            Resolution::Resolved(info) => Some(info.clone()),
            Resolution::Gone => None,
            _ => known,
        };
    }
}

/// The reason why objects of `kind` must not be copied to spokes as resources, regardless of the hub's definition. Such
/// objects hold credentials or permissions, or belong to this controller or to Open Cluster Management, or the spoke's
/// own controllers create them.
#[must_use]
pub fn not_syncable(kind: &GroupResource) -> Option<&'static str> {
    match (&*kind.group, &*kind.resource) {
        ("", "secrets") => Some("Secrets are not copied to spokes as resources"),
        ("", "serviceaccounts") => Some("ServiceAccounts are not copied to spokes"),
        ("", "pods") => Some("Pods are created on the spokes by their workloads"),
        ("" | "events.k8s.io", "events") => Some("Events describe objects of the hub"),
        (gateway::GROUP, "gateways") => Some("Gateways are copied by their GatewayClass, not as resources"),
        ("rbac.authorization.k8s.io", _) => Some("RBAC objects are not copied to spokes"),
        (rego_policy::GROUP, _) => Some("it is a kind of Policy Sync"),
        (group, _) if is_of_ocm(group) => Some("it is a kind of Open Cluster Management"),
        _ => None,
    }
}

fn is_of_ocm(group: &str) -> bool {
    const OCM: &str = "open-cluster-management.io";
    group.strip_suffix(OCM).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// Checks whether the kind `gvr` with this `definition` can be synced in the role `role`, apart from permissions. The
/// version must be served, the kind must be namespaced, and the schema of a policy kind must have a target reference.
///
/// # Errors
///
/// The resolution that explains why the kind cannot be synced.
pub fn check(
    definition: &CustomResourceDefinitionSpec,
    gvr: &GroupVersionResource,
    role: Role,
) -> Result<KindInfo, Resolution> {
    if definition.scope != "Namespaced" {
        return Err(cluster_scoped(role));
    }
    let served: Vec<&CustomResourceDefinitionVersion> =
        definition.versions.iter().filter(|version| version.served).collect();
    let Some(version) = served.iter().find(|version| version.name == *gvr.version) else {
        let names: Vec<&str> = served.iter().map(|version| version.name.as_str()).collect();
        return Err(Resolution::UnknownVersion(format!("the hub serves {}", names.join(", "))));
    };
    let schema = version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
    let property = |name| schema.and_then(|schema| schema.properties.as_ref()?.get(name));
    let ancestors = property("status").and_then(|status| status.properties.as_ref()?.get("ancestors"));
    let refers = |spec: &&JSONSchemaProps| {
        let has = |name| spec.properties.as_ref().is_some_and(|properties| properties.contains_key(name));
        has("targetRef") || has("targetRefs")
    };
    if role == Role::Resource {
        let schema = property("spec").map(|spec| Arc::new(Schema::new(spec)));
        return Ok(KindInfo { schema, ..KindInfo::named(&definition.names.kind) });
    }
    match property("spec").filter(refers) {
        Some(spec) => Ok(KindInfo {
            has_ancestors: ancestors.is_some_and(|ancestors| ancestors.type_.as_deref() == Some("array")),
            schema: Some(Arc::new(Schema::new(spec))),
            ..KindInfo::named(&definition.names.kind)
        }),
        None => {
            Err(Resolution::NotAPolicy("its schema has neither spec.targetRef nor spec.targetRefs".into()))
        }
    }
}

/// Resolves the kind `gvr`, which parameters list as `role`, by its `definition` on a hub.
///
/// # Errors
///
/// The resolution of a kind that cannot be synced.
pub fn defined(
    definition: &CustomResourceDefinition,
    gvr: &GroupVersionResource,
    role: Role,
) -> Result<KindInfo, Resolution> {
    let mut conditions = definition.status.iter().flat_map(|status| status.conditions.iter().flatten());
    if !conditions.any(|condition| condition.type_ == "Established" && condition.status == "True") {
        return Err(Resolution::UnknownVersion("the hub does not serve the kind yet".into()));
    }
    let direct = is_direct(definition);
    check(&definition.spec, gvr, role).map(|info| KindInfo { direct, ..info })
}

/// Whether a label of `definition` declares that policies of this kind are direct (GEP-713).
#[must_use]
pub fn is_direct(definition: &CustomResourceDefinition) -> bool {
    let label = definition.metadata.labels.as_ref().and_then(|labels| labels.get(gateway::POLICY_LABEL));
    label.is_some_and(|label| gateway::is_direct(label))
}

/// Resolves a kind of resources without CustomResourceDefinition. `found` is the resource as the hub serves it. If the
/// hub does not serve this version, `found` contains the versions that the hub serves.
///
/// # Errors
///
/// The resolution of a kind that cannot be synced.
pub fn discovered(found: Result<APIResource, Vec<String>>) -> Result<KindInfo, Resolution> {
    // If the hub serves another version, the objects still exist.
    let found = found.map_err(|versions| match versions.is_empty() {
        true => Resolution::Gone,
        false => Resolution::UnknownVersion(format!("the hub serves {}", versions.join(", "))),
    })?;
    if !found.namespaced {
        return Err(cluster_scoped(Role::Resource));
    }
    match VERBS.iter().find(|verb| !found.verbs.iter().any(|offered| offered == *verb)) {
        Some(verb) => Err(Resolution::NotSyncable(format!("the hub does not support {verb} for it"))),
        None => Ok(KindInfo::named(&found.kind)),
    }
}

/// The resolution of a cluster-scoped kind that is listed in the role `role`.
fn cluster_scoped(role: Role) -> Resolution {
    let text = "it is cluster-scoped".to_owned();
    match role {
        Role::Policy => Resolution::NotAPolicy(text),
        Role::Resource => Resolution::NotSyncable(text),
    }
}

impl Row for KindState {}

#[cfg(test)]
mod tests;
