//! A spoke for tests of work agents: creates works and waits for their statuses.

mod work;

use std::future::Future;
use std::time::{Duration, Instant};

use anyhow::ensure;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::await_condition;
use kube::{Api, Client, ResourceExt};
use policy_sync_api::work::ManifestWork;
use policy_sync_testenv::api::AppliedManifestWork;
use policy_sync_testenv::apply::apply;
use policy_sync_testenv::{Fleet, FleetOptions, wait};
use serde_json::json;

pub(crate) use self::work::*;

const TIMEOUT: Duration = Duration::from_secs(40);

/// A fleet, one of its spokes, and clients of hub and spoke.
pub(crate) struct SpokeFixture {
    own: Option<Fleet>,
    cluster: String,
    pub(crate) hub: Client,
    pub(crate) spoke: Client,
}

impl SpokeFixture {
    /// A fixture on a spoke of the shared fleet, with access to the sample policies. `_space` names the namespace
    /// that the test uses.
    pub(crate) async fn on(cluster: &str, _space: &str) -> Self {
        let fixture = Self::without_access(cluster).await;
        fixture.give_access().await;
        fixture
    }

    /// A fixture on a spoke of the shared fleet, without access to policies.
    pub(crate) async fn without_access(cluster: &str) -> Self {
        let fleet = Fleet::shared().await.unwrap();
        let spoke = fleet.spoke(cluster).unwrap().client().unwrap();
        Self { own: None, cluster: cluster.into(), hub: fleet.hub().client().unwrap(), spoke }
    }

    /// A fixture with access to a separate kind `things`, which has no policy controller.
    pub(crate) async fn without_policy_controller(cluster: &str, space: &str, group: &str) -> Self {
        let fixture = Self::without_access(cluster).await;
        apply(&fixture.spoke, &crd(group, "things", "Thing")).await.unwrap();
        fixture.applied(&fixture.create(&access(&format!("{space}-access"), group, "things")).await).await;
        fixture
    }

    /// A fixture on a separate fleet with one spoke.
    pub(crate) async fn alone(cluster: &str) -> Self {
        let fixture = Self::with_fleet(cluster, FleetOptions::spokes([cluster])).await;
        fixture.give_access().await;
        fixture
    }

    /// A fixture on a separate fleet with one spoke that has neither agent nor policy controller.
    pub(crate) async fn without_agents(cluster: &str) -> Self {
        let options =
            FleetOptions { agents: false, policy_controllers: false, ..FleetOptions::spokes([cluster]) };
        Self::with_fleet(cluster, options).await
    }

    async fn with_fleet(cluster: &str, options: FleetOptions) -> Self {
        let fleet = Fleet::start(options).await.unwrap();
        let spoke = fleet.spoke(cluster).unwrap().client().unwrap();
        let hub = fleet.hub().client().unwrap();
        Self { own: Some(fleet), cluster: cluster.into(), hub, spoke }
    }

    /// The separate fleet.
    pub(crate) fn fleet(&self) -> &Fleet {
        self.own.as_ref().unwrap()
    }

    pub(crate) async fn give_access(&self) {
        for resource in ["ratelimitpolicies", "authpolicies"] {
            let work = access(&format!("access-{resource}"), "kuadrant.io", resource);
            apply(&self.hub, &work.in_cluster(&self.cluster)).await.unwrap();
        }
    }

    pub(crate) async fn stop_agent(&self) {
        self.fleet().spoke(&self.cluster).unwrap().stop_agent().await;
    }

    pub(crate) async fn start_agent(&self) {
        self.fleet().spoke(&self.cluster).unwrap().start_agent().await.unwrap();
    }

    fn works(&self) -> Api<ManifestWork> {
        Api::namespaced(self.hub.clone(), &self.cluster)
    }

    fn objects(&self, group: &str, version: &str, plural: &str, namespace: &str) -> Api<DynamicObject> {
        let resource = ApiResource {
            group: group.into(),
            version: version.into(),
            api_version: format!("{group}/{version}"),
            kind: String::new(),
            plural: plural.into(),
        };
        Api::namespaced_with(self.spoke.clone(), namespace, &resource)
    }

    pub(crate) fn policies(&self, namespace: &str) -> Api<DynamicObject> {
        self.objects("kuadrant.io", "v1", "ratelimitpolicies", namespace)
    }

    pub(crate) fn logins(&self, namespace: &str) -> Api<DynamicObject> {
        self.objects("kuadrant.io", "v1", "authpolicies", namespace)
    }

