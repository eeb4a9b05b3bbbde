//! Evaluates the target selectors of policies: objects in the policy's namespace, selected by labels.

use std::collections::HashMap;

use kube::core::SelectorExt;

use super::policies::check_status;
use crate::graph::{Builder, NodeId};
use crate::locator::{GATEWAY, KindRef, Locator};
use crate::policies::{AttachedTarget, PolicyNode};
use crate::reason::Reason;
use crate::rows::{RouteKind, SetKind, TargetSelector};

/// The maximum number of label comparisons for the policies of one namespace. Beyond this limit, the targets of
/// selectors are unknown.
const MATCHES_LIMIT: usize = 1_000_000;

/// State shared by the selectors of all policies.
#[derive(Default)]
pub(super) struct Selectors<'f> {
    /// The objects of each kind and namespace, once a selector needs them.
    nodes: Option<HashMap<(KindRef<'f>, &'f str), Vec<NodeId>>>,
    /// The number of label comparisons for each namespace so far.
    matched: HashMap<&'f str, usize>,
}

/// The result of a policy's selectors.
#[derive(Default)]
pub(super) struct SelectedTargets<'f> {
    pub(super) targets: Vec<AttachedTarget<'f>>,
    /// The reasons why the selectors may select more targets.
    pub(super) unknown: Vec<String>,
    /// The reason why the first selector without a match selects nothing.
    pub(super) refusal: Option<(Reason, String)>,
}

impl<'f> Builder<'f> {
    /// Evaluates the selectors of `policy`.
    pub(super) fn selected(
        &self,
        policy: &PolicyNode<'f>,
        selectors: &mut Selectors<'f>,
    ) -> SelectedTargets<'f> {
        let mut selected = SelectedTargets::default();
        for selector in &policy.row.selectors {
            let kind = selector.kind.as_ref();
            let any = Locator { kind, namespace: policy.locator.namespace, name: "", section: None };
            let refusal = match self.check_target(policy, any).and_then(|()| check_status(policy)) {
                Ok(()) => self.select(policy, selector, selectors, &mut selected),
                Err(refusal) => Some(refusal),
            };
            selected.refusal = selected.refusal.or(refusal);
        }
        selected.unknown.sort();
        selected.unknown.dedup();
        selected
    }

    /// Adds the targets of `selector`. Returns the reason if it certainly selects nothing.
    fn select(
        &self,
        policy: &PolicyNode<'f>,
        selector: &TargetSelector,
        selectors: &mut Selectors<'f>,
        selected: &mut SelectedTargets<'f>,
    ) -> Option<(Reason, String)> {
        let (kind, own) = (selector.kind.as_ref(), policy.locator.namespace);
        let by_labels = format!("it selects {}s by their labels", kind.kind);
        if selector.other_namespaces {
            selected.unknown.push("its selectors for other namespaces are not evaluated".to_owned());
            return None;
        }
        if kind != GATEWAY && SetKind::named(kind).is_none() && RouteKind::named(kind).is_none() {
            selected.unknown.push(format!("{by_labels}, which are not read"));
            return None;
        }
        let nodes = selectors.nodes.get_or_insert_with(|| self.nodes_by_kind());
        let nodes = nodes.get(&(kind, own)).map(Vec::as_slice).unwrap_or_default();
        let matched = selectors.matched.entry(own).or_default();
        *matched = matched.saturating_add(nodes.len());
        if *matched > MATCHES_LIMIT {
            let message = "its namespace has too many selectors to evaluate";
            selected.unknown.push(message.to_owned());
            return None;
        }
        let (before, mut all_read) = (selected.targets.len(), true);
        for node in nodes {
            match self.graph.object(*node).row.labels() {
                None => all_read = false,
                Some(labels) if selector.labels.matches(labels) => {
                    let locator = self.graph.locator(*node);
                    selected.targets.push(AttachedTarget { locator, node: Ok(*node) });
                }
                Some(_) => {}
            }
        }
        if !all_read {
            selected.unknown.push(format!("{by_labels}, which are not read"));
        } else if self.graph_input.knows(kind) != Some(true) {
            selected.unknown.push(format!("{by_labels}, but not all of them are known"));
        } else if selected.targets.len() == before {
            let message = format!("no {} in namespace {own} has the selected labels", kind.kind);
            return Some((Reason::TargetNotFound, message));
        }
        None
    }

    /// The objects of each kind and namespace.
    fn nodes_by_kind(&self) -> HashMap<(KindRef<'f>, &'f str), Vec<NodeId>> {
        let mut nodes: HashMap<(KindRef<'f>, &'f str), Vec<NodeId>> = HashMap::new();
        for node in self.graph.object_nodes() {
            let Locator { kind, namespace, .. } = self.graph.locator(node);
            nodes.entry((kind, namespace)).or_default().push(node);
        }
        nodes
    }
}
