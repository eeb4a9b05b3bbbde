//! Which statuses wait to be written, as the last graph has them: a state machine without a client and without a clock.
//!
//! ```text
//! graph ──▶ waits ──▶ written at a version ──▶ the watch shows it: gone from here
//!   ▲                                            │
//!   └──────── the watch shows something else ◀───┘
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use super::status_key::{StatusKey, Turn};
use super::versions::Versions;
use policy_sync_api::json::Hash;
use policy_sync_topology::conditions::{Conditions, ParentConditions};

/// What a status is to say.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Desired {
    /// That of a Gateway.
    Gateway {
        /// Of the Gateway, unique over time.
        uid: Arc<str>,
        /// Of its spec.
        generation: i64,
        /// Which policies affect it.
        conditions: Conditions,
    },
    /// That of a route.
    Route {
        /// Of its spec.
        generation: i64,
        /// What it says of its parents.
        entries: Vec<ParentConditions>,
    },
}

/// The same, as it is compared.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DesiredStatus {
    /// What it is to say.
    pub desired: Desired,
    /// The hash of that.
    pub digest: Hash,
    /// The hash of the object's uid.
    pub uid: Hash,
    /// Whether the object has changed itself, and does not only follow others.
    pub changed: bool,
}

impl DesiredStatus {
    fn is_as(&self, other: &Self) -> bool {
        (self.digest, self.uid) == (other.digest, other.uid)
    }
}

/// Which statuses wait to be written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PendingStatuses {
    writes: BTreeMap<StatusKey, PendingWrite>,
    /// The text of the ConfigMap, and its detail, as the last graph has them.
    text: Option<(Hash, String)>,
    /// While a graph is built: what the watch has shown of own writes, which this graph may not have seen.
    unseen: Option<Unseen>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Unseen {
    /// The statuses, each with the hash of what it says.
    statuses: BTreeMap<StatusKey, Hash>,
    /// The ConfigMap.
    text: bool,
}

/// A status that is to be written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PendingWrite {
    /// What it is to say.
    pub status: DesiredStatus,
    /// Up to which version of the hub the graph had seen objects of the kind.
    seen: u64,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State {
    Waits,
    /// It was written, and left the object at this version.
    Written(u64),
}

/// What follows from a new graph.
#[derive(Debug)]
#[must_use]
pub struct Replaced {
    /// The turns to be queued.
    pub turns: Vec<Turn>,
    /// Whether the graph has to be built anew: the watch has shown meanwhile what it has not seen, and nothing else would have it built.
    pub again: bool,
}

impl PendingStatuses {
    /// Notes that a graph is about to be built, of rows that are read from now on.
    pub fn begin(&mut self) {
        self.unseen = Some(Unseen::default());
    }

    /// Notes that this was given up; returns whether it has to be built after all.
    pub fn give_up(&mut self) -> bool {
        self.unseen.take().is_some_and(|unseen| unseen.text || !unseen.statuses.is_empty())
    }

    /// Takes what the new graph, built of rows of these versions, has in place of what the last one had.
    pub fn replace(&mut self, desired: BTreeMap<StatusKey, DesiredStatus>, versions: &Versions) -> Replaced {
        let unseen = self.unseen.take().unwrap_or_default();
        let again = unseen.text || unseen.statuses.keys().any(|key| !desired.contains_key(key));
        let mut known = std::mem::take(&mut self.writes);
        let mut turns = Vec::new();
        for (key, status) in desired {
            if unseen.statuses.get(&key) == Some(&status.digest) {
                continue;
            }
            let seen = versions.of(&key);
            let before = known.remove(&key).filter(|before| before.status.is_as(&status));
            let state = match before.map(|before| before.state) {
                // One that has failed keeps its backoff.
                Some(State::Waits) => State::Waits,
                Some(State::Written(version)) if version > seen => State::Written(version),
                _ => {
                    turns.push(Turn { key: key.clone(), changed: status.changed });
                    State::Waits
                }
            };
            self.writes.insert(key, PendingWrite { status, seen, state });
        }
        Replaced { turns, again }
    }

    /// Forgets all: another process leads, or this one anew.
    pub fn forget(&mut self) {
        self.writes = BTreeMap::new();
        self.text = None;
    }

    /// Notes what the ConfigMap is to say.
    pub fn expect_text(&mut self, text: Hash, detail: &str) {
        self.text = Some((text, detail.to_owned()));
    }

    /// Takes in that the watch shows the ConfigMap so; returns whether it is to be so.
    pub fn shows_text(&mut self, text: Hash, detail: &str) -> bool {
        let is_it = self.text.as_ref().is_some_and(|wanted| (wanted.0, wanted.1.as_str()) == (text, detail));
        if is_it && let Some(unseen) = &mut self.unseen {
            unseen.text = true;
        }
        is_it
    }

    /// Takes in that the watch shows, at `version`, a status that says this; returns whether that is as it is to be, or about to be.
    pub fn shows(&mut self, key: &StatusKey, digest: Hash, version: u64) -> bool {
        let Some(write) = self.writes.get(key) else { return false };
        if write.status.digest != digest {
            // The watch has not come to what was written, which has replaced what it shows. Otherwise somebody has written over it.
            return matches!(write.state, State::Written(written) if version < written);
        }
        self.writes.remove(key);
        if let Some(unseen) = &mut self.unseen {
            unseen.statuses.insert(key.clone(), digest);
        }
        true
    }

    /// What is to be written now of `key`.
    #[must_use]
    pub fn next(&self, key: &StatusKey) -> Option<PendingWrite> {
        self.writes.get(key).filter(|write| write.state == State::Waits).cloned()
    }

    /// Notes that `write` was carried out, and left the object at `version`.
    pub fn wrote(&mut self, key: &StatusKey, write: &PendingWrite, version: u64) {
        if let Some(known) = self.writes.get_mut(key)
            && known.status.is_as(&write.status)
        {
            known.state = State::Written(version);
        }
    }

    /// Forgets `write`: the object is gone, or its kind.
    pub fn is_gone(&mut self, key: &StatusKey, write: &PendingWrite) {
        if self.writes.get(key).is_some_and(|known| known.status.is_as(&write.status)) {
            self.writes.remove(key);
        }
    }

    /// Forgets `write`: at `version`, the object is newer than the graph, or says it already. A later graph may have seen that it
    /// says so no longer; its turn is returned.
    #[must_use]
    pub fn settle(&mut self, key: &StatusKey, write: &PendingWrite, version: u64) -> Option<Turn> {
        let known = self.writes.get(key).filter(|known| known.status.is_as(&write.status))?;
        match known.state {
            // Another turn has written it.
            State::Written(_) => None,
            State::Waits if known.seen > version => {
                Some(Turn { key: key.clone(), changed: known.status.changed })
            }
            State::Waits => {
                self.writes.remove(key);
                None
            }
        }
    }

    /// How many statuses are not written, or were and are not shown yet.
    pub(super) fn len(&self) -> usize {
        self.writes.len()
    }

    /// How many statuses are not written yet.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.writes.values().filter(|write| write.state == State::Waits).count()
    }
}

#[cfg(test)]
mod tests;
