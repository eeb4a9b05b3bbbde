//! A queue of groups that take turns: between two items of a group, at most one item of every other group is removed.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::shrink::{is_sparse, shrink_if_sparse};

/// Items by group. Each group is a FIFO queue.
#[derive(Debug)]
pub struct FairQueue<T> {
    groups: VecDeque<Arc<str>>,
    /// The items of each group. Groups without items are removed.
    items: HashMap<Arc<str>, VecDeque<T>>,
}

impl<T> Default for FairQueue<T> {
    fn default() -> Self {
        Self { groups: VecDeque::new(), items: HashMap::new() }
    }
}

impl<T> FairQueue<T> {
    /// Appends `item` to `group`.
    pub fn push(&mut self, group: Arc<str>, item: T) {
        let items = self.items.entry(group.clone()).or_default();
        if items.is_empty() {
            self.groups.push_back(group);
        }
        items.push_back(item);
    }

    /// Removes the oldest item of the next group.
    pub fn pop(&mut self) -> Option<T> {
        let group = self.groups.pop_front()?;
        let items = self.items.get_mut(&group)?;
        let item = items.pop_front();
        if items.is_empty() {
            self.items.remove(&group);
        } else {
            self.groups.push_back(group);
        }
        item
    }

    /// The group with the most items, and their number.
    pub fn largest(&self) -> Option<(Arc<str>, usize)> {
        let sizes = self.items.iter().map(|(group, items)| (group.clone(), items.len()));
        sizes.max_by_key(|(_, size)| *size)
    }

    /// The number of items of `group`.
    pub fn count(&self, group: &str) -> usize {
        self.items.get(group).map_or(0, VecDeque::len)
    }

    /// Removes the newest item of `group`.
    pub fn pop_newest(&mut self, group: &str) -> Option<T> {
        let items = self.items.get_mut(group)?;
        let item = items.pop_back();
        if items.is_empty() {
            self.items.remove(group);
            self.groups.retain(|other| &**other != group);
        }
        item
    }

    /// Removes the items for which `keep` is false. Returns their number.
    pub fn retain(&mut self, keep: impl Fn(&T) -> bool) -> usize {
        let mut removed = 0;
        self.items.retain(|_, items| {
            let before = items.len();
            items.retain(&keep);
            removed += before - items.len();
            !items.is_empty()
        });
        let items = &self.items;
        self.groups.retain(|group| items.contains_key(group));
        removed
    }

    /// The numbers of groups in the queue, and of groups that have items.
    #[must_use]
    pub fn group_counts(&self) -> (usize, usize) {
        (self.groups.len(), self.items.len())
    }

    /// Releases memory that is unused after a burst of items.
    pub fn shrink_if_sparse(&mut self) {
        shrink_if_sparse(&mut self.items);
        if is_sparse(self.groups.len(), self.groups.capacity()) {
            self.groups.shrink_to(2 * self.groups.len());
        }
    }
}
