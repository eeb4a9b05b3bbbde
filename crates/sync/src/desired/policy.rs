//! Plans the works of a policy or a resource.
//!
//! ```text
//! policy:   kind ─▶ exists? ─▶ references ─▶ Gateways ─┬▶ clusters ─▶ selector ─▶ shares of the ─▶ overrides ─▶ copies
//! resource: kind ─▶ exists? ─▶ Placement ──────────────╯                          replicas (resources only)
//! ```
//!
//! If a step cannot be decided, existing works are left unchanged on all clusters that the later steps would select.
//!
//! An upper bound of the total size is computed before any copy is built. Copies are built one at a time.

pub(super) mod ahead;
mod outline;
mod recipe;
mod remembered;
mod target;

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::copy::read_spec;
use super::eligibility::{KindEligibility, not_in_role, of_kind, of_target};
use super::overrides::Overrides;
use super::placement::{Placed, placed};
use super::work::schema;
use super::{FollowedGateways, KeepReason, Outcome, PlannedWork, WorksPlan, keep_on_paused_clusters};
use crate::kinds::{CLASSES, role_of};
use crate::rows::kind::KindInfo;
use crate::rows::policy::Policy;
use crate::rows::work::Work;
use crate::{CLASS_DELETION_DELAY, Problem, Settings, View, feedback};
use outline::{Outline, ResourcePlacement, TargetGateway, Variant};
use policy_sync_api::annotations::{CLUSTER_OVERRIDES, SELECTOR_ANNOTATIONS};
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ClusterName, GroupVersionResource, ObjectKey, Origin, WorkName};
use policy_sync_api::params::{Params, Role};
use policy_sync_api::selector::ClusterSelector;
use recipe::CommonInputs;
use recipe::Recipe;
use target::Targets;

/// The maximum total size of a policy's distinct copies, in bytes.
pub const COPIES_LIMIT: usize = 32 * 1024 * 1024;
/// If a policy has several distinct copies, its plan keeps them in memory only up to this total size, in bytes.
const IN_MEMORY_LIMIT: usize = 1024 * 1024;

/// Plans the works of the policy or resource `origin`, without waits for copies of older policies and for Gateways.
pub(super) fn desired(view: View<'_>, settings: &Settings, origin: &Origin) -> WorksPlan {
    match Planner::read(view, settings, origin) {
        Ok((planner, problem)) => planner.plan(problem),
        Err(plan) => *plan,
    }
}

/// The Gateways that the policy `origin` targets in the policy's own namespace. Empty if its target references are
/// invalid.
pub(crate) fn gateways(view: View<'_>, origin: &Origin) -> BTreeSet<ObjectKey> {
    targets_of(view, origin).map(|targets| targets.gateways().cloned().collect()).unwrap_or_default()
}

/// The Gateways in other namespaces that the policy `origin` refers to.
pub(crate) fn foreign(view: View<'_>, origin: &Origin) -> BTreeSet<ObjectKey> {
    targets_of(view, origin)
        .map(|targets| targets.in_other_namespaces().cloned().collect())
        .unwrap_or_default()
}

fn targets_of(view: View<'_>, origin: &Origin) -> Option<Arc<Targets>> {
    remembered::targets_of(view.policy(origin)?, &origin.object().namespace).ok()
}

fn name(view: View<'_>, origin: &Origin, info: &KindInfo) -> WorkName {
    WorkName::planned(view.controller(), &info.kind, origin)
}

/// Plans an object that cannot be read, from the annotations of its existing works. `role` is the role of the object's
/// kind. If the role is unknown, it is taken from each work.
///
/// The annotations of a policy's work name the Gateways of the policy. The work is kept if one of these Gateways may
/// still be on the cluster. The Placement of a resource is unknown, so all its works are kept. A spoke can forge the
/// annotations of its works, but then affects only its own work.
fn plan_from_work_annotations(
    view: View<'_>,
    origin: &Origin,
    role: Option<Role>,
    problem: Problem,
) -> WorksPlan {
    let (kept, recheck) = (KeepReason::by([&problem]), problem_end(view, &problem));
    let mut plan = WorksPlan { targeted: true, problems: vec![problem], recheck, ..WorksPlan::default() };
    let mut gateways: BTreeMap<ObjectKey, Option<Placed>> = BTreeMap::new();
    for (_, cluster, work) in view.works_of(origin) {
        let is_resource = role.map_or(work.of_resource, |role| role == Role::Resource);
        if is_resource {
            plan.outcomes.insert(cluster.clone(), Outcome::Kept(kept.clone()));
            continue;
        }
        for gateway in work.gateways.iter() {
            let key = ObjectKey { namespace: origin.object().namespace.clone(), name: gateway.clone() };
            let placed = gateways.entry(key).or_insert_with_key(|key| {
                let ours = of_target(view, key, origin.kind()).is_ours();
                ours.then(|| placed(view, key))
            });
            let Some(placed) = placed else { continue };
            if placed.unsettled || placed.clusters.contains(cluster) {
                plan.outcomes.insert(cluster.clone(), Outcome::Kept(kept.clone()));
            }
            plan.recheck = Moment::earliest(plan.recheck, placed.settles);
        }
    }
    let clusters = view.works_of(origin).map(|(_, cluster, _)| cluster.clone()).collect();
    plan.followed_gateways = FollowedGateways { gateways: gateways.into_keys().collect(), clusters };
    plan
}

