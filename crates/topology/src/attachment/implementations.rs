//! Compares the graph with the status that implementations of Gateway API write to routes.

use std::collections::{HashMap, HashSet};

use crate::graph::{Builder, NodeId, ObjectRow};
use crate::locator::Locator;
use crate::reason::{Reason, Unattached, Unresolved};
use crate::rows::{ConditionStatus, ParentReference, ParentStatus, Route};

impl<'f> Builder<'f> {
    /// The status entries of implementations for the reference `parent` of a `route` in the namespace `own`.
    fn statuses_of(
        &self,
        route: &'f Route,
        own: &'f str,
        parent: &'f ParentReference,
    ) -> impl Iterator<Item = &'f ParentStatus> + use<'f> {
        let controller = self.graph_input.controller;
        let to = parent.locator(own);
        route.statuses.iter().filter(move |status| {
            *status.controller != *controller
                && status.parent.locator(own) == to
                && status.parent.port == parent.port
        })
    }

    /// The implementation that accepts the reference `parent` of a `route` in the namespace `own`.
    pub(super) fn accepted_by(
        &self,
        route: &'f Route,
        own: &'f str,
        parent: &'f ParentReference,
    ) -> Option<&'f str> {
        let mut statuses = self.statuses_of(route, own, parent);
        let accepts = |status: &&ParentStatus| status.accepted.as_ref().is_some_and(|verdict| verdict.holds);
        statuses.find(accepts).map(|status| &*status.controller)
    }

    /// Records an implementation that rejects the reference `parent` of a `route`, although the route
    /// attaches according to Gateway API.
    pub(super) fn report_rejection(
        &mut self,
        route: &'f Route,
        from: Locator<'f>,
        parent: &'f ParentReference,
    ) {
        let rejected = self.statuses_of(route, from.namespace, parent).find_map(|status| {
            let verdict = status.accepted.as_ref().filter(|verdict| !verdict.holds)?;
            Some((&*status.controller, verdict))
        });
        if let Some((controller, verdict)) = rejected {
            let to = parent.locator(from.namespace);
            let message = format!("implementation differs: {controller} rejects it: {}", verdict.reason);
            self.differs(from, to, Reason::ImplementationRejects, message);
        }
    }

    /// Records an implementation that accepts a route which does not attach according to Gateway API. `reason` is the
    /// reason why the route does not attach.
    pub(super) fn report_acceptance(
        &mut self,
        controller: &str,
        (from, to): (Locator<'f>, Locator<'f>),
        reason: Reason,
        message: &str,
    ) {
        let message = format!(
            "implementation differs: {controller} accepts it; according to Gateway API, {reason}: {message}"
        );
        self.differs(from, to, Reason::ImplementationAccepts, message);
    }

    fn differs(&mut self, from: Locator<'f>, to: Locator<'f>, reason: Reason, message: String) {
        self.unresolved(Unresolved { from, to: Some(to), reason, message });
    }

    /// Compares the backends of routes with the conditions `ResolvedRefs` that implementations report.
    pub(crate) fn compare_backends(&mut self) {
        let routes: Vec<(NodeId, &'f Route)> = self
            .graph
            .object_nodes()
            .filter_map(|node| match self.graph.object(node).row {
                ObjectRow::Route(_, route) if !route.statuses.is_empty() => Some((node, route)),
                _ => None,
            })
            .collect();
        if routes.is_empty() {
            return;
        }
        let faulty: HashSet<Locator<'f>> = {
            let of_rules = self.graph.unattached.iter().filter(|item| item.from.section.is_some());
            of_rules.map(|item| item.from.with(None)).collect()
        };
        let mut resolved: HashMap<Locator<'f>, &'f str> = HashMap::new();
        for (node, route) in routes {
            let from = self.graph.locator(node);
            let verdicts: Vec<(Locator<'f>, &'f str, &'f ConditionStatus)> = route
                .parents
                .iter()
                .flat_map(|parent| {
                    let to = parent.locator(from.namespace);
                    let statuses = self.statuses_of(route, from.namespace, parent);
                    statuses
                        .filter_map(move |status| Some((to, &*status.controller, status.resolved.as_ref()?)))
                })
                .collect();
            let Some((_, controller, _)) = verdicts.first() else { continue };
            if verdicts.iter().all(|(.., verdict)| verdict.holds) {
                resolved.insert(from, controller);
            } else if !faulty.contains(&from) {
                for (to, controller, verdict) in verdicts.into_iter().filter(|(.., verdict)| !verdict.holds) {
                    let message = format!(
                        "implementation differs: {controller} reports ResolvedRefs=False: {}",
                        verdict.reason
                    );
                    self.differs(from, to, Reason::ImplementationRejects, message);
                }
            }
        }
        self.apply_reported_resolutions(&resolved);
    }

    /// For the routes in `resolved`, implementations report that all backends resolve. The failed references of these
    /// routes are recorded as differences instead of faults.
    fn apply_reported_resolutions(&mut self, resolved: &HashMap<Locator<'f>, &'f str>) {
        let by = |from: Locator<'f>| resolved.get(&from.with(None)).filter(|_| from.section.is_some());
        // The implementation decides whether the references of these routes resolve.
        self.graph.unresolved.retain(|item| by(item.from).is_none());
        let unattached = std::mem::take(&mut self.graph.unattached);
        for item in unattached {
            let Some(controller) = by(item.from) else {
                self.graph.unattached.push(item);
                continue;
            };
            let Unattached { from, to, reason, message, .. } = item;
            self.report_acceptance(controller, (from, to), reason, &message);
        }
    }
}
