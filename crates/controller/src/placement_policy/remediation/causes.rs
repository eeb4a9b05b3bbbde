//! Attributes moves of objects to the documents that caused them. A *move* is a patch that makes an object comply with
//! placement policies. A *document* is an object that placement policies read.
//!
//! If an object with unchanged content ceases to comply, then placement policies or documents have changed. A document
//! whose changes move objects too often, such as a ManagedCluster whose agent flips a label, is *flapping*. For a
//! while, changes of a flapping document move no objects. Changes of other documents still do.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use super::key::Object;
use crate::placement_policy::compliance::{Change, Compliance};
use crate::placement_policy::evaluation::ContentHash;
use crate::rego_loading::ChangeCause;
use policy_sync_api::cluster;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{GroupResource, ObjectKey};
use policy_sync_api::shrink::shrink_if_sparse;

/// The time after which a move no longer counts.
const FLAP_WINDOW: Duration = Duration::from_secs(600);
/// A document is flapping once this number of its changes has moved objects within [`FLAP_WINDOW`].
const MAX_MOVES: usize = 3;
/// The maximum number of stored changes of documents.
const MAX_CHANGES: usize = 4_096;
/// The maximum number of stored documents that have moved objects.
const MAX_DOCUMENTS: usize = 4_096;
/// The maximum number of flapping documents in a message.
const MAX_LISTED: usize = 3;
/// If more documents than this changed at once, the move is attributed to no document.
const MAX_SIMULTANEOUS: usize = 256;

/// The unit to which moves are attributed. A cluster-scoped document is one unit. All documents of a kind in one
/// namespace together are one unit, because a tenant can create any number of documents.
fn source(kind: &GroupResource, key: &ObjectKey) -> Object {
    let key = if key.namespace.is_empty() { key.clone() } else { ObjectKey::new("", &key.namespace) };
    Object { kind: kind.clone(), key }
}

/// Attributes moves of objects to documents. All documents of a kind in one namespace count as one document, with the
/// name of the namespace.
#[derive(Debug, Default)]
pub(super) struct Causes {
    /// The number of the latest change.
    latest: u64,
    /// Changes of documents, with their numbers, the oldest first.
    changes: VecDeque<(u64, Object)>,
    /// The number of the latest change whose documents are unknown: a change of Rego policies or of many documents at
    /// once, or a change that is no longer stored.
    unknown: u64,
    /// The content of each object when it last complied, and the number of the latest change at that time.
    last_compliant: HashMap<Object, (ContentHash, u64)>,
    /// For each document, the numbers and times of its changes that have moved objects, the oldest first.
    moves: HashMap<Object, Vec<(u64, Moment)>>,
    /// The documents that are flapping, and until when.
    flapping: BTreeMap<Object, Moment>,
}

impl Causes {
    /// The number of the latest recorded change.
    pub(super) fn latest(&self) -> u64 {
        self.latest
    }

    /// Records a change of placement policies or of documents that they read.
    pub(super) fn changed(&mut self, by: &ChangeCause) {
        self.latest += 1;
        let ChangeCause::Documents(documents) = by else {
            self.unknown = self.latest;
            return;
        };
        let sources: BTreeSet<Object> = documents.iter().map(|(kind, key)| source(kind, key)).collect();
        self.changes.extend(sources.into_iter().map(|source| (self.latest, source)));
        while self.changes.len() > MAX_CHANGES {
            if let Some((number, _)) = self.changes.pop_front() {
                self.unknown = self.unknown.max(number);
            }
        }
    }

    /// Records that `object` complied with this `content` after the change with the number `at`.
    pub(super) fn record_compliant(&mut self, object: &Object, content: ContentHash, at: u64) {
        match self.last_compliant.get_mut(object) {
            Some(last_compliant) => *last_compliant = (content, at),
            None => drop(self.last_compliant.insert(object.clone(), (content, at))),
        }
    }

