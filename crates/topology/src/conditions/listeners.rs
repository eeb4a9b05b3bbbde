//! The [conditions](https://gateway-api.sigs.k8s.io/reference/spec/#listenerstatus) of listeners that report
//! a problem.

use std::collections::{BTreeSet, HashMap};

use super::{ConditionText, MESSAGE_LIMIT};
use crate::graph::{Graph, NodeId};
use crate::locator::Locator;
use crate::reason::{Reason, Unattached, Unresolved};
use policy_sync_api::text::{named, truncate_bytes};

/// The conditions of the listeners of a graph.
#[derive(Debug)]
pub struct ListenerConditions<'g, 'f> {
    graph: &'g Graph<'f>,
    unattached: HashMap<Locator<'f>, Vec<&'g Unattached<'f>>>,
    unresolved: HashMap<Locator<'f>, Vec<&'g Unresolved<'f>>>,
}

impl<'g, 'f> ListenerConditions<'g, 'f> {
    /// Prepares the conditions of all listeners of `graph`.
    #[must_use]
    pub fn new(graph: &'g Graph<'f>) -> Self {
        let mut all = Self { graph, unattached: HashMap::new(), unresolved: HashMap::new() };
        for item in graph.unattached() {
            all.unattached.entry(item.from).or_default().push(item);
        }
        for item in graph.unresolved() {
            all.unresolved.entry(item.from).or_default().push(item);
        }
        all
    }

    /// The conditions in which the listener `node` differs from a valid listener: `Accepted` and
    /// `ResolvedRefs` that are not True, and `Conflicted` that is True. Empty if `node` is not a listener.
    #[must_use]
    pub fn of(&self, node: NodeId) -> Vec<ConditionText> {
        if self.graph.listener(node).is_none() {
            return Vec::new();
        }
        let locator = self.graph.locator(node);
        let unattached = self.unattached.get(&locator).into_iter().flatten().map(|item| {
            let (name, status) = match item.reason {
                Reason::HostnameConflict | Reason::ProtocolConflict => ("Conflicted", "True"),
                _ => ("Accepted", "False"),
            };
            text(name, status, item.reason, &item.message)
        });
        unattached.chain(self.resolved(locator)).collect()
    }

    /// The condition `ResolvedRefs`. It is Unknown only if no reference makes it False.
    fn resolved(&self, listener: Locator<'f>) -> Option<ConditionText> {
        let all = self.unresolved.get(&listener)?;
        let first = all.iter().find(|item| item.reason.is_fault()).or_else(|| all.first())?;
        let messages = all.iter().filter(|item| item.status() == first.status());
        let messages: BTreeSet<&str> = messages.map(|item| &*item.message).collect();
        let message = named(&messages.into_iter().collect::<Vec<_>>());
        Some(text("ResolvedRefs", first.status(), first.reason, &message))
    }
}

fn text(name: &str, status: &'static str, reason: Reason, message: &str) -> ConditionText {
    let message = truncate_bytes(message, MESSAGE_LIMIT).into_owned();
    ConditionText { name: name.to_owned(), status, reason: reason.as_str(), message }
}
