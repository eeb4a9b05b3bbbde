//! The inputs of one copy of a policy or resource. They suffice to build the copy at any time without the mirror.
//!
//! ```text
//! spec ─▶ overrides, schema check ─▶ references (policy) or replicas (resource) ─▶ copy ─▶ work ─▶ its hashes and size
//! ```
//!
//! All copies of a policy together can take megabytes. If they are large, a plan compares their hashes and keeps no
//! copy. A copy that must be written is built again when it is sent: the same recipe always builds the same work.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value};

use super::target::Targets;
use crate::desired::copy::{USER_KEYED_MAPS, copied_entries, copy, read_spec, rewrite_namespaces};
use crate::desired::overrides::{OverrideIndexes, Overrides};
use crate::desired::resource;
use crate::desired::work::{BuildSpec, PlannedWork, WorkTemplate};
use crate::rows::kind::KindInfo;
use crate::rows::policy::Policy;
use crate::rows::schema::WorkSchema;
use crate::{Problem, feedback};
use policy_sync_api::annotations::{CLUSTER_OVERRIDES, POLICY_SYNCED};
use policy_sync_api::json::Hash;
use policy_sync_api::names::{ControllerName, GroupVersionResource, ObjectKey, Origin, WorkName};
use policy_sync_api::params::{Conflicts, Params, Role, StatusField};
use policy_sync_api::work::ManifestWorkSpec;

/// The field of a spec with the requested number of replicas.
pub(super) const REPLICAS: &str = "replicas";
/// The field of a status with the number of ready replicas.
const READY_REPLICAS: &str = "readyReplicas";

/// The inputs that all copies of a policy or resource have in common.
#[derive(Debug)]
pub(in crate::desired) struct CommonInputs {
    pub(super) policy: Arc<Policy>,
    pub(super) origin: Origin,
    pub(super) targets: Arc<Targets>,
    pub(super) controller: ControllerName,
    pub(super) gvr: GroupVersionResource,
    pub(super) info: KindInfo,
    pub(super) role: Role,
    pub(super) downstream_namespace: String,
    /// The prefix of namespaces on the spokes, for the object's own namespace and for its references.
    pub(super) prefix: String,
    pub(super) schema: WorkSchema,
    /// The hosts of the listeners of each targeted Gateway, by the Gateway's name. Empty for kinds whose feedback has
    /// no values for each host.
    pub(super) hosts: BTreeMap<Arc<str>, BTreeSet<String>>,
}

impl CommonInputs {
    pub(super) fn name(&self) -> WorkName {
        WorkName::planned(&self.controller, &self.info.kind, &self.origin)
    }

    /// The overrides of the policy; empty without the annotation.
    pub(super) fn overrides(policy: &Policy) -> Result<Overrides, Problem> {
        policy
            .annotations
            .get(CLUSTER_OVERRIDES)
            .map_or_else(|| Ok(Overrides::default()), |text| Overrides::parse(text))
    }

    /// The hash of the common inputs, except the policy, its Gateways and its overrides.
    fn hash(&self) -> Hash {
        let Self { controller, gvr, info, downstream_namespace, schema, hosts, .. } = self;
        let rest = format!("{} {:?} {schema:?} {hosts:?}", info.has_ancestors, self.role);
        let gvr = gvr.to_string();
        Hash::of_parts(&[controller.as_str(), &gvr, &info.kind, downstream_namespace, &rest])
    }
}

/// The parameters of a Gateway's class, with their hash, which is computed on first use.
#[derive(Debug)]
pub(super) struct HashedParams {
    pub(super) params: Arc<Params>,
    hash: OnceLock<Hash>,
}

impl HashedParams {
    /// The shared instance for `params`, so that the Gateways of a class compute the hash once.
    pub(super) fn shared(params: &Arc<Params>, known: &mut Vec<Arc<Self>>) -> Arc<Self> {
        if let Some(found) = known.iter().find(|known| Arc::ptr_eq(&known.params, params)) {
            return found.clone();
        }
        known.push(Arc::new(Self { params: params.clone(), hash: OnceLock::new() }));
        known[known.len() - 1].clone()
    }

    fn hash(&self) -> &Hash {
        self.hash.get_or_init(|| Hash::of_parts(&[&format!("{:?}", self.params)]))
    }
}

/// The inputs of one copy.
#[derive(Clone, Debug)]
pub(in crate::desired) struct Recipe {
    pub(super) common: Arc<CommonInputs>,
    /// The targeted Gateways that are placed on the clusters of the copy.
    pub(super) gateways: Vec<ObjectKey>,
    /// The parameters of the classes of these Gateways.
    pub(super) params: Vec<Arc<HashedParams>>,
    /// The overrides that match the clusters of the copy.
    pub(super) selected_overrides: OverrideIndexes,
    /// The number of replicas of the copy, if replicas are split among clusters.
    pub(super) replicas: Option<u64>,
}

/// The properties of a copy that was built.
#[derive(Clone, Debug)]
pub(super) struct BuiltCopy {
    /// The hash of the spec of the copy's work.
    spec: Hash,
    revision: String,
    bytes: usize,
}

impl BuiltCopy {
    pub(super) fn new(work: &PlannedWork) -> Self {
        Self { spec: work.content.spec, revision: work.revision.clone(), bytes: work.bytes }
    }
}

impl Recipe {
    /// The key under which the copy is cached.
    pub(super) fn key(&self, common: &Hash) -> Hash {
        let common = common.to_string();
        let params: Vec<String> = self.params.iter().map(|params| params.hash().to_string()).collect();
        let selected_overrides = format!("{:?} {:?}", self.selected_overrides, self.replicas);
        let gateways = self.gateways.iter().map(|key| &*key.name);
        let parts: Vec<&str> = [&*common, &*selected_overrides]
            .into_iter()
            .chain(params.iter().map(String::as_str))
            .chain(gateways)
            .collect();
        Hash::of_parts(&parts)
    }

