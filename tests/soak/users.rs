//! Simulated users of one namespace, and an independent calculation of the works that should result from
//! their actions.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result};
use fastrand::Rng;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use policy_sync_testenv::MemoryServer;
use policy_sync_testenv::apply::{api_for, apply, apply_with_status};
use policy_sync_testenv::fixtures::{
    auth_policy, gateway, gateway_class, managed_cluster, namespace, params_config_map, placement,
    placement_decision, rate_limit_policy, timeout_policy, topology,
};
use policy_sync_testenv::tenant::{auth_policies, rate_limit_policies, timeout_policies};

pub(crate) const CONTROLLER: &str = "example.com/policy-sync";
pub(crate) const SHOP: &str = "shop";
pub(crate) const CLUSTERS: [&str; 3] = ["eu-1", "eu-2", "us-1"];
const REGIONS: [&str; 2] = ["eu", "us"];
const PLACEMENTS: [&str; 2] = ["all", "edge"];
const GATEWAYS: [&str; 2] = ["web", "api"];
const KINDS: [Kind; 3] = [Kind::RateLimit, Kind::Auth, Kind::Timeout];
const NAMES: [&str; 2] = ["one", "two"];
const ROUTES: [&str; 3] = ["carts", "orders", "search"];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    RateLimit,
    Auth,
    Timeout,
}

/// A policy that a user has written.
#[derive(Clone, Debug)]
struct Policy {
    /// The names of the targets. Most kinds have one target, and TimeoutPolicies have any number.
    targets: Vec<&'static str>,
    selects: Option<&'static str>,
    /// Distinguishes one spec from another.
    value: u32,
}

/// All users, and the objects that they have written.
pub(crate) struct Users {
    server: MemoryServer,
    rng: Rng,
    /// A separate generator, so that routes do not change the sequence of other actions.
    of_routes: Rng,
    /// Clusters that each Placement selects in addition to the users' clusters.
    extra_clusters: &'static [&'static str],
    regions: BTreeMap<&'static str, &'static str>,
    placements: BTreeMap<&'static str, BTreeSet<&'static str>>,
    /// The existing Gateways, each with the Placement in its label.
    gateways: BTreeMap<&'static str, Option<&'static str>>,
    policies: BTreeMap<(Kind, &'static str), Policy>,
    routes: BTreeSet<&'static str>,
    listed: BTreeSet<Kind>,
    class: &'static str,
    valid: bool,
    actions: usize,
    /// The actions of this round.
    done: Vec<String>,
}

impl Users {
    /// Users of `server` who begin with a Gateway that is placed on all clusters.
    pub(crate) async fn begin(server: MemoryServer, seed: u64) -> Result<Self> {
        Self::begin_with_extra_clusters(server, seed, &[]).await
    }

