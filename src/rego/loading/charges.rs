//! Accounts for the memory of documents by namespace and kind, and for documents left out.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use regorus::Value;

use super::rows::Document;
use super::shares::{Part, left_out};
use super::weight::{own, part_weight, parts};
use crate::api::names::GroupResource;

/// The minimum size in bytes and the maximum depth of a shared part. Documents that share such a part are charged for it once.
const UNIT: usize = 512;
const DEPTH: usize = 5;

/// The most bytes that count for a document at least, so that no sum overflows.
const FLOOR: usize = 1 << 30;

/// The memory that documents take.
#[derive(Clone, Debug)]
pub(super) struct Charges {
    budget: usize,
    /// The bytes that count for a document at least. So the budget limits the number of documents as well.
    floor: usize,
    /// The bytes of all documents that are not left out.
    kept: usize,
    /// The bytes that count for them.
    counted: usize,
    /// When `counted` exceeds this, `cut` selects parts to leave out.
    threshold: usize,
    parts: BTreeMap<Part, Charge>,
}

/// The memory of the documents of one kind in one namespace.
#[derive(Clone, Debug, Default)]
struct Charge {
    objects: usize,
    /// The bytes of all documents, without sharing.
    alone: usize,
    /// The bytes of the documents in memory; shared parts count once.
    kept: usize,
    /// The number of documents that contain each shared part, by its address.
    units: HashMap<usize, u32>,
    /// For documents left out: `kept` and `alone` at that time. Their ratio estimates the effect of sharing from then on.
    left_out: Option<(usize, usize)>,
}

/// Documents that are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LeftOut {
    /// The number of documents.
    pub objects: usize,
    /// The estimated bytes of these documents.
    pub bytes: usize,
}

impl Charges {
    /// Creates an empty account with a budget of this many bytes and documents.
    pub(super) fn new(budget: usize, documents: usize) -> Self {
        let floor = budget.div_ceil(documents.max(1)).min(FLOOR);
        Self { budget, floor, kept: 0, counted: 0, threshold: budget, parts: BTreeMap::new() }
    }

    /// The bytes of all documents that are not left out.
    pub(super) fn kept(&self) -> usize {
        self.kept
    }

    /// Whether the documents of `kind` in `namespace` are left out.
    pub(super) fn are_left_out(&self, namespace: &str, kind: &GroupResource) -> bool {
        // Usually no documents are left out.
        self.parts.get(&part(namespace, kind)).is_some_and(|charge| charge.left_out.is_some())
    }

    /// The parts that are left out.
    pub(super) fn left_out(&self) -> impl Iterator<Item = (&Part, LeftOut)> {
        self.parts
            .iter()
            .filter(|(_, charge)| charge.left_out.is_some())
            .map(|(part, charge)| (part, LeftOut { objects: charge.objects, bytes: charge.bytes() }))
    }

    /// The kinds with left-out documents that fit the budget now.
    pub(super) fn returning(&self) -> BTreeSet<GroupResource> {
        let wanted = left_out(&self.sizes(), self.budget);
        self.left_out()
            .filter(|(part, _)| !wanted.contains(part))
            .map(|(part, _)| part.kind.clone())
            .collect()
    }

    /// Replaces `before` by `after` in the account, for an object of `kind` in `namespace`.
    pub(super) fn replace(
        &mut self,
        namespace: &str,
        kind: &GroupResource,
        before: Option<&Document>,
        after: Option<&Document>,
    ) {
        let part = part(namespace, kind);
        let charge = self.parts.entry(part.clone()).or_default();
        self.kept -= charge.kept;
        self.counted -= charge.counted(self.floor);
        if let Some(after) = after {
            charge.objects += 1;
            charge.alone += after.weight;
            charge.kept += charge_for(&after.value, &mut charge.units);
        }
        if let Some(before) = before {
            charge.objects = charge.objects.saturating_sub(1);
            charge.alone = charge.alone.saturating_sub(before.weight);
            charge.kept = charge.kept.saturating_sub(refund_for(&before.value, &mut charge.units));
        }
        self.kept += charge.kept;
        self.counted += charge.counted(self.floor);
        if charge.objects == 0 {
            self.kept -= charge.kept;
            self.counted -= charge.counted(self.floor);
            self.parts.remove(&part);
        }
    }

    /// If the documents exceed the budget, selects parts to leave out, marks them, and returns them.
    pub(super) fn cut(&mut self) -> BTreeSet<Part> {
        if self.counted <= self.budget {
            self.threshold = self.budget;
        }
        if self.counted <= self.threshold {
            return BTreeSet::new();
        }
        let wanted = left_out(&self.sizes(), self.budget);
        let wanted: BTreeSet<Part> =
            wanted.into_iter().filter(|part| self.parts[part].left_out.is_none()).collect();
        for part in &wanted {
            if let Some(charge) = self.parts.get_mut(part) {
                self.counted -= charge.counted(self.floor);
                charge.left_out = Some((charge.kept, charge.alone));
                self.counted += charge.counted(self.floor);
            }
        }
        // If no part can be left out, further growth by a 16th of the budget triggers the next attempt.
        self.threshold = if wanted.is_empty() { self.counted + self.budget / 16 } else { self.budget };
        wanted
    }

    fn sizes(&self) -> BTreeMap<Part, usize> {
        let size = |charge: &Charge| charge.bytes().max(charge.objects * self.floor);
        self.parts.iter().map(|(part, charge)| (part.clone(), size(charge))).collect()
    }
}

impl Charge {
    /// The bytes that count for documents in memory, at least `floor` for each.
    fn counted(&self, floor: usize) -> usize {
        if self.left_out.is_some() { self.kept } else { self.kept.max(self.objects * floor) }
    }

    /// The bytes that the documents take, or would take.
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

fn part(namespace: &str, kind: &GroupResource) -> Part {
    Part { namespace: namespace.into(), kind: kind.clone() }
}

/// The bytes that `value` adds beside the shared parts in `units`. Adds its own parts to `units`.
fn charge_for(value: &Value, units: &mut HashMap<usize, u32>) -> usize {
    walk(value, 0, &mut |unit| {
        let count = units.entry(unit).or_default();
        *count += 1;
        *count == 1
    })
}

/// The bytes that removing `value` frees. Removes its parts from `units`.
fn refund_for(value: &Value, units: &mut HashMap<usize, u32>) -> usize {
    let bytes = walk(value, 0, &mut |unit| {
        let Some(count) = units.get_mut(&unit) else { return false };
        *count -= 1;
        if *count == 0 {
            units.remove(&unit);
        }
        !units.contains_key(&unit)
    });
    crate::shrink::give_back(units);
    bytes
}

/// The bytes of `value`. `counts` decides for each shared part whether it is charged.
fn walk(value: &Value, depth: usize, counts: &mut impl FnMut(usize) -> bool) -> usize {
    let mut bytes = own(value);
    for (part, is_few) in parts(value) {
        let unit = unit(part).filter(|_| depth < DEPTH);
        bytes += match (unit, part_weight(part, is_few)) {
            (Some(unit), weight) if weight >= UNIT => {
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
