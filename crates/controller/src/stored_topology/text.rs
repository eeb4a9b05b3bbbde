//! The text of the ConfigMap in [DOT](https://graphviz.org/doc/info/lang.html), with as much detail as fits.

use policy_sync_topology::Graph;
use policy_sync_topology::show::dot::{self, Detail};
use policy_sync_topology::show::{Scope, TopologyReport};

/// The key in the ConfigMap's data.
pub(super) const KEY: &str = "topology";
/// Maximum size of the text, in bytes. The API server accepts at most 1 MiB for the whole object. Kuadrant's console
/// does not show a larger topology either.
pub const LIMIT: usize = 900 * 1024;

/// The content of the ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DotText {
    /// The level of detail.
    pub detail: Detail,
    /// The text in DOT.
    pub dot: String,
}

/// The text of `graph` with the most detail that fits into `limit` bytes.
#[must_use]
pub fn text(graph: &Graph<'_>, limit: usize) -> DotText {
    let report = TopologyReport::new(graph, Scope::default(), Vec::new());
    for detail in [Detail::Full, Detail::Routes, Detail::Listeners, Detail::Gateways] {
        if let Some(dot) = dot::within(&report, detail, limit) {
            return DotText { detail, dot };
        }
    }
    // Binary search for the number of Gateways that fit.
    let all = dot::gateways(&report);
    let (mut fits, mut too_many) = (0, all);
    let mut text = DotText { detail: Detail::First(0, all), dot: dot::empty() };
    while fits + 1 < too_many {
        let half = fits.midpoint(too_many);
        let detail = Detail::First(half, all);
        match dot::within(&report, detail, limit) {
            Some(dot) => {
                fits = half;
                text = DotText { detail, dot };
            }
            None => too_many = half,
        }
    }
    text
}
