//! Placement by Rego policies beside hostile actors.
//!
//! A spoke flips a label, tenants write large ConfigMaps and opt out of remediation, and an author writes modules that
//! are rejected or that exceed the limits of an evaluation. The shop's policies still move to the right clusters soon
//! after each change, and reviews of other users' objects are decided.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use futures::FutureExt;
use policy_sync_api::annotations::CLUSTER_SELECTOR;
use policy_sync_controller::placement_policy::remediation::{self, Remediation, RemediationMetrics};
use policy_sync_controller::rego_loading::{Loaded, RegoLoading, RegoMetrics, Settings};
use policy_sync_rego::confined;
use policy_sync_rego::snapshot::RegoQueryError;
use policy_sync_testenv::MemoryServer;
use policy_sync_testenv::apply::{apply, apply_all};
use policy_sync_testenv::fixtures::{
    gateway_class, managed_cluster, namespace, params_config_map, rate_limit_policy,
};
use policy_sync_testenv::hostile::{COSTLY, HOSTILE_TENANT, Hostile, REGION, ROGUE};
use policy_sync_testenv::memory::{Attackers, Faultless};
use policy_sync_testenv::tenant::rate_limit_policies;
use regorus::Value as Rego;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::each_seed;
use crate::users::{CLUSTERS, CONTROLLER, SHOP};

/// The namespace of Rego policies. ConfigMaps with Rego modules are called *carriers* here.
const CARRIERS: &str = "policies";
/// The namespace of a tenant that opts out of remediation.
const KEEPER: &str = "keeper";
/// Places policies on the clusters of the region in the ConfigMap `shop/site`.
const PLACES: &str = r#"package io.k8s.federation.admission
import rego.v1
region := data.kubernetes.configmaps.shop.site.data.region
names := sort([name | some name, cluster in data.kubernetes.clusters; cluster.metadata.labels.region == region])
annotations["kuadrant.io/cluster-selector"] := sprintf("name in (%s)", [concat(",", names)]) if count(names) > 0
"#;
/// Denies objects with the name `bad`.
const GATES: &str = r#"package admission
import rego.v1
deny contains "bad is denied" if input.request.name == "bad"
"#;
/// The memory limit of documents: less than the tenant's ConfigMaps take.
const BYTES: usize = 1 << 19;
/// The limit until policies are placed: the longest backoff and a margin.
const SOON: Duration = Duration::from_secs(65);
/// The time between two changes of users. Three moves within 10 minutes would make a cluster count as
/// flapping.
const BETWEEN: Duration = Duration::from_secs(301);
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// The interval between two moves of the attackers.
const ATTACK_EVERY: Duration = Duration::from_secs(4);
/// The number of ConfigMaps with Rego modules that the hostile author writes.
const HOSTILE_CARRIERS: usize = 6;

/// The annotation with the status of a ConfigMap's Rego modules.
const STATUS: &str = "openpolicyagent.org/kube-mgmt-status";

/// Counts of the effects of the hostile actors.
#[derive(Debug, Default)]
struct HostileEffects {
    /// Events `PlacementFlapping`.
    flapping: usize,
    /// Events `DocumentsLeftOut`.
    left_out: usize,
    /// ConfigMaps whose Rego modules have the status `error`.
    rejected: usize,
    /// Events `PolicySlow` and `PolicyOverMemory`.
    costly: usize,
}

struct World {
    server: MemoryServer,
    loaded: Loaded,
    rng: Rng,
    hostile: Hostile,
    regions: BTreeMap<&'static str, &'static str>,
    region: &'static str,
    /// The shop's policies.
    policies: BTreeSet<String>,
    /// Whether owners may opt out of remediation.
    allows_manual: bool,
}

fn config_map(namespace: &str, name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": data})
}

