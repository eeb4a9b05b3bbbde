//! The works of a policy.
//!
//! ```text
//! kind listed? ─▶ policy there? ─▶ its references ─▶ gateways of ours ─▶ their clusters ─▶ selector ─▶ overrides ─▶ copies
//! ```
//!
//! Where a step cannot be known, what the next ones would allow is kept as it is.

mod specs;
mod target;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::core::{Selector, SelectorExt};
use serde_json::Value;

use super::copy::{copy, read_spec, travelling};
use super::placement::{Placed, placed};
use super::standing::{GatewayStanding, KindStanding, of_kind, of_target};
use super::work::{WorkTemplate, schema};
use super::{Outcome, PlannedWork, Problem, Settings, WorksPlan, feedback, order, selector};
use crate::api::annotations::{CLUSTER_OVERRIDES, CLUSTER_SELECTOR, POLICY_SYNCED};
use crate::api::names::{ClusterName, GroupVersionResource, ObjectKey, Parent, WorkName};
use crate::api::params::{Conflicts, Params, StatusField};
use crate::mirror::rows::Strings;
use crate::mirror::rows::kind::PolicyKindInfo;
use crate::mirror::rows::policy::Policy;
use crate::mirror::{Moment, View};
use specs::Specs;
use target::{Targets, targets};

/// Plans the works of the policy `parent`.
#[must_use]
pub fn plan(view: View<'_>, settings: &Settings, parent: &Parent) -> WorksPlan {
    let (kind, problem) = match of_kind(view, &parent.kind) {
        KindStanding::Unlisted => return WorksPlan::default(),
        KindStanding::Frozen(problem, _) => (None, Some(problem)),
        KindStanding::Listed(gvr, info) => (Some((gvr, info)), None),
    };
    if !view.policies_synced(&parent.kind) {
        let problem = problem.unwrap_or_else(|| Problem::Unread(parent.kind.to_string()));
        return keep_by_own_word(view, parent, problem);
    }
    let Some(policy) = view.policy(parent).filter(|policy| !policy.deleting) else {
        return WorksPlan { name: kind.map(|(_, info)| name(view, parent, &info)), ..WorksPlan::default() };
    };
    let read = read_spec(&policy.spec)
        .and_then(|spec| targets(&spec, &parent.object.namespace).map(|targets| (spec, targets)));
    match read {
        Ok((spec, targets)) => Planner { view, settings, parent, policy, kind, targets, spec }.plan(problem),
        Err(fault) => keep_by_own_word(view, parent, fault),
    }
}

/// The Gateways of its own namespace that the policy `parent` targets, none where that cannot be read.
pub(super) fn gateways(view: View<'_>, parent: &Parent) -> BTreeSet<ObjectKey> {
    targets_of(view, parent).gateways().cloned().collect()
}

/// The Gateways of other namespaces that it refers to.
pub(super) fn foreign(view: View<'_>, parent: &Parent) -> BTreeSet<ObjectKey> {
    targets_of(view, parent).elsewhere().cloned().collect()
}

fn targets_of(view: View<'_>, parent: &Parent) -> Targets {
    let spec = view.policy(parent).and_then(|policy| read_spec(&policy.spec).ok());
    spec.and_then(|spec| targets(&spec, &parent.object.namespace).ok()).unwrap_or_default()
}

/// The clusters with a work of the policy `parent` that its selector does not select.
pub(super) fn deselected(view: View<'_>, parent: &Parent) -> BTreeSet<ClusterName> {
    let text = view.policy(parent).and_then(|policy| policy.annotations.get(CLUSTER_SELECTOR));
    let Some(selector) = text.and_then(|text| selector::parse(text).ok()) else { return BTreeSet::new() };
    let clusters = view.works_of(parent).map(|(_, cluster, _)| cluster);
    clusters.filter(|cluster| !selects(view, parent, &selector, cluster)).cloned().collect()
}

/// Whether `selector` selects `cluster`. Where nothing is known of its labels, what is there was selected.
fn selects(view: View<'_>, parent: &Parent, selector: &Selector, cluster: &ClusterName) -> bool {
    match view.labels(cluster) {
        Some(labels) => selector.matches(labels),
        None => selector.matches(&NO_LABELS) || view.work_of(parent, cluster).is_some(),
    }
}

/// Those of a cluster that says nothing of itself.
static NO_LABELS: Strings = Strings::new();

fn name(view: View<'_>, parent: &Parent, info: &PolicyKindInfo) -> WorkName {
    WorkName::of(view.controller(), &info.kind, parent)
}

