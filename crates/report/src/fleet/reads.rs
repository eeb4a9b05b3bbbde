//! Reads that a single web page needs, from the hub or from files, beyond the watched objects.

use tokio::task::block_in_place;

use super::live::{Live, ObjectSource};
use crate::snapshot::ReadError;
use crate::{
    ExplainError, ExplainQuery, FleetObjects, FleetObjectsQuery, ObjectExplanation, Query, QueryError,
    Report, RequestedKinds, ServedKind, cluster, explain_on_clusters, fleet_objects,
    fleet_objects_from_files,
};
use policy_sync_api::names::{ClusterName, ObjectKey};
use policy_sync_api::object::HubObject;
use policy_sync_hub::HubError;
use policy_sync_mirror::Scope;
use policy_sync_sync::Settings;

impl Live {
    /// A title for the source: the hub's URL, or files.
    #[must_use]
    pub fn name(&self) -> String {
        match self.source() {
            ObjectSource::Hub(watched) => format!("Hub {}", watched.hub.url()),
            ObjectSource::Files(..) => "Files, as they were when this began".to_owned(),
        }
    }

    /// Whether the objects come from files.
    #[must_use]
    pub fn is_from_files(&self) -> bool {
        matches!(self.source(), ObjectSource::Files(..))
    }

    /// Reads the objects of one kind, or of one cluster.
    ///
    /// # Errors
    ///
    /// The errors of [`Report::read`].
    pub async fn report(
        &self,
        requested: RequestedKinds<'_>,
        scope: Scope,
        cluster: Option<ClusterName>,
    ) -> Result<Report, QueryError> {
        match self.source() {
            ObjectSource::Hub(watched) => {
                let query = Query { controller: self.controller(), requested, scope, cluster, hint: "" };
                Report::read(&watched.hub, &query).await
            }
            ObjectSource::Files(file_objects, _) => file_objects.report(requested, scope, cluster),
        }
    }

    /// Reads a ManagedCluster; `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// If the ManagedCluster cannot be read.
    pub async fn cluster(&self, name: &ClusterName) -> Result<Option<HubObject>, HubError> {
        match self.source() {
            ObjectSource::Hub(watched) => cluster(&watched.hub, name).await,
            ObjectSource::Files(file_objects, _) => Ok(file_objects.cluster(name).cloned()),
        }
    }

    /// Computes the effective policies on clusters; `None` if files lack the requested cluster.
    ///
    /// # Errors
    ///
    /// If the hub cannot be read, or has no such cluster.
    pub async fn fleet_objects(
        &self,
        query: FleetObjectsQuery<'_>,
    ) -> Result<Option<FleetObjects>, ReadError> {
        match self.source() {
            ObjectSource::Hub(watched) => {
                fleet_objects(&watched.hub, self.controller(), query).await.map(Some)
            }
            // The plans for all clusters are computed, which takes long for a large fleet.
            ObjectSource::Files(file_objects, _) => {
                Ok(block_in_place(|| fleet_objects_from_files(&file_objects.mirror, query)))
            }
        }
    }

    /// Explains why the object `key` of `kind` is on `cluster` or is not; `None` for files, which contain no
    /// reports of clusters.
    ///
    /// # Errors
    ///
    /// If the object or the cluster does not exist, or the hub cannot be read.
    pub async fn explain(
        &self,
        settings: &Settings,
        kind: &ServedKind,
        key: ObjectKey,
        cluster: &ClusterName,
    ) -> Result<Option<ObjectExplanation>, ExplainError> {
        match self.source() {
            ObjectSource::Hub(watched) => {
                let controller = self.controller();
                let query = ExplainQuery { controller, settings, kind, key, cluster: Some(cluster) };
                explain_on_clusters(&watched.hub, query).await.map(|(explanation, _)| Some(explanation))
            }
            ObjectSource::Files(..) => Ok(None),
        }
    }
}
