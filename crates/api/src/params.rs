//! The parameters of a GatewayClass: JSON under the key `params` of the ConfigMap in `spec.parametersRef`.
//!
//! Parsing is strict: unknown keys are errors. An error has the place (`policiesToSync[1].version`) and the fault.
//! Invalid parameters change nothing on the spokes.

mod merge;
pub mod path;
mod read;

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;

use super::names::{GroupResource, GroupVersionResource};
use super::syntax::is_dns_subdomain;
use super::text::{escaped_excerpt, excerpt};
pub use merge::{Level, MAX_RULES, Merge};
pub use path::StatusPath;

/// The ConfigMap's key with the parameters.
pub const KEY: &str = "params";
/// The maximum number of policy kinds, and of resource kinds, per class.
pub const MAX_KINDS: usize = 100;

/// The parameters of a GatewayClass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Params {
    /// The GatewayClass of the copies on the spokes.
    pub downstream_class: String,
    /// The kinds of policies to sync.
    #[schemars(length(max = 100))]
    pub policies_to_sync: Vec<PolicyToSync>,
    /// The kinds of resources to sync. Resources have their own Placement, independent of Gateways.
    #[schemars(length(max = 100))]
    pub resources_to_sync: Vec<ResourceToSync>,
    /// Fields of the Gateways' copies to show on the hub.
    pub gateway_status_fields: Vec<StatusField>,
    /// Whether the TLS Secrets of listeners are copied with their Gateway.
    pub tls_secrets: TlsSecrets,
    /// What happens if an object of the same name exists on the spoke, or a copy was edited there.
    pub conflicts: Conflicts,
    /// The time for which a Gateway waits for its policies, in seconds.
    pub policy_wait_seconds: u32,
    /// What happens when `policyWaitSeconds` is over.
    pub policy_wait_action: PolicyWaitAction,
    /// The longest grace period that a Gateway can have, in seconds.
    pub max_grace_seconds: u32,
    /// Labels and annotations that are not copied; `*` matches any text.
    pub metadata_to_skip: Vec<String>,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            downstream_class: "istio".into(),
            policies_to_sync: Vec::new(),
            resources_to_sync: Vec::new(),
            gateway_status_fields: Vec::new(),
            tls_secrets: TlsSecrets::None,
            conflicts: Conflicts::Keep,
            policy_wait_seconds: 10,
            policy_wait_action: PolicyWaitAction::Hold,
            max_grace_seconds: 3600,
            metadata_to_skip: Vec::new(),
        }
    }
}

/// A kind of policies to sync.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PolicyToSync {
    /// The API group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The plural name, lowercase.
    pub resource: String,
    /// Fields of the copies to show on the hub.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub status_fields: Vec<StatusField>,
    /// How several policies that apply to one request are merged. Used for reports only; the copies do not depend on
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge: Option<Merge>,
}

/// A kind of resources to sync.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResourceToSync {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The plural name, lowercase.
    pub resource: String,
    /// The Placement of objects without a label that names one, in each object's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<String>,
    /// Fields of the copies to show on the hub.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub status_fields: Vec<StatusField>,
}

/// Whether a kind is listed for policies or for resources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// Policies, which are placed with the Gateways that they target.
    #[default]
    Policy,
    /// Resources, which have their own Placement.
    Resource,
}

impl Role {
    /// Both roles.
    pub const ALL: [Self; 2] = [Self::Policy, Self::Resource];

    /// The key of the parameters for kinds of this role.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::Policy => "policiesToSync",
            Self::Resource => "resourcesToSync",
        }
    }
}

/// A field of a copy to show on the hub.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StatusField {
    /// The name of the value. Names that start with `_` are reserved for the controller.
    pub name: String,
    /// The path, for example `.status.observedGeneration`.
    pub path: String,
}

/// Whether TLS Secrets are copied with their Gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum TlsSecrets {
    /// TLS Secrets are not copied.
    None,
    /// TLS Secrets are copied.
    Copy,
}

/// How conflicts on a spoke are resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Conflicts {
    /// The spoke's object or edit is kept.
    Keep,
    /// The hub's copy overwrites the spoke's object or edit.
    Overwrite,
}