/// Plans for a policy that cannot be read: each of its works says which gateways it serves, and stays where one of
/// them is still allowed to be. A spoke that changes that word changes nothing but its own work.
fn keep_by_own_word(view: View<'_>, parent: &Parent, problem: Problem) -> WorksPlan {
    let mut plan = WorksPlan { targeted: true, problems: vec![problem], ..WorksPlan::default() };
    let mut gateways: BTreeMap<ObjectKey, Option<Placed>> = BTreeMap::new();
    for (_, cluster, work) in view.works_of(parent) {
        for gateway in work.gateways.iter() {
            let key = ObjectKey { namespace: parent.object.namespace.clone(), name: gateway.clone() };
            let placed = gateways.entry(key).or_insert_with_key(|key| {
                let ours = of_target(view, key, &parent.kind).is_ours();
                ours.then(|| placed(view, key))
            });
            let Some(placed) = placed else { continue };
            if placed.unsettled || placed.clusters.contains(cluster) {
                plan.outcomes.insert(cluster.clone(), Outcome::Keep);
            }
            plan.recheck = Moment::earliest(plan.recheck, placed.settles);
        }
    }
    order::follow(view, parent, &gateways.into_keys().collect(), |_| true, &mut plan);
    plan
}

struct Planner<'v> {
    view: View<'v>,
    settings: &'v Settings,
    parent: &'v Parent,
    policy: &'v Policy,
    kind: Option<(GroupVersionResource, PolicyKindInfo)>,
    targets: Targets,
    spec: Value,
}

/// What makes works differ: the gateways that are placed there, and the overrides.
type Variant<'p> = (Vec<&'p ObjectKey>, &'p [usize]);

/// A Gateway that the policy targets.
struct Target {
    standing: GatewayStanding,
    placed: Placed,
}

