//! The scenario: users create, override, retarget and delete policies; place, unplace and label clusters; rotate
//! and grant a certificate; update definitions and parameters; and run a Deployment with split replicas. Gateways
//! are created after their policies, and have a grace period.

use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::time::Duration;

use anyhow::Result;
use policy_sync_api::names::{ControllerName, ObjectKey, Origin, WorkName};
use policy_sync_testenv::fixtures::{
    auth_policy, deployment, gateway, https_gateway, namespace, rate_limit_policy, reference_grant,
    resources, timeout_policy, tls_secret,
};
use policy_sync_testenv::tenant::{all_kinds, rate_limit_policies, timeout_policies};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::hub::{CONTROLLER, Hub, SHOP};
use crate::oracle::State;

/// The time between two steps: longer than the controller needs without faults, and shorter than many faults
/// last, so that the next step happens during the fault.
const PAUSE: Duration = Duration::from_secs(12);
/// A pause that ends within the Gateway's grace period. The grace period begins 5 s after the last change of
/// PlacementDecisions, and lasts 2 s.
const WITHIN_GRACE: Duration = Duration::from_secs(6);
/// The namespace of a certificate. A ReferenceGrant lets the Gateway use the certificate.
const CERTIFICATES: &str = "certificates";

/// The initial parameters of the class.
pub(crate) fn parameters() -> Value {
    listing(&all_kinds()["policiesToSync"])
}

/// Parameters that sync these policy kinds, and Deployments.
fn listing(kinds: &Value) -> Value {
    let resources = [resources("apps", "deployments")];
    json!({"policiesToSync": kinds, "resourcesToSync": resources, "tlsSecrets": "copy", "policyWaitAction": "hold", "policyWaitSeconds": 10})
}

/// The certificate of the Gateway `web`.
fn certificate(key: &str) -> Value {
    tls_secret(SHOP, "certificate", key)
}

/// A grant for the Gateway `web` to use the certificate in [`CERTIFICATES`].
fn grant() -> Value {
    reference_grant(CERTIFICATES, "gateways", SHOP, "shared")
}

/// The names of the works of all objects in this scenario.
pub(crate) fn works() -> &'static BTreeSet<String> {
    static NAMES: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
        let controller = ControllerName::new(CONTROLLER);
        let gateways = ["web", "api"].map(|name| ("Gateway", Origin::Gateway(ObjectKey::new(SHOP, name))));
        let policy = |kind, group, plural, name| (kind, Origin::named(group, plural, SHOP, name));
        let app = ("Deployment", Origin::named("apps", "deployments", SHOP, "app"));
        let policies = [
            policy("RateLimitPolicy", "kuadrant.io", "ratelimitpolicies", "limits"),
            policy("AuthPolicy", "kuadrant.io", "authpolicies", "auth"),
            policy("TimeoutPolicy", "policies.example.com", "timeoutpolicies", "timeouts"),
        ];
        let origins = gateways.into_iter().chain(policies).chain([app]);
        origins.map(|(kind, origin)| WorkName::planned(&controller, kind, &origin).to_string()).collect()
    });
    &NAMES
}

/// Creates the objects that exist before the controller starts.
pub(crate) async fn prepare(hub: &Hub) -> Result<()> {
    hub.works_can_be_scraped(false).await?;
    hub.place("all", &["eu-1", "us-1"]).await?;
    hub.place("edge", &["us-1"]).await?;
    hub.apply(&certificate("first")).await?;
    hub.apply(&namespace(CERTIFICATES)).await?;
    hub.apply(&tls_secret(CERTIFICATES, "shared", "shared")).await?;
    let certificates = [json!({"name": "certificate"}), json!({"name": "shared", "namespace": CERTIFICATES})];
    let mut web = https_gateway(SHOP, "web", SHOP, &certificates);
    // The grace period ends within one step, although it begins only 5 s after PlacementDecisions change.
    web["metadata"]["annotations"]["kuadrant.io/grace-timeout"] = json!("2");
    hub.apply(&web).await?;
    hub.apply(&gateway(SHOP, "api", SHOP, Some("edge"))).await
}

/// The state at the end of a step.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) at: Instant,
    pub(crate) state: State,
}

/// Runs the scenario and returns the state at the end of each step.
pub(crate) async fn play(hub: &Hub) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    let mut pause = async || {
        sleep(PAUSE).await;
        steps.push(Step { at: Instant::now(), state: State::of(hub) });
    };
    pause().await;

    hub.works_can_be_scraped(true).await?;
    pause().await;

    let mut limits = rate_limit_policy(SHOP, "limits", "web");
    let mut timeouts = timeout_policy(SHOP, "timeouts", &["web", "api"]);
    hub.apply(&limits).await?;
    hub.apply(&timeouts).await?;
    hub.apply(&auth_policy(SHOP, "auth", "api")).await?;
    let mut app = deployment(SHOP, "app");
    hub.apply(&app).await?;
    pause().await;

    app["metadata"]["annotations"] = json!({"federation.kubernetes.io/replica-set-preferences":
        r#"{"clusters": {"eu-1": {"weight": 2}, "*": {"weight": 1}}, "rebalance": true}"#});
    hub.apply(&app).await?;
    limits["spec"]["limits"]["all"]["rates"][0]["limit"] = json!(20);
    let less = json!({"limits": {"all": {"rates": [{"limit": 5, "window": "10s"}]}}});
    let overrides = json!([{"clusterSelector": "region=us", "patch": less}]);
    limits["metadata"]["annotations"] = json!({"kuadrant.io/cluster-overrides": overrides.to_string()});
    hub.apply(&limits).await?;
    pause().await;

    hub.apply(&certificate("second")).await?;
    hub.apply(&grant()).await?;
    pause().await;

    hub.place("all", &["eu-1"]).await?;
    pause().await;

    hub.place("all", &["eu-1", "us-1"]).await?;
    pause().await;

    limits["spec"]["targetRef"]["name"] = json!("api");
    hub.apply(&limits).await?;
    pause().await;

    hub.delete(&grant()).await?;
    pause().await;

    // Once granted, the permission for ReferenceGrants stays on the spoke. A fault may have prevented the first grant,
    // so a second grant makes the final state the same in all cases.
    hub.apply(&grant()).await?;
    pause().await;

    // Only existing copies have a grace period. By now, the copies exist even if a fault has delayed their creation.
    hub.place("all", &["us-1"]).await?;
    sleep(WITHIN_GRACE).await;
    hub.place("all", &["eu-1", "us-1"]).await?;
    pause().await;

    timeouts["metadata"]["annotations"] = json!({"kuadrant.io/cluster-selector": "region=eu"});
    hub.apply(&timeouts).await?;
    pause().await;

    hub.locate("us-1", "eu").await?;
    pause().await;

    hub.locate("us-1", "us").await?;
    app["spec"]["replicas"] = json!(9);
    hub.apply(&app).await?;
    pause().await;

    // AuthPolicies are no longer synced, and feedback of RateLimitPolicies has another field.
    let mut limits_kind = rate_limit_policies();
    limits_kind["statusFields"] = json!([{"name": "generation", "path": ".status.observedGeneration"}]);
    hub.parameters(&listing(&json!([limits_kind, timeout_policies()]))).await?;
    pause().await;

    timeouts["metadata"]["annotations"] = json!({});
    hub.apply(&timeouts).await?;
    hub.delete(&limits).await?;
    hub.delete(&app).await?;
    pause().await;

    hub.delete(&gateway(SHOP, "api", SHOP, Some("edge"))).await?;
    pause().await;
    Ok(steps)
}
