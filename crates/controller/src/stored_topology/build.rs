//! Builds the topology from a snapshot of the mirrors: the text of the ConfigMap, and the statuses to write.

use std::collections::BTreeMap;

use super::index::{self, OwnRows, Versions};
use super::key::StatusKey;
use super::metrics::Counts;
use super::pending::DesiredStatus;
use super::status_diff::differing;
use super::text::{DotText, LIMIT, text};
use policy_sync_api::json::Hash;
use policy_sync_sync as sync;
use policy_sync_sync::topology::TopologyInputs;
use policy_sync_topology::{Graph, GraphInput, Needs};

/// A copy of the inputs, taken from the mirror of the sync and the mirror of the topology.
#[derive(Debug)]
pub struct TopologySnapshot {
    inputs: TopologyInputs,
    rows: OwnRows,
}

/// The result of a build.
#[derive(Debug)]
pub struct TopologyBuild {
    /// The text of the ConfigMap.
    pub text: DotText,
    /// The hash of the text.
    pub digest: Hash,
    /// The desired statuses of the objects whose present status differs.
    pub statuses: BTreeMap<StatusKey, DesiredStatus>,
    /// The resource versions of the inputs.
    pub versions: Versions,
    pub(super) counts: Counts,
}

impl TopologySnapshot {
    /// Copies the inputs from the mirror of the sync, `sync`, and from the topology's `own` mirror. `None` if the
    /// mirror of the sync is not completely listed.
    #[must_use]
    pub fn take(sync: sync::View<'_>, own: index::View<'_>) -> Option<Self> {
        TopologyInputs::is_read(sync).then(|| Self { inputs: TopologyInputs::new(sync), rows: own.rows() })
    }

    /// Builds the topology. Returns `None` unless `is_known` returns true for the kinds that the objects refer to. If
    /// `route_status` is false, the controller's entries in the status of routes are removed.
    #[must_use]
    pub fn build(self, route_status: bool, is_known: impl FnOnce(Needs) -> bool) -> Option<TopologyBuild> {
        let Self { mut inputs, rows } = self;
        let ours = inputs.take_ours();
        let (objects, mut faults) = inputs.read();
        let mut graph_input: GraphInput<'_> = objects.graph_input();
        rows.add_references(&mut graph_input);
        faults.extend(rows.faults.iter().cloned());
        if !is_known(graph_input.needs()) {
            return None;
        }
        let graph = Graph::build(&graph_input);
        let text = text(&graph, LIMIT);
        Some(TopologyBuild {
            digest: Hash::of_text(&text.dot),
            statuses: differing(&graph, &rows, &ours, route_status),
            versions: rows.versions,
            counts: Counts::of(&graph, faults.len()),
            text,
        })
    }
}
