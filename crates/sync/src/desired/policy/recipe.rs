//! One copy of a policy or a resource, as what it is made of: enough to make it anywhere and at any time, without a look at the hub.
//!
//! ```text
//! spec ─▶ overrides ─▶ the schema ─▶ references narrowed ─▶ share of the replicas ─▶ copy ─▶ work ─▶ its hashes, its size
//! ```
//!
//! A policy's copies can have megabytes together. A plan compares them by their hashes, holds none of them, and what is
//! written is made again when it is sent: the same recipe always makes the same work.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value};

use super::target::Targets;
use crate::desired::copy::{USERS_KEYS, copy, read_spec, rewrite_namespaces, travelling};
use crate::desired::overrides::{Chosen, Overrides};
use crate::desired::resource;
use crate::desired::work::{Make, PlannedWork, WorkTemplate};
use crate::rows::kind::KindInfo;
use crate::rows::policy::Policy;
use crate::rows::schema::WorkSchema;
use crate::{Problem, feedback};
use policy_sync_api::annotations::{CLUSTER_OVERRIDES, POLICY_SYNCED};
use policy_sync_api::json::Hash;
use policy_sync_api::names::{ControllerName, GroupVersionResource, ObjectKey, Origin, WorkName};
use policy_sync_api::params::{Conflicts, Params, Role, StatusField};
use policy_sync_api::work::ManifestWorkSpec;

/// The field of a spec that says how many replicas there are to be.
pub(super) const REPLICAS: &str = "replicas";
/// The field of a status that says how many are ready.
const READY_REPLICAS: &str = "readyReplicas";

/// What all copies of a policy, or of a resource, are made of.
#[derive(Debug)]
pub(in crate::desired) struct Common {
    pub(super) policy: Arc<Policy>,
    pub(super) origin: Origin,
    pub(super) targets: Arc<Targets>,
    pub(super) controller: ControllerName,
    pub(super) gvr: GroupVersionResource,
    pub(super) info: KindInfo,
    pub(super) role: Role,
    pub(super) downstream_namespace: String,
    /// What its namespace is there, and those that it refers to.
    pub(super) prefix: String,
    pub(super) schema: WorkSchema,
    /// The hosts of the listeners of each Gateway that it targets, by its name, if its kind has values of them.
    pub(super) hosts: BTreeMap<Arc<str>, BTreeSet<String>>,
}

impl Common {
    pub(super) fn name(&self) -> WorkName {
        WorkName::planned(&self.controller, &self.info.kind, &self.origin)
    }

    /// The overrides of the policy, none where it has none.
    pub(super) fn overrides(policy: &Policy) -> Result<Overrides, Problem> {
        policy
            .annotations
            .get(CLUSTER_OVERRIDES)
            .map_or_else(|| Ok(Overrides::default()), |text| Overrides::parse(text))
    }

    /// What a copy depends on beside the policy, its gateways and its overrides.
    fn hash(&self) -> Hash {
        let Self { controller, gvr, info, downstream_namespace, schema, hosts, .. } = self;
        let rest = format!("{} {:?} {schema:?} {hosts:?}", info.has_ancestors, self.role);
        let gvr = gvr.to_string();
        Hash::of_parts(&[controller.as_str(), &gvr, &info.kind, downstream_namespace, &rest])
    }
}

/// The parameters of a gateway's class, with their hash once that is asked for.
#[derive(Debug)]
pub(super) struct Terms {
    pub(super) params: Arc<Params>,
    hash: OnceLock<Hash>,
}

