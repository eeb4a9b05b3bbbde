//! Checks the policies of certificate chains ([RFC 5280](https://www.rfc-editor.org/rfc/rfc5280#section-6.1), with the
//! graph of [RFC 9618](https://www.rfc-editor.org/rfc/rfc9618)), as Go does.

use std::collections::{BTreeMap, BTreeSet};

use super::certificate::Certificate;
use super::names::LargeOid;

const ANY: LargeOid<'static> = LargeOid(&[0x55, 0x1d, 0x20, 0]);

/// A policy in a graph.
struct Node<'d> {
    policy: LargeOid<'d>,
    expected: Vec<LargeOid<'d>>,
    parents: BTreeSet<usize>,
    children: BTreeSet<usize>,
}

/// The policies that are valid after each certificate of a chain.
struct Graph<'d> {
    nodes: Vec<Node<'d>>,
    /// The nodes at each depth by their policies.
    strata: Vec<BTreeMap<LargeOid<'d>, usize>>,
    /// The nodes at the depth before the last, by the policies that they expect.
    expecting: BTreeMap<LargeOid<'d>, Vec<usize>>,
}

impl<'d> Graph<'d> {
    fn new() -> Self {
        let mut graph = Self { nodes: Vec::new(), strata: vec![BTreeMap::new()], expecting: BTreeMap::new() };
        graph.insert(ANY, &[], vec![ANY]);
        graph
    }

    fn insert(&mut self, policy: LargeOid<'d>, parents: &[usize], expected: Vec<LargeOid<'d>>) {
        let node = self.nodes.len();
        for parent in parents {
            self.nodes[*parent].children.insert(node);
        }
        let parents = parents.iter().copied().collect();
        self.nodes.push(Node { policy, expected, parents, children: BTreeSet::new() });
        if let Some(leaves) = self.strata.last_mut() {
            leaves.insert(policy, node);
        }
    }

    fn leaf(&self, policy: LargeOid<'d>) -> Option<usize> {
        self.strata.last()?.get(&policy).copied()
    }

    /// The nodes at the depth before the last.
    fn parents(&self) -> impl Iterator<Item = (LargeOid<'d>, usize)> {
        let stratum = self.strata.len().checked_sub(2).map(|depth| &self.strata[depth]);
        stratum.into_iter().flatten().map(|(policy, node)| (*policy, *node))
    }

    fn descend(&mut self) {
        self.expecting.clear();
        for node in self.strata.last().into_iter().flat_map(BTreeMap::values) {
            for policy in &self.nodes[*node].expected {
                self.expecting.entry(*policy).or_default().push(*node);
            }
        }
        self.strata.push(BTreeMap::new());
    }

    /// Removes the nodes without children, except those at the last depth.
    fn prune(&mut self) {
        for depth in (1..self.strata.len() - 1).rev() {
            let without_children = |node: &usize| self.nodes[*node].children.is_empty();
            let (removed, kept): (BTreeMap<_, _>, _) = std::mem::take(&mut self.strata[depth])
                .into_iter()
                .partition(|(_, node)| without_children(node));
            self.strata[depth] = kept;
            for node in removed.into_values() {
                self.detach(node);
            }
        }
    }

    fn detach(&mut self, node: usize) {
        for parent in self.nodes[node].parents.clone() {
            self.nodes[parent].children.remove(&node);
        }
    }

    fn remove_leaf(&mut self, policy: LargeOid<'d>) {
        let Some(node) = self.strata.last_mut().and_then(|leaves| leaves.remove(&policy)) else { return };
        self.detach(node);
    }

    /// Whether a policy is valid for the whole chain.
    fn has_valid_policy(&self) -> bool {
        let is_valid = |node: &usize| {
            let node = &self.nodes[*node];
            let mut parents = node.parents.iter();
            node.policy != ANY
                && parents.next().is_some_and(|parent| self.nodes[*parent].policy == ANY)
                && parents.next().is_none()
        };
        self.leaf(ANY).is_some() || self.strata.iter().flat_map(BTreeMap::values).any(is_valid)
    }

