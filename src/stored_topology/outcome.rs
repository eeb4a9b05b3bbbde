//! What is built of the mirrors at one moment, while they go on: the text of the ConfigMap, and the statuses that differ from it.

use std::collections::BTreeMap;

use super::differs::differing;
use super::index::{self, OwnRows};
use super::metrics::Counts;
use super::pending::DesiredStatus;
use super::status_key::StatusKey;
use super::text::{LIMIT, Text, text};
use super::versions::Versions;
use policy_sync_api::json::Hash;
use policy_sync_sync as sync;
use policy_sync_sync::topology::TopologyInputs;
use policy_sync_topology::{Facts, Graph, Needs};

/// What the mirrors show.
#[derive(Debug)]
pub struct Snapshot {
    inputs: TopologyInputs,
    rows: OwnRows,
}

/// What a graph comes to.
#[derive(Debug)]
pub struct Outcome {
    /// The text of the ConfigMap.
    pub text: Text,
    /// The hash of it.
    pub digest: Hash,
    /// The statuses that differ from what the graph has.
    pub statuses: BTreeMap<StatusKey, DesiredStatus>,
    /// Up to which versions the objects had been seen.
    pub versions: Versions,
    pub(super) counts: Counts,
}

impl Snapshot {
    /// What the `sync`'s mirror lends, `None` where it has not read all of it, and what the `own` one knows.
    #[must_use]
    pub fn take(sync: sync::View<'_>, own: index::View<'_>) -> Option<Self> {
        TopologyInputs::is_read(sync).then(|| Self { inputs: TopologyInputs::new(sync), rows: own.rows() })
    }

    /// What it comes to, `None` unless all that its objects refer to `is_known`. Routes say nothing without a `route_status`.
    #[must_use]
    pub fn outcome(self, route_status: bool, is_known: impl FnOnce(Needs) -> bool) -> Option<Outcome> {
        let Self { mut inputs, rows } = self;
        let ours = inputs.take_ours();
        let (objects, mut faults) = inputs.read();
        let mut facts: Facts<'_> = objects.facts();
        rows.lend(&mut facts);
        faults.extend(rows.faults.iter().cloned());
        if !is_known(facts.needs()) {
            return None;
        }
        let graph = Graph::build(&facts);
        let text = text(&graph, LIMIT);
        Some(Outcome {
            digest: Hash::of_text(&text.dot),
            statuses: differing(&graph, &rows, &ours, route_status),
            versions: rows.versions,
            counts: Counts::of(&graph, faults.len()),
            text,
        })
    }
}
