//! Takes the screenshots in the documentation, of a hub with a controller. The test writes the reports of the
//! hub's clusters.

use std::path::Path;
use std::{env, fs};

use anyhow::{Result, ensure};
use policy_sync_api::annotations::Synced;
use policy_sync_api::policy_state::PolicyState;
use policy_sync_testenv::apply::api_for;
use policy_sync_testenv::browser::Browser;
use policy_sync_testenv::fixtures::{auth_policy, gateway, managed_cluster, rate_limit_policy};
use policy_sync_testenv::tenant::WorkReport;
use policy_sync_testenv::{ControlPlane, Tenant};
use serde_json::{Value, json};

use crate::site::{BINARY, Site, route, start_hub};

const NAMESPACE: &str = "shop";
const CLUSTERS: [&str; 5] = ["ap-1", "eu-1", "eu-2", "us-1", "us-2"];
/// The unavailable cluster.
const SILENT: &str = "us-2";
const GATEWAYS: [&str; 3] = ["web", "api", "admin"];
const PAGE_WIDTH: u64 = 1200;

/// The states on the page of the fleet.
const STATES: [&str; 11] = [
    "Rejected",
    "NotEnforced",
    "NotApplied",
    "Frozen",
    "PartiallyEnforced",
    "Pending",
    "Unreachable",
    "Unknown",
    "Overridden",
    "Accepted",
    "Enforced",
];

/// The policies, each with the name of its work. Policies of the same kind have different targets.
fn policies() -> [(Value, &'static str); 6] {
    let limits = |name: &str, gateway: &str| rate_limit_policy(NAMESPACE, name, gateway);
    let auth = |name: &str, gateway: &str| auth_policy(NAMESPACE, name, gateway);
    [
        (limits("limits", "web"), "ratelimitpolicy-limits"),
        (auth("login", "web"), "authpolicy-login"),
        (limits("quotas", "api"), "ratelimitpolicy-quotas"),
        (auth("partners", "api"), "authpolicy-partners"),
        (limits("bursts", "admin"), "ratelimitpolicy-bursts"),
        (auth("staff", "admin"), "authpolicy-staff"),
    ]
}

fn accepted() -> WorkReport {
    WorkReport::applied().condition("Accepted", "True", "Accepted", "the policy has been accepted")
}

fn enforced(message: &str) -> WorkReport {
    accepted().condition("Enforced", "True", "Enforced", message)
}

fn not_enforced(reason: &str, message: &str) -> WorkReport {
    accepted().condition("Enforced", "False", reason, message)
}

/// All reports except `Enforced`, with the messages of the Kuadrant operator. Each report has the work, the cluster,
/// and the state.
fn reports() -> [(&'static str, &'static str, PolicyState, WorkReport); 8] {
    let conflict = "conflict with \"kubectl\" using kuadrant.io/v1: .spec.limits";
    let missing = "[Authorino Operator] is not installed, please restart Kuadrant Operator pod once dependency has been installed";
    let conflicted = "AuthPolicy is conflicted by kuadrant-shop/suppliers: conflicting policy";
    let (partial, overridden) = (
        "RateLimitPolicy has been partially enforced",
        "RateLimitPolicy is overridden by [kuadrant-shop/local]",
    );
    let rejected = WorkReport::applied().condition("Accepted", "False", "Conflicted", conflicted);
    [
        ("ratelimitpolicy-limits", "eu-2", PolicyState::PartiallyEnforced, enforced(partial)),
        ("ratelimitpolicy-limits", "us-1", PolicyState::Overridden, not_enforced("Overridden", overridden)),
        ("authpolicy-login", "ap-1", PolicyState::NotEnforced, not_enforced("MissingDependency", missing)),
        ("ratelimitpolicy-quotas", "eu-1", PolicyState::NotApplied, WorkReport::refused(conflict)),
        ("ratelimitpolicy-quotas", "us-1", PolicyState::Pending, enforced("").observed(1, 2)),
        ("authpolicy-partners", "eu-2", PolicyState::Rejected, rejected),
        ("authpolicy-staff", "ap-1", PolicyState::Unknown, WorkReport::applied()),
        ("authpolicy-staff", "us-1", PolicyState::Accepted, accepted()),
    ]
}

async fn report(tenant: &Tenant<'_>, cluster: &str, work: &str, report: &WorkReport) -> Result<()> {
    let work = tenant.until_work(cluster, work, |_| true).await?;
    tenant.report(&work, report).await
}

/// A tenant with policies on the Gateways, and with routes.
async fn tenant(hub: &ControlPlane) -> Result<Tenant<'_>> {
    let tenant = Tenant::new(hub, BINARY.as_ref(), NAMESPACE, &CLUSTERS).await?;
    for name in &GATEWAYS[1..] {
        tenant.apply(&gateway(NAMESPACE, name, NAMESPACE, Some("all"))).await?;
    }
    for (policy, _) in &policies() {
        tenant.apply(policy).await?;
    }
    for name in ["cart", "orders"] {
        tenant.apply(&route(NAMESPACE, name, "web")).await?;
    }
    let mut astray = route(NAMESPACE, "reviews", "web");
    astray["spec"]["parentRefs"][0]["sectionName"] = json!("https");
    tenant.apply(&astray).await?;
    Ok(tenant)
}

