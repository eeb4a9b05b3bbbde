//! Compares the server in memory with a real API server: each test runs on both servers with the same assertions.

#![allow(clippy::unwrap_used)]

mod apply;
mod changes;
mod lists;
mod watches;

use anyhow::Result;
use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::Status;
use policy_sync_testenv::crds::{self, ClusterType};
use policy_sync_testenv::fixtures::{namespace, rate_limit_policy};
use policy_sync_testenv::{Fleet, MemoryServer};
use serde_json::{Value, json};

/// A namespace of a server, for one test.
pub struct TestNamespace {
    client: Client,
    namespace: String,
}

impl TestNamespace {
    async fn in_memory(name: &str) -> Result<Self> {
        let server = MemoryServer::new();
        crds::install(&server.client(), &crds::generated(ClusterType::Hub)?).await?;
        Self::on(server.client(), name).await
    }

    async fn real(name: &str) -> Result<Self> {
        Self::on(Fleet::shared_hub().await?.hub().client()?, name).await
    }

    async fn on(client: Client, name: &str) -> Result<Self> {
        let name = name.replace('_', "-");
        let name = name[..name.len().min(50)].trim_end_matches('-').to_owned();
        let space: Namespace = serde_json::from_value(namespace(&name))?;
        Api::all(client.clone()).create(&PostParams::default(), &space).await?;
        Ok(Self { client, namespace: name })
    }

    /// The API of RateLimitPolicies, a custom kind with generations and a status subresource.
    fn policies(&self) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.namespace, &policy_resource())
    }

    /// The manifest of a policy.
    fn policy(&self, name: &str) -> Value {
        rate_limit_policy(&self.namespace, name, "web")
    }

    async fn create(&self, name: &str) -> Result<DynamicObject> {
        self.create_as(&self.policy(name)).await
    }

    async fn create_as(&self, policy: &Value) -> Result<DynamicObject> {
        let policy = serde_json::from_value(policy.clone())?;
        Ok(self.policies().create(&PostParams::default(), &policy).await?)
    }

    async fn merge(&self, name: &str, patch: Value) -> kube::Result<DynamicObject> {
        self.policies().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await
    }

    async fn merge_status(&self, name: &str, patch: Value) -> kube::Result<DynamicObject> {
        self.policies().patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await
    }
}

fn policy_resource() -> ApiResource {
    ApiResource {
        group: "kuadrant.io".into(),
        version: "v1".into(),
        api_version: "kuadrant.io/v1".into(),
        kind: "RateLimitPolicy".into(),
        plural: "ratelimitpolicies".into(),
    }
}

/// A limit that the published CRD accepts too.
fn limit(requests: i64) -> Value {
    json!({"rates": [{"limit": requests, "window": "10s"}]})
}

/// A patch that adds the limit `x` to a policy.
fn limiting(requests: i64) -> Value {
    json!({"spec": {"limits": {"x": limit(requests)}}})
}

fn version(object: &DynamicObject) -> u64 {
    object.metadata.resource_version.as_deref().unwrap_or_default().parse().unwrap()
}

/// The status code and the reason of an error response.
fn refused<T: std::fmt::Debug>(answer: kube::Result<T>) -> (u16, String) {
    let status = refusal(answer);
    (status.code, status.reason)
}

fn refusal<T: std::fmt::Debug>(answer: kube::Result<T>) -> Status {
    match answer {
        Err(kube::Error::Api(status)) => *status,
        other => panic!("expected an error status, found {other:?}"),
    }
}

/// Runs each test on the server in memory and on a real API server.
macro_rules! stories {
    ($($name:ident),* $(,)?) => {
        mod memory {
            $(#[tokio::test(start_paused = true)]
            async fn $name() -> anyhow::Result<()> {
                super::$name(crate::TestNamespace::in_memory(stringify!($name)).await?).await
            })*
        }
        mod real {
            $(#[tokio::test]
            async fn $name() -> anyhow::Result<()> {
                super::$name(crate::TestNamespace::real(stringify!($name)).await?).await
            })*
        }
    };
}
pub(crate) use stories;
