//! The first step of a policy's plan, before any copy is built: its clusters, the differences between its copies, and
//! their total size.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::recipe::{HashedParams, REPLICAS};
use super::{COPIES_LIMIT, Planner, name, problem_end, remembered};
use crate::Problem;
use crate::desired::copy::copied_bytes;
use crate::desired::eligibility::{GatewayEligibility, ResourceEntry, of_resources, of_target};
use crate::desired::overrides::{OverrideIndexes, OverrideSelectors};
use crate::desired::placement::{Placed, placed};
use crate::desired::replicas::{Preferences, Split};
use crate::desired::{KeepReason, Outcome, PlannedWork, WorksPlan, pauses, resource};
use crate::rows::policy::Policy;
use crate::view::NO_LABELS;
use policy_sync_api::annotations::REPLICA_PREFERENCES;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ClusterName, ObjectKey};
use policy_sync_api::params::Role;
use policy_sync_api::selector::ClusterSelector;

/// A distinct copy of a policy, identified by the inputs in which the policy's copies differ.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Variant<'t> {
    /// The targeted Gateways that are placed on the clusters.
    pub(super) gateways: Vec<&'t ObjectKey>,
    /// The overrides that match the clusters.
    pub(super) selected_overrides: OverrideIndexes,
    /// The number of replicas of the copy, if replicas are split among clusters.
    pub(super) replicas: Option<u64>,
}

/// The inputs of a resource's placement.
pub(super) struct ResourcePlacement {
    pub(super) placed: Placed,
    /// The problem if the parameters that list the resource's kind are unknown.
    pub(super) known: Result<(), Problem>,
    pub(super) params: Option<Arc<HashedParams>>,
    /// Whether the resource requests placement.
    pub(super) is_requested: bool,
}

/// A Gateway that the policy targets.
pub(super) struct TargetGateway {
    pub(super) eligibility: GatewayEligibility,
    pub(super) placed: Placed,
    pub(super) params: Option<Arc<HashedParams>>,
    /// The problem that the class of the Gateway is paused; `None` if it is not paused.
    pub(super) pause: Option<Problem>,
}

/// The plan of a policy before any copy is built.
pub(super) struct Outline<'t> {
    pub(super) plan: WorksPlan,
    pub(super) targets: BTreeMap<&'t ObjectKey, TargetGateway>,
    /// The resource's own placement; `None` for a policy.
    pub(super) own: Option<ResourcePlacement>,
    pub(super) selector: Option<ClusterSelector>,
    pub(super) override_selectors: Arc<OverrideSelectors>,
    /// The clusters of the policy, each with its copy.
    pub(super) clusters: BTreeMap<ClusterName, Variant<'t>>,
    /// The clusters whose works are kept, because they depend on unknown labels.
    pub(super) kept: BTreeSet<ClusterName>,
    /// The namespace of the copies on the spokes.
    pub(super) downstream: String,
    /// An upper bound of the total size of the distinct copies, in bytes.
    pub(super) bytes: usize,
    pub(super) frozen: bool,
}

