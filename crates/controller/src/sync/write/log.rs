//! Logs the writes for one object as one line per action instead of one per work.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;
use tracing::{debug, info};

use policy_sync_api::names::ClusterName;
use policy_sync_api::text::join_limited;
use policy_sync_sync::diff::WorkAction;

/// Collects the writes for one object and logs them when dropped, also after an error.
pub(super) struct WriteLog {
    object: String,
    written: Mutex<BTreeMap<&'static str, BTreeSet<ClusterName>>>,
}

impl WriteLog {
    /// Starts without writes for `object`.
    pub(super) fn new(object: String) -> Self {
        Self { object, written: Mutex::default() }
    }

    /// Records that an action was carried out.
    pub(super) fn wrote(&self, action: &WorkAction) {
        let (object, verb, cluster, work) = (&self.object, action.verb(), action.cluster(), action.name());
        debug!(object, action = verb, %cluster, %work, "wrote a work");
        self.written.lock().entry(verb).or_default().insert(cluster.clone());
    }
}

impl Drop for WriteLog {
    fn drop(&mut self) {
        let object = &self.object;
        for (action, clusters) in &*self.written.lock() {
            let names = join_limited(clusters.iter().map(ToString::to_string));
            info!(object, action, works = clusters.len(), clusters = names, "wrote works");
        }
    }
}