/// What happens to a Gateway without all its policies when the waiting time is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PolicyWaitAction {
    /// The Gateway keeps waiting.
    Hold,
    /// The Gateway is deployed without the missing policies.
    Serve,
}

/// Why parameters are invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{fault}", if place.is_empty() { String::new() } else { format!("{place}: ") })]
pub struct ParamsError {
    /// The path of the invalid value, for example `policiesToSync[1].version`; empty for the whole text.
    pub place: String,
    /// The description of the error, for example `expected a string, found 2`.
    pub fault: String,
}

/// Invalid parameters of a GatewayClass.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{place}: {error}")]
pub struct InvalidParams {
    /// The object with the parameters: `GatewayClass shop` or `parameters shop/params`.
    pub place: String,
    /// The error in the object.
    pub error: ParamsError,
}

/// The result of a check of parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckedParams {
    /// The parameters; meaningful only if `faults` is empty.
    pub params: Params,
    /// The errors.
    pub faults: Vec<ParamsError>,
    /// The warnings.
    pub warnings: Vec<ParamsError>,
}

impl Params {
    /// Parses and checks parameters.
    ///
    /// # Errors
    ///
    /// The first fault.
    pub fn parse(text: &str) -> Result<Self, ParamsError> {
        let CheckedParams { params, faults, .. } = Self::check(text);
        faults.into_iter().next().map_or(Ok(params), Err)
    }

    /// Parses parameters and returns all faults. The values are checked only if the structure has no fault.
    #[must_use]
    pub fn check(text: &str) -> CheckedParams {
        let mut checked = read::read(text);
        if checked.faults.is_empty() {
            checked.faults = checked.params.faults();
        }
        checked
    }

    /// The policy kinds that have [`Merge`] settings.
    pub fn merges(&self) -> impl Iterator<Item = (GroupResource, &Merge)> {
        let kind_of = |kind: &'_ PolicyToSync| GroupResource::new(&kind.group, &kind.resource);
        self.policies_to_sync.iter().filter_map(move |kind| Some((kind_of(kind), kind.merge.as_ref()?)))
    }