impl Planner<'_> {
    /// Decides everything that does not require a copy: the clusters of the policy, the differences between its
    /// copies, and their size.
    pub(super) fn outline(&self, problem: Option<Problem>) -> Outline<'_> {
        let mut plan = WorksPlan {
            name: self.kind.as_ref().map(|(_, info)| name(self.view, self.origin, info)),
            problems: problem.into_iter().collect(),
            ..WorksPlan::default()
        };
        let (targets, own) = (self.targets(), self.own());
        plan.targeted = targets.values().any(|target| target.eligibility.is_ours())
            || own.as_ref().is_some_and(|own| own.is_requested);
        let placed = targets.values().map(|target| &target.placed).chain(own.as_ref().map(|own| &own.placed));
        plan.recheck = placed.fold(None, |least, placed| Moment::earliest(least, placed.settles));
        plan.problems.extend(self.dropped());
        let selector = ClusterSelector::read(&self.policy.annotations).unwrap_or_else(|bad| {
            plan.problems.push(bad.into());
            None
        });
        let (override_selectors, downstream, clusters) = (Arc::default(), String::new(), BTreeMap::new());
        let kept = BTreeSet::new();
        let mut outline = Outline {
            plan,
            targets,
            own,
            selector,
            override_selectors,
            clusters,
            kept,
            downstream,
            bytes: 0,
            frozen: true,
        };
        if outline.plan.targeted {
            self.detail(&mut outline);
        } else {
            // A policy that is not copied anyway need not report why its kind cannot be synced.
            outline.plan.problems.retain(|problem| !problem.freezes());
        }
        outline
    }

    /// Adds the clusters and the copies of an object that targets a Gateway of this controller or requests placement.
    fn detail<'t>(&'t self, outline: &mut Outline<'t>) {
        let mut problems = self.pauses();
        problems.append(&mut outline.plan.problems);
        match self.settings.downstream_namespace(&self.origin.object().namespace) {
            Ok(downstream) => outline.downstream = downstream,
            Err(problem) => problems.push(problem),
        }
        match remembered::override_selectors_of(self.policy, || {
            Ok(self.overrides()?.override_selectors().clone())
        }) {
            Ok(override_selectors) => outline.override_selectors = override_selectors,
            Err(problem) => problems.push(problem),
        }
        let (clusters, deselected) = self.clusters(outline);
        outline.plan.deselected = deselected;
        let (kept, mut clusters): (BTreeMap<_, _>, BTreeMap<_, _>) =
            clusters.into_iter().partition(|(cluster, _)| self.is_unknown(cluster));
        outline.kept = kept.into_keys().collect();
        match self.shares(outline, &mut clusters) {
            Ok(problem) => problems.extend(problem),
            Err(problem) => problems.push(problem),
        }
        let shares = outline.plan.shares.as_ref();
        outline.clusters = clusters
            .into_iter()
            .map(|(cluster, gateways)| {
                let selected_overrides =
                    outline.override_selectors.selected(self.view.labels(&cluster).unwrap_or(&NO_LABELS));
                let replicas = shares.and_then(|shares| shares.get(&cluster)).copied();
                (cluster, Variant { gateways, selected_overrides, replicas })
            })
            .collect();
        let copies: BTreeSet<&Variant<'_>> = outline.clusters.values().collect();
        let bytes = copies.iter().map(|variant| self.bytes(outline, variant));
        outline.bytes = bytes.fold(0, usize::saturating_add);
        if outline.bytes > COPIES_LIMIT && copies.len() > 1 {
            let (copies, bytes) = (copies.len(), outline.bytes);
            problems.push(Problem::CopiesTooLarge { copies, bytes, limit: COPIES_LIMIT });
        }
        outline.frozen = problems.iter().any(Problem::freezes);
        if outline.frozen || outline.own.as_ref().is_some_and(|own| own.known.is_err()) {
            // If no works are planned, the replicas are not split among clusters.
            outline.plan.shares = None;
        }
        outline.plan.problems = problems;
    }

    /// A problem if the object is paused, and a problem if the class that lists its kind as a resource is paused.
    fn pauses(&self) -> Vec<Problem> {
        let classes = self.view.listing();
        let class = classes.iter().find(|(_, params)| params.resource(self.origin.kind()).is_some());
        let class = class.filter(|_| self.role == Role::Resource);
        pauses(self.view, &self.policy.annotations, class.map(|(class, _)| &*class.name))
    }

    /// An upper bound of the size of a copy in bytes.
    pub(super) fn bytes(&self, outline: &Outline<'_>, variant: &Variant<'_>) -> usize {
        let Policy { spec, others, labels, annotations, .. } = &**self.policy;
        spec.len()
            + others.as_ref().map_or(0, |others| others.len())
            + copied_bytes(labels)
            + copied_bytes(annotations)
            + outline.override_selectors.bytes(&variant.selected_overrides)
    }

    fn targets(&self) -> BTreeMap<&ObjectKey, TargetGateway> {
        let mut known: Vec<Arc<HashedParams>> = Vec::new();
        let target = |key| {
            let eligibility = of_target(self.view, key, self.origin.kind());
            let placed = match eligibility {
                GatewayEligibility::NotOurs => Placed::default(),
                _ => placed(self.view, key),
            };
            let params = match &eligibility {
                GatewayEligibility::Ours(params) => Some(HashedParams::shared(params, &mut known)),
                _ => None,
            };
            let gateway = self.view.gateway(key).filter(|_| eligibility.is_ours());
            let pause = gateway.and_then(|gateway| self.view.class_pause(&gateway.class));
            (key, TargetGateway { eligibility, placed, params, pause })
        };
        self.targets.gateways().map(target).collect()
    }

    /// The placement of a resource; `None` for a policy.
    fn own(&self) -> Option<ResourcePlacement> {
        if self.role == Role::Policy {
            return None;
        }
        let resource_entry = of_resources(self.view, self.origin.kind());
        let (placed, is_requested) =
            resource::placed(self.view, self.origin, self.policy, resource_entry.entry());
        let has_works = self.view.works_of(self.origin).next().is_some();
        // The default Placement of the parameters applies if the resource names none.
        let by_default = resource::is_placed_by_default(self.origin, self.policy);
        let (params, frozen) = match resource_entry {
            ResourceEntry::Unlisted => {
                return Some(ResourcePlacement { placed, known: Ok(()), params: None, is_requested: false });
            }
            ResourceEntry::Frozen(problem) => (None, Some(problem)),
            // New copies follow the known class. Existing copies may follow the older class, which cannot be read.
            ResourceEntry::Known(params, _, older) => {
                (Some(params), older.filter(|_| by_default && has_works))
            }
        };
        if let Some(problem) = frozen {
            let unsettled = placed.unsettled || by_default;
            let settles = Moment::earliest(placed.settles, problem_end(self.view, &problem));
            let (placed, is_requested) =
                (Placed { unsettled, settles, ..placed }, is_requested || by_default && has_works);
            return Some(ResourcePlacement { placed, known: Err(problem), params: None, is_requested });
        }
        let params = params.map(|params| HashedParams::shared(&params, &mut Vec::new()));
        Some(ResourcePlacement { placed, known: Ok(()), params, is_requested })
    }

    /// Splits the replicas of a resource among `clusters`, and removes the clusters that the preferences do not
    /// include. Clusters whose works are kept get replicas, too. Returns a problem for the owner, if any.
    ///
    /// # Errors
    ///
    /// If the replica preferences or the number of replicas are invalid.
    fn shares<T>(
        &self,
        outline: &mut Outline<'_>,
        clusters: &mut BTreeMap<ClusterName, T>,
    ) -> Result<Option<Problem>, Problem> {
        let text = self.policy.annotations.get(REPLICA_PREFERENCES).filter(|_| self.role == Role::Resource);
        let Some(text) = text else { return Ok(None) };
        let preferences =
            Preferences::read(text).map_err(|(place, fault)| Problem::BadPreferences { place, fault })?;
        let total = match &self.spec()?[REPLICAS] {
            Value::Null => return Ok(Some(Problem::NoReplicas)),
            value => value.as_u64().ok_or_else(|| {
                Problem::BadSpec(format!("{REPLICAS}: expected a whole number from 0, found {value}"))
            })?,
        };
        let (named, not_in_preferences): (BTreeSet<_>, _) =
            clusters.keys().cloned().partition(|cluster| preferences.names(cluster));
        clusters.retain(|cluster, _| named.contains(cluster));
        let kept = self.may_be_placed(outline.own.as_ref(), outline.selector.as_ref());
        let taking = named.into_iter().chain(kept).chain(outline.kept.iter().cloned());
        let is_paused = |cluster: &ClusterName| {
            self.view.cluster(cluster).is_some_and(|cluster| cluster.paused.is_paused())
        };
        let (paused, taking): (BTreeSet<ClusterName>, BTreeSet<ClusterName>) = taking.partition(is_paused);
        let current = self.view.shares(self.origin);
        let Split { shares, left_out } = preferences.split(self.origin, total, &taking, &paused, &current);
        outline.plan.not_in_preferences = not_in_preferences;
        outline.plan.shares = Some(shares);
        Ok((left_out > 0).then_some(Problem::ReplicasLeftOut { left_out, total }))
    }

    /// A problem for each reference into another namespace. Whether the Gateway in the other namespace exists is
    /// neither checked nor disclosed.
    fn dropped(&self) -> impl Iterator<Item = Problem> {
        self.targets.in_other_namespaces().map(|key| Problem::ForeignReference(key.clone()))
    }

    /// The clusters of the policy, each with the Gateways that are placed on it. Also returns the clusters that the
    /// policy's selector excludes.
    fn clusters<'t>(
        &self,
        outline: &Outline<'t>,
    ) -> (BTreeMap<ClusterName, Vec<&'t ObjectKey>>, BTreeSet<ClusterName>) {
        let mut clusters: BTreeMap<ClusterName, Vec<&ObjectKey>> = BTreeMap::new();
        let mut deselected = BTreeSet::new();
        let targets = outline.targets.iter().map(|(key, target)| (Some(*key), &target.placed));
        let own = outline.own.iter().map(|own| (None, &own.placed));
        for (gateway, placed) in targets.chain(own) {
            for cluster in &placed.clusters {
                if self.selects(outline.selector.as_ref(), cluster) {
                    clusters.entry(cluster.clone()).or_default().extend(gateway);
                } else {
                    deselected.insert(cluster.clone());
                }
            }
        }
        (clusters, deselected)
    }
}

