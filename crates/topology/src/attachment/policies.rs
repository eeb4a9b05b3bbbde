//! Attaches policies to their targets ([GEP-713](https://gateway-api.sigs.k8s.io/geps/gep-713/)).

use std::collections::HashMap;

use super::selectors::Selectors;
use crate::graph::{Builder, Graph, NodeId};
use crate::graph_input::Grants;
use crate::locator::{GATEWAY, Locator};
use crate::policies::{AttachedTarget, PolicyNode};
use crate::reason::Reason;
use crate::rows::{BackendKind, RouteKind, SetKind, Target};
use crate::rules::MergeBehavior;
use crate::topology::PolicyId;
use policy_sync_api::params::Level;

impl<'f> Builder<'f> {
    /// Attaches `policies` to their targets, and returns the complete graph.
    pub(crate) fn attach_policies(self, mut policies: Vec<PolicyNode<'f>>) -> Graph<'f> {
        let mut selectors = Selectors::default();
        let mut refusals: Vec<Option<(Reason, String)>> = Vec::with_capacity(policies.len());
        for policy in &mut policies {
            let selected = self.selected(policy, &mut selectors);
            policy.targets = self.targets(policy, selected.targets);
            policy.unknown = selected.unknown;
            refusals.push(selected.refusal);
        }
        keep_the_oldest(&mut policies);
        let mut attached: Vec<(NodeId, PolicyId)> = Vec::new();
        for (number, policy) in policies.iter_mut().enumerate() {
            let nodes: Vec<NodeId> =
                policy.targets.iter().filter_map(|target| target.node.as_ref().ok().copied()).collect();
            if nodes.is_empty() {
                policy.no_effect = Some(no_effect(policy, refusals[number].take()));
            }
            attached.extend(nodes.into_iter().map(|node| (node, PolicyId::new(number))));
        }
        self.finish(policies, attached)
    }

    /// The targets of `policy`: the targets of its references, and the targets `selected` by its selectors, without
    /// duplicates.
    fn targets(&self, policy: &PolicyNode<'f>, selected: Vec<AttachedTarget<'f>>) -> Vec<AttachedTarget<'f>> {
        let own = policy.locator.namespace;
        let targets = policy.row.targets.iter().map(|target| {
            let locator = target.locator(own);
            AttachedTarget { locator, node: self.target(policy, target, locator) }
        });
        let mut targets: Vec<AttachedTarget<'f>> = targets.chain(selected).collect();
        targets.sort_by_cached_key(|target| target.locator.to_string());
        targets.dedup_by(|left, right| left.locator == right.locator);
        targets
    }

    fn target(
        &self,
        policy: &PolicyNode<'f>,
        target: &Target,
        locator: Locator<'f>,
    ) -> Result<NodeId, (Reason, String)> {
        let kind = locator.kind;
        self.check_target(policy, locator)?;
        if !self.grants.permit(policy.locator, locator) {
            return Err(Grants::refusal(policy.locator, locator));
        }
        let object = format!("{} {}", kind.kind, locator.object());
        let Some(node) = self.find(locator) else {
            return Err((Reason::TargetNotFound, format!("{object} does not exist")));
        };
        let node = match &target.section {
            None => node,
            Some(section) => self
                .section(node, section)
                .ok_or_else(|| (Reason::TargetNotFound, format!("{object} has no section {section:?}")))?,
        };
        check_status(policy).map(|()| node)
    }

    /// Checks that `policy` is not being deleted, and that policies of its kind may target the kind of `target`.
    pub(super) fn check_target(
        &self,
        policy: &PolicyNode<'f>,
        target: Locator<'_>,
    ) -> Result<(), (Reason, String)> {
        if policy.row.deleting {
            return Err((Reason::Deleting, "it is being deleted".to_owned()));
        }
        if !self.may_target(policy.merge_behavior, target) {
            let section = if target.section.is_some() { "a section of " } else { "" };
            let message =
                format!("{} cannot target {section}a {}", policy.locator.kind.kind, target.kind.kind);
            return Err((Reason::InvalidKind, message));
        }
        Ok(())
    }

    fn may_target(&self, merge_behavior: MergeBehavior<'_>, target: Locator<'_>) -> bool {
        let (kind, is_section) = (target.kind, target.section.is_some());
        let level = match RouteKind::named(kind) {
            Some(route) if !merge_behavior.is_for(route) => return false,
            Some(_) => {
                if is_section {
                    Level::Rule
                } else {
                    Level::Route
                }
            }
            None if SetKind::named(kind).is_some() || is_section && kind == GATEWAY => Level::Listener,
            // Gateways, GatewayClasses and backends. Policies of every level may target a backend, because a policy on a
            // backend applies to the backend only.
            None => Level::Gateway,
        };
        merge_behavior.level() >= level && self.graph_input.knows(kind).is_some()
    }
}

/// Fails if the status of `policy` has `Accepted=False`. Other reasons why a policy has no effect take precedence,
/// because they name the fault.
pub(super) fn check_status(policy: &PolicyNode<'_>) -> Result<(), (Reason, String)> {
    match policy.row.rejected.as_deref() {
        None => Ok(()),
        Some("") => Err((Reason::NotAccepted, "its status has Accepted=False".to_owned())),
        Some(why) => Err((Reason::NotAccepted, format!("its status has Accepted=False: {why}"))),
    }
}

/// Keeps one policy of a kind on a target if policies of the kind are not merged, or if the target is a backend. The
/// oldest policy is kept, then the first by name.
fn keep_the_oldest(policies: &mut [PolicyNode<'_>]) {
    let mut by_age: Vec<usize> = (0..policies.len()).collect();
    by_age.sort_by_cached_key(|index| policies[*index].age());
    let mut first_policies: HashMap<(String, NodeId), String> = HashMap::new();
    for index in by_age {
        let policy = &mut policies[index];
        let (kind, name) = (policy.locator.kind.to_string(), policy.locator.object());
        for target in &mut policy.targets {
            let Ok(node) = target.node else { continue };
            if !policy.merge_behavior.is_exclusive() && BackendKind::named(target.locator.kind).is_none() {
                continue;
            }
            let first = first_policies.entry((kind.clone(), node)).or_insert_with(|| name.clone());
            if *first != name {
                let message = format!(
                    "{} {first} has the same target, and is older or first by name",
                    policy.locator.kind.kind
                );
                target.node = Err((Reason::Conflicted, message));
            }
        }
    }
}

/// The reason why `policy` has no effect, or why its effect is unknown. If the targets of its selectors are unknown,
/// this is the reason. Otherwise returns the reason of its first rejected target or selector.
fn no_effect(policy: &PolicyNode<'_>, selectors: Option<(Reason, String)>) -> (Reason, String) {
    if !policy.unknown.is_empty() {
        return (Reason::UnknownTargets, policy.unknown.join("; "));
    }
    let mut refusals = policy.targets.iter().filter_map(|target| target.node.as_ref().err());
    let first = refusals.next().cloned().or(selectors);
    first.unwrap_or_else(|| (Reason::TargetNotFound, "it has no target".to_owned()))
}
