//! A tenant of a hub: a namespace, a GatewayClass with parameters, a placed Gateway, and a separate controller.
//!
//! Controllers with different names do not affect each other, so many tenants can share a hub. A test reads and
//! breaks only the objects of its tenant.

mod report;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use policy_sync_api::annotations::{CONTROLLER, POLICIES_SYNCED, POLICIES_SYNCED_SUMMARY, Summary, Synced};
use policy_sync_api::names::ControllerName;
use policy_sync_api::work::ManifestWork;
use serde_json::{Value, json};

use crate::apply::{api_for, apply, apply_all, apply_with_status};
use crate::audit::Request;
use crate::{ControlPlane, Controller, fixtures, wait};

pub use report::WorkReport;

/// Time limit for any operation on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(120);

/// A tenant of a hub.
pub struct Tenant<'h> {
    hub: &'h ControlPlane,
    binary: &'h Path,
    client: Client,
    name: String,
}

impl<'h> Tenant<'h> {
    /// Creates the tenant `name`: a namespace, a class and a controller name, and a Gateway `web` that the
    /// Placement `all` places on `clusters`. RateLimitPolicies, AuthPolicies and TimeoutPolicies are synced.
    ///
    /// # Errors
    ///
    /// Returns an error if the hub rejects an object.
    pub async fn new(hub: &'h ControlPlane, binary: &'h Path, name: &str, clusters: &[&str]) -> Result<Self> {
        let tenant = Self { hub, binary, client: hub.client()?, name: name.to_owned() };
        apply(&tenant.client, &fixtures::namespace(name)).await?;
        tenant.place("all", clusters).await?;
        tenant.parameters(&all_kinds()).await?;
        apply_all(
            &tenant.client,
            [
                &fixtures::gateway_class(name, &tenant.controller_name(), Some((name, "params"))),
                &fixtures::gateway(name, "web", name, Some("all")),
            ],
        )
        .await?;
        Ok(tenant)
    }

