//! What a topology is made of, read for many pages at once.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::hub::{HubClient, HubError};
use crate::report::{ClusterObjects, ClusterQuery, cluster_objects};

/// For how long what was read is shown again: each reading lists all routes of a hub.
const FRESH: Duration = Duration::from_secs(10);

/// What was last read, and when.
#[derive(Debug, Default)]
pub(super) struct Objects {
    read: Mutex<Option<(Instant, Arc<ClusterObjects>)>>,
}

impl Objects {
    /// What the hub has; who comes while it is read waits for the same.
    pub(super) async fn read(
        &self,
        hub: &HubClient,
        query: ClusterQuery<'_>,
    ) -> Result<Arc<ClusterObjects>, HubError> {
        let mut read = self.read.lock().await;
        if let Some((at, objects)) = &*read
            && at.elapsed() < FRESH
        {
            return Ok(objects.clone());
        }
        // Both at once would take twice the room.
        *read = None;
        let objects = Arc::new(cluster_objects(hub, query).await?);
        *read = Some((Instant::now(), objects.clone()));
        Ok(objects)
    }
}
