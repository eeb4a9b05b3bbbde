//! Which work.

use policy_sync_api::names::{ClusterName, ObjectKey, WorkName};

/// The key of a work: its name, the same in every cluster, and the cluster.
pub type WorkKey = (WorkName, ClusterName);

/// The key of its row.
pub(in crate::sync) fn row_key(key: &WorkKey) -> ObjectKey {
    ObjectKey { namespace: key.1.0.clone(), name: key.0.0.clone() }
}

/// The work that a row of this key is of.
pub(in crate::sync) fn work_key(key: &ObjectKey) -> WorkKey {
    (WorkName(key.name.clone()), ClusterName(key.namespace.clone()))
}