    /// The hub.
    pub fn hub(&self) -> &'h ControlPlane {
        self.hub
    }

    /// The administrator client of the hub.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The name of the namespace and of the class.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The controller name in the class and in the controller's arguments.
    pub fn controller_name(&self) -> String {
        format!("example.com/{}", self.name)
    }

    /// Starts the tenant's controller and waits until it is ready and the leader.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Controller::start`].
    pub async fn controller(&self) -> Result<Controller> {
        self.controller_with(&[]).await
    }

    /// Like [`Tenant::controller`], with additional arguments.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Controller::start`].
    pub async fn controller_with(&self, arguments: &[&str]) -> Result<Controller> {
        let name = format!("--controller-name={}", self.controller_name());
        let arguments: Vec<&str> = [name.as_str()].into_iter().chain(arguments.iter().copied()).collect();
        Controller::start(self.binary, self.hub, &arguments).await
    }

    /// Starts another replica of the tenant's controller and waits until it is ready.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Controller::ready`].
    pub async fn follower(&self) -> Result<Controller> {
        let name = format!("--controller-name={}", self.controller_name());
        let mut controller = Controller::launch(self.binary, self.hub, &[&name], None)?;
        controller.ready().await?;
        Ok(controller)
    }

    /// Writes the class's parameters.
    ///
    /// # Errors
    ///
    /// Returns an error if the hub rejects the parameters.
    pub async fn parameters(&self, parameters: &Value) -> Result<()> {
        apply(&self.client, &fixtures::params_config_map(&self.name, "params", parameters)).await.map(drop)
    }

    /// Makes the Placement `placement` select `clusters`. Writes the decision first, as OCM's placement
    /// controller does.
    ///
    /// # Errors
    ///
    /// Returns an error if the hub rejects an object.
    pub async fn place(&self, placement: &str, clusters: &[&str]) -> Result<()> {
        self.decide(placement, 1, clusters).await?;
        self.select(placement, clusters.len()).await
    }

    /// Writes one slice of a Placement's decisions.
    ///
    /// # Errors
    ///
    /// Returns an error if the hub rejects the PlacementDecision.
    pub async fn decide(&self, placement: &str, slice: usize, clusters: &[&str]) -> Result<()> {
        let decision = fixtures::placement_decision(&self.name, placement, slice, clusters);
        apply_with_status(&self.client, &decision).await.map(drop)
    }

    /// Writes the number of selected clusters to a Placement's status.
    ///
    /// # Errors
    ///
    /// Returns an error if the hub rejects the status.
    pub async fn select(&self, placement: &str, selected: usize) -> Result<()> {
        let placement = fixtures::placement(&self.name, placement, selected);
        apply_with_status(&self.client, &placement).await.map(drop)
    }

    /// Applies an object as a user does.
    ///
    /// # Errors
    ///
    /// Returns an error if the hub rejects the object.
    pub async fn apply(&self, object: &Value) -> Result<DynamicObject> {
        apply(&self.client, object).await
    }

    /// Changes an object with a JSON merge patch, as a user does.
    ///
    /// # Errors
    ///
    /// Returns an error if the hub rejects the patch.
    pub async fn merge(&self, object: &Value, patch: &Value) -> Result<DynamicObject> {
        let (api, name) = api_for(&self.client, object).await?;
        api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await.context("patching")
    }

    /// Gets the current state of an object.
    ///
    /// # Errors
    ///
    /// Returns an error if the object cannot be read.
    pub async fn get(&self, object: &Value) -> Result<DynamicObject> {
        let (api, name) = api_for(&self.client, object).await?;
        api.get(&name).await.with_context(|| format!("reading {name}"))
    }

    /// Deletes an object, and waits until it is gone.
    ///
    /// # Errors
    ///
    /// Returns an error if the object cannot be deleted, or still exists after the time limit.
    pub async fn delete(&self, object: &Value) -> Result<()> {
        let (api, name) = api_for(&self.client, object).await?;
        let uid = api.get(&name).await.with_context(|| format!("reading {name}"))?.metadata.uid;
        api.delete(&name, &DeleteParams::background()).await.with_context(|| format!("deleting {name}"))?;
        wait::until(&format!("{name} is deleted"), LIMIT, || async {
            // The controller may have created another object of this name.
            let found = api.get_opt(&name).await?;
            ensure!(found.is_none_or(|found| found.metadata.uid != uid), "the object exists");
            Ok(())
        })
        .await
    }

    /// The works of the tenant's controller, sorted by cluster and name.
    ///
    /// # Errors
    ///
    /// Returns an error if the works cannot be listed.
    pub async fn works(&self) -> Result<Vec<ManifestWork>> {
        let controller = ControllerName::new(&self.controller_name());
        let selector = ListParams::default().labels(&format!("{CONTROLLER}={}", controller.hash()));
        let mut works = Api::<ManifestWork>::all(self.client.clone()).list(&selector).await?.items;
        works.sort_by_key(|work| (work.namespace(), work.name_any()));
        Ok(works)
    }

    /// The names of all works as `<cluster>/<kind>-<name>`, without the hash; access works as `<cluster>/access`.
    ///
    /// # Errors
    ///
    /// Returns an error if the works cannot be listed.
    pub async fn work_names(&self) -> Result<Vec<String>> {
        let name = |work: &ManifestWork| {
            let name = work.name_any();
            let readable = name.rsplit_once('-').map_or(name.as_str(), |(readable, _)| readable);
            format!("{}/{readable}", work.namespace().unwrap_or_default())
        };
        Ok(self.works().await?.iter().map(name).collect())
    }

    /// Waits until exactly these works exist (sorted, in the form of [`Tenant::work_names`]).
    ///
    /// # Errors
    ///
    /// Returns an error with the works that exist instead.
    pub async fn until_works(&self, expected: &[&str]) -> Result<()> {
        wait::until("the works are as expected", LIMIT, || async {
            let found = self.work_names().await?;
            ensure!(found == expected, "expected {expected:?}, found {found:?}");
            Ok(())
        })
        .await
    }

    /// The work `<kind>-<name>` in `cluster`.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such work.
    pub async fn work(&self, cluster: &str, readable: &str) -> Result<ManifestWork> {
        let mut works = self.works().await?.into_iter();
        let fits = |work: &ManifestWork| {
            work.namespace().as_deref() == Some(cluster)
                && work.name_any().starts_with(&format!("{readable}-"))
        };
        works.find(fits).with_context(|| format!("no work {readable} in {cluster}"))
    }

    /// Waits until `fits` accepts a work.
    ///
    /// # Errors
    ///
    /// Returns an error if `fits` accepts no work in time.
    pub async fn until_work(
        &self,
        cluster: &str,
        readable: &str,
        fits: impl Fn(&ManifestWork) -> bool,
    ) -> Result<ManifestWork> {
        wait::until(&format!("work {readable} of {cluster} is as expected"), LIMIT, || async {
            let work = self.work(cluster, readable).await?;
            ensure!(fits(&work), "it has {}", json!({"metadata": work.metadata, "spec": work.spec}));
            Ok(work)
        })
        .await
    }

    /// Writes a work's status as a spoke's agent does.
    ///
    /// # Errors
    ///
    /// Returns an error if the hub rejects the status.
    pub async fn report(&self, work: &ManifestWork, report: &WorkReport) -> Result<()> {
        let api: Api<ManifestWork> =
            Api::namespaced(self.client.clone(), &work.namespace().unwrap_or_default());
        let status = json!({ "status": report.status_of(work) });
        let patched =
            api.patch_status(&work.name_any(), &PatchParams::default(), &Patch::Merge(status)).await;
        patched.map(drop).context("patching the work's status")
    }

    /// Waits until `fits` accepts the spokes' status in the annotations of `policy`.
    ///
    /// # Errors
    ///
    /// Returns an error with the annotations that were found instead.
    pub async fn until_folded(
        &self,
        policy: &Value,
        fits: impl Fn(&[Synced], &Summary) -> bool,
    ) -> Result<(Vec<Synced>, Summary)> {
        wait::until("the status annotations are as expected", LIMIT, || async {
            let annotations = self.annotations(policy).await?;
            let text = |key: &str| annotations.get(key).with_context(|| format!("no annotation {key}"));
            let entries: Vec<Synced> = serde_json::from_str(text(POLICIES_SYNCED)?)?;
            let summary: Summary = serde_json::from_str(text(POLICIES_SYNCED_SUMMARY)?)?;
            ensure!(fits(&entries, &summary), "found {annotations:?}");
            Ok((entries, summary))
        })
        .await
    }

    /// The annotations of an object.
    ///
    /// # Errors
    ///
    /// Returns an error if the object cannot be read.
    pub async fn annotations(&self, object: &Value) -> Result<BTreeMap<String, String>> {
        Ok(self.get(object).await?.metadata.annotations.unwrap_or_default())
    }

    /// Waits until `controller` has not written for longer than any of the controller's delays. Returns all writes of
    /// the controller.
    ///
    /// # Errors
    ///
    /// Returns an error if the controller does not settle in time.
    pub async fn settled(&self, controller: &Controller) -> Result<Vec<Request>> {
        controller.settled(self.hub).await
    }

    /// The writes of `controller` so far, without Events and Leases.
    ///
    /// # Errors
    ///
    /// Returns an error if the audit log cannot be read.
    pub fn writes(&self, controller: &Controller) -> Result<Vec<Request>> {
        controller.writes(self.hub)
    }
}

/// Parameters that sync the three sample kinds.
pub fn all_kinds() -> Value {
    json!({ "policiesToSync": [rate_limit_policies(), auth_policies(), timeout_policies()] })
}

/// The entry of `policiesToSync` for RateLimitPolicies.
pub fn rate_limit_policies() -> Value {
    json!({ "group": "kuadrant.io", "version": "v1", "resource": "ratelimitpolicies" })
}

/// The entry of `policiesToSync` for AuthPolicies.
pub fn auth_policies() -> Value {
    json!({ "group": "kuadrant.io", "version": "v1", "resource": "authpolicies" })
}

/// The entry of `policiesToSync` for TimeoutPolicies.
pub fn timeout_policies() -> Value {
    json!({ "group": "policies.example.com", "version": "v1alpha1", "resource": "timeoutpolicies" })
}