impl World {
    async fn begin(seed: u64) -> Result<Self> {
        let server = MemoryServer::hub()?;
        server.define_routes()?;
        let client = server.client();
        for name in [CARRIERS, KEEPER, SHOP].into_iter().chain(CLUSTERS) {
            apply(&client, &namespace(name)).await?;
        }
        let parameters = json!({"policiesToSync": [rate_limit_policies()]});
        apply(&client, &params_config_map(SHOP, "params", &parameters)).await?;
        apply(&client, &gateway_class(SHOP, CONTROLLER, Some((SHOP, "params")))).await?;
        let mut flow = server.flow_of("controller", CONTROLLER, Faultless)?;
        let alias = "managedclusters.cluster.open-cluster-management.io";
        let settings = Settings {
            namespaces: BTreeSet::from([CARRIERS.to_owned()]),
            replicate: BTreeSet::new(),
            aliases: BTreeMap::from([("clusters".to_owned(), alias.to_owned())]),
            packages: Default::default(),
            evaluator: Default::default(),
            limit: 10_000,
            bytes: BYTES,
        };
        // Modules are checked in this process, because paused time does not apply to other processes.
        let check: confined::CheckFn = Arc::new(|texts, _| {
            async move { Ok(confined::checked(&texts, Default::default(), &Default::default())) }.boxed()
        });
        let loading = RegoLoading::new(flow.controller.clone(), settings, flow.clock, check)?;
        let loaded = loading.loaded();
        flow.rego = Some((loading, RegoMetrics::new(&flow.metrics)?));
        let allows_manual = seed.is_multiple_of(2);
        let settings = remediation::Settings { allows_manual, ..Default::default() };
        let metrics = RemediationMetrics::new(&flow.metrics)?;
        let remediation = Remediation::new(flow.controller.clone(), settings, flow.clock, metrics);
        flow.remediation = Some(remediation);
        drop(flow.start(CancellationToken::new()));
        let (rng, hostile) = (Rng::with_seed(seed), Hostile::new(seed));
        let mut world = Self {
            server,
            loaded,
            rng,
            hostile,
            regions: BTreeMap::new(),
            region: "eu",
            policies: BTreeSet::new(),
            allows_manual,
        };
        for cluster in CLUSTERS {
            world.locate(cluster, if cluster.starts_with("eu") { "eu" } else { "us" }).await?;
        }
        world.choose("eu").await?;
        world.write_policy(0).await?;
        let mut kept = rate_limit_policy(KEEPER, "kept", "web");
        world.hostile.keep(&mut kept);
        let places = config_map(CARRIERS, "places", json!({ "places.rego": PLACES }));
        let gates = config_map(CARRIERS, "gates", json!({ "gates.rego": GATES }));
        apply_all(&world.server.client(), [&kept, &places, &gates]).await?;
        Ok(world)
    }

    async fn locate(&mut self, cluster: &'static str, region: &'static str) -> Result<()> {
        let labels = BTreeMap::from([(REGION.to_owned(), region.to_owned())]);
        apply(&self.server.client(), &managed_cluster(cluster, &labels)).await?;
        self.regions.insert(cluster, region);
        Ok(())
    }

    /// Selects the clusters of `region`.
    async fn choose(&mut self, region: &'static str) -> Result<()> {
        apply(&self.server.client(), &config_map(SHOP, "site", json!({ "region": region }))).await?;
        self.region = region;
        Ok(())
    }

    async fn write_policy(&mut self, number: usize) -> Result<()> {
        let name = format!("limits-{number}");
        apply(&self.server.client(), &rate_limit_policy(SHOP, &name, "web")).await?;
        self.policies.insert(name);
        Ok(())
    }

    /// Moves a cluster, selects another region, or writes a policy.
    async fn act(&mut self, round: usize) -> Result<String> {
        match self.rng.u8(..3) {
            0 => {
                let cluster = CLUSTERS[self.rng.usize(..CLUSTERS.len())];
                let region = if self.regions[cluster] == "eu" { "us" } else { "eu" };
                self.locate(cluster, region).await?;
                Ok(format!("{cluster} moves to {region}"))
            }
            1 => {
                let region = if self.region == "eu" { "us" } else { "eu" };
                self.choose(region).await?;
                Ok(format!("the shop selects {region}"))
            }
            _ => {
                self.write_policy(round).await?;
                Ok(format!("the policy {round} is written"))
            }
        }
    }

