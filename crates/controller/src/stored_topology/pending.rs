//! The status writes that are pending after the last build, and whether a change requires another build. This is a
//! state machine that uses neither a client nor a clock.
//!
//! ```text
//! graph ──▶ waits ──▶ written at a version ──┬──▶ the watch delivers this status: removed
//!   ▲                                        │
//!   └─── the watch delivers another status ◀─┘
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use super::index::{Index, Versions};
use super::key::{StatusKey, StatusWriteKey};
use super::kinds::CONFIG_MAPS;
use super::rows::StoredConfigMap;
use policy_sync_api::json::Hash;
use policy_sync_api::names::ObjectKey;
use policy_sync_mirror::Changes;
use policy_sync_topology::conditions::{Conditions, ParentConditions};

/// A desired status.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Desired {
    /// The status of a Gateway.
    Gateway {
        /// The uid of the Gateway.
        uid: Arc<str>,
        /// The generation of the Gateway.
        generation: i64,
        /// The conditions that name the policies affecting the Gateway.
        conditions: Conditions,
    },
    /// The status of a route.
    Route {
        /// The generation of the route.
        generation: i64,
        /// The entries for the route's parents.
        entries: Vec<ParentConditions>,
    },
}

/// A desired status with its hashes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DesiredStatus {
    /// The content of the status.
    pub desired: Desired,
    /// The hash of the content.
    pub digest: Hash,
    /// The hash of the object's uid.
    pub uid: Hash,
    /// Whether the object itself changed, not only objects that it depends on.
    pub changed: bool,
}

impl DesiredStatus {
    fn is_same(&self, other: &Self) -> bool {
        (self.digest, self.uid) == (other.digest, other.uid)
    }
}

/// The pending status writes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PendingStatuses {
    writes: BTreeMap<StatusKey, PendingWrite>,
    /// The hash of the text in the ConfigMap and the text's level of detail, as of the last graph.
    text: Option<(Hash, String)>,
    /// Writes of this process that the watch has delivered since the current build started. The build may lack these
    /// writes. `None` unless a build is running.
    unseen: Option<Unseen>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Unseen {
    /// The statuses, each with its hash.
    statuses: BTreeMap<StatusKey, Hash>,
    /// Whether the watch delivered the ConfigMap.
    text: bool,
}

/// A pending status write.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PendingWrite {
    /// The desired status.
    pub status: DesiredStatus,
    /// The resource version of the object's kind when the graph was built.
    seen: u64,
    state: WriteState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum WriteState {
    Waiting,
    /// The status was written. The object then had this resource version.
    Written(u64),
}

/// The consequences of a new graph.
#[derive(Debug)]
#[must_use]
pub struct ReplaceResult {
    /// The keys of the writes to queue.
    pub writes_to_queue: Vec<StatusWriteKey>,
    /// Whether to rebuild the graph, because the watch has delivered writes that the graph does not include. No other
    /// change would trigger a rebuild.
    pub rebuild: bool,
}

impl PendingStatuses {
    /// Starts a build. The caller must read rows only after this call.
    pub fn begin_build(&mut self) {
        self.unseen = Some(Unseen::default());
    }

    /// Aborts a build. Returns whether another build is needed.
    pub fn abort_build(&mut self) -> bool {
        self.unseen.take().is_some_and(|unseen| unseen.text || !unseen.statuses.is_empty())
    }

    /// Replaces the desired statuses by the statuses of a new graph that was built from rows of these versions.
    pub fn replace(
        &mut self,
        desired: BTreeMap<StatusKey, DesiredStatus>,
        versions: &Versions,
    ) -> ReplaceResult {
        let unseen = self.unseen.take().unwrap_or_default();
        let rebuild = unseen.text || unseen.statuses.keys().any(|key| !desired.contains_key(key));
        let mut known = std::mem::take(&mut self.writes);
        let mut writes_to_queue = Vec::new();
        for (key, status) in desired {
            if unseen.statuses.get(&key) == Some(&status.digest) {
                continue;
            }
            let seen = versions.of(&key);
            let before = known.remove(&key).filter(|before| before.status.is_same(&status));
            let state = match before.map(|before| before.state) {
                // The key of this status is already in the queue. After a failed write, the key keeps its backoff.
                Some(WriteState::Waiting) => WriteState::Waiting,
                Some(WriteState::Written(version)) if version > seen => WriteState::Written(version),
                _ => {
                    writes_to_queue.push(StatusWriteKey { key: key.clone(), changed: status.changed });
                    WriteState::Waiting
                }
            };
            self.writes.insert(key, PendingWrite { status, seen, state });
        }
        ReplaceResult { writes_to_queue, rebuild }
    }

