//! AppliedManifestWorks: the record of a work's objects on the spoke. The agent creates the record before it applies
//! anything, and removes the record's finalizer after all objects are gone.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use policy_sync_api::work::ManifestWork;
use serde_json::json;

use crate::api::{AppliedManifestWork, AppliedManifestWorkSpec, AppliedManifestWorkStatus, AppliedResource};

/// The finalizer that keeps the record until the record's objects are gone.
const FINALIZER: &str = "cluster.open-cluster-management.io/applied-manifest-work-cleanup";

/// AppliedManifestWorks of one agent.
pub(super) struct Records {
    api: Api<AppliedManifestWork>,
    hub_hash: String,
    agent_id: String,
}

impl Records {
    /// Records of works of the hub at `hub_url`, owned by `agent_id`.
    pub(super) fn new(spoke: Client, hub_url: &str, agent_id: String) -> Self {
        let hub_hash = blake3::hash(hub_url.as_bytes()).to_hex().to_string();
        Self { api: Api::all(spoke), hub_hash, agent_id }
    }

    /// The name of a work's record: the hash of the hub's URL, then the work's name.
    fn name(&self, work: &str) -> String {
        format!("{}-{work}", self.hub_hash)
    }

    pub(super) async fn get(&self, work: &str) -> kube::Result<Option<AppliedManifestWork>> {
        self.api.get_opt(&self.name(work)).await
    }

    /// Creates the record of a work, or updates its spec.
    pub(super) async fn ensure(&self, work: &ManifestWork) -> kube::Result<AppliedManifestWork> {
        let name = work.name_any();
        let spec = AppliedManifestWorkSpec {
            hub_hash: self.hub_hash.clone(),
            agent_id: Some(self.agent_id.clone()),
            manifest_work_name: name.clone(),
        };
        match self.get(&name).await? {
            Some(record) if record.spec == spec => Ok(record),
            Some(record) => {
                let patch = json!({"spec": spec});
                self.api.patch(&record.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await
            }
            None => {
                let mut record = AppliedManifestWork::new(&self.name(&name), spec);
                record.metadata.labels.clone_from(&work.metadata.labels);
                record.metadata.finalizers = Some(vec![FINALIZER.into()]);
                self.api.create(&PostParams::default(), &record).await
            }
        }
    }

    /// Writes the list of the work's objects if the list has changed.
    pub(super) async fn write(
        &self,
        record: &AppliedManifestWork,
        mut resources: Vec<AppliedResource>,
    ) -> kube::Result<()> {
        resources.sort();
        if resources == recorded(record) {
            return Ok(());
        }
        let status =
            AppliedManifestWorkStatus { applied_resources: Some(resources), eviction_start_time: None };
        let patch = json!({"metadata": {"uid": record.metadata.uid}, "status": status});
        let params = PatchParams::default();
        self.api.patch_status(&record.name_any(), &params, &Patch::Merge(patch)).await.map(|_| ())
    }

    /// Deletes a record. The record keeps terminating until [`Records::remove_finalizer`] is called.
    pub(super) async fn delete(&self, record: &AppliedManifestWork) -> kube::Result<()> {
        self.api.delete(&record.name_any(), &DeleteParams::default()).await.map(|_| ())
    }

    /// Removes the record's finalizer.
    pub(super) async fn remove_finalizer(&self, record: &AppliedManifestWork) -> kube::Result<()> {
        let rest: Vec<_> = record.finalizers().iter().filter(|finalizer| *finalizer != FINALIZER).collect();
        let patch = json!({"metadata": {
            "uid": record.metadata.uid,
            "resourceVersion": record.metadata.resource_version,
            "finalizers": rest,
        }});
        self.api
            .patch_metadata(&record.name_any(), &PatchParams::default(), &Patch::Merge(patch))
            .await
            .map(|_| ())
    }
}

/// The objects listed in a record.
pub(super) fn recorded(record: &AppliedManifestWork) -> &[AppliedResource] {
    record.status.as_ref().and_then(|status| status.applied_resources.as_deref()).unwrap_or_default()
}

/// An owner reference to the record, for the objects in it.
pub(super) fn owner(record: &AppliedManifestWork) -> OwnerReference {
    OwnerReference {
        api_version: "work.open-cluster-management.io/v1".into(),
        kind: "AppliedManifestWork".into(),
        name: record.name_any(),
        uid: record.metadata.uid.clone().unwrap_or_default(),
        ..OwnerReference::default()
    }
}