/// The time at which `problem` ends without a change on the hub. Only [`Problem::ClassGone`] ends this way, when
/// [`CLASS_DELETION_DELAY`] is over.
fn problem_end(view: View<'_>, problem: &Problem) -> Option<Moment> {
    match problem {
        Problem::ClassGone(class) => view.class_deletion_ends(class),
        _ => None,
    }
}

/// For a resource that has works although `resourcesToSync` does not list its kind: the problem that keeps the works,
/// and when the problem ends.
fn unlisted_resource_problem(view: View<'_>, origin: &Origin) -> Option<(Problem, Option<Moment>)> {
    if !view.works_of(origin).any(|(.., work)| work.of_resource) {
        return None;
    }
    let kind = origin.kind();
    match view.role(kind) {
        Some(Role::Resource) => None,
        // A class that lists the kind in `policiesToSync` by mistake must not remove the copies of resources.
        Some(Role::Policy) => {
            let listed = |params: &Params| params.listed(Role::Resource).find(|gvr| gvr.kind == *kind);
            let gvr = view.listing().iter().find_map(|(_, params)| listed(params))?;
            let fault = not_in_role(view, Role::Resource, kind)?;
            Some((Problem::KindNotResolved { gvr, fault }, None))
        }
        // A class that listed the kind may have been deleted before this process started, and may be created again.
        None => {
            let ends = view.synced(&CLASSES.all())?.after(CLASS_DELETION_DELAY);
            (ends > view.now).then(|| (Problem::Unread(kind.to_string()), Some(ends)))
        }
    }
}

struct Planner<'v> {
    view: View<'v>,
    settings: &'v Settings,
    origin: &'v Origin,
    policy: &'v Arc<Policy>,
    kind: Option<(GroupVersionResource, KindInfo)>,
    /// The targets of a policy; empty for a resource.
    targets: Arc<Targets>,
    role: Role,
    /// The spec, which is parsed when the first copy is built.
    spec: OnceCell<Result<Value, Problem>>,
    /// The overrides, which are parsed when the first copy is built.
    overrides: OnceCell<Result<Overrides, Problem>>,
}

impl<'v> Planner<'v> {
    /// The planner for `origin`, and the problem that freezes its kind, if any.
    ///
    /// # Errors
    ///
    /// `Err` is not a failure: it contains the complete plan if that plan needs no planner.
    fn read(
        view: View<'v>,
        settings: &'v Settings,
        origin: &'v Origin,
    ) -> Result<(Self, Option<Problem>), Box<WorksPlan>> {
        if let Some((problem, until)) = unlisted_resource_problem(view, origin) {
            let mut plan = plan_from_work_annotations(view, origin, None, problem);
            plan.recheck = Moment::earliest(plan.recheck, until);
            return Err(Box::new(plan));
        }
        let (kind, problem) = match of_kind(view, origin.kind()) {
            KindEligibility::Unlisted => return Err(Box::default()),
            KindEligibility::Frozen(problem, _) => (None, Some(problem)),
            KindEligibility::Listed(gvr, info) => (Some((gvr, info)), None),
        };
        let role = view.role(origin.kind());
        if !view.policies_synced(origin.kind()) {
            let problem = problem.unwrap_or_else(|| Problem::Unread(origin.kind().to_string()));
            return Err(Box::new(plan_from_work_annotations(view, origin, role, problem)));
        }
        // If no parameters can be read, the watch of the kind shows its role.
        let role = role.or_else(|| Some(role_of(&view.source_of(origin.kind()))?.0)).unwrap_or(Role::Policy);
        let Some(policy) = view.policy_row(origin).filter(|policy| !policy.deleting) else {
            let name = kind.map(|(_, info)| name(view, origin, &info));
            return Err(Box::new(WorksPlan { name, ..WorksPlan::default() }));
        };
        let targets = match role {
            Role::Policy => remembered::targets_of(policy, &origin.object().namespace),
            Role::Resource => Ok(Arc::default()),
        };
        match targets {
            Ok(targets) => {
                let (spec, overrides) = (OnceCell::new(), OnceCell::new());
                Ok((Self { view, settings, origin, policy, kind, targets, role, spec, overrides }, problem))
            }
            Err(fault) => Err(Box::new(plan_from_work_annotations(view, origin, Some(role), fault))),
        }
    }
}