    /// Forgets all writes, because leadership changed.
    pub fn forget(&mut self) {
        self.writes = BTreeMap::new();
        self.text = None;
    }

    /// Sets the desired content of the ConfigMap.
    pub fn expect_text(&mut self, text: Hash, detail: &str) {
        self.text = Some((text, detail.to_owned()));
    }

    /// Handles a ConfigMap that the watch delivered. Returns whether it has the desired content.
    pub fn text_delivered(&mut self, text: Hash, detail: &str) -> bool {
        let is_it = self.text.as_ref().is_some_and(|wanted| (wanted.0, wanted.1.as_str()) == (text, detail));
        if is_it && let Some(unseen) = &mut self.unseen {
            unseen.text = true;
        }
        is_it
    }

    /// Handles a status that the watch delivered at `version`. Returns true if it is the desired status, or if it is
    /// older than this process's own write.
    pub fn status_delivered(&mut self, key: &StatusKey, digest: Hash, version: u64) -> bool {
        let Some(write) = self.writes.get(key) else { return false };
        if write.status.digest != digest {
            // At an older version, this process's write has already replaced the status, but the watch has not
            // delivered the write yet. At a newer version, another client has overwritten the write.
            return matches!(write.state, WriteState::Written(written) if version < written);
        }
        self.writes.remove(key);
        if let Some(unseen) = &mut self.unseen {
            unseen.statuses.insert(key.clone(), digest);
        }
        true
    }

    /// The status to write now for `key`.
    #[must_use]
    pub fn next(&self, key: &StatusKey) -> Option<PendingWrite> {
        self.writes.get(key).filter(|write| write.state == WriteState::Waiting).cloned()
    }

    /// Records that `write` succeeded; the object now has `version`.
    pub fn wrote(&mut self, key: &StatusKey, write: &PendingWrite, version: u64) {
        if let Some(known) = self.writes.get_mut(key)
            && known.status.is_same(&write.status)
        {
            known.state = WriteState::Written(version);
        }
    }

    /// Removes `write`, because the object or its kind no longer exists.
    pub fn remove_deleted(&mut self, key: &StatusKey, write: &PendingWrite) {
        if self.writes.get(key).is_some_and(|known| known.status.is_same(&write.status)) {
            self.writes.remove(key);
        }
    }

    /// Removes `write` after the object was read at `version`, because the object is newer than the graph or already
    /// has the desired status. If a later graph shows that the status has been overwritten since this read, the write
    /// stays pending, and its key is returned.
    #[must_use]
    pub fn settle(&mut self, key: &StatusKey, write: &PendingWrite, version: u64) -> Option<StatusWriteKey> {
        let known = self.writes.get(key).filter(|known| known.status.is_same(&write.status))?;
        match known.state {
            // Another attempt has written the status.
            WriteState::Written(_) => None,
            WriteState::Waiting if known.seen > version => {
                Some(StatusWriteKey { key: key.clone(), changed: known.status.changed })
            }
            WriteState::Waiting => {
                self.writes.remove(key);
                None
            }
        }
    }

    /// The number of statuses that are not written, or not delivered by the watch yet.
    pub(super) fn len(&self) -> usize {
        self.writes.len()
    }

    /// The number of statuses that are not written yet.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.writes.values().filter(|write| write.state == WriteState::Waiting).count()
    }
}

/// Whether the topology must be rebuilt after `changes`. This process's own writes do not require a rebuild. They are
/// removed from `pending`.
pub fn is_affected(
    changes: &Changes<'_, Index>,
    pending: &mut PendingStatuses,
    config_map: &ObjectKey,
) -> bool {
    let view = changes.view();
    // All changes are visited, because each own write must be removed from `pending`.
    let others = changes.iter().filter(|changed| match view.changed_status(changed) {
        Some((key, digest)) => !pending.status_delivered(&key, digest, view.version_of(&key)),
        None if changed.object_of(&CONFIG_MAPS).is_some() => {
            let mut is_it = |StoredConfigMap { is_ours, text, detail, .. }: &StoredConfigMap| {
                *is_ours && pending.text_delivered(*text, detail)
            };
            !view.stored(config_map).is_some_and(&mut is_it)
        }
        None => true,
    });
    others.count() > 0
}

#[cfg(test)]
mod tests;