/// Writes the reports of all clusters, and makes one cluster unavailable.
async fn agent_report(tenant: &Tenant<'_>) -> Result<()> {
    let programmed = WorkReport::applied().condition("Accepted", "True", "Accepted", "").condition(
        "Programmed",
        "True",
        "Programmed",
        "",
    );
    for cluster in CLUSTERS {
        for (policy, work) in &policies() {
            let kind = policy["kind"].as_str().unwrap();
            report(tenant, cluster, work, &enforced(&format!("{kind} has been successfully enforced")))
                .await?;
        }
        for name in GATEWAYS {
            report(tenant, cluster, &format!("gateway-{name}"), &programmed).await?;
        }
        report(tenant, cluster, "access", &WorkReport::applied()).await?;
    }
    let (reports, frozen) = (reports(), "ratelimitpolicy-bursts");
    for (work, cluster, _, agent_report) in &reports {
        report(tenant, cluster, work, agent_report).await?;
    }
    for (policy, work) in &policies() {
        let expected = |entry: &Synced| {
            let agent_report =
                reports.iter().find(|(of, cluster, ..)| of == work && **cluster == *entry.cluster.0);
            agent_report.map_or(PolicyState::Enforced, |(_, _, state, _)| *state)
        };
        let is_as_expected = |entry: &Synced| PolicyState::of(entry) == expected(entry);
        tenant
            .until_folded(policy, |entries, _| {
                entries.len() == CLUSTERS.len() && entries.iter().all(is_as_expected)
            })
            .await?;
        if *work == frozen {
            let selector =
                json!({"metadata": {"annotations": {"kuadrant.io/cluster-selector": "region in (eu"}}});
            tenant.merge(policy, &selector).await?;
            let is_frozen = |entry: &Synced| PolicyState::of(entry) == PolicyState::Frozen;
            tenant.until_folded(policy, |entries, _| entries.iter().all(is_frozen)).await?;
        }
    }

    let (clusters, name) = api_for(tenant.client(), &managed_cluster(SILENT, &Default::default())).await?;
    let available = json!({
        "type": "ManagedClusterConditionAvailable", "status": "Unknown", "reason": "ManagedClusterLeaseUpdateStopped",
        "message": "", "lastTransitionTime": "2026-01-02T00:00:00Z",
    });
    let patch = kube::api::Patch::Merge(json!({"status": {"conditions": [available]}}));
    clusters.patch_status(&name, &Default::default(), &patch).await?;
    Ok(())
}

/// The pages, each with the file of its screenshot and the texts on the page.
fn pages() -> [(&'static str, &'static str, &'static [&'static str]); 5] {
    let effective_url = "/effective?host=shop.example.com&path=/cart&namespace=shop";
    [
        ("fleet.png", "/", &STATES),
        (
            "web/policy.png",
            "/policies/ratelimitpolicy.kuadrant.io/shop/limits",
            &["Unreachable", "PartiallyEnforced", "Overridden", "Enforced"],
        ),
        ("web/gateway.png", "/gateways/shop/web", &["HTTPRoute shop/cart", "HTTPRoute shop/reviews"]),
        ("web/effective.png", effective_url, &["HTTPRoute shop/cart", "shop/limits", "shop/login"]),
        ("web/cluster.png", "/clusters/us-1", &["Programmed", "Overridden", "Pending", "Frozen", "Accepted"]),
    ]
}

/// `POLICY_SYNC_UPDATE=1 cargo test --test web pictures` writes the files to `docs`; otherwise, it writes them to
/// `target/web`.
#[tokio::test]
async fn screenshots_show_a_fleet_in_all_states() -> Result<()> {
    let hub = start_hub("web-pictures", &CLUSTERS).await?;
    let tenant = tenant(&hub).await?;
    let controller = tenant.controller().await?;
    agent_report(&tenant).await?;
    let site = Site::of(&tenant).await;
    let folder = match env::var_os("POLICY_SYNC_UPDATE") {
        Some(_) => Path::new(env!("CARGO_MANIFEST_DIR")).join("docs"),
        None => Path::new(env!("CARGO_TARGET_TMPDIR")).join("../web"),
    };
    fs::create_dir_all(folder.join("web"))?;
    let browser = Browser::start(&[]).await;
    browser.enter(&site).await;
    for (name, path, texts) in pages() {
        browser.widen(PAGE_WIDTH).await;
        browser.open(&site, path).await;
        browser.until_text("main", |text| texts.iter().all(|shown| text.contains(shown))).await;
        browser.fit(PAGE_WIDTH).await;
        let picture = browser.page.screenshot().await?;
        ensure!(
            picture.starts_with(b"\x89PNG") && picture.len() > 10_000,
            "{path}: the screenshot has {} bytes",
            picture.len()
        );
        fs::write(folder.join(name), picture)?;
    }
    browser.end().await;
    controller.terminate().await?;
    Ok(())
}