impl Planner<'_> {
    fn plan(&self, problem: Option<Problem>) -> WorksPlan {
        let outline = self.outline(problem);
        let works = if outline.frozen { BTreeMap::new() } else { self.works(&outline) };
        let (outcomes, problems) = outline.outcomes(&works);
        drop(works);
        let Outline { mut plan, targets, own, selector, .. } = outline;
        plan.outcomes = outcomes;
        keep_on_paused_clusters(self.view, &mut plan.outcomes);
        plan.problems.extend(problems);
        if plan.targeted {
            self.keep_unsettled(&mut plan, &targets, selector.as_ref());
            for cluster in self.may_be_placed(own.as_ref(), selector.as_ref()) {
                plan.outcomes.entry(cluster).or_insert(Outcome::Kept(KeepReason::Unsettled));
            }
        }
        plan.followed_gateways = self.followed_gateways(&plan.outcomes, selector.as_ref());
        plan
    }

    /// The works of all variants. A variant is a distinct copy. If several variants together exceed
    /// [`IN_MEMORY_LIMIT`], each is built, measured and dropped, and built again when it is written.
    fn works<'o>(
        &self,
        outline: &'o Outline<'_>,
    ) -> BTreeMap<&'o Variant<'o>, Result<Arc<PlannedWork>, Problem>> {
        let common = self.common(outline);
        let variants: BTreeSet<&Variant<'_>> = outline.clusters.values().collect();
        let in_memory = variants.len() == 1 || outline.bytes <= IN_MEMORY_LIMIT;
        let work = |variant: &Variant<'_>| {
            if let Some(problem) = outline.unknown(variant) {
                return Err(problem);
            }
            let recipe = self.recipe(common.as_ref().map_err(Problem::clone)?, outline, variant);
            let built = match remembered::built(&recipe) {
                Some(built) => built?,
                None => {
                    let work = recipe.build(self.spec()?, self.overrides()?)?;
                    if in_memory {
                        return Ok(Arc::new(work));
                    }
                    recipe::BuiltCopy::new(&work)
                }
            };
            Ok(Arc::new(recipe.planned(built)))
        };
        variants.into_iter().map(|variant| (variant, work(variant))).collect()
    }

    fn spec(&self) -> Result<&Value, Problem> {
        self.spec.get_or_init(|| read_spec(&self.policy.spec)).as_ref().map_err(Problem::clone)
    }

    fn overrides(&self) -> Result<&Overrides, Problem> {
        self.overrides.get_or_init(|| CommonInputs::overrides(self.policy)).as_ref().map_err(Problem::clone)
    }

    /// The inputs that all copies have in common.
    fn common(&self, outline: &Outline<'_>) -> Result<Arc<CommonInputs>, Problem> {
        let Some((gvr, info)) = &self.kind else {
            return Err(Problem::Unread(self.origin.kind().to_string()));
        };
        Ok(Arc::new(CommonInputs {
            policy: self.policy.clone(),
            origin: self.origin.clone(),
            targets: self.targets.clone(),
            controller: self.view.controller().clone(),
            gvr: gvr.clone(),
            info: info.clone(),
            role: self.role,
            downstream_namespace: outline.downstream.clone(),
            prefix: self.settings.downstream_namespace_prefix.clone(),
            schema: schema(self.view),
            hosts: if feedback::has_hosts(&gvr.kind) { self.hosts() } else { BTreeMap::new() },
        }))
    }

    /// The hosts of the listeners of each targeted Gateway.
    fn hosts(&self) -> BTreeMap<Arc<str>, BTreeSet<String>> {
        let gateways = self.targets.gateways().filter_map(|key| Some((key, self.view.gateway(key)?)));
        let specs = gateways.filter_map(|(key, gateway)| Some((key, read_spec(&gateway.spec).ok()?)));
        let hosts = specs.map(|(key, spec)| {
            let hosts = feedback::hosts(&spec).map(str::to_owned).collect();
            (key.name.clone(), hosts)
        });
        hosts.collect()
    }

    fn recipe(&self, common: &Arc<CommonInputs>, outline: &Outline<'_>, variant: &Variant<'_>) -> Recipe {
        let params = |key: &&ObjectKey| outline.targets.get(*key)?.params.clone();
        let own = outline.own.as_ref().and_then(|own| own.params.clone());
        Recipe {
            common: common.clone(),
            gateways: variant.gateways.iter().map(|key| (*key).clone()).collect(),
            params: variant.gateways.iter().filter_map(params).chain(own).collect(),
            selected_overrides: variant.selected_overrides.clone(),
            replicas: variant.replicas,
        }
    }

    /// The Gateways of the policy, with the clusters from which the policy is removed after these Gateways. Clusters
    /// that the policy's own selector excludes are left out, because the policy is removed from them at once.
    fn followed_gateways(
        &self,
        outcomes: &BTreeMap<ClusterName, Outcome>,
        selector: Option<&ClusterSelector>,
    ) -> FollowedGateways {
        let clusters = self.view.works_of(self.origin).map(|(_, cluster, _)| cluster);
        let left = clusters.filter(|cluster| !outcomes.contains_key(*cluster));
        let clusters = left.filter(|cluster| self.selects(selector, cluster)).cloned().collect();
        FollowedGateways { gateways: self.targets.gateways().cloned().collect(), clusters }
    }

    fn selects(&self, selector: Option<&ClusterSelector>, cluster: &ClusterName) -> bool {
        selector.is_none_or(|selector| self.view.selects(selector, self.origin, cluster))
    }

    /// Whether the policy's work on `cluster` depends on labels that are unknown, because the ManagedCluster was
    /// deleted before this process read it.
    fn is_unknown(&self, cluster: &ClusterName) -> bool {
        let mut keys = SELECTOR_ANNOTATIONS.iter().chain([&CLUSTER_OVERRIDES]);
        let by_labels = keys.any(|key| self.policy.annotations.contains_key(*key));
        by_labels && self.view.labels(cluster).is_none() && self.view.work_of(self.origin, cluster).is_some()
    }

    /// The clusters that the Placement of the resource may still select, if the Placement is unsettled. They have a
    /// work of the resource that is not terminating, and the resource's own selector selects them.
    fn may_be_placed(
        &self,
        own: Option<&ResourcePlacement>,
        selector: Option<&ClusterSelector>,
    ) -> Vec<ClusterName> {
        let Some(ResourcePlacement { placed, .. }) = own.filter(|own| own.placed.unsettled) else {
            return Vec::new();
        };
        let left = self.works_that_can_be_kept().map(|(cluster, _)| cluster);
        let left = left.filter(|cluster| !placed.clusters.contains(*cluster));
        left.filter(|cluster| self.selects(selector, cluster)).cloned().collect()
    }

    /// The works of the object that are not terminating, each with its cluster. A deletion cannot be undone. If
    /// terminating works counted, each restart would report them as requested until the Placement settles.
    fn works_that_can_be_kept(&self) -> impl Iterator<Item = (&ClusterName, &Work)> {
        let works = self.view.works_of(self.origin).filter(|(.., work)| work.deleting.is_none());
        works.map(|(_, cluster, work)| (cluster, work))
    }

    /// Keeps the works on clusters that a Gateway seems to have left, if its Placement is unsettled.
    fn keep_unsettled(
        &self,
        plan: &mut WorksPlan,
        targets: &BTreeMap<&ObjectKey, TargetGateway>,
        selector: Option<&ClusterSelector>,
    ) {
        let unsettled: BTreeSet<&str> =
            targets.iter().filter(|(_, target)| target.placed.unsettled).map(|(key, _)| &*key.name).collect();
        for (cluster, work) in self.works_that_can_be_kept() {
            let may_be_placed = work.gateways.iter().any(|gateway| unsettled.contains(&**gateway));
            if may_be_placed && self.selects(selector, cluster) {
                plan.outcomes.entry(cluster.clone()).or_insert(Outcome::Kept(KeepReason::Unsettled));
            }
        }
    }
}
