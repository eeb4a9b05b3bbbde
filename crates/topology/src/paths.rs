//! Paths from a GatewayClass through a Gateway, a ListenerSet (optional), a listener and a route to a rule,
//! each with its effective policies.
//!
//! A cluster within the limits of the API may have thirty million paths. They are visited in the order of their
//! locators, and never stored. A rule without policies of its own shares the effective policies of its route. A route
//! without policies of its own shares the effective policies of its listener, and so on.

use std::ops::ControlFlow;
use std::rc::Rc;

use super::attachment::hosts;
use super::effective::{EffectiveCache, EffectiveId};
use super::graph::{Graph, NodeId, ObjectRow};
use super::hostname;
use super::locator::{GATEWAY, GATEWAY_CLASS};
use super::object::Policy;
use super::rows::{Listener, Route, RouteKind, SetKind};
use crate::topology::PolicyId;

/// A path, with its effective policies.
#[derive(Debug)]
pub struct Path<'p, 'f> {
    /// The path's nodes, the least specific first.
    pub nodes: &'p [NodeId],
    /// The path's effective policies, in the order of kinds.
    pub effective: &'p [EffectiveId],
    above: ListenerAndRoute<'f>,
}

impl<'f> Path<'_, 'f> {
    /// The hosts that all nodes of the path serve, sorted; `*` for all hosts.
    #[must_use]
    pub fn hostnames(&self) -> Vec<&'f str> {
        let ListenerAndRoute { listener, route } = self.above;
        match (listener, route) {
            (Some(listener), Some((_, route))) => hosts(listener, route),
            _ => {
                let listener = listener.and_then(|listener| listener.hostname.as_deref());
                let names = route.iter().flat_map(|(_, route)| &*route.hostnames).map(|name| &**name);
                hostname::common_hosts(listener, names)
            }
        }
    }
}

impl<'f> Graph<'f> {
    /// Visits every path in order, until `visit` breaks.
    pub fn walk<B>(
        &self,
        cache: &mut EffectiveCache<'_, 'f>,
        visit: &mut dyn FnMut(&Path<'_, 'f>, &mut EffectiveCache<'_, 'f>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let mut walk = Walk { graph: self, nodes: Vec::new(), stack: Vec::new(), folded: Vec::new() };
        for root in self.roots() {
            walk.from(root, ListenerAndRoute::default(), cache, visit)?;
        }
        ControlFlow::Continue(())
    }

    /// Adds the inherited policies on `node` to `stack`, in ascending order of precedence.
    pub(super) fn push_policies(&self, node: NodeId, stack: &mut Vec<PolicyId>) {
        stack.extend(self.topology().by_precedence(node).filter(|id| self.policy(*id).is_inherited()));
    }

    /// Whether paths include `node`: all nodes but backends.
    fn is_on_paths(&self, node: NodeId) -> bool {
        match &self.object(node).row {
            ObjectRow::Backend(_) => false,
            ObjectRow::Leaf(_) => {
                let kind = self.object(node).locator.kind;
                matches!(kind, GATEWAY_CLASS | GATEWAY) || SetKind::named(kind).is_some()
            }
            _ => true,
        }
    }
}

/// The listener and the route of a path.
#[derive(Clone, Copy, Debug, Default)]
struct ListenerAndRoute<'f> {
    listener: Option<&'f Listener>,
    route: Option<(RouteKind, &'f Route)>,
}

struct Walk<'g, 'f> {
    graph: &'g Graph<'f>,
    nodes: Vec<NodeId>,
    /// The inherited policies on `nodes`, in the order of the nodes.
    stack: Vec<PolicyId>,
    /// Results for prefixes of `stack`: the length of the prefix, the kind of the route, and the effective policies.
    folded: Vec<(usize, Option<RouteKind>, Rc<[EffectiveId]>)>,
}

impl<'f> Walk<'_, 'f> {
    fn from<B>(
        &mut self,
        node: NodeId,
        mut above: ListenerAndRoute<'f>,
        cache: &mut EffectiveCache<'_, 'f>,
        visit: &mut dyn FnMut(&Path<'_, 'f>, &mut EffectiveCache<'_, 'f>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let (graph, depth) = (self.graph, self.stack.len());
        self.nodes.push(node);
        graph.push_policies(node, &mut self.stack);
        above.listener = above.listener.or_else(|| graph.listener(node));
        if let ObjectRow::Route(kind, route) = graph.object(node).row {
            above.route = Some((kind, route));
        }
        let mut is_last = true;
        for next in graph.links(node).filter(|next| graph.is_on_paths(*next)) {
            is_last = false;
            self.from(next, above, cache, visit)?;
        }
        if is_last && (above.listener.is_some() || above.route.is_some()) {
            let effective = self.folded(above.route.map(|(kind, _)| kind), cache);
            visit(&Path { nodes: &self.nodes, effective: &effective, above }, cache)?;
        }
        self.nodes.pop();
        self.stack.truncate(depth);
        self.folded.retain(|(length, ..)| *length <= depth);
        ControlFlow::Continue(())
    }

    fn folded(&mut self, route: Option<RouteKind>, cache: &mut EffectiveCache<'_, 'f>) -> Rc<[EffectiveId]> {
        let length = self.stack.len();
        let known = self.folded.iter().find(|(of, along, _)| *of == length && *along == route);
        if let Some((.., folded)) = known {
            return folded.clone();
        }
        let folded: Rc<[EffectiveId]> = cache.along(&self.stack, route).into();
        self.folded.push((length, route, folded.clone()));
        folded
    }
}