    /// Like [`Users::begin`], with Placements that also select the clusters `extra_clusters`. [`Users::expected`]
    /// ignores these clusters.
    pub(crate) async fn begin_with_extra_clusters(
        server: MemoryServer,
        seed: u64,
        extra_clusters: &'static [&'static str],
    ) -> Result<Self> {
        let mut users = Self {
            server,
            rng: Rng::with_seed(seed),
            of_routes: Rng::with_seed(seed),
            extra_clusters,
            regions: BTreeMap::new(),
            placements: BTreeMap::new(),
            gateways: BTreeMap::new(),
            policies: BTreeMap::new(),
            routes: BTreeSet::new(),
            listed: KINDS.into(),
            class: "istio",
            valid: true,
            actions: 0,
            done: Vec::new(),
        };
        for cluster in CLUSTERS {
            users.apply(&namespace(cluster)).await?;
            users.relabel(cluster, if cluster.starts_with("eu") { "eu" } else { "us" }).await?;
        }
        users.apply(&namespace(SHOP)).await?;
        users.parameters().await?;
        users.apply(&gateway_class(SHOP, CONTROLLER, Some((SHOP, "params")))).await?;
        users.place("all", CLUSTERS.into()).await?;
        users.label("web", Some("all")).await?;
        Ok(users)
    }

    pub(crate) fn actions(&self) -> usize {
        self.actions
    }

    pub(crate) fn done(&self) -> Vec<String> {
        self.done.clone()
    }

    /// The number of actions in the next round.
    pub(crate) fn how_many(&mut self) -> usize {
        self.done.clear();
        self.rng.usize(1..8)
    }

    pub(crate) fn crashes(&mut self) -> bool {
        self.rng.u8(..8) == 0
    }

    /// The time until the next action: often none, sometimes longer than all grace periods and windows.
    pub(crate) fn pause(&mut self) -> Duration {
        match self.rng.u8(..3) {
            0 => Duration::ZERO,
            1 => Duration::from_millis(self.rng.u64(..2_000)),
            _ => Duration::from_secs(self.rng.u64(..20)),
        }
    }

    /// Performs a random action.
    pub(crate) async fn act(&mut self) -> Result<()> {
        self.actions += 1;
        match self.rng.u8(..16) {
            0..=4 => self.write_policy().await,
            5 => self.delete_policy().await,
            6 | 7 => {
                let placement = self.one(&PLACEMENTS);
                let clusters = CLUSTERS.into_iter().filter(|_| self.rng.bool()).collect();
                self.place(placement, clusters).await
            }
            8 => self.unplace().await,
            9 | 10 => {
                let gateway = self.one(&GATEWAYS);
                let placement = [None, Some("all"), Some("all"), Some("edge")][self.rng.usize(..4)];
                self.label(gateway, placement).await
            }
            11 => self.delete_gateway().await,
            12 => {
                let (cluster, region) = (self.one(&CLUSTERS), self.one(&REGIONS));
                self.relabel(cluster, region).await
            }
            13 => {
                self.listed = KINDS.into_iter().filter(|_| self.rng.u8(..4) > 0).collect();
                self.parameters().await
            }
            14 => {
                self.class = self.one(&["istio", "envoy"]);
                self.parameters().await
            }
            _ => {
                self.valid = false;
                self.parameters().await
            }
        }
    }

    /// Creates, changes or deletes routes, which no work depends on.
    pub(crate) async fn act_on_routes(&mut self) -> Result<()> {
        match self.of_routes.u8(..6) {
            0 | 1 => self.write_route().await,
            2 => self.delete_route().await,
            _ => Ok(()),
        }
    }

    /// Checks the stored topology against the users' objects.
    pub(crate) fn check_topology(&self) -> Result<()> {
        self.server.check_topology(CONTROLLER, |kind| self.listed.iter().any(|listed| listed.name() == kind))
    }

    /// Checks the statuses of the Gateways and routes in the users' namespace, beside other users' objects.
    pub(crate) fn check_statuses(&self) -> Result<()> {
        let listed = |kind: &str| self.listed.iter().any(|listed| listed.name() == kind);
        self.server.check_statuses(CONTROLLER, listed, SHOP)
    }

    /// Restores valid parameters.
    pub(crate) async fn repair(&mut self) -> Result<()> {
        self.valid = true;
        self.parameters().await
    }

    /// The expected works, by `<cluster>/<kind>-<name>`, each with the value that [`copy_summary`] gives for its
    /// copy.
    pub(crate) fn expected(&self) -> BTreeMap<String, Value> {
        let mut works = BTreeMap::new();
        for cluster in CLUSTERS {
            let here: BTreeSet<&str> =
                self.gateways.keys().copied().filter(|name| self.placed(name, cluster)).collect();
            for gateway in &here {
                works.insert(format!("{cluster}/gateway-{gateway}"), json!(["Gateway", self.class]));
            }
            for ((kind, name), policy) in &self.policies {
                let targets: Vec<&str> =
                    policy.targets.iter().copied().filter(|target| here.contains(target)).collect();
                let selected = policy.selects.is_none_or(|region| self.regions.get(cluster) == Some(&region));
                if self.listed.contains(kind) && selected && !targets.is_empty() {
                    let described = json!([kind.name(), policy.value.to_string(), targets]);
                    works.insert(format!("{cluster}/{}-{name}", kind.name().to_lowercase()), described);
                }
            }
            if works.keys().any(|work| work.starts_with(&format!("{cluster}/"))) {
                works.insert(format!("{cluster}/access"), json!("access"));
            }
        }
        works
    }

    fn placed(&self, gateway: &str, cluster: &str) -> bool {
        let placement = self.gateways.get(gateway).copied().flatten();
        placement
            .and_then(|placement| self.placements.get(placement))
            .is_some_and(|clusters| clusters.contains(cluster))
    }

    fn one<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.rng.usize(..all.len())]
    }

    async fn write_policy(&mut self) -> Result<()> {
        let key = (self.one(&KINDS), self.one(&NAMES));
        let targets = match key.0 {
            Kind::Timeout => [vec!["web"], vec!["api"], vec!["web", "api"]][self.rng.usize(..3)].clone(),
            _ => vec![self.one(&GATEWAYS)],
        };
        let selects = [None, None, Some("eu"), Some("us")][self.rng.usize(..4)];
        let policy = Policy { targets, selects, value: self.rng.u32(1..1000) };
        self.done.push(format!("write {key:?}: {policy:?}"));
        self.apply(&key.0.object(key.1, &policy)).await?;
        self.policies.insert(key, policy);
        Ok(())
    }

    async fn delete_policy(&mut self) -> Result<()> {
        let keys: Vec<_> = self.policies.keys().copied().collect();
        if keys.is_empty() {
            return Ok(());
        }
        let key = self.one(&keys);
        self.done.push(format!("delete {key:?}"));
        let Some(policy) = self.policies.remove(&key) else { return Ok(()) };
        self.delete(&key.0.object(key.1, &policy)).await
    }

    async fn write_route(&mut self) -> Result<()> {
        let rng = &mut self.of_routes;
        let (name, gateway) = (ROUTES[rng.usize(..ROUTES.len())], GATEWAYS[rng.usize(..GATEWAYS.len())]);
        let listener = if rng.bool() { "http" } else { "none" };
        self.done.push(format!("write the route {name} to {gateway}, {listener}"));
        self.apply(&route(name, gateway, listener)).await?;
        self.routes.insert(name);
        Ok(())
    }

    async fn delete_route(&mut self) -> Result<()> {
        let Some(name) = self.routes.pop_first() else { return Ok(()) };
        self.done.push(format!("delete the route {name}"));
        self.delete(&route(name, "", "")).await
    }

    /// Writes a Placement's decisions before its status, as OCM's controller does.
    async fn place(&mut self, name: &'static str, clusters: BTreeSet<&'static str>) -> Result<()> {
        self.done.push(format!("place {name} on {clusters:?}"));
        let chosen: Vec<&str> = clusters.iter().chain(self.extra_clusters).copied().collect();
        for object in [placement_decision(SHOP, name, 1, &chosen), placement(SHOP, name, chosen.len())] {
            apply_with_status(&self.server.client(), &object).await?;
        }
        self.placements.insert(name, clusters);
        Ok(())
    }

    async fn unplace(&mut self) -> Result<()> {
        let names: Vec<_> = self.placements.keys().copied().collect();
        if names.is_empty() {
            return Ok(());
        }
        let name = self.one(&names);
        self.done.push(format!("delete the placement {name}"));
        self.placements.remove(name);
        self.delete(&placement(SHOP, name, 0)).await?;
        self.delete(&placement_decision(SHOP, name, 1, &[])).await
    }

    async fn label(&mut self, name: &'static str, placement: Option<&'static str>) -> Result<()> {
        self.done.push(format!("label the gateway {name} with {placement:?}"));
        self.apply(&gateway(SHOP, name, SHOP, placement)).await?;
        self.gateways.insert(name, placement);
        Ok(())
    }

    async fn delete_gateway(&mut self) -> Result<()> {
        let names: Vec<_> = self.gateways.keys().copied().collect();
        if names.is_empty() {
            return Ok(());
        }
        let name = self.one(&names);
        self.done.push(format!("delete the gateway {name}"));
        self.gateways.remove(name);
        self.delete(&gateway(SHOP, name, SHOP, None)).await
    }

    async fn relabel(&mut self, cluster: &'static str, region: &'static str) -> Result<()> {
        self.done.push(format!("label {cluster} with {region}"));
        self.apply(&managed_cluster(cluster, &[("region".to_owned(), region.to_owned())].into())).await?;
        self.regions.insert(cluster, region);
        Ok(())
    }

    async fn parameters(&mut self) -> Result<()> {
        self.done.push(format!("parameters: {:?} {} {}", self.listed, self.class, self.valid));
        let kinds: Vec<Value> = self.listed.iter().map(|kind| kind.listed()).collect();
        let mut parameters = json!({"downstreamClass": self.class, "policiesToSync": kinds});
        if !self.valid {
            parameters["downstreamClass"] = json!(5);
        }
        self.apply(&params_config_map(SHOP, "params", &parameters)).await
    }

    async fn apply(&self, object: &Value) -> Result<()> {
        apply(&self.server.client(), object).await.map(drop)
    }

    async fn delete(&self, object: &Value) -> Result<()> {
        let (api, name) = api_for(&self.server.client(), object).await?;
        api.delete(&name, &DeleteParams::default())
            .await
            .with_context(|| format!("deleting {name}"))
            .map(drop)
    }
}

