//! One copy of a policy, as what it is made of: enough to make it anywhere and at any time, without a look at the hub.
//!
//! ```text
//! spec ─▶ overrides ─▶ the schema ─▶ references narrowed ─▶ copy ─▶ work ─▶ its hashes, and how large it is
//! ```
//!
//! A policy's copies can have megabytes together. A plan compares them by their hashes, holds none of them, and what is
//! written is made again when it is sent: the same recipe always makes the same work.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::target::Targets;
use crate::api::annotations::{CLUSTER_OVERRIDES, POLICY_SYNCED};
use crate::api::json::Hash;
use crate::api::names::{ControllerName, GroupVersionResource, ObjectKey, Origin, WorkName};
use crate::api::params::{Conflicts, Params, StatusField};
use crate::api::work::ManifestWorkSpec;
use crate::sync::desired::copy::{copy, read_spec, travelling};
use crate::sync::desired::overrides::{Chosen, Overrides};
use crate::sync::desired::work::{Make, PlannedWork, WorkTemplate};
use crate::sync::rows::kind::PolicyKindInfo;
use crate::sync::rows::policy::Policy;
use crate::sync::rows::schema::WorkSchema;
use crate::sync::{Problem, feedback};

/// What all copies of a policy are made of.
#[derive(Debug)]
pub(in crate::sync::desired) struct Common {
    pub(super) policy: Arc<Policy>,
    pub(super) origin: Origin,
    pub(super) targets: Arc<Targets>,
    pub(super) controller: ControllerName,
    pub(super) gvr: GroupVersionResource,
    pub(super) info: PolicyKindInfo,
    pub(super) downstream_namespace: String,
    pub(super) schema: WorkSchema,
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
        let Self { controller, gvr, info, downstream_namespace, schema, .. } = self;
        let (gvr, rest) = (gvr.to_string(), format!("{} {schema:?}", info.has_ancestors));
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
pub(in crate::sync::desired) struct Recipe {
    pub(super) common: Arc<Common>,
    /// The gateways that are placed where it goes.
    pub(super) gateways: Vec<ObjectKey>,
    /// The parameters of their classes.
    pub(super) terms: Vec<Arc<Terms>>,
    /// The overrides that its clusters get.
    pub(super) chosen: Chosen,
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
        let chosen = format!("{:?}", self.chosen);
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
        let Common { policy, origin, targets, gvr, info, downstream_namespace, .. } = &*self.common;
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
            targets.narrowed(spec, &self.gateways, downstream_namespace),
        );
        // Where classes disagree, the spoke's people keep what is theirs.
        let overwrite = params.iter().all(|params| params.conflicts == Conflicts::Overwrite);
        let conflicts = if overwrite { Conflicts::Overwrite } else { Conflicts::Keep };
        let names = self.names();
        let mut feedback = feedback::of_policy(&fields(&params, gvr));
        if info.has_ancestors {
            feedback = feedback.with_ancestors(&names);
        }
        self.template(&self.common.name()).carry(copy, Vec::new(), &names, feedback, conflicts)
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

/// The `statusFields` of all classes, the first of a name.
fn fields(params: &[&Params], gvr: &GroupVersionResource) -> Vec<StatusField> {
    let listed =
        params.iter().flat_map(|params| &params.policies_to_sync).filter(|policy| policy.gvr() == *gvr);
    let mut fields: BTreeMap<&str, &StatusField> = BTreeMap::new();
    for field in listed.flat_map(|policy| &policy.status_fields) {
        fields.entry(&field.name).or_insert(field);
    }
    fields.into_values().cloned().collect()
}
