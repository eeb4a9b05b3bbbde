//! Attacks by the owner of a hub namespace, or by a spoke, on other namespaces and clusters. Each attack must
//! fail and leave all objects of other users unchanged.

mod secrets;
mod spokes;
mod tenants;

use anyhow::{Result, ensure};
use policy_sync_api::work::ManifestWork;
use policy_sync_testenv::fixtures::{gateway, namespace, placement, placement_decision, rate_limit_policy};
use policy_sync_testenv::{Controller, Tenant, apply};
use serde_json::{Value, json};

/// An attacker, who owns the tenant's namespace and has a Gateway on `eu-1`, and a victim, who owns a second namespace
/// and has a Gateway on `us-1`. One controller serves both namespaces.
struct Neighbours {
    tenant: Tenant<'static>,
    controller: Controller,
    /// The attacker's policy `limits`.
    limits: Value,
    /// The victim's works before the attack.
    before: Vec<ManifestWork>,
}

/// Creates attacker and victim. As for [`crate::tenant`], no other test may use `name`.
async fn neighbours(name: &str) -> Result<Neighbours> {
    let tenant = crate::tenant(name, &["eu-1"]).await?;
    let victim = format!("{name}-victim");
    tenant.apply(&namespace(&victim)).await?;
    for object in [placement(&victim, "theirs", 1), placement_decision(&victim, "theirs", 1, &["us-1"])] {
        apply::apply_with_status(tenant.client(), &object).await?;
    }
    tenant.apply(&gateway(&victim, "victim", tenant.name(), Some("theirs"))).await?;
    tenant.apply(&rate_limit_policy(&victim, "victim", "victim")).await?;
    let limits = rate_limit_policy(tenant.name(), "limits", "web");
    tenant.apply(&limits).await?;
    let controller = tenant.controller().await?;
    tenant.until_works(&UNHARMED).await?;
    tenant.settled(&controller).await?;
    let before = victims(&tenant).await?;
    Ok(Neighbours { tenant, controller, limits, before })
}

/// All works before the attack.
const UNHARMED: [&str; 6] = [
    "eu-1/access",
    "eu-1/gateway-web",
    "eu-1/ratelimitpolicy-limits",
    "us-1/access",
    "us-1/gateway-victim",
    "us-1/ratelimitpolicy-victim",
];

async fn victims(tenant: &Tenant<'_>) -> Result<Vec<ManifestWork>> {
    let on_us = |work: &ManifestWork| work.metadata.namespace.as_deref() == Some("us-1");
    Ok(tenant.works().await?.into_iter().filter(on_us).collect())
}

impl Neighbours {
    /// The victim's namespace.
    fn victim(&self) -> String {
        format!("{}-victim", self.tenant.name())
    }

    /// Waits until the controller is idle, and checks that the victim's works are unchanged.
    async fn nothing_else_changed(&self) -> Result<()> {
        self.tenant.settled(&self.controller).await?;
        let now = victims(&self.tenant).await?;
        let seen = |works: &[ManifestWork]| -> Vec<Value> {
            works.iter().map(|work| json!([work.metadata.uid, work.metadata.generation, work.spec])).collect()
        };
        ensure!(seen(&now) == seen(&self.before), "the victim's works are now {now:?}");
        Ok(())
    }

    /// Like [`Self::nothing_else_changed`], and also checks that no work was created or deleted.
    async fn nothing_changed(&self) -> Result<()> {
        self.nothing_else_changed().await?;
        self.tenant.until_works(&UNHARMED).await
    }

    /// The attacker's policy as sent to `eu-1`.
    async fn copy(&self) -> Result<Value> {
        let work = self.tenant.work("eu-1", "ratelimitpolicy-limits").await?;
        Ok(work.spec.workload.manifests[1].0.clone())
    }
}
