//! Pods that the Rego policies in [`modules`] allow or deny.

use anyhow::{Context, Result, ensure};
use kube::api::PostParams;
use kube::core::request::Request as Requests;
use kube::{Client, Error};
use policy_sync_testenv::wait;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use crate::documents::{self, PODS, Variety};
use crate::hub::LIMIT;
use crate::modules::{self, DENYING};

/// A pod that all Rego policies allow.
pub(super) fn fine(namespace: &str, index: usize) -> Value {
    let mut pod = denied(namespace, index);
    for owner in modules::owners(DENYING) {
        pod["metadata"]["labels"][owner] = "somebody".into();
    }
    pod["spec"]["containers"][0]["imagePullPolicy"] = "Always".into();
    pod
}

/// A pod that some Rego policies deny.
pub(super) fn denied(namespace: &str, index: usize) -> Value {
    let mut pod = documents::pod(index, Variety::Different);
    let labels = pod["metadata"]["labels"].take();
    pod["metadata"] = json!({"name": format!("pod-{index:06}"), "namespace": namespace, "labels": labels});
    pod
}

/// Waits until the API server denies a pod that violates the Rego policies.
pub(super) async fn until_denied(hub: &Client, namespace: &str) -> Result<()> {
    let pod = serde_json::to_vec(&denied(namespace, 0))?;
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    wait::until("the API server sends reviews", LIMIT, || async {
        let create = Requests::new(PODS.within(namespace)).create(&dry, pod.clone());
        match hub.request::<IgnoredAny>(create.context("building a create request")?).await {
            Err(Error::Api(status)) if status.code == 403 => Ok(()),
            other => {
                ensure!(other.is_err(), "the pod is admitted");
                other.map(drop).context("creating a pod")
            }
        }
    })
    .await
}