    /// The kinds that are listed for `role`.
    pub fn listed(&self, role: Role) -> impl Iterator<Item = GroupVersionResource> + '_ {
        self.kinds(role).map(|kind| kind.gvr())
    }

    /// All listed kinds with their roles, policies first.
    pub fn all_listed(&self) -> impl Iterator<Item = (Role, GroupVersionResource)> + '_ {
        Role::ALL.into_iter().flat_map(|role| self.listed(role).map(move |gvr| (role, gvr)))
    }

    /// The entry of `kind` in `resourcesToSync`, in any version; `None` if there is no such entry.
    #[must_use]
    pub fn resource(&self, kind: &GroupResource) -> Option<&ResourceToSync> {
        let mut entries = self.resources_to_sync.iter();
        entries.find(|entry| *entry.group == *kind.group && *entry.resource == *kind.resource)
    }

    /// Whether `kind` is listed for `role`, in any version.
    #[must_use]
    pub fn lists(&self, role: Role, kind: &GroupResource) -> bool {
        self.kinds(role).any(|listed| *listed.group == *kind.group && *listed.resource == *kind.resource)
    }

    /// The fields of `gvr` to show on the hub, if `gvr` is listed for `role`.
    pub fn status_fields<'p>(
        &'p self,
        role: Role,
        gvr: &'p GroupVersionResource,
    ) -> impl Iterator<Item = &'p StatusField> {
        let (group, version, resource) = (&*gvr.kind.group, &*gvr.version, &*gvr.kind.resource);
        let is_it = move |kind: &SyncedKind<'_>| {
            (kind.group, kind.version, kind.resource) == (group, version, resource)
        };
        self.kinds(role).filter(is_it).flat_map(|kind| kind.status_fields)
    }

    fn kinds(&self, role: Role) -> impl Iterator<Item = SyncedKind<'_>> {
        let policies = self.policies_to_sync.iter().filter(move |_| role == Role::Policy);
        let policies = policies.map(|PolicyToSync { group, version, resource, status_fields, merge }| {
            SyncedKind { group, version, resource, placement: None, status_fields, merge: merge.as_ref() }
        });
        let resources = self.resources_to_sync.iter().filter(move |_| role == Role::Resource);
        let resources =
            resources.map(|ResourceToSync { group, version, resource, placement, status_fields }| {
                SyncedKind {
                    group,
                    version,
                    resource,
                    placement: placement.as_deref(),
                    status_fields,
                    merge: None,
                }
            });
        policies.chain(resources)
    }

    fn faults(&self) -> Vec<ParamsError> {
        let mut faults = Vec::new();
        if self.downstream_class.is_empty() {
            let (place, fault) = ("downstreamClass".into(), "must not be empty".into());
            faults.push(ParamsError { place, fault });
        }
        for role in Role::ALL {
            self.find_faults(role, &mut faults);
        }
        faults.extend(field_faults("gatewayStatusFields", &self.gateway_status_fields));
        faults
    }

    /// Adds the faults of the kinds that are listed for `role`.
    fn find_faults(&self, role: Role, faults: &mut Vec<ParamsError>) {
        let mut fault = |place: String, fault: String| faults.push(ParamsError { place, fault });
        let found = self.kinds(role).count();
        if found > MAX_KINDS {
            let text = format!("has {found} kinds, at most {MAX_KINDS} are allowed");
            fault(role.key().into(), text);
        }
        let mut kinds = BTreeSet::new();
        for (index, kind) in self.kinds(role).take(MAX_KINDS).enumerate() {
            let place = format!("{}[{index}]", role.key());
            let names = [("group", kind.group), ("version", kind.version), ("resource", kind.resource)];
            let names = names.into_iter().chain(kind.placement.map(|name| ("placement", name)));
            for (field, value) in names {
                let is_core = field == "group" && role == Role::Resource;
                if value.is_empty() && !is_core {
                    fault(format!("{place}.{field}"), "must not be empty".into());
                } else if !value.is_empty() && !is_dns_subdomain(value) {
                    let text = format!("{:?} is not a lowercase name", excerpt(value));
                    fault(format!("{place}.{field}"), text);
                }
            }
            let gvr = kind.gvr();
            if kinds.contains(&gvr) {
                fault(place.clone(), format!("{} is listed twice", escaped_excerpt(&gvr.to_string())));
            }
            kinds.insert(gvr);
            for ParamsError { place, fault: text } in
                field_faults(&format!("{place}.statusFields"), kind.status_fields)
            {
                fault(place, text);
            }
            for (step, text) in kind.merge.map(Merge::faults).unwrap_or_default() {
                fault(format!("{place}.merge.rules{step}"), text);
            }
        }
    }
}

/// A listed kind of policies or resources.
struct SyncedKind<'p> {
    group: &'p str,
    version: &'p str,
    resource: &'p str,
    placement: Option<&'p str>,
    status_fields: &'p [StatusField],
    merge: Option<&'p Merge>,
}

impl SyncedKind<'_> {
    fn gvr(&self) -> GroupVersionResource {
        GroupVersionResource::new(self.group, self.version, self.resource)
    }
}

/// The faults of `fields`, which are the value of the key `list`.
fn field_faults(list: &str, fields: &[StatusField]) -> Vec<ParamsError> {
    let mut faults = Vec::new();
    let mut fault = |place: String, fault: String| faults.push(ParamsError { place, fault });
    let mut names = BTreeSet::new();
    for (index, field) in fields.iter().enumerate() {
        if let Some(text) = name_fault(field, &mut names) {
            fault(format!("{list}[{index}].name"), text);
        }
        if let Err(error) = StatusPath::parse(&field.path) {
            fault(format!("{list}[{index}].path"), error.to_string());
        }
    }
    faults
}

/// The fault of the name of `field`, if any. `names` are the names of the previous fields.
fn name_fault<'f>(field: &'f StatusField, names: &mut BTreeSet<&'f str>) -> Option<String> {
    if field.name.is_empty() {
        Some("must not be empty".to_owned())
    } else if field.name.starts_with('_') {
        Some("must not start with `_`: such names are reserved for the controller".to_owned())
    } else if !names.insert(&field.name) {
        Some(format!("{:?} is used twice", excerpt(&field.name)))
    } else {
        None
    }
}

#[cfg(test)]
mod tests;