    /// Writes ConfigMaps with Rego modules as the hostile author.
    async fn write_carriers(&mut self) -> Result<()> {
        let name = format!("hostile-{}", self.hostile.below(HOSTILE_CARRIERS));
        let carrier = self.hostile.carrier(CARRIERS, &name);
        let costly = self.hostile.costly_carrier(CARRIERS, "hostile-costly");
        apply_all(&self.server.client(), [&carrier, &costly]).await
    }

    /// Whether the admission rules in force deny an object. A rejected module of the same package makes reviews fail by
    /// design, and does not count here.
    fn is_denied(&self, name: &str, labels: &Value) -> Result<bool, RegoQueryError> {
        let object = json!({"metadata": {"name": name, "labels": labels}});
        let input = json!({"request": {"name": name, "object": object}});
        let denials = self.loaded.snapshot().query_ignoring_rejected("data.admission.deny", &input.into())?;
        Ok(denials.is_some_and(|denials| denials != Rego::new_set()))
    }

    /// Checks that reviews of ordinary objects are decided, and that the review of a costly object ends at a limit.
    fn are_reviewed(&self) -> Result<()> {
        for (name, expected) in [("good", false), ("bad", true)] {
            let is_denied =
                self.is_denied(name, &json!({})).with_context(|| format!("the review of {name}"))?;
            ensure!(is_denied == expected, "{name}: denied is {is_denied}, expected {expected}");
        }
        let costly = self.is_denied("good", &json!({COSTLY: "0123456789abcdef"}));
        let reason = costly.as_ref().map_err(RegoQueryError::reason);
        ensure!(
            matches!(reason, Err("time" | "memory")),
            "the review of a costly object returned {costly:?}"
        );
        Ok(())
    }

    /// The valid selectors: without the hostile spoke and with it.
    fn expected(&self) -> [Option<String>; 2] {
        let named: BTreeSet<&str> = self
            .regions
            .iter()
            .filter(|(_, region)| **region == self.region)
            .map(|(name, _)| *name)
            .collect();
        let with_rogue = named.iter().copied().chain([ROGUE]).collect();
        [named, with_rogue].map(|names| {
            let names: Vec<&str> = names.into_iter().collect();
            (!names.is_empty()).then(|| format!("name in ({})", names.join(",")))
        })
    }

    fn is_placed(&self) -> Result<()> {
        let objects = self.server.objects();
        let selector = |namespace: &str, name: &str| {
            let key = format!("ratelimitpolicies.kuadrant.io {namespace}/{name}");
            let policy = objects.get(&key).with_context(|| format!("{key} does not exist"))?;
            anyhow::Ok(policy["metadata"]["annotations"][CLUSTER_SELECTOR].as_str().map(str::to_owned))
        };
        let expected = self.expected();
        for name in &self.policies {
            let found = selector(SHOP, name)?;
            ensure!(expected.contains(&found), "{name} has {found:?}, expected one of {expected:?}");
        }
        let kept = selector(KEEPER, "kept")?;
        let is_right = if self.allows_manual { kept.is_none() } else { expected.contains(&kept) };
        ensure!(is_right, "{KEEPER}/kept has {kept:?}, expected one of {expected:?}");
        Ok(())
    }

    async fn until_placed(&self) -> Result<()> {
        self.until(Self::is_placed).await
    }