    pub(super) fn common_key(&self) -> Hash {
        self.common.hash()
    }

    /// Builds the work and its copy from the parsed `spec` and `overrides` of the policy.
    pub(super) fn build(&self, spec: &Value, overrides: &Overrides) -> Result<PlannedWork, Problem> {
        let CommonInputs { policy, origin, gvr, info, downstream_namespace, role, .. } = &*self.common;
        let mut spec = spec.clone();
        if !self.selected_overrides.is_empty() {
            spec = overrides.patched(spec, &self.selected_overrides, info.schema.as_deref())?;
        }
        let params: Vec<&Params> = self.params.iter().map(|params| &*params.params).collect();
        let skip: Vec<String> = params.iter().flat_map(|params| params.metadata_to_skip.clone()).collect();
        let mut annotations = copied_entries(&policy.annotations, &skip);
        annotations.insert(POLICY_SYNCED.to_owned(), origin.object().to_string());
        let copy = copy(
            (&gvr.api_version(), &info.kind),
            (downstream_namespace, &origin.object().name),
            &copied_entries(&policy.labels, &skip),
            annotations,
            self.content(spec)?,
        );
        // If the classes configure different `conflicts`, fields that the spoke's users have set are kept.
        let overwrite = params.iter().all(|params| params.conflicts == Conflicts::Overwrite);
        let conflicts = if overwrite { Conflicts::Overwrite } else { Conflicts::Keep };
        let names = self.names();
        let hosts = names.iter().filter_map(|name| self.common.hosts.get(*name)).flatten();
        let mut fields = fields(&params, *role, gvr, &hosts.map(String::as_str).collect());
        if *role == Role::Resource && copy.object["spec"][REPLICAS].is_u64() {
            ready(&mut fields);
        }
        let mut feedback = feedback::of_policy(&fields);
        if *role == Role::Policy {
            feedback = feedback.with_created();
        }
        if info.has_ancestors {
            feedback = feedback.with_ancestors(&names);
        }
        self.template(&self.common.name()).build(copy, Vec::new(), &names, feedback, conflicts)
    }

    /// The fields of the copy, except its metadata.
    fn content(&self, mut spec: Value) -> Result<Map<String, Value>, Problem> {
        let CommonInputs { policy, targets, gvr, role, downstream_namespace, prefix, .. } = &*self.common;
        if *role == Role::Policy {
            let spec = targets.narrowed(spec, &self.gateways, downstream_namespace);
            return Ok(Map::from_iter([("spec".to_owned(), spec)]));
        }
        if let (Some(replicas), Some(fields)) = (self.replicas, spec.as_object_mut()) {
            fields.insert(REPLICAS.to_owned(), replicas.into());
        }
        let mut content = resource::content(&gvr.kind, spec, policy.others.as_deref())?;
        let keys = content.iter_mut().filter(|(key, _)| !USER_KEYED_MAPS.contains(&key.as_str()));
        keys.for_each(|(_, value)| rewrite_namespaces(value, prefix));
        Ok(content)
    }

    /// The planned work of the copy. `built` contains the properties of the copy from an earlier build.
    pub(super) fn planned(&self, built: BuiltCopy) -> PlannedWork {
        let BuiltCopy { spec, revision, bytes } = built;
        let name = self.common.name();
        PlannedWork::rebuildable(
            &self.template(&name),
            &self.names(),
            Arc::new(self.clone()),
            (spec, revision, bytes),
        )
    }

    fn names(&self) -> Vec<&str> {
        self.gateways.iter().map(|key| &*key.name).collect()
    }

    fn template<'r>(&'r self, name: &'r WorkName) -> WorkTemplate<'r> {
        WorkTemplate {
            controller: &self.common.controller,
            name,
            origin: &self.common.origin,
            downstream_namespace: &self.common.downstream_namespace,
            copy_of: self.common.role.into(),
            schema: self.common.schema,
        }
    }
}

impl BuildSpec for Recipe {
    fn spec(&self) -> Result<ManifestWorkSpec, Problem> {
        let policy = &self.common.policy;
        self.build(&read_spec(&policy.spec)?, &CommonInputs::overrides(policy)?)?.into_spec()
    }
}

/// The `statusFields` of all classes, followed by the defaults of the kind. Of several fields with the same name, only
/// the first is kept. Values of hosts come last, because the number of values that are kept of a copy is limited.
fn fields(
    params: &[&Params],
    role: Role,
    gvr: &GroupVersionResource,
    hosts: &BTreeSet<&str>,
) -> Vec<StatusField> {
    let mut listed: BTreeMap<&str, &StatusField> = BTreeMap::new();
    for field in params.iter().flat_map(|params| params.status_fields(role, gvr)) {
        listed.entry(&field.name).or_insert(field);
    }
    let mut defaults: Vec<StatusField> = feedback::of_kind(&gvr.kind, hosts)
        .into_iter()
        .filter(|field| !listed.contains_key(&*field.name))
        .collect();
    defaults.sort_by_cached_key(|field| {
        (field.name.starts_with(feedback::RECORD_CONDITIONS), field.name.clone())
    });
    listed.into_values().cloned().chain(defaults).collect()
}

/// Adds a field with the number of ready replicas, unless the parameters list a field of the same name.
fn ready(fields: &mut Vec<StatusField>) {
    if fields.iter().all(|field| field.name != READY_REPLICAS) {
        let path = format!(".status.{READY_REPLICAS}");
        fields.push(StatusField { name: READY_REPLICAS.to_owned(), path });
    }
}
