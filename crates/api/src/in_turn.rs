//! A queue of groups that take turns: before each item of a group, at most one item of every other group comes.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::shrink::{give_back, is_roomy};

/// Items by group. Each group is a FIFO queue.
#[derive(Debug)]
pub struct InTurn<T> {
    groups: VecDeque<Arc<str>>,
    /// The items of each group. Groups without items are removed.
    items: HashMap<Arc<str>, VecDeque<T>>,
}

impl<T> Default for InTurn<T> {
    fn default() -> Self {
        Self { groups: VecDeque::new(), items: HashMap::new() }
    }
}

impl<T> InTurn<T> {
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

    /// Removes the items for which `stays` is false. Returns their number.
    pub fn retain(&mut self, stays: impl Fn(&T) -> bool) -> usize {
        let mut gone = 0;
        self.items.retain(|_, items| {
            let before = items.len();
            items.retain(&stays);
            gone += before - items.len();
            !items.is_empty()
        });
        let items = &self.items;
        self.groups.retain(|group| items.contains_key(group));
        gone
    }

    /// The numbers of groups in the queue, and of groups that have items.
    #[must_use]
    pub fn held(&self) -> (usize, usize) {
        (self.groups.len(), self.items.len())
    }

    /// Releases the memory that a burst has left.
    pub fn give_back(&mut self) {
        give_back(&mut self.items);
        if is_roomy(self.groups.len(), self.groups.capacity()) {
            self.groups.shrink_to(2 * self.groups.len());
        }
    }
}