    pub(crate) fn policies_gateways(&self, namespace: &str) -> Api<DynamicObject> {
        self.objects("gateway.networking.k8s.io", "v1", "gateways", namespace)
    }

    pub(crate) fn namespaces(&self) -> Api<Namespace> {
        Api::all(self.spoke.clone())
    }

    pub(crate) async fn create(&self, work: &Work) -> ManifestWork {
        let work = serde_json::from_value(work.in_cluster(&self.cluster)).unwrap();
        self.works().create(&PostParams::default(), &work).await.unwrap()
    }

    /// Replaces the whole spec with a JSON Patch, as a producer does.
    pub(crate) async fn replace(&self, work: &Work) -> ManifestWork {
        let patch =
            json!([{"op": "replace", "path": "/spec", "value": work.in_cluster(&self.cluster)["spec"]}]);
        let patch: Patch<()> = Patch::Json(serde_json::from_value(patch).unwrap());
        self.works().patch(&work.name, &PatchParams::default(), &patch).await.unwrap()
    }

    pub(crate) async fn start_delete(&self, work: &ManifestWork) {
        self.works().delete(&work.name_any(), &DeleteParams::default()).await.unwrap();
    }

    pub(crate) async fn deleted(&self, work: &ManifestWork) {
        let (uid, name) = (work.uid().unwrap(), work.name_any());
        let gone = await_condition(self.works(), &name, kube::runtime::conditions::is_deleted(&uid));
        let result = tokio::time::timeout(TIMEOUT, gone).await;
        assert!(result.is_ok(), "the work {} exists", work.name_any());
    }

    pub(crate) async fn delete(&self, work: &ManifestWork) {
        self.start_delete(work).await;
        self.deleted(work).await;
    }

    /// Waits until `is` holds, and returns the work.
    pub(crate) async fn until(
        &self,
        work: &ManifestWork,
        what: &str,
        is: impl Fn(&ManifestWork) -> bool,
    ) -> ManifestWork {
        let holds = |found: Option<&ManifestWork>| found.is_some_and(&is);
        let name = work.name_any();
        let wait = await_condition(self.works(), &name, holds);
        match tokio::time::timeout(TIMEOUT, wait).await {
            Ok(found) => found.unwrap().unwrap(),
            Err(_) => {
                let now = self.works().get(&work.name_any()).await.unwrap();
                let status = serde_json::to_string_pretty(&now.status).unwrap();
                panic!("{}: not within the limit: {what}\n{status}", work.name_any());
            }
        }
    }

    /// Waits until the agent has recorded the applied policy, which happens after the agent reports `Applied`. If the
    /// agent stops in between and the work is deleted, the agent does not remove the work's objects.
    pub(crate) async fn recorded(&self, work: &ManifestWork) {
        let records: Api<AppliedManifestWork> = Api::all(self.spoke.clone());
        let name = work.name_any();
        wait::until("the applied policy is recorded", TIMEOUT, || async {
            let records = records.list(&ListParams::default()).await?;
            let record = records.into_iter().find(|record| record.spec.manifest_work_name == name);
            let resources = record.and_then(|record| record.status?.applied_resources).unwrap_or_default();
            let policies = resources.iter().filter(|resource| resource.resource == "ratelimitpolicies");
            ensure!(policies.count() == 1, "{resources:?}");
            Ok(())
        })
        .await
        .unwrap();
    }

    pub(crate) async fn until_condition(
        &self,
        work: &ManifestWork,
        kind: &str,
        status: &str,
        reason: &str,
    ) -> ManifestWork {
        let is = |work: &ManifestWork| {
            work_condition(work, kind).is_some_and(|found| {
                found.status == status
                    && found.reason == reason
                    && found.observed_generation == work.metadata.generation
            })
        };
        self.until(work, &format!("{kind}={status}/{reason}"), is).await
    }

    /// Waits until the current generation of the work is applied.
    pub(crate) async fn applied(&self, work: &ManifestWork) -> ManifestWork {
        let generation = work.metadata.generation;
        let is = |work: &ManifestWork| {
            work.metadata.generation >= generation
                && work_condition(work, "Applied").is_some_and(|found| {
                    found.status == "True" && found.observed_generation == work.metadata.generation
                })
        };
        self.until(work, "Applied", is).await
    }

    /// Polls until `is` holds, for changes that cannot be watched.
    pub(crate) async fn gone<F: Future<Output = bool>>(&self, what: &str, is: impl Fn() -> F) {
        let deadline = Instant::now() + TIMEOUT;
        while !is().await {
            assert!(Instant::now() < deadline, "{what} exists");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
