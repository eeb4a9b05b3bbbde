//! Counts the bytes and the number of documents by namespace and kind. Documents that are left out count too. A *part*
//! is the documents of one kind in one namespace.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use regorus::Value;

use super::rows::Document;
use super::shares::{NamespacedKind, left_out};
use super::weight::{own, part_weight, parts};
use policy_sync_api::names::GroupResource;

/// The minimum size of a value that documents can share, in bytes. A shared value counts once.
const MIN_SHARED_BYTES: usize = 512;
/// The maximum depth, in a document, of a value that documents can share.
const MAX_SHARED_DEPTH: usize = 5;

/// The memory that documents take, and the number of documents.
#[derive(Clone, Debug)]
pub(super) struct DocumentUsage {
    /// The bytes of documents.
    bytes: Budget,
    /// The number of namespaced documents. The limit does not cover cluster-scoped documents, because tenants cannot
    /// create them.
    objects: Budget,
    parts: BTreeMap<NamespacedKind, KindUsage>,
}

/// A limit for all documents.
#[derive(Clone, Debug)]
struct Budget {
    limit: usize,
    /// The bytes or the number of all documents that are not left out.
    kept: usize,
    /// When `kept` exceeds this threshold, `take_excess` selects parts to leave out.
    threshold: usize,
}

impl Budget {
    fn new(limit: usize) -> Self {
        Self { limit, kept: 0, threshold: limit }
    }

    fn is_exceeded(&mut self) -> bool {
        if self.kept <= self.limit {
            self.threshold = self.limit;
        }
        self.kept > self.threshold
    }

    /// Sets the threshold to `kept` plus a 16th of the limit, because no further part can be left out.
    fn give_up(&mut self) {
        self.threshold = self.kept + self.limit / 16;
    }
}

/// The memory of the documents of one kind in one namespace.
#[derive(Clone, Debug, Default)]
struct KindUsage {
    objects: usize,
    /// The bytes of all documents, without sharing.
    alone: usize,
    /// The bytes of the documents in memory. Shared values count once.
    kept: usize,
    /// The number of documents that contain each shared value, by the address of the value.
    units: HashMap<usize, u32>,
    /// If the documents are left out, the values of `kept` and `alone` at the time they were left out. Later estimates
    /// of shared memory use the ratio of these two values.
    left_out: Option<(usize, usize)>,
}

/// Documents that are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LeftOutDocuments {
    /// The number of left-out documents.
    pub objects: usize,
    /// The estimated bytes of the left-out documents.
    pub bytes: usize,
}

impl DocumentUsage {
    /// Creates an empty count with limits for the bytes and for the number of namespaced documents.
    pub(super) fn new(bytes: usize, objects: usize) -> Self {
        Self { bytes: Budget::new(bytes), objects: Budget::new(objects), parts: BTreeMap::new() }
    }

    /// The bytes of all documents that are not left out.
    pub(super) fn kept(&self) -> usize {
        self.bytes.kept
    }

    /// The number of cluster-scoped documents of each kind.
    pub(super) fn cluster_scoped(&self) -> BTreeMap<&GroupResource, usize> {
        let parts = self.parts.iter().filter(|(part, _)| part.namespace.is_empty());
        parts.map(|(part, kind_usage)| (&part.kind, kind_usage.objects)).collect()
    }

    /// Whether the documents of `kind` in `namespace` are left out.
    pub(super) fn are_left_out(&self, namespace: &str, kind: &GroupResource) -> bool {
        // Usually no documents are left out.
        self.parts.get(&part(namespace, kind)).is_some_and(|kind_usage| kind_usage.left_out.is_some())
    }

    /// The parts that are left out.
    pub(super) fn left_out(&self) -> impl Iterator<Item = (&NamespacedKind, LeftOutDocuments)> {
        self.parts.iter().filter(|(_, kind_usage)| kind_usage.left_out.is_some()).map(|(part, kind_usage)| {
            (part, LeftOutDocuments { objects: kind_usage.objects, bytes: kind_usage.bytes() })
        })
    }

    /// The kinds with left-out documents that now fit the limits.
    pub(super) fn returning(&self) -> BTreeSet<GroupResource> {
        let wanted = self.wanted();
        self.left_out()
            .filter(|(part, _)| !wanted.contains(part))
            .map(|(part, _)| part.kind.clone())
            .collect()
    }