    /// The documents whose changes are the reason that `object` no longer complies, each with the number of its latest
    /// change. `content` is the object's present content. Empty if the object itself or a placement policy was changed.
    pub(super) fn of(&self, object: &Object, content: ContentHash) -> BTreeMap<Object, u64> {
        let Some((before, at)) = self.last_compliant.get(object) else { return BTreeMap::new() };
        if *before != content || *at < self.unknown {
            return BTreeMap::new();
        }
        let since = self.changes.range(self.changes.partition_point(|(number, _)| number <= at)..);
        let documents: BTreeMap<Object, u64> =
            since.map(|(number, document)| (document.clone(), *number)).collect();
        if documents.len() > MAX_SIMULTANEOUS { BTreeMap::new() } else { documents }
    }

    /// Records that changes of `documents` have moved an object. Returns the documents that are flapping from now on.
    pub(super) fn moved(&mut self, documents: &BTreeMap<Object, u64>, now: Moment) -> Vec<Object> {
        let mut new = Vec::new();
        for (document, number) in documents {
            if !self.moves.contains_key(document) && self.moves.len() >= MAX_DOCUMENTS {
                self.moves.retain(|_, moves| moves.iter().any(|(_, at)| at.after(FLAP_WINDOW) > now));
                shrink_if_sparse(&mut self.moves);
                if self.moves.len() >= MAX_DOCUMENTS {
                    continue;
                }
            }
            let moves = self.moves.entry(document.clone()).or_default();
            if moves.last().is_some_and(|(last, _)| last == number) {
                continue;
            }
            moves.retain(|(_, at)| at.after(FLAP_WINDOW) > now);
            moves.push((*number, now));
            if let Some(at) = moves.len().checked_sub(MAX_MOVES) {
                let until = moves[at].1.after(FLAP_WINDOW);
                if self.flapping.insert(document.clone(), until).is_none_or(|before| before <= now) {
                    new.push(document.clone());
                }
            }
        }
        self.flapping.retain(|_, until| *until > now);
        new
    }

    /// The documents that are flapping, and until when.
    pub(super) fn flapping(&self, now: Moment) -> BTreeMap<Object, Moment> {
        let flapping = self.flapping.iter().filter(|(_, until)| **until > now);
        flapping.map(|(document, until)| (document.clone(), *until)).collect()
    }

    /// Forgets `object`, which was deleted or to which placement policies do not apply.
    pub(super) fn forget(&mut self, object: &Object) {
        if self.last_compliant.remove(object).is_some() {
            shrink_if_sparse(&mut self.last_compliant);
        }
    }

    /// Keeps only the objects for which `is` returns true.
    pub(super) fn retain(&mut self, is: impl Fn(&Object) -> bool) {
        self.last_compliant.retain(|object, _| is(object));
        shrink_if_sparse(&mut self.last_compliant);
    }
}

/// The next step for an object that does not comply while documents are flapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Apply this change to the object.
    Change(Change),
    /// Leave the object unchanged until the documents are no longer flapping.
    Hold,
}

/// Decides about an object to which placement policies would apply `change`. `without` is the compliance of the object
/// if the flapping `documents` are left out.
///
/// - If `without` equals `change`, the result does not depend on the documents, and the change is applied.
/// - If all of the documents are ManagedClusters, the object gets the result without them, as if these clusters had
///   left the fleet. The object is left unchanged if that result changes nothing or rejects the object.
/// - If a document is not a ManagedCluster, the object is left unchanged. Without that document, placement policies
///   might permit clusters that the document forbids.
pub(super) fn step(change: Change, without: Compliance, documents: impl IntoIterator<Item = Object>) -> Step {
    let clusters = GroupResource::new(cluster::GROUP, "managedclusters");
    match without {
        Compliance::Differs(other) if other == change => Step::Change(change),
        Compliance::Differs(other) if documents.into_iter().all(|document| document.kind == clusters) => {
            Step::Change(other)
        }
        Compliance::Differs(_) | Compliance::Compliant | Compliance::Violates(_) => Step::Hold,
    }
}

/// The note of an Event on an object that is left unchanged while documents are flapping.
pub(super) fn hold_message(flapping: &BTreeMap<Object, Moment>) -> String {
    let named: Vec<String> = flapping.keys().take(MAX_LISTED).map(ToString::to_string).collect();
    format!(
        "placement policies would move it because of changes of {}, which have moved objects three times within 10 minutes; it is left unchanged until these have passed",
        named.join(", ")
    )
}

#[cfg(test)]
mod tests;