    async fn until(&self, holds: fn(&Self) -> Result<()>) -> Result<()> {
        let start = Instant::now();
        while let Err(error) = holds(self) {
            ensure!(start.elapsed() < SOON, "not within {SOON:?}: {error:#}\n{}", self.reported());
            sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }

    /// The reports of the controller about ConfigMaps with Rego modules, and about the shop.
    fn reported(&self) -> String {
        let mut lines = Vec::new();
        for (name, object) in self.server.objects() {
            let metadata = &object["metadata"];
            if object["kind"] == "Event"
                && (metadata["namespace"] == SHOP || metadata["namespace"] == "default")
            {
                lines.push(format!("{}: {}", object["reason"], object["note"]));
            } else if metadata["namespace"] == CARRIERS {
                lines.push(format!("{name}: {}", metadata["annotations"][STATUS]));
            }
        }
        lines.join("\n")
    }

    fn observe(&self, seen: &mut HostileEffects) {
        let objects = self.server.objects();
        let events = objects.values().filter(|object| object["kind"] == "Event");
        let reasons: Vec<&str> = events.filter_map(|event| event["reason"].as_str()).collect();
        let count = |reason: &str| reasons.iter().filter(|found| **found == reason).count();
        seen.flapping += count("PlacementFlapping");
        seen.left_out += count("DocumentsLeftOut");
        seen.costly += count("PolicySlow") + count("PolicyOverMemory");
        let rejected = objects.values().filter(|object| {
            let status = object["metadata"]["annotations"][STATUS].as_str().unwrap_or_default();
            object["metadata"]["namespace"] == CARRIERS && status.contains("\"error\"")
        });
        seen.rejected += rejected.count();
    }
}

async fn one_seed(seed: u64, rounds: usize) -> Result<HostileEffects> {
    let mut world = World::begin(seed).await?;
    world.until_placed().await.context("before the attack")?;
    let attack = Attackers::begin(&world.server, seed, ATTACK_EVERY, &[]).await?;
    let mut seen = HostileEffects::default();
    for round in 1..=rounds {
        world.write_carriers().await?;
        sleep(BETWEEN).await;
        world.until(World::are_reviewed).await.with_context(|| format!("round {round}"))?;
        let done = world.act(round).await?;
        world.until_placed().await.with_context(|| format!("round {round}, after {done}"))?;
        world.observe(&mut seen);
    }
    let written = attack.end().await?;
    ensure!(written > 20 * rounds, "the attackers wrote only {written} times");
    sleep(BETWEEN).await;
    world.until_placed().await.context("after the attack")?;
    Ok(seen)
}

/// A pass evaluates one policy of each namespace before it evaluates a second policy of any namespace.
#[tokio::test(start_paused = true)]
async fn namespace_without_its_documents_keeps_no_policy_of_others_from_moving() -> Result<()> {
    let mut world = World::begin(1).await?;
    world.write_policy(1).await?;
    world.until_placed().await?;
    let large = config_map(HOSTILE_TENANT, "large", json!({"text": "x".repeat(BYTES)}));
    let policy = rate_limit_policy(HOSTILE_TENANT, "limits", "web");
    apply_all(&world.server.client(), [&namespace(HOSTILE_TENANT), &policy, &large]).await?;
    let is_left_out = |world: &World| {
        ensure!(!world.loaded.left_out().is_empty(), "no documents are left out");
        Ok(())
    };
    world.until(is_left_out).await?;
    world.choose("us").await?;
    world.until_placed().await
}

#[test]
fn hostile_actors_keep_no_policy_of_others_from_moving() -> Result<()> {
    let all = each_seed(2, 4, one_seed)?;
    println!("{} seeds: {all:?}", all.len());
    let sum = |of: fn(&HostileEffects) -> usize| all.iter().map(of).sum::<usize>();
    ensure!(sum(|seen| seen.flapping) > 0, "no cluster was flapping");
    ensure!(sum(|seen| seen.left_out) > 0, "no documents were left out");
    ensure!(sum(|seen| seen.rejected) > 0, "no carrier was rejected");
    ensure!(sum(|seen| seen.costly) > 0, "no costly module was reported");
    Ok(())
}
