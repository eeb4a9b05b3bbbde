//! The policies of a graph: their targets, their effect and their rules.

use super::graph_input::GraphInput;
use super::locator::Locator;
use super::merge::MergeStrategy;
use super::object::{Object, Policy, Precedence};
use super::reason::Reason;
use super::rows::{self, Created};
use super::rules::{MergeBehavior, PolicyRule, PolicyRules, Strategy};
use super::topology::NodeId;

/// A policy, with its targets, effect and rules.
#[derive(Debug)]
pub struct PolicyNode<'f> {
    /// The policy's kind, namespace and name.
    pub locator: Locator<'f>,
    /// The fields that are read from the policy.
    pub row: &'f rows::Policy,
    /// How policies of this policy's kind are merged.
    pub merge_behavior: MergeBehavior<'f>,
    /// The policy's rules and their merge strategy.
    pub rules: PolicyRules,
    /// The policy's targets, in the order of their locators.
    pub targets: Vec<AttachedTarget<'f>>,
    /// The reasons why the policy's selectors may select more targets.
    pub unknown: Vec<String>,
    /// The reason why the policy has no effect, or why its effect is unknown.
    pub no_effect: Option<(Reason, String)>,
}

/// A target of a policy.
#[derive(Debug)]
pub struct AttachedTarget<'f> {
    /// The object or section that the policy names.
    pub locator: Locator<'f>,
    /// The node, or the reason why the policy does not attach to the node.
    pub node: Result<NodeId, (Reason, String)>,
}

impl Object for PolicyNode<'_> {
    fn locator(&self) -> Locator<'_> {
        self.locator
    }
}

impl Policy for PolicyNode<'_> {
    fn targets(&self) -> Vec<Locator<'_>> {
        self.targets.iter().map(|target| target.locator).collect()
    }

    fn rules(&self) -> &[PolicyRule] {
        &self.rules.rules
    }

    fn strategy(&self) -> &dyn MergeStrategy {
        self.rules.strategy.implementation(self.merge_behavior.has_path_keys())
    }

    fn created(&self) -> Created {
        self.row.created
    }

    /// The older policy comes first. Of inherited policies (GEP-2649), the newer policy comes first, as in gwctl.
    fn precedence(&self) -> Precedence {
        match self.rules.strategy {
            Strategy::Inherited => Precedence::newest_first(self.row.created, &self.locator),
            _ => Precedence::oldest_first(self.row.created, &self.locator),
        }
    }

    fn is_inherited(&self) -> bool {
        !self.merge_behavior.is_direct()
    }
}

impl PolicyNode<'_> {
    /// Whether the policy has an effect; `None` if its targets are unknown.
    #[must_use]
    pub fn has_effect(&self) -> Option<bool> {
        match &self.no_effect {
            None => Some(true),
            Some((reason, _)) => reason.is_fault().then_some(false),
        }
    }

    /// The reason why the policy has no effect. Also `None` if its targets are unknown.
    #[must_use]
    pub fn without_effect(&self) -> Option<&(Reason, String)> {
        self.no_effect.as_ref().filter(|(reason, _)| reason.is_fault())
    }

    /// The order of policies on one target: the oldest first, then by name.
    pub(super) fn age(&self) -> impl Ord + use<> {
        (self.row.created, self.locator.object())
    }
}

/// The policies of `graph_input`, in the order of their locators, without targets yet.
pub(super) fn read<'f>(graph_input: &GraphInput<'f>) -> Vec<PolicyNode<'f>> {
    let policies = graph_input.policies.iter().map(|(kind, key, row)| {
        let merge_behavior = graph_input.merge_behavior(kind);
        PolicyNode {
            locator: Locator::of(kind.as_ref(), key),
            row,
            merge_behavior,
            rules: PolicyRules::read(merge_behavior, &row.spec),
            targets: Vec::new(),
            unknown: Vec::new(),
            no_effect: None,
        }
    });
    let mut policies: Vec<PolicyNode<'f>> = policies.collect();
    policies.sort_by(|left, right| left.locator.cmp_object(&right.locator));
    policies
}