impl Terms {
    /// Those of `params`, once for all gateways of a class.
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

/// What one copy is made of.
#[derive(Clone, Debug)]
pub(in crate::desired) struct Recipe {
    pub(super) common: Arc<Common>,
    /// The gateways that are placed where it goes.
    pub(super) gateways: Vec<ObjectKey>,
    /// The parameters of their classes.
    pub(super) terms: Vec<Arc<Terms>>,
    /// The overrides that its clusters get.
    pub(super) chosen: Chosen,
    /// Its share of the replicas, where they are split.
    pub(super) replicas: Option<u64>,
}

/// What is known of a copy that was made.
#[derive(Clone, Debug)]
pub(super) struct Made {
    /// The hash of its work's spec.
    spec: Hash,
    revision: String,
    bytes: usize,
}

impl Made {
    pub(super) fn new(work: &PlannedWork) -> Self {
        Self { spec: work.content.spec, revision: work.revision.clone(), bytes: work.bytes }
    }
}

impl Recipe {
    /// By what a copy of its policy is remembered.
    pub(super) fn key(&self, common: &Hash) -> Hash {
        let common = common.to_string();
        let terms: Vec<String> = self.terms.iter().map(|terms| terms.hash().to_string()).collect();
        let chosen = format!("{:?} {:?}", self.chosen, self.replicas);
        let gateways = self.gateways.iter().map(|key| &*key.name);
        let parts: Vec<&str> = [&*common, &*chosen]
            .into_iter()
            .chain(terms.iter().map(String::as_str))
            .chain(gateways)
            .collect();
        Hash::of_parts(&parts)
    }

    pub(super) fn common_key(&self) -> Hash {
        self.common.hash()
    }

    /// Makes the work with its copy, of the `spec` and the `overrides` of the policy.
    pub(super) fn make(&self, spec: &Value, overrides: &Overrides) -> Result<PlannedWork, Problem> {
        let Common { policy, origin, gvr, info, downstream_namespace, role, .. } = &*self.common;
        let mut spec = spec.clone();
        if !self.chosen.is_empty() {
            spec = overrides.patched(spec, &self.chosen, info.schema.as_deref())?;
        }
        let params: Vec<&Params> = self.terms.iter().map(|terms| &*terms.params).collect();
        let skip: Vec<String> = params.iter().flat_map(|params| params.metadata_to_skip.clone()).collect();
        let mut annotations = travelling(&policy.annotations, &skip);
        annotations.insert(POLICY_SYNCED.to_owned(), origin.object().to_string());
        let copy = copy(
            (&gvr.api_version(), &info.kind),
            (downstream_namespace, &origin.object().name),
            &travelling(&policy.labels, &skip),
            annotations,
            self.content(spec)?,
        );
        // Where classes disagree, the spoke's people keep what is theirs.
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
        self.template(&self.common.name()).carry(copy, Vec::new(), &names, feedback, conflicts)
    }

    /// The fields of the copy beside its metadata.
    fn content(&self, mut spec: Value) -> Result<Map<String, Value>, Problem> {
        let Common { policy, targets, gvr, role, downstream_namespace, prefix, .. } = &*self.common;
        if *role == Role::Policy {
            let spec = targets.narrowed(spec, &self.gateways, downstream_namespace);
            return Ok(Map::from_iter([("spec".to_owned(), spec)]));
        }
        if let (Some(replicas), Some(fields)) = (self.replicas, spec.as_object_mut()) {
            fields.insert(REPLICAS.to_owned(), replicas.into());
        }
        let mut content = resource::content(&gvr.kind, spec, policy.others.as_deref())?;
        let keys = content.iter_mut().filter(|(key, _)| !USERS_KEYS.contains(&key.as_str()));
        keys.for_each(|(_, value)| rewrite_namespaces(value, prefix));
        Ok(content)
    }

    /// The work with its copy, as it was `made`.
    pub(super) fn planned(&self, made: Made) -> PlannedWork {
        let Made { spec, revision, bytes } = made;
        let name = self.common.name();
        PlannedWork::made(
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

impl Make for Recipe {
    fn spec(&self) -> Result<ManifestWorkSpec, Problem> {
        let policy = &self.common.policy;
        self.make(&read_spec(&policy.spec)?, &Common::overrides(policy)?)?.into_spec()
    }
}

/// The `statusFields` of all classes, the first of a name, then the defaults of the kind with other names, those of hosts last: a work has
/// room for a limited number of values.
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

/// Asks also how many replicas are ready, unless parameters call something else so.
fn ready(fields: &mut Vec<StatusField>) {
    if fields.iter().all(|field| field.name != READY_REPLICAS) {
        let path = format!(".status.{READY_REPLICAS}");
        fields.push(StatusField { name: READY_REPLICAS.to_owned(), path });
    }
}