impl Planner<'_> {
    fn plan(&self, problem: Option<Problem>) -> WorksPlan {
        let mut plan = WorksPlan {
            name: self.kind.as_ref().map(|(_, info)| name(self.view, self.parent, info)),
            problems: problem.into_iter().collect(),
            ..WorksPlan::default()
        };
        let targets: BTreeMap<&ObjectKey, Target> =
            self.targets.gateways().map(|key| (key, self.target(key))).collect();
        plan.targeted = targets.values().any(|target| target.standing.is_ours());
        plan.recheck =
            targets.values().fold(None, |least, target| Moment::earliest(least, target.placed.settles));
        plan.problems.extend(self.dropped());
        let selector =
            self.policy.annotations.get(CLUSTER_SELECTOR).map(|text| selector::parse(text)).transpose();
        let selector = selector.unwrap_or_else(|error| {
            plan.problems.push(Problem::BadSelector(error.to_string()));
            None
        });
        if !plan.targeted {
            // What keeps its kind from being synced is nothing to tell the owner of a policy that is not.
            plan.problems.retain(|problem| !problem.freezes());
            self.follow(&mut plan, selector.as_ref());
            return plan;
        }
        let downstream = self.settings.downstream_namespace(&self.parent.object.namespace);
        if let Err(problem) = &downstream {
            plan.problems.push(problem.clone());
        }
        let clusters = self.clusters(&targets, selector.as_ref());
        let schema = self.kind.as_ref().and_then(|(_, info)| info.schema.as_deref());
        let specs = Specs::new(self.view, self.policy, &self.spec, schema, clusters.keys());
        let specs = specs.unwrap_or_else(|problem| {
            plan.problems.push(problem);
            Specs::default()
        });
        let frozen = plan.problems.iter().any(Problem::freezes);

        let mut variants: BTreeMap<Variant<'_>, Result<Arc<PlannedWork>, Problem>> = BTreeMap::new();
        for (cluster, gateways) in clusters {
            let standing = |key: &&ObjectKey| targets.get(*key).map(|target| &target.standing);
            let unknown = gateways.iter().filter_map(standing).find_map(|standing| match standing {
                GatewayStanding::Frozen(problem) => Some(problem.clone()),
                _ => None,
            });
            let outcome = match (&downstream, unknown) {
                _ if frozen || self.is_unknown(&cluster) => Ok(Outcome::Keep),
                (Err(_), _) => Ok(Outcome::Keep),
                (_, Some(problem)) => Err(problem),
                (Ok(namespace), None) => variants
                    .entry((gateways, specs.chosen(&cluster)))
                    .or_insert_with_key(|(gateways, chosen)| {
                        let spec = specs.patched(chosen).unwrap_or(&self.spec);
                        self.work(&targets, gateways, spec, namespace).map(Arc::new)
                    })
                    .clone()
                    .map(Outcome::Work),
            };
            let outcome = outcome.unwrap_or_else(|problem| {
                if !plan.problems.contains(&problem) {
                    plan.problems.push(problem);
                }
                Outcome::Keep
            });
            plan.outcomes.insert(cluster, outcome);
        }
        self.keep_unsettled(&mut plan, &targets, selector.as_ref());
        self.follow(&mut plan, selector.as_ref());
        plan
    }

    /// Where it leaves a cluster because its gateway does, it goes after it.
    fn follow(&self, plan: &mut WorksPlan, selector: Option<&Selector>) {
        let targets = self.targets.gateways().cloned().collect();
        let selected = |cluster: &ClusterName| self.selects(selector, cluster);
        order::follow(self.view, self.parent, &targets, selected, plan);
    }

    fn target(&self, key: &ObjectKey) -> Target {
        let standing = of_target(self.view, key, &self.parent.kind);
        let placed = match standing {
            GatewayStanding::NotOurs => Placed::default(),
            _ => placed(self.view, key),
        };
        Target { standing, placed }
    }

    /// References into other namespaces, whether or not there are such gateways: that is none of the policy's business.
    fn dropped(&self) -> impl Iterator<Item = Problem> {
        self.targets.elsewhere().map(|key| Problem::ForeignReference(key.clone()))
    }

    /// The clusters that the policy is for, each with the gateways that are placed there.
    fn clusters<'t>(
        &self,
        targets: &BTreeMap<&'t ObjectKey, Target>,
        selector: Option<&Selector>,
    ) -> BTreeMap<ClusterName, Vec<&'t ObjectKey>> {
        let mut clusters: BTreeMap<ClusterName, Vec<&ObjectKey>> = BTreeMap::new();
        for (key, target) in targets {
            for cluster in target.placed.clusters.iter().filter(|cluster| self.selects(selector, cluster)) {
                clusters.entry(cluster.clone()).or_default().push(key);
            }
        }
        clusters
    }

    fn selects(&self, selector: Option<&Selector>, cluster: &ClusterName) -> bool {
        selector.is_none_or(|selector| selects(self.view, self.parent, selector, cluster))
    }

    /// Whether what is on `cluster` follows from labels that nobody knows: its ManagedCluster has gone, and this process
    /// has never seen it.
    fn is_unknown(&self, cluster: &ClusterName) -> bool {
        let by_labels = [CLUSTER_SELECTOR, CLUSTER_OVERRIDES]
            .iter()
            .any(|key| self.policy.annotations.contains_key(*key));
        by_labels && self.view.labels(cluster).is_none() && self.view.work_of(self.parent, cluster).is_some()
    }

    /// Keeps what is on a cluster that a gateway may only seem to have left.
    fn keep_unsettled(
        &self,
        plan: &mut WorksPlan,
        targets: &BTreeMap<&ObjectKey, Target>,
        selector: Option<&Selector>,
    ) {
        let unsettled: BTreeSet<&str> =
            targets.iter().filter(|(_, target)| target.placed.unsettled).map(|(key, _)| &*key.name).collect();
        for (_, cluster, work) in self.view.works_of(self.parent) {
            let may_be_placed = work.gateways.iter().any(|gateway| unsettled.contains(&**gateway));
            if may_be_placed && self.selects(selector, cluster) {
                plan.outcomes.entry(cluster.clone()).or_insert(Outcome::Keep);
            }
        }
    }

    fn work(
        &self,
        targets: &BTreeMap<&ObjectKey, Target>,
        gateways: &[&ObjectKey],
        spec: &Value,
        downstream_namespace: &str,
    ) -> Result<PlannedWork, Problem> {
        let Some((gvr, info)) = &self.kind else {
            return Err(Problem::Unread(self.parent.kind.to_string()));
        };
        let params: Vec<&Params> = gateways
            .iter()
            .filter_map(|key| match &targets.get(*key)?.standing {
                GatewayStanding::Ours(params) => Some(&**params),
                _ => None,
            })
            .collect();
        let skip: Vec<String> = params.iter().flat_map(|params| params.metadata_to_skip.clone()).collect();
        let mut annotations = travelling(&self.policy.annotations, &skip);
        annotations.insert(POLICY_SYNCED.to_owned(), self.parent.object.to_string());
        let copy = copy(
            (&gvr.api_version(), &info.kind),
            (downstream_namespace, &self.parent.object.name),
            &travelling(&self.policy.labels, &skip),
            annotations,
            self.targets.narrowed(spec, gateways, downstream_namespace),
        );
        // Where classes disagree, the spoke's people keep what is theirs.
        let overwrite = params.iter().all(|params| params.conflicts == Conflicts::Overwrite);
        let conflicts = if overwrite { Conflicts::Overwrite } else { Conflicts::Keep };
        let template = WorkTemplate {
            controller: self.view.controller(),
            name: &name(self.view, self.parent, info),
            parent: self.parent,
            downstream_namespace,
            schema: schema(self.view),
        };
        let names: Vec<&str> = gateways.iter().map(|key| &*key.name).collect();
        let mut feedback = feedback::of_policy(&fields(&params, gvr));
        if info.has_ancestors {
            feedback = feedback.with_ancestors(&names);
        }
        template.carry(copy, Vec::new(), &names, feedback, conflicts)
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