    /// Adds the `policies` of the next certificate of the chain.
    fn add(&mut self, policies: &[LargeOid<'d>], may_have_any: bool) {
        self.descend();
        let parent_with_any = self.parents().find(|(policy, _)| *policy == ANY).map(|(_, node)| node);
        for policy in policies.iter().filter(|policy| **policy != ANY) {
            let parents = self.expecting.get(policy).cloned().unwrap_or_default();
            let parents = if parents.is_empty() { Vec::from_iter(parent_with_any) } else { parents };
            if !parents.is_empty() {
                self.insert(*policy, &parents, vec![*policy]);
            }
        }
        if policies.contains(&ANY) && may_have_any {
            let mut missing: BTreeMap<LargeOid<'d>, Vec<usize>> = BTreeMap::new();
            for (_, parent) in self.parents() {
                for expected in &self.nodes[parent].expected {
                    if self.leaf(*expected).is_none() {
                        missing.entry(*expected).or_default().push(parent);
                    }
                }
            }
            for (policy, parents) in missing {
                self.insert(policy, &parents, vec![policy]);
            }
        }
        self.prune();
    }

    /// Applies mappings of policies; `None` if a mapping is invalid.
    fn map(&mut self, mappings: &[[LargeOid<'d>; 2]], may_map: bool) -> Option<()> {
        let mut subjects: BTreeMap<LargeOid<'d>, Vec<LargeOid<'d>>> = BTreeMap::new();
        for [issuer, subject] in mappings {
            if !may_map {
                self.remove_leaf(*issuer);
                continue;
            }
            if *issuer == ANY || *subject == ANY {
                return None;
            }
            subjects.entry(*issuer).or_default().push(*subject);
        }
        self.prune();
        for (issuer, subjects) in subjects {
            if let Some(node) = self.leaf(issuer) {
                self.nodes[node].expected = subjects;
            } else if let Some(any) = self.leaf(ANY) {
                self.insert(issuer, &[any], subjects);
            }
        }
        Some(())
    }
}

/// Whether the policies of `chain`, which begins with the leaf, are valid.
pub(super) fn are_valid(chain: &[&Certificate<'_>]) -> bool {
    valid(chain).is_some()
}

fn valid(chain: &[&Certificate<'_>]) -> Option<()> {
    let Some(length) = chain.len().checked_sub(1).filter(|length| *length > 0) else { return Some(()) };
    let most = i64::try_from(length).ok()? + 1;
    let (mut inhibit_any, mut explicit, mut mapping) = (most, most, most);
    let mut graph = Some(Graph::new());
    for (at, certificate) in chain[..length].iter().enumerate().rev() {
        let details = &certificate.details;
        let is_self_signed = certificate.raw_issuer == certificate.raw_subject;
        let policies = details.policies.as_deref().unwrap_or(&[]);
        if policies.is_empty() {
            graph = None;
        }
        if let Some(graph) = &mut graph {
            graph.add(policies, inhibit_any > 0 || at > 0 && is_self_signed);
            if at > 0 && !details.policy_mappings.is_empty() {
                graph.map(&details.policy_mappings, mapping > 0)?;
            }
        } else if explicit == 0 {
            return None;
        }
        if at == 0 {
            continue;
        }
        for (left, limit) in [
            (&mut explicit, details.require_explicit_policy),
            (&mut mapping, details.inhibit_policy_mapping),
            (&mut inhibit_any, details.inhibit_any_policy),
        ] {
            if !is_self_signed && *left > 0 {
                *left -= 1;
            }
            if let Some(limit) = limit.filter(|limit| *limit >= 0) {
                *left = limit.min(*left);
            }
        }
    }
    if explicit > 0 {
        explicit -= 1;
    }
    if chain[0].details.require_explicit_policy == Some(0) {
        explicit = 0;
    }
    let has_policy = graph.is_some_and(|graph| graph.has_valid_policy());
    (explicit > 0 || has_policy).then_some(())
}
