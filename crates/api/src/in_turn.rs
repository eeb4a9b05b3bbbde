//! What waits in groups that take turns: however many one has, no other waits for more than one of them.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::shrink::{give_back, is_roomy};

/// Items of groups that take turns.
#[derive(Debug)]
pub struct InTurn<T> {
    groups: VecDeque<Arc<str>>,
    /// Those of each, none of which is without.
    items: HashMap<Arc<str>, VecDeque<T>>,
}

impl<T> Default for InTurn<T> {
    fn default() -> Self {
        Self { groups: VecDeque::new(), items: HashMap::new() }
    }
}

impl<T> InTurn<T> {
    /// Appends `item` to those of `group`.
    pub fn push(&mut self, group: Arc<str>, item: T) {
        let items = self.items.entry(group.clone()).or_default();
        if items.is_empty() {
            self.groups.push_back(group);
        }
        items.push_back(item);
    }

    /// Removes the oldest item of the group whose turn it is.
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

    /// The group that has most, and how many.
    pub fn largest(&self) -> Option<(Arc<str>, usize)> {
        let sizes = self.items.iter().map(|(group, items)| (group.clone(), items.len()));
        sizes.max_by_key(|(_, size)| *size)
    }

    /// How many `group` has.
    pub fn count(&self, group: &str) -> usize {
        self.items.get(group).map_or(0, VecDeque::len)
    }

    /// Takes the newest of `group` out.
    pub fn pop_newest(&mut self, group: &str) -> Option<T> {
        let items = self.items.get_mut(group)?;
        let item = items.pop_back();
        if items.is_empty() {
            self.items.remove(group);
            self.groups.retain(|other| &**other != group);
        }
        item
    }

    /// Keeps those of which `stays` says so, and returns how many went.
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

    /// A burst leaves no room behind.
    pub fn give_back(&mut self) {
        give_back(&mut self.items);
        if is_roomy(self.groups.len(), self.groups.capacity()) {
            self.groups.shrink_to(2 * self.groups.len());
        }
    }
}
