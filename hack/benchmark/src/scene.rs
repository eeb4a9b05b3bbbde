//! A namespace with a Gateway that a Placement places on clusters, and policies that target it.

use std::ops::Range;
use std::time::Instant;

use anyhow::{Context, Result};
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::ObjectList;
use kube::core::request::Request as Requests;
use kube::{Client, ResourceExt};
use policy_sync_api::annotations::POLICY_ANNOTATIONS;
use policy_sync_api::names::{ControllerName, GroupVersionResource, Origin, WorkName};
use policy_sync_controller::sync::write::objects::annotate_request;
use serde_json::{Value, json};

use super::raw::{self, PreparedRequest};
use policy_sync_testenv::apply::{apply, apply_all, apply_with_status};
use policy_sync_testenv::fixtures;

/// The name of the Gateway and of its Placement.
pub(super) const NAME: &str = "web";
/// Maximum number of clusters in a slice of decisions.
const SLICE: usize = 100;
/// Number of concurrent requests in preparations.
pub(super) const AT_ONCE: usize = 16;

/// The objects of one namespace.
#[derive(Clone)]
pub(super) struct Scene {
    client: Client,
    namespace: &'static str,
}

/// Times when a placement was written.
pub(super) struct PlacementTimes {
    /// All decisions were written.
    pub(super) decided: Instant,
    /// The number of clusters was written to the Placement.
    pub(super) counted: Instant,
}

impl Scene {
    /// Creates the namespace, and in it a Gateway of `class` on `clusters`.
    pub(super) async fn set(
        client: &Client,
        namespace: &'static str,
        class: &str,
        clusters: &[String],
    ) -> Result<Self> {
        let scene = Self { client: client.clone(), namespace };
        apply(client, &fixtures::namespace(namespace)).await?;
        scene.place(clusters).await?;
        let mut gateway = fixtures::gateway(namespace, NAME, class, Some(NAME));
        // No grace period on clusters that are no longer placed.
        gateway["metadata"]["annotations"] = json!({ "kuadrant.io/grace-timeout": "0" });
        apply_all(client, [&gateway]).await?;
        Ok(scene)
    }

    /// Places the Gateway on `clusters`. Writes decisions first, as OCM's placement controller does.
    pub(super) async fn place(&self, clusters: &[String]) -> Result<PlacementTimes> {
        // An empty placement has one empty slice.
        let slices = clusters.chunks(SLICE).chain(clusters.is_empty().then_some(clusters));
        for (index, slice) in slices.enumerate() {
            let clusters: Vec<&str> = slice.iter().map(String::as_str).collect();
            let decision = fixtures::placement_decision(self.namespace, NAME, index, &clusters);
            apply_with_status(&self.client, &decision).await?;
        }
        let decided = Instant::now();
        let placement = fixtures::placement(self.namespace, NAME, clusters.len());
        apply_with_status(&self.client, &placement).await?;
        Ok(PlacementTimes { decided, counted: Instant::now() })
    }

    /// Creates the policies with these numbers one after the other. So older policies come first by name, and no
    /// copy waits for the copy of another policy.
    pub(super) async fn add(&self, policies: Range<usize>) -> Result<()> {
        let objects = policies.map(|index| fixtures::rate_limit_policy(self.namespace, &policy(index), NAME));
        create(&self.client, objects.map(|object| (self.path(), object)), 1).await
    }

    /// Deletes the policies with these numbers.
    pub(super) async fn remove(&self, policies: Range<usize>) -> Result<()> {
        let deletes = policies.map(|index| {
            let delete = Requests::new(self.path()).delete(&policy(index), &DeleteParams::background());
            delete.context("building a delete request")
        });
        let deleted = raw::send(&self.client, deletes.collect::<Result<_>>()?, AT_ONCE).await;
        deleted.map(drop).context("deleting policies")
    }

    /// Changes a policy's limit, as its owner does.
    pub(super) async fn change(&self, index: usize, limit: usize) -> Result<()> {
        let rates = json!([{ "limit": limit, "window": "10s" }]);
        let patch = Patch::Merge(json!({ "spec": { "limits": { "all": { "rates": rates } } } }));
        let request = Requests::new(self.path()).patch(&policy(index), &PatchParams::default(), &patch);
        raw::send(&self.client, vec![request.context("building a patch request")?], 1).await.map(drop)
    }

    /// Requests that write the current annotations of the policies as `controller` does.
    pub(super) async fn annotations(&self, controller: &ControllerName) -> Result<Vec<PreparedRequest>> {
        let manager = controller.hub_field_manager();
        let (gvr, kind) =
            (GroupVersionResource::new("kuadrant.io", "v1", "ratelimitpolicies"), "RateLimitPolicy");
        let list =
            Requests::new(self.path()).list(&ListParams::default()).context("building a list request")?;
        let policies: ObjectList<DynamicObject> =
            self.client.request(list).await.context("listing policies")?;
        let annotate = |policy: &DynamicObject| {
            let found = POLICY_ANNOTATIONS
                .into_iter()
                .filter_map(|key| Some((key, policy.annotations().get(key)?.clone())));
            let origin =
                Origin::named("kuadrant.io", "ratelimitpolicies", self.namespace, &policy.name_any());
            let uid = policy.uid().unwrap_or_default();
            let request = annotate_request(&manager, (&gvr, kind), &origin, &uid, &found.collect());
            Ok(raw::with_metadata_response(request.context("building a patch request")?))
        };
        policies.items.iter().map(annotate).collect()
    }

    /// The name of a policy's works, which is the same in each cluster.
    pub(super) fn work(&self, controller: &ControllerName, index: usize) -> String {
        let origin = Origin::named("kuadrant.io", "ratelimitpolicies", self.namespace, &policy(index));
        WorkName::planned(controller, "RateLimitPolicy", &origin).to_string()
    }

    /// The path of the policies.
    pub(super) fn path(&self) -> String {
        format!("/apis/kuadrant.io/v1/namespaces/{}/ratelimitpolicies", self.namespace)
    }
}

/// The name of the policy with this number.
pub(super) fn policy(index: usize) -> String {
    format!("limits-{index:04}")
}

/// Creates objects at their paths.
pub(super) async fn create_all(
    client: &Client,
    objects: impl IntoIterator<Item = (String, Value)>,
) -> Result<()> {
    create(client, objects, AT_ONCE).await
}

/// Creates objects with `at_once` requests at a time.
async fn create(
    client: &Client,
    objects: impl IntoIterator<Item = (String, Value)>,
    at_once: usize,
) -> Result<()> {
    let requests = objects.into_iter().map(|(path, object)| {
        let body = serde_json::to_vec(&object).context("serializing an object")?;
        Requests::new(path).create(&PostParams::default(), body).context("building a create request")
    });
    raw::send(client, requests.collect::<Result<_>>()?, at_once).await.map(drop)
}
