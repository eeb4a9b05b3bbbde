//! What is known of a kind that parameters list, of policies or of resources.

use std::sync::Arc;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinitionSpec, CustomResourceDefinitionVersion, JSONSchemaProps,
};

use policy_sync_api::names::{GroupResource, GroupVersionResource};
use policy_sync_api::params::Role;
use policy_sync_api::schema::Schema;
use policy_sync_api::{gateway, rego_policy};
use policy_sync_mirror::Row;

/// A kind that can be synced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindInfo {
    /// Its name in objects (`RateLimitPolicy`).
    pub kind: Arc<str>,
    /// Whether its objects' annotations may be written.
    pub can_patch: bool,
    /// Whether its objects' statuses list ancestors.
    pub has_ancestors: bool,
    /// Whether its definition says that its policies are direct: not merged, in force at their targets alone.
    pub direct: bool,
    /// What its objects' specs may be, where there is a definition to tell.
    pub schema: Option<Arc<Schema>>,
}

impl KindInfo {
    /// A kind of which no more is known than its name in objects.
    #[must_use]
    pub fn named(kind: &str) -> Self {
        Self { kind: kind.into(), can_patch: true, has_ancestors: false, direct: false, schema: None }
    }
}

/// Whether a kind that parameters list can be synced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// It can.
    Resolved(KindInfo),
    /// Its CustomResourceDefinition is gone: so are its objects.
    Gone,
    /// The definition does not serve the version, or is not established yet.
    UnknownVersion(String),
    /// It is cluster-scoped, or has no target reference.
    NotAPolicy(String),
    /// It is no kind of resources that may be taken to the spokes.
    NotSyncable(String),
    /// A right is missing.
    Forbidden(String),
    /// The server did not say.
    Unknown(String),
}

/// What is said of a kind that parameters list, in a word: a reason of the condition `PoliciesResolved`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KindReason {
    /// It can be synced.
    Resolved,
    /// The hub has no such custom resource, or does not serve the version.
    UnknownResource,
    /// It is cluster-scoped, or has no target reference.
    NotAPolicy,
    /// It is no kind of resources that may be taken to the spokes.
    NotSyncable,
    /// A right is missing.
    Forbidden,
    /// It is synced in another version, which another class lists.
    VersionConflict,
}

impl KindReason {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Resolved,
        Self::UnknownResource,
        Self::NotAPolicy,
        Self::NotSyncable,
        Self::Forbidden,
        Self::VersionConflict,
    ];

    /// The word.
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
    /// What this comes to, in a word.
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

    /// What is wrong, empty where nothing is.
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

/// What is known of one version of a kind that parameters list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindState {
    /// The version.
    pub gvr: GroupVersionResource,
    /// Whether it can be synced.
    pub resolution: Resolution,
    /// What it was when it last could.
    pub known: Option<KindInfo>,
}

impl KindState {
    /// Keeps of what is known, `before` this, what still holds.
    pub(crate) fn follows(&mut self, before: Option<&Self>) {
        let known = before.and_then(|before| before.known.clone());
        // That the server did not say for once changes nothing that it said before.
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

/// Why objects of `kind` may not be taken to the spokes as resources, whatever it is on the hub. What they would hold there is
/// a credential, somebody's rights, made by the spoke's own controllers, or ours or Open Cluster Management's to write.
#[must_use]
pub fn not_syncable(kind: &GroupResource) -> Option<&'static str> {
    match (&*kind.group, &*kind.resource) {
        ("", "secrets") => Some("Secrets are not taken to the spokes"),
        ("", "serviceaccounts") => Some("ServiceAccounts are not taken to the spokes"),
        ("", "pods") => Some("Pods are made on the spokes, by what is taken there"),
        ("" | "events.k8s.io", "events") => Some("Events are about what is on the hub"),
        (gateway::GROUP, "gateways") => Some("Gateways are taken to the spokes as Gateways"),
        ("rbac.authorization.k8s.io", _) => Some("rights are not taken to the spokes"),
        (rego_policy::GROUP, _) => Some("it is a kind of Policy Sync's own"),
        (group, _) if is_of_ocm(group) => Some("it is a kind of Open Cluster Management's own"),
        _ => None,
    }
}

fn is_of_ocm(group: &str) -> bool {
    const OCM: &str = "open-cluster-management.io";
    group.strip_suffix(OCM).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// What `definition` tells of the kind `gvr`, which is listed as what `role` says, whatever the rights, where it can be synced:
/// the version is served, it is namespaced, and the schema of a kind of policies has a target reference.
///
/// # Errors
///
/// What it resolves to instead.
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

/// That a kind is cluster-scoped that is listed as what `role` says.
#[must_use]
pub fn cluster_scoped(role: Role) -> Resolution {
    let text = "it is cluster-scoped".to_owned();
    match role {
        Role::Policy => Resolution::NotAPolicy(text),
        Role::Resource => Resolution::NotSyncable(text),
    }
}

impl Row for KindState {}

#[cfg(test)]
mod tests;
