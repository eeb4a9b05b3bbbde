//! Builds a topology of any objects.

use std::cmp::Ordering;

use super::dot::{self, DotLines};
use super::{NodeId, PolicyId, Topology};
use crate::graph::Graph;
use crate::locator::Locator;
use crate::object::{Object, Policy, Targetable};

/// A node of a topology that was built from objects.
#[derive(Clone, Copy, Debug)]
pub struct Node<'o> {
    locator: Locator<'o>,
    is_targetable: bool,
}

impl<'o> Node<'o> {
    /// The kind and name of the node's object, and its section.
    #[must_use]
    pub fn locator(&self) -> Locator<'o> {
        self.locator
    }

    /// Whether policies can target the node.
    #[must_use]
    pub fn is_targetable(&self) -> bool {
        self.is_targetable
    }
}

/// The reason why objects do not form a topology.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// Two objects, or two policies, have the same locator. A policy and an object may have the same locator.
    #[error("{0} is given twice")]
    Duplicate(String),
    /// The links form a cycle. The locators are in the order of the links, and the first is repeated at the end.
    #[error("the links form a cycle: {}", .0.join(" -> "))]
    Cycle(Vec<String>),
}

/// Collects objects, links and policies, in any order. [`build`](Self::build) makes a topology of them.
#[derive(Default)]
pub struct TopologyBuilder<'o> {
    nodes: Vec<Node<'o>>,
    /// The links, from parents to children.
    links: Vec<(Locator<'o>, Locator<'o>)>,
    policies: Vec<&'o dyn Policy>,
}

impl<'o> Topology<Node<'o>, &'o dyn Policy> {
    /// A builder without objects.
    #[must_use]
    pub fn builder() -> TopologyBuilder<'o> {
        TopologyBuilder::default()
    }

    /// The node with this locator. `#rule-1` finds the first rule of a route if that rule has no name.
    #[must_use]
    pub fn find(&self, locator: &Locator<'_>) -> Option<NodeId> {
        let found = self.nodes.binary_search_by(|node| by_text(&node.locator, locator));
        found.ok().map(NodeId::new)
    }

    /// The topology as [DOT](https://graphviz.org/doc/info/lang.html), in the form that Kuadrant's tools read. A node's
    /// id is its locator. Its label is `Kind\nnamespace/name`, or `Kind\nnamespace/name#section` for a section. A
    /// dashed edge leads from each policy to its targets. Policies that are attached to nothing are included.
    #[must_use]
    pub fn dot(&self) -> String {
        // Without a limit, the lines always fit.
        self.lines().map(DotLines::sorted).unwrap_or_default()
    }

    fn lines(&self) -> Option<DotLines> {
        let mut lines = DotLines::within(usize::MAX)?;
        let label = |locator: &Locator<'_>| {
            let section = locator.section.map(|section| format!("#{section}")).unwrap_or_default();
            dot::label(&[locator.kind.kind, &(locator.object() + &section)])
        };
        for policy in &self.policies {
            lines.policy(&policy.locator(), &label(&policy.locator()))?;
        }
        for (node, Node { locator, .. }) in self.nodes().zip(&self.nodes) {
            lines.object(locator, &label(locator))?;
            for policy in self.policies_of(node) {
                lines.target(&self.policy(policy).locator(), locator)?;
            }
            for child in self.children(node) {
                lines.link(locator, &self.node(child).locator)?;
            }
        }
        Some(lines)
    }
}

