//! Attacks: who may write in one namespace of the hub, or to one spoke, tries to reach further. Each is refused, with
//! nothing of anybody else's changed.

mod secrets;
mod spokes;
mod tenants;

use anyhow::{Result, ensure};
use policy_sync::api::work::ManifestWork;
use policy_sync_testenv::fixtures::{gateway, namespace, placement, placement_decision, rate_limit_policy};
use policy_sync_testenv::{Controller, World, apply};
use serde_json::{Value, json};

/// An attacker, who owns the world's namespace and is placed on `eu-1`, and a victim on `us-1`, with a namespace of
/// its own and the same controller.
struct Stage {
    world: World<'static>,
    controller: Controller,
    /// The attacker's policy `limits`.
    limits: Value,
    /// The victim's works, as they were before the attack.
    before: Vec<ManifestWork>,
}

/// Sets the stage; names are as in [`crate::world`].
async fn stage(name: &str) -> Result<Stage> {
    let world = crate::world(name, &["eu-1"]).await?;
    let victim = format!("{name}-victim");
    world.apply(&namespace(&victim)).await?;
    for object in [placement(&victim, "theirs", 1), placement_decision(&victim, "theirs", 1, &["us-1"])] {
        apply::apply_with_status(world.client(), &object).await?;
    }
    world.apply(&gateway(&victim, "victim", world.name(), Some("theirs"))).await?;
    world.apply(&rate_limit_policy(&victim, "victim", "victim")).await?;
    let limits = rate_limit_policy(world.name(), "limits", "web");
    world.apply(&limits).await?;
    let controller = world.controller().await?;
    world.until_works(&STAGE).await?;
    world.settled(&controller).await?;
    let before = victims(&world).await?;
    Ok(Stage { world, controller, limits, before })
}

/// The works of a stage on which nothing has happened yet.
const STAGE: [&str; 6] = [
    "eu-1/access",
    "eu-1/gateway-web",
    "eu-1/ratelimitpolicy-limits",
    "us-1/access",
    "us-1/gateway-victim",
    "us-1/ratelimitpolicy-victim",
];

async fn victims(world: &World<'_>) -> Result<Vec<ManifestWork>> {
    let on_us = |work: &ManifestWork| work.metadata.namespace.as_deref() == Some("us-1");
    Ok(world.works().await?.into_iter().filter(on_us).collect())
}

impl Stage {
    /// The namespace of the victim.
    fn victim(&self) -> String {
        format!("{}-victim", self.world.name())
    }

    /// Waits until all is quiet, and checks that what is not the attacker's is as it was.
    async fn nothing_else_changed(&self) -> Result<()> {
        self.world.settled(&self.controller).await?;
        let now = victims(&self.world).await?;
        let seen = |works: &[ManifestWork]| -> Vec<Value> {
            works.iter().map(|work| json!([work.metadata.uid, work.metadata.generation, work.spec])).collect()
        };
        ensure!(seen(&now) == seen(&self.before), "the victim's works are now {now:?}");
        Ok(())
    }

    /// The same, where nothing at all may have come or gone.
    async fn nothing_changed(&self) -> Result<()> {
        self.nothing_else_changed().await?;
        self.world.until_works(&STAGE).await
    }

    /// The copy of the attacker's policy that `eu-1` gets.
    async fn copy(&self) -> Result<Value> {
        let work = self.world.work("eu-1", "ratelimitpolicy-limits").await?;
        Ok(work.spec.workload.manifests[1].0.clone())
    }
}
