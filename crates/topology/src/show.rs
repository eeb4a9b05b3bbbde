//! Reports on a graph: for terminals, for programs and as pictures.

mod clusters;
pub mod dot;
mod effective;
pub mod picture;
mod policy;
mod scope;
pub mod svg;
mod topology;
pub mod tree;

use std::fmt;

use serde::Serialize;

pub use clusters::{ClusterResult, ClustersReport};
pub use effective::{
    EffectivePolicyReport, EffectiveReport, EffectiveRule, PathResult, RuleChoice, UnknownMatch,
};
pub use policy::{PathsEffect, PolicyEffect, PolicyReport, Replacement};
pub use scope::Scope;
pub use topology::{TopologyReport, TopologyStatus};

use super::effective::{NotHonored, not_honored};
use super::fault::Fault;
use super::graph::{Graph, NodeId};
use super::locator::Locator;
use super::rows::RouteKind;
use super::rows::expressions::invalid_expressions;

/// A node or a policy in a report.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeLabel {
    /// The locator of the node or policy.
    pub id: String,
    /// The text for users: `HTTPRoute shop/orders`, `listener http`.
    pub words: String,
}

impl NodeLabel {
    /// Names the object or the section `locator`.
    #[must_use]
    pub fn object(locator: Locator<'_>) -> Self {
        let section = locator.section.map(|section| format!(" {section}")).unwrap_or_default();
        let words = format!("{} {}{section}", locator.kind.kind, locator.object());
        Self { id: locator.to_string(), words }
    }

    /// Names a node on a path. The name of a section omits the object, because the object precedes the section on the
    /// path.
    #[must_use]
    pub fn on_path(graph: &Graph<'_>, node: NodeId) -> Self {
        let locator = graph.locator(node);
        let named = Self::object(locator);
        match (graph.listener(node), locator.section) {
            (Some(listener), _) => Self { words: format!("listener {}", listener.name), ..named },
            (None, Some(section)) => Self { words: format!("rule {section}"), ..named },
            (None, None) => named,
        }
    }
}

/// A fault of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ObjectFault {
    /// The description of the fault.
    pub message: String,
    /// The object's locator.
    pub object: String,
    /// The file and document that contains the object, if it comes from a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
}

impl ObjectFault {
    /// A fault of the object `of`, which does not come from a file.
    #[must_use]
    pub fn new(of: Locator<'_>, fault: &Fault) -> Self {
        Self { message: fault.to_string(), object: of.to_string(), place: None }
    }
}

/// The faults of the policies and routes of `graph`. `place` returns the file that contains an object.
#[must_use]
pub fn faults(graph: &Graph<'_>, place: &dyn Fn(&str) -> Option<String>) -> Vec<ObjectFault> {
    let of_object = |locator: Locator<'_>, fault: &Fault| {
        let object = locator.to_string();
        ObjectFault { message: fault.to_string(), place: place(&object), object }
    };
    let mut faults = Vec::new();
    for policy in graph.policies() {
        faults.extend(policy.rules.faults.iter().map(|fault| of_object(policy.locator, fault)));
    }
    faults.extend(not_honored(graph).into_iter().map(|found| {
        let NotHonored { copy, origin, policy, target } = found;
        let [policy, target] = [policy, target].map(|locator| NodeLabel::object(locator).words);
        let text = format!(
            "HierarchyNotHonored: this copy of the hub's {origin} takes precedence over {policy}, a policy of this cluster with the same \
             target, {target}"
        );
        let object = copy.to_string();
        ObjectFault { message: text, place: place(&object), object }
    }));
    for (locator, route) in graph.routes() {
        let Some(kind) = RouteKind::named(locator.kind) else { continue };
        faults.extend(invalid_expressions(kind, route).iter().map(|fault| of_object(locator, fault)));
    }
    faults
}

impl fmt::Display for ObjectFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        write!(f, "{}: {}", self.object, self.message)
    }
}