impl<'o> TopologyBuilder<'o> {
    /// Adds objects that policies can target. All objects of a call have one Rust type. For several types, call this
    /// method several times.
    ///
    /// A section, such as a listener, is a separate node: add it, and link its object to it. Otherwise policies that
    /// target the section are not attached.
    ///
    /// ```
    /// use policy_sync_topology::Topology;
    /// use policy_sync_topology::locator::{GATEWAY, Locator};
    ///
    /// let web = Locator::new(GATEWAY, "shop", "web");
    /// let nodes = [web, web.section("http")];
    /// let topology = Topology::builder().targetables(&nodes).link(web, web.section("http")).build().unwrap();
    /// assert_eq!(topology.links().count(), 1);
    /// ```
    #[must_use]
    pub fn targetables<T: Targetable + 'o>(mut self, objects: impl IntoIterator<Item = &'o T>) -> Self {
        self.nodes.extend(
            objects.into_iter().map(|object| Node { locator: object.locator(), is_targetable: true }),
        );
        self
    }

    /// Adds objects that policies cannot target, such as Secrets. A policy that names such an object as its target is
    /// not attached: [`Topology::policies_of`] returns no policies for the object.
    #[must_use]
    pub fn objects<T: Object + 'o>(mut self, objects: impl IntoIterator<Item = &'o T>) -> Self {
        self.nodes.extend(
            objects.into_iter().map(|object| Node { locator: object.locator(), is_targetable: false }),
        );
        self
    }

    /// Adds the objects of `graph` and its links, by the attachment rules of Gateway API. Its policies are not added.
    #[must_use]
    pub fn gateway_api(mut self, graph: &'o Graph<'_>) -> Self {
        let node = |node| Node { locator: graph.locator(node), is_targetable: !graph.is_leaf(node) };
        self.nodes.extend(graph.nodes().map(node));
        let link = |(from, to)| (graph.locator(from), graph.locator(to));
        self.links.extend(graph.all_links().map(link));
        self
    }

    /// Adds a link to each of `children` from each of its parents, as [`link`](Self::link) does. The children must also
    /// be added as objects.
    #[must_use]
    pub fn links<T: Object + 'o, L: IntoIterator<Item = Locator<'o>>>(
        mut self,
        children: impl IntoIterator<Item = &'o T>,
        parents: impl Fn(&'o T) -> L,
    ) -> Self {
        for child in children {
            self.links.extend(parents(child).into_iter().map(|parent| (parent, child.locator())));
        }
        self
    }

    /// Adds a link. If the topology does not have both objects, the link is ignored, and is not in [`Topology::links`].
    #[must_use]
    pub fn link(mut self, parent: Locator<'o>, child: Locator<'o>) -> Self {
        self.links.push((parent, child));
        self
    }

    /// Adds policies, of one kind or of several. All policies of a call have one Rust type. For several types, call
    /// this method several times, or pass `&[&dyn Policy]`.
    ///
    /// Targets that the topology does not have are ignored; see [`Policy::targets`].
    #[must_use]
    pub fn policies<P: Policy + 'o>(mut self, policies: impl IntoIterator<Item = &'o P>) -> Self {
        self.policies.extend(policies.into_iter().map(|policy| policy as &dyn Policy));
        self
    }

    /// The topology.
    ///
    /// # Errors
    ///
    /// If two objects, or two policies, have the same locator, or the links form a cycle.
    pub fn build(self) -> Result<Topology<Node<'o>, &'o dyn Policy>, BuildError> {
        let Self { mut nodes, links, mut policies } = self;
        nodes.sort_by(|left, right| by_text(&left.locator, &right.locator));
        policies.sort_by(|left, right| by_text(&left.locator(), &right.locator()));
        let of_nodes = nodes.windows(2).map(|pair| [pair[0].locator, pair[1].locator]);
        let of_policies = policies.windows(2).map(|pair| [pair[0].locator(), pair[1].locator()]);
        let mut pairs = of_nodes.chain(of_policies);
        if let Some([locator, _]) = pairs.find(|[left, right]| by_text(left, right).is_eq()) {
            return Err(BuildError::Duplicate(locator.to_string()));
        }
        let unlinked = Topology::new(nodes, Vec::new(), policies, Vec::new());
        let links = links.iter().filter_map(|(from, to)| Some((unlinked.find(from)?, unlinked.find(to)?)));
        let links = links.collect();
        let mut attached: Vec<(NodeId, PolicyId)> = Vec::new();
        for (id, policy) in unlinked.policies() {
            let targets = policy.targets();
            let nodes = targets.iter().filter_map(|target| unlinked.find(target));
            let nodes = nodes.filter(|node| unlinked.node(*node).is_targetable);
            attached.extend(nodes.map(|node| (node, id)));
        }
        let topology = Topology::new(unlinked.nodes, links, unlinked.policies, attached);
        match topology.find_cycle() {
            None => Ok(topology),
            Some(nodes) => {
                let locators = nodes.iter().map(|node| topology.node(*node).locator.to_string());
                Err(BuildError::Cycle(locators.collect()))
            }
        }
    }
}

/// Compares two locators by their text.
fn by_text(left: &Locator<'_>, right: &Locator<'_>) -> Ordering {
    left.cmp_object(right).then_with(|| match (&left.section, &right.section) {
        (Some(left), Some(right)) => left.cmp_text(right),
        (left, right) => left.is_some().cmp(&right.is_some()),
    })
}
