//! What is read of a hub only where a page asks for it, or is found in files.

use tokio::task::block_in_place;

use super::live::{Live, Of};
use crate::report::snapshot::ReadError;
use crate::report::{
    Across, AcrossQuery, Asked, ExplainError, ExplainQuery, ObjectExplanation, Query, QueryError, Report,
    ServedKind, across, across_files, cluster, explain_on_clusters,
};
use policy_sync_api::names::{ClusterName, ObjectKey};
use policy_sync_api::object::HubObject;
use policy_sync_hub::HubError;
use policy_sync_mirror::Scope;
use policy_sync_sync::Settings;

impl Live {
    /// What is shown, as people name it: a hub by its address.
    #[must_use]
    pub fn name(&self) -> String {
        match self.of() {
            Of::Hub(watched) => format!("Hub {}", watched.hub.url()),
            Of::Files(..) => "Files, as they were when this began".to_owned(),
        }
    }

    /// Whether it is what files have.
    #[must_use]
    pub fn is_of_files(&self) -> bool {
        matches!(self.of(), Of::Files(..))
    }

    /// What is asked for: of one kind, or of one cluster.
    ///
    /// # Errors
    ///
    /// Those of [`Report::read`].
    pub async fn report(
        &self,
        asked: Asked<'_>,
        scope: Scope,
        cluster: Option<ClusterName>,
    ) -> Result<Report, QueryError> {
        match self.of() {
            Of::Hub(watched) => {
                let query = Query { controller: self.controller(), asked, scope, cluster, hint: "" };
                Report::read(&watched.hub, &query).await
            }
            Of::Files(given, _) => given.report(asked, scope, cluster),
        }
    }

    /// A ManagedCluster, `None` where there is none of this name.
    ///
    /// # Errors
    ///
    /// Where it cannot be read.
    pub async fn cluster(&self, name: &ClusterName) -> Result<Option<HubObject>, HubError> {
        match self.of() {
            Of::Hub(watched) => cluster(&watched.hub, name).await,
            Of::Files(given, _) => Ok(given.cluster(name).cloned()),
        }
    }

    /// What is in force on clusters; `None` where files have no cluster of the name that is asked for.
    ///
    /// # Errors
    ///
    /// Where the hub cannot be read, or has no such cluster.
    pub async fn across(&self, query: AcrossQuery<'_>) -> Result<Option<Across>, ReadError> {
        match self.of() {
            Of::Hub(watched) => across(&watched.hub, self.controller(), query).await.map(Some),
            // It plans for all clusters.
            Of::Files(given, _) => Ok(block_in_place(|| across_files(&given.mirror, query))),
        }
    }

    /// Why the object `key` of `kind` is on `cluster`, or is not; `None` of files, which no cluster has answered to.
    ///
    /// # Errors
    ///
    /// Where there is no such object or cluster, or the hub cannot be read.
    pub async fn explain(
        &self,
        settings: &Settings,
        kind: &ServedKind,
        key: ObjectKey,
        cluster: &ClusterName,
    ) -> Result<Option<ObjectExplanation>, ExplainError> {
        match self.of() {
            Of::Hub(watched) => {
                let controller = self.controller();
                let query = ExplainQuery { controller, settings, kind, key, cluster: Some(cluster) };
                explain_on_clusters(&watched.hub, query).await.map(|(explanation, _)| Some(explanation))
            }
            Of::Files(..) => Ok(None),
        }
    }
}