    /// Replaces `before` by `after` in the count, for an object of `kind` in `namespace`.
    pub(super) fn replace(
        &mut self,
        namespace: &str,
        kind: &GroupResource,
        before: Option<&Document>,
        after: Option<&Document>,
    ) {
        let part = part(namespace, kind);
        let kind_usage = self.parts.entry(part.clone()).or_default();
        self.bytes.kept -= kind_usage.kept;
        self.objects.kept -= kind_usage.readable(&part);
        if let Some(after) = after {
            kind_usage.objects += 1;
            kind_usage.alone += after.weight;
            kind_usage.kept += add_usage(&after.value, &mut kind_usage.units);
        }
        if let Some(before) = before {
            kind_usage.objects = kind_usage.objects.saturating_sub(1);
            kind_usage.alone = kind_usage.alone.saturating_sub(before.weight);
            kind_usage.kept =
                kind_usage.kept.saturating_sub(remove_usage(&before.value, &mut kind_usage.units));
        }
        if kind_usage.objects == 0 {
            self.parts.remove(&part);
            return;
        }
        self.bytes.kept += kind_usage.kept;
        self.objects.kept += kind_usage.readable(&part);
    }

    /// If the documents exceed a limit, selects parts to leave out, marks them, and returns them.
    pub(super) fn take_excess(&mut self) -> BTreeSet<NamespacedKind> {
        let exceeded = [&mut self.bytes, &mut self.objects].map(Budget::is_exceeded);
        if exceeded == [false, false] {
            return BTreeSet::new();
        }
        let mut wanted = self.wanted();
        wanted.retain(|part| self.parts[part].left_out.is_none());
        for part in &wanted {
            if let Some(kind_usage) = self.parts.get_mut(part) {
                self.objects.kept -= kind_usage.readable(part);
                kind_usage.left_out = Some((kind_usage.kept, kind_usage.alone));
            }
        }
        if wanted.is_empty() {
            let budgets = [&mut self.bytes, &mut self.objects].into_iter().zip(exceeded);
            budgets.filter(|(_, is_exceeded)| *is_exceeded).for_each(|(budget, _)| budget.give_up());
        }
        wanted
    }

    /// The parts to leave out so that neither limit is exceeded.
    fn wanted(&self) -> BTreeSet<NamespacedKind> {
        let bytes = self.parts.iter().map(|(part, kind_usage)| (part.clone(), kind_usage.bytes())).collect();
        let namespaced = self.parts.iter().filter(|(part, _)| !part.namespace.is_empty());
        let objects = namespaced.map(|(part, kind_usage)| (part.clone(), kind_usage.objects)).collect();
        let mut wanted = left_out(&bytes, self.bytes.limit);
        wanted.extend(left_out(&objects, self.objects.limit));
        wanted
    }
}

impl KindUsage {
    /// How many documents of `part` count towards the limit of namespaced documents.
    fn readable(&self, part: &NamespacedKind) -> usize {
        if self.left_out.is_some() || part.namespace.is_empty() { 0 } else { self.objects }
    }

    /// The bytes that the documents take, or would take if they were not left out.
    fn bytes(&self) -> usize {
        match self.left_out {
            None => self.kept,
            Some((_, 0)) => self.alone,
            Some((kept, alone)) => {
                let bytes = self.alone as u128 * kept as u128 / alone as u128;
                usize::try_from(bytes).unwrap_or(usize::MAX)
            }
        }
    }
}

fn part(namespace: &str, kind: &GroupResource) -> NamespacedKind {
    NamespacedKind { namespace: namespace.into(), kind: kind.clone() }
}

/// The bytes that `value` needs in addition to the shared values in `units`. Adds the shared values in `value` to
/// `units`.
fn add_usage(value: &Value, units: &mut HashMap<usize, u32>) -> usize {
    walk(value, 0, &mut |unit| {
        let count = units.entry(unit).or_default();
        *count += 1;
        *count == 1
    })
}

/// The bytes that the removal of `value` frees. Removes the shared values in `value` from `units`.
fn remove_usage(value: &Value, units: &mut HashMap<usize, u32>) -> usize {
    let bytes = walk(value, 0, &mut |unit| {
        let Some(count) = units.get_mut(&unit) else { return false };
        *count -= 1;
        if *count == 0 {
            units.remove(&unit);
        }
        !units.contains_key(&unit)
    });
    policy_sync_api::shrink::shrink_if_sparse(units);
    bytes
}

/// The bytes of `value`. `counts` returns for each shared value whether its bytes are included.
fn walk(value: &Value, depth: usize, counts: &mut impl FnMut(usize) -> bool) -> usize {
    let mut bytes = own(value);
    for (part, is_few) in parts(value) {
        let unit = unit(part).filter(|_| depth < MAX_SHARED_DEPTH);
        bytes += match (unit, part_weight(part, is_few)) {
            (Some(unit), weight) if weight >= MIN_SHARED_BYTES => {
                if counts(unit) {
                    walk(part, depth + 1, counts)
                } else {
                    0
                }
            }
            (_, weight) => weight,
        };
    }
    bytes
}

/// The address of a value that documents can share.
fn unit(value: &Value) -> Option<usize> {
    match value {
        Value::Array(items) => Some(Arc::as_ptr(items).addr()),
        Value::Object(fields) => Some(Arc::as_ptr(fields).addr()),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