/// A route with the defaults of the API server, which the server in memory does not set.
fn route(name: &str, gateway: &str, listener: &str) -> Value {
    let parent = json!({"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": gateway, "sectionName": listener});
    topology::object("HTTPRoute", (SHOP, name), json!({"parentRefs": [parent], "rules": [{}]}))
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::RateLimit => "RateLimitPolicy",
            Self::Auth => "AuthPolicy",
            Self::Timeout => "TimeoutPolicy",
        }
    }

    fn listed(self) -> Value {
        match self {
            Self::RateLimit => rate_limit_policies(),
            Self::Auth => auth_policies(),
            Self::Timeout => timeout_policies(),
        }
    }

    fn object(self, name: &str, policy: &Policy) -> Value {
        let mut object = match self {
            Self::RateLimit => rate_limit_policy(SHOP, name, policy.targets[0]),
            Self::Auth => auth_policy(SHOP, name, policy.targets[0]),
            Self::Timeout => timeout_policy(SHOP, name, &policy.targets),
        };
        // A label is copied for every kind.
        object["metadata"]["labels"] = json!({"value": policy.value.to_string()});
        if let Some(region) = policy.selects {
            object["metadata"]["annotations"] =
                json!({"kuadrant.io/cluster-selector": format!("region={region}")});
        }
        object
    }
}

/// The fields of a work's copy that [`Users::expected`] predicts: its kind, the value that identifies its
/// spec, and its targets.
pub(crate) fn copy_summary(manifests: &Value) -> Value {
    let copy = &manifests[1];
    match copy["kind"].as_str() {
        None => json!("access"),
        Some("Gateway") => json!(["Gateway", copy["spec"]["gatewayClassName"]]),
        Some(kind) => {
            let singular = copy["spec"]["targetRef"]["name"].as_str();
            let plural = copy["spec"]["targetRefs"].as_array().into_iter().flatten();
            let targets: Vec<&str> =
                singular.into_iter().chain(plural.filter_map(|target| target["name"].as_str())).collect();
            json!([kind, copy["metadata"]["labels"]["value"], targets])
        }
    }
}