impl Outline<'_> {
    /// The problem that keeps a copy from being built, if any: parameters of the copy are unknown, or the class of a
    /// targeted Gateway is paused.
    pub(super) fn unknown(&self, variant: &Variant<'_>) -> Option<Problem> {
        if let Some(ResourcePlacement { known: Err(problem), .. }) = &self.own {
            return Some(problem.clone());
        }
        let targets = || variant.gateways.iter().filter_map(|key| self.targets.get(*key));
        let frozen = targets().find_map(|target| match &target.eligibility {
            GatewayEligibility::Frozen(problem) => Some(problem.clone()),
            _ => None,
        });
        targets().find_map(|target| target.pause.clone()).or(frozen)
    }

    /// The outcome on each cluster, and the problems that prevent works from being built.
    pub(super) fn outcomes(
        &self,
        works: &BTreeMap<&Variant<'_>, Result<Arc<PlannedWork>, Problem>>,
    ) -> (BTreeMap<ClusterName, Outcome>, Vec<Problem>) {
        if self.frozen {
            let kept = Outcome::Kept(KeepReason::by(&self.plan.problems));
            let clusters = self.kept.iter().chain(self.clusters.keys());
            return (clusters.map(|cluster| (cluster.clone(), kept.clone())).collect(), Vec::new());
        }
        let failed: BTreeSet<&Problem> = works.values().filter_map(|work| work.as_ref().err()).collect();
        // All overrides are in one annotation: an error in one of them freezes all copies.
        let bad = failed.iter().find(|problem| matches!(problem, Problem::BadOverrides { .. }));
        // All clusters share one outcome in memory, because a problem may contain long user input.
        let all_kept = bad.map(|problem| Outcome::Kept(KeepReason::by([*problem])));
        let each: BTreeMap<&Variant<'_>, Outcome> = works
            .iter()
            .map(|(variant, work)| match work {
                Ok(work) => (*variant, Outcome::Work(work.clone())),
                Err(problem) => (*variant, Outcome::Kept(KeepReason::by([problem]))),
            })
            .collect();
        let outcome = |variant: &Variant<'_>| all_kept.as_ref().unwrap_or_else(|| &each[variant]).clone();
        let unknown =
            self.kept.iter().map(|cluster| (cluster.clone(), Outcome::Kept(KeepReason::UnknownLabels)));
        let planned = self.clusters.iter().map(|(cluster, variant)| (cluster.clone(), outcome(variant)));
        let problems = bad.map_or_else(|| Vec::from_iter(failed.iter().copied()), |problem| vec![*problem]);
        (unknown.chain(planned).collect(), problems.into_iter().cloned().collect())
    }
}
