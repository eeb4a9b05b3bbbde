//! Tests of the controller with a real API server. The tests write the feedback of the work agents themselves, so that
//! feedback can be late, wrong or missing.

mod attacks;
mod bad_input;
mod events;
mod faults;
mod freezing;
mod gateways;
mod kinds;
mod leadership;
mod metrics;
mod overrides;
mod pausing;
mod placement;
mod refusals;
mod resources;
mod restored;
mod route_status;
mod schemas;
mod secrets;
mod settling;
mod stories;
mod topology;
mod writing;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::{Result, ensure};
use policy_sync_api::work::ManifestWork;
use policy_sync_testenv::fixtures::rate_limit_policy;
use policy_sync_testenv::{Controller, Fleet, Tenant};
use serde_json::Value;

/// The works of a tenant with the policy `limits` on both clusters.
const ON_BOTH: [&str; 6] = [
    "eu-1/access",
    "eu-1/gateway-web",
    "eu-1/ratelimitpolicy-limits",
    "us-1/access",
    "us-1/gateway-web",
    "us-1/ratelimitpolicy-limits",
];
/// The works of a tenant with the policy `limits` on the first cluster only.
const ON_EU: [&str; 3] = ["eu-1/access", "eu-1/gateway-web", "eu-1/ratelimitpolicy-limits"];

/// Creates a tenant on the hub that all tests share. Each test needs its own name, because tests with equal
/// names would see each other's objects.
async fn tenant(name: &str, clusters: &[&str]) -> Result<Tenant<'static>> {
    static NAMES: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let is_new = NAMES.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
    ensure!(is_new, "another test uses the tenant {name}");
    let fleet = Fleet::shared_hub().await?;
    Tenant::new(fleet.hub(), Path::new(env!("CARGO_BIN_EXE_policy-sync")), name, clusters).await
}

/// A tenant whose policy `limits` is synced to both clusters, its controller, and the policy.
async fn synced(name: &str) -> Result<(Tenant<'static>, Controller, Value)> {
    let tenant = tenant(name, &["eu-1", "us-1"]).await?;
    let controller = tenant.controller().await?;
    let limits = rate_limit_policy(tenant.name(), "limits", "web");
    tenant.apply(&limits).await?;
    tenant.until_works(&ON_BOTH).await?;
    tenant.until_folded(&limits, |entries, _| entries.len() == 2).await?;
    Ok((tenant, controller, limits))
}

/// The limit in the copy of the policy in a work.
fn limit_of(work: &ManifestWork) -> i64 {
    let copy = &work.spec.workload.manifests[1].0;
    copy["spec"]["limits"]["all"]["rates"][0]["limit"].as_i64().unwrap_or_default()
}
