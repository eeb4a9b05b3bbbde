//! Existing objects are updated when placement policies or clusters change, on a real API server.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::Event;
use kube::ResourceExt;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use policy_sync_testenv::apply::{api_for, apply};
use policy_sync_testenv::fixtures::{
    gateway, gateway_class, managed_cluster, namespace, params_config_map, rate_limit_policy,
};
use policy_sync_testenv::tenant::rate_limit_policies;
use policy_sync_testenv::{Controller, wait};
use serde_json::{Value, json};

use crate::world::{LIMIT, World};

pub(crate) const SELECTOR: &str = "kuadrant.io/cluster-selector";
const PLACED: &str = "kuadrant.io/placed-by-policy";
const REMEDIATE: &str = "kuadrant.io/remediate";

/// RateLimitPolicies in a namespace. The Rego policy places these policies in the region of the cluster that has the
/// namespace's name. Each shop has a hub of its own, because Rego policies place all objects of a hub.
pub(crate) struct Shop {
    pub(crate) world: World,
    pub(crate) name: String,
}

impl Shop {
    pub(crate) async fn open(name: &str) -> Result<Self> {
        let shop = Self { world: World::alone(name).await?, name: format!("{name}-shop") };
        let class = gateway_class(name, &format!("example.com/{name}"), Some((&shop.name, "params")));
        let parameters = json!({"policiesToSync": [rate_limit_policies()]});
        shop.apply(&namespace(&shop.name)).await?;
        shop.apply(&params_config_map(&shop.name, "params", &parameters)).await?;
        shop.apply(&class).await?;
        shop.locate("eu").await?;
        Ok(shop)
    }

    /// Moves the shop's cluster to `region`.
    pub(crate) async fn locate(&self, region: &str) -> Result<()> {
        let labels = BTreeMap::from([("region".to_owned(), region.to_owned())]);
        self.apply(&managed_cluster(&self.name, &labels)).await.map(drop)
    }

    /// A Rego policy that places the shop's objects in the region of the shop's cluster, and rejects objects called
    /// `bad` in Asia.
    pub(crate) fn policy(&self) -> Value {
        let shop = &self.name;
        let text = format!(
            r#"package io.k8s.federation.admission
import rego.v1
region := data.kubernetes.clusters["{shop}"].metadata.labels.region
annotations["{SELECTOR}"] := sprintf("region=%s", [region]) if startswith(input.metadata.namespace, "{shop}")
errors contains "nothing bad goes to Asia" if {{
	region == "asia"
	startswith(input.metadata.namespace, "{shop}")
	input.metadata.name == "bad"
}}
"#
        );
        json!({"places.rego": text})
    }

    pub(crate) async fn apply(&self, object: &Value) -> Result<DynamicObject> {
        apply(&self.world.client, object).await
    }

    pub(crate) fn limits(&self, name: &str, annotations: Value) -> Value {
        let mut limits = rate_limit_policy(&self.name, name, "web");
        limits["metadata"]["annotations"] = annotations;
        limits
    }

    async fn get(&self, object: &Value) -> Result<DynamicObject> {
        let (api, name) = api_for(&self.world.client, object).await?;
        Ok(api.get(&name).await?)
    }

    async fn merge(&self, object: &Value, annotations: Value) -> Result<()> {
        let (api, name) = api_for(&self.world.client, object).await?;
        let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
        api.patch(&name, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    pub(crate) async fn until(&self, object: &Value, selector: Option<&str>) -> Result<DynamicObject> {
        let name = &object["metadata"]["name"];
        wait::until(&format!("the selector of {name} is {selector:?}"), LIMIT, || async {
            let found = self.get(object).await?;
            let annotations = found.annotations();
            ensure!(annotations.get(SELECTOR).map(String::as_str) == selector, "{annotations:?}");
            Ok(found)
        })
        .await
    }

    /// The messages of Events with this reason about `name`, in the shop.
    async fn events(&self, reason: &str, name: &str) -> Result<Vec<String>> {
        let events: Api<Event> = Api::namespaced(self.world.client.clone(), &self.name);
        let events = events.list(&ListParams::default()).await?.items.into_iter();
        let about = events.filter(|event| {
            event.reason.as_deref() == Some(reason) && event.involved_object.name.as_deref() == Some(name)
        });
        Ok(about.filter_map(|event| event.message).collect())
    }

    async fn until_event(&self, reason: &str, name: &str, parts: &[&str]) -> Result<()> {
        wait::until(&format!("the Event {reason} of {name}"), LIMIT, || async {
            let notes = self.events(reason, name).await?;
            ensure!(notes.iter().any(|note| parts.iter().all(|part| note.contains(part))), "{notes:?}");
            Ok(())
        })
        .await
    }
}

async fn patches(controller: &Controller, result: &str) -> Result<f64> {
    controller.metrics().await?.value("policy_sync_placement_patches_total", &[("result", result)])
}

async fn until_objects(controller: &Controller, state: &str, count: f64) -> Result<()> {
    wait::until(&format!("{count} objects are {state}"), LIMIT, || async {
        let found =
            controller.metrics().await?.value("policy_sync_placement_objects", &[("state", state)])?;
        ensure!(found == count, "{found} objects are");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn existing_objects_are_placed_moved_and_restored_after_the_rego_policy_is_deleted() -> Result<()> {
    let shop = Shop::open("rego-moves").await?;
    let (plain, wished) =
        (shop.limits("plain", json!({})), shop.limits("wished", json!({SELECTOR: "region=us"})));
    let ours = gateway(&shop.name, "web", "rego-moves", None);
    let theirs = gateway(&shop.name, "theirs", "somebodys", None);
    // A Namespace that is exempt by a label.
    let ignored_space = format!("{}-ignored", shop.name);
    let mut ignoring = namespace(&ignored_space);
    ignoring["metadata"]["labels"] = json!({"openpolicyagent.org/webhook": "ignore"});
    let ignored = rate_limit_policy(&ignored_space, "ignored", "web");
    for object in [&plain, &wished, &ours, &theirs, &ignoring, &ignored] {
        shop.apply(object).await?;
    }
    let controller = shop.world.controller(&[]).await?;
    shop.world.write("places", shop.policy()).await?;
    for object in [&plain, &wished, &ours] {
        let found = shop.until(object, Some("region=eu")).await?;
        ensure!(found.annotations().contains_key(PLACED), "{:?}", found.annotations());
    }
    shop.until_event("PlacementChanged", "plain", &[SELECTOR, "\"region=eu\""]).await?;
    shop.locate("asia").await?;
    for object in [&plain, &wished, &ours] {
        shop.until(object, Some("region=asia")).await?;
    }
    ensure!(patches(&controller, "patched").await? == 6.0, "expected two patches of three objects");
    // An edit by a developer is reviewed as well, and the developer's value is kept as the original.
    let edited = shop.limits("edited", json!({}));
    shop.apply(&edited).await?;
    shop.until(&edited, Some("region=asia")).await?;
    shop.merge(&edited, json!({SELECTOR: "region=mars"})).await?;
    shop.until(&edited, Some("region=asia")).await?;
    for (object, why) in [
        (&theirs, "a Gateway of another class is placed"),
        (&ignored, "an object in an exempt Namespace is placed"),
    ] {
        ensure!(!shop.get(object).await?.annotations().contains_key(SELECTOR), "{why}");
    }
    // Once the controller manages the class, it places the Gateways of the class.
    shop.apply(&gateway_class("somebodys", "example.com/rego-moves", Some((&shop.name, "params")))).await?;
    shop.until(&theirs, Some("region=asia")).await?;
    // Once a Namespace is no longer exempt, its objects are placed.
    ignoring["metadata"]["labels"] = json!({});
    shop.apply(&ignoring).await?;
    shop.until(&ignored, Some("region=asia")).await?;

    shop.world.delete("places").await?;
    shop.until(&edited, Some("region=mars")).await?;
    for object in [&plain, &ours] {
        shop.until(object, None).await?;
    }
    let back = shop.until(&wished, Some("region=us")).await?;
    ensure!(!back.annotations().contains_key(PLACED), "{:?}", back.annotations());
    shop.until(&ignored, None).await?;
    controller.terminate().await.map(drop)
}

#[tokio::test]
async fn manual_objects_and_violations_are_reported_and_not_changed() -> Result<()> {
    let shop = Shop::open("rego-told").await?;
    let by_hand = shop.limits("by-hand", json!({REMEDIATE: "manual"}));
    let bad = shop.limits("bad", json!({}));
    let controller = shop.world.controller(&[]).await?;
    shop.world.write("places", shop.policy()).await?;
    shop.apply(&bad).await?;
    shop.apply(&by_hand).await?;
    shop.until(&bad, Some("region=eu")).await?;
    let parts = ["annotation kuadrant.io/remediate", "policy-sync placement apply", "\"region=eu\""];
    shop.until_event("PlacementDiffers", "by-hand", &parts).await?;
    until_objects(&controller, "manual", 1.0).await?;
    ensure!(!shop.get(&by_hand).await?.annotations().contains_key(SELECTOR), "the object was changed");

    shop.locate("asia").await?;
    shop.until_event("PlacementViolated", "bad", &["nothing bad goes to Asia"]).await?;
    until_objects(&controller, "violated", 1.0).await?;
    let stays = shop.get(&bad).await?;
    ensure!(stays.annotations()[SELECTOR] == "region=eu", "{:?}", stays.annotations());
    shop.locate("eu").await?;
    until_objects(&controller, "violated", 0.0).await?;

    // `manual` on the Namespace applies to all objects in it, except for an object with `automatic`.
    shop.merge(&by_hand, json!({REMEDIATE: null})).await?;
    shop.until(&by_hand, Some("region=eu")).await?;
    until_objects(&controller, "manual", 0.0).await?;
    shop.merge(&namespace(&shop.name), json!({REMEDIATE: "manual"})).await?;
    shop.merge(&by_hand, json!({REMEDIATE: "automatic"})).await?;
    shop.locate("us").await?;
    shop.until(&by_hand, Some("region=us")).await?;
    shop.until_event("PlacementDiffers", "bad", &["\"region=us\""]).await?;
    until_objects(&controller, "manual", 1.0).await?;
    // The annotation of the Namespace is removed.
    shop.merge(&namespace(&shop.name), json!({REMEDIATE: null})).await?;
    shop.until(&bad, Some("region=us")).await?;
    controller.terminate().await.map(drop)
}

#[tokio::test]
async fn manual_annotations_are_ignored_if_the_flag_disallows_them() -> Result<()> {
    let shop = Shop::open("rego-strict").await?;
    let by_hand = shop.limits("by-hand", json!({REMEDIATE: "manual"}));
    let other = shop.limits("other", json!({}));
    shop.merge(&namespace(&shop.name), json!({REMEDIATE: "manual"})).await?;
    shop.apply(&by_hand).await?;
    shop.apply(&other).await?;
    let controller = shop.world.controller(&["--allow-manual-remediation=false"]).await?;
    shop.world.write("places", shop.policy()).await?;
    shop.until(&by_hand, Some("region=eu")).await?;
    shop.until(&other, Some("region=eu")).await?;
    for name in ["by-hand", "other"] {
        let parts = ["kuadrant.io/remediate: manual is ignored", "--allow-manual-remediation=false"];
        shop.until_event("PlacementChanged", name, &parts).await?;
    }
    until_objects(&controller, "manual", 0.0).await?;
    controller.terminate().await.map(drop)
}

#[tokio::test]
async fn object_that_is_reverted_three_times_is_left_alone() -> Result<()> {
    let shop = Shop::open("rego-hot").await?;
    let limits = shop.limits("limits", json!({}));
    shop.apply(&limits).await?;
    let controller = shop.world.controller(&[]).await?;
    shop.world.write("places", shop.policy()).await?;
    for number in 1..4 {
        shop.until(&limits, Some("region=eu")).await?;
        shop.merge(&limits, json!({SELECTOR: format!("region=mine-{number}")})).await?;
    }
    shop.until_event("PlacementUnsettled", "limits", &["three times within 10 minutes", "\"region=eu\""])
        .await?;
    until_objects(&controller, "unsettled", 1.0).await?;
    ensure!(patches(&controller, "patched").await? == 3.0);
    let found = shop.get(&limits).await?;
    ensure!(found.annotations()[SELECTOR] == "region=mine-3", "{:?}", found.annotations());
    // The controller leaves only `limits` unchanged, and still updates other objects.
    let other = shop.limits("other", json!({}));
    shop.apply(&other).await?;
    shop.until(&other, Some("region=eu")).await?;
    controller.terminate().await.map(drop)
}

/// A Rego policy that places the shop's objects on all clusters with the label `pci: "true"`.
fn handles_cards(shop: &str) -> Value {
    let text = format!(
        r#"package io.k8s.federation.admission
import rego.v1
names := sort([name | some name, cluster in data.kubernetes.clusters; cluster.metadata.labels.pci == "true"])
annotations["{SELECTOR}"] := sprintf("name in (%s)", [concat(",", names)]) if {{
	startswith(input.metadata.namespace, "{shop}")
	count(names) > 0
}}
"#
    );
    json!({"cards.rego": text})
}

#[tokio::test]
async fn cluster_with_a_flapping_label_gets_no_objects_and_delays_no_other_move() -> Result<()> {
    let shop = Shop::open("rego-flapping").await?;
    let handles = async |name: &str, pci: bool| {
        let labels = BTreeMap::from([("pci".to_owned(), pci.to_string())]);
        shop.apply(&managed_cluster(name, &labels)).await.map(drop)
    };
    handles("good", true).await?;
    let (limits, more) = (shop.limits("limits", json!({})), shop.limits("more", json!({})));
    shop.apply(&limits).await?;
    shop.apply(&more).await?;
    let controller = shop.world.controller(&[]).await?;
    shop.world.write("cards", handles_cards(&shop.name)).await?;
    let both = [&limits, &more];
    for limits in both {
        shop.until(limits, Some("name in (good)")).await?;
    }
    // Returns the longer of two durations: the move to `cluster`, and the move away from it.
    let moves = async |cluster: &str| {
        let mut longest = Duration::ZERO;
        for (pci, names) in [(true, format!("good,{cluster}")), (false, "good".to_owned())] {
            let began = Instant::now();
            handles(cluster, pci).await?;
            for limits in both {
                shop.until(limits, Some(&format!("name in ({names})"))).await?;
            }
            longest = longest.max(began.elapsed());
        }
        anyhow::Ok(longest)
    };
    let quiet = moves("quiet").await?;
    for (pci, names) in [(true, "bad,good"), (false, "good")] {
        handles("bad", pci).await?;
        for limits in both {
            shop.until(limits, Some(&format!("name in ({names})"))).await?;
        }
    }
    // Once one object has moved for the third time, the cluster counts as flapping, and no further object moves
    // to it.
    handles("bad", true).await?;
    let flapping = async || controller.metrics().await?.value("policy_sync_placement_flapping", &[]);
    wait::until("one cluster is flapping", LIMIT, || async {
        let flapping = flapping().await?;
        ensure!(flapping == 1.0, "{flapping} clusters are flapping");
        Ok(())
    })
    .await?;
    // All objects move away from the flapping cluster.
    handles("bad", false).await?;
    for limits in both {
        shop.until(limits, Some("name in (good)")).await?;
    }
    handles("bad", true).await?;
    shop.until_event("PlacementUnsettled", "limits", &["managedclusters", "bad"]).await?;
    until_objects(&controller, "unsettled", 2.0).await?;
    let events: Api<Event> = Api::namespaced(shop.world.client.clone(), "default");
    wait::until("the Event of the cluster exists", LIMIT, || async {
        let events = events.list(&ListParams::default()).await?.items;
        let mut flapping_events =
            events.iter().filter(|event| event.reason.as_deref() == Some("PlacementFlapping"));
        let name = flapping_events.next().and_then(|event| event.involved_object.name.as_deref());
        ensure!(name == Some("bad") && flapping_events.next().is_none(), "{events:?}");
        Ok(())
    })
    .await?;
    // While `bad` keeps flipping its label, objects still move to other clusters. All clusters together have more
    // moves than the limit for one cluster.
    let flips = async {
        let mut every = tokio::time::interval(Duration::from_millis(500));
        for pci in [false, true].into_iter().cycle() {
            every.tick().await;
            handles("bad", pci).await?;
        }
        anyhow::Ok(())
    };
    let beside = tokio::select! {
        flips = flips => bail!("the changes of the label ended: {flips:?}"),
        took = moves("other") => took?,
    };
    println!("a move takes {quiet:?}, and beside the flapping cluster {beside:?}");
    // The margin is for a busy machine. A move that waited for the flapping cluster would take minutes.
    ensure!(beside <= 2 * quiet + Duration::from_secs(2), "{beside:?} instead of {quiet:?}");
    handles("bad", true).await?;
    let new = shop.limits("new", json!({}));
    shop.apply(&new).await?;
    shop.until(&new, Some("name in (good)")).await?;
    ensure!(flapping().await? == 1.0);
    controller.terminate().await.map(drop)
}

#[tokio::test]
async fn changes_during_downtime_are_applied_and_a_new_leader_repeats_nothing() -> Result<()> {
    let shop = Shop::open("rego-down").await?;
    let limits = |number: usize| shop.limits(&format!("l{number}"), json!({}));
    let many = 200;
    for number in 0..many {
        shop.apply(&limits(number)).await?;
    }
    let mut controller = shop.world.controller(&[]).await?;
    shop.world.write("places", shop.policy()).await?;
    // If a process is killed halfway, the next process patches the remaining objects.
    wait::until("the first objects are patched", LIMIT, || async {
        ensure!(patches(&controller, "patched").await? > 0.0, "no object is patched");
        Ok(())
    })
    .await?;
    controller.kill();
    let mut left = 0;
    for number in 0..many {
        left += usize::from(!shop.get(&limits(number)).await?.annotations().contains_key(SELECTOR));
    }
    ensure!(left > 0, "all objects were patched before the kill");
    controller = shop.world.controller(&[]).await?;
    for number in 0..many {
        shop.until(&limits(number), Some("region=eu")).await?;
    }
    controller.terminate().await?;
    shop.locate("asia").await?;
    let controller = shop.world.controller(&[]).await?;
    for number in 0..many {
        shop.until(&limits(number), Some("region=asia")).await?;
    }
    let versions = || async {
        let mut versions = Vec::new();
        for number in 0..many {
            versions.push(shop.get(&limits(number)).await?.resource_version().context("no resourceVersion")?);
        }
        anyhow::Ok(versions)
    };
    controller.settled(shop.world.hub()).await?;
    let before = versions().await?;
    controller.terminate().await?;
    let next = shop.world.controller(&[]).await?;
    let late = shop.limits("late", json!({}));
    shop.apply(&late).await?;
    shop.until(&late, Some("region=asia")).await?;
    next.settled(shop.world.hub()).await?;
    ensure!(versions().await? == before, "the next leader writes unchanged objects");
    ensure!(patches(&next, "patched").await? == 1.0);
    next.terminate().await.map(drop)
}

#[tokio::test]
async fn manual_flag_leaves_existing_objects_unchanged() -> Result<()> {
    let shop = Shop::open("rego-by-hand").await?;
    let limits = shop.limits("limits", json!({REMEDIATE: "automatic"}));
    shop.apply(&limits).await?;
    let controller = shop.world.controller(&["--remediate=manual"]).await?;
    shop.world.write("places", shop.policy()).await?;
    shop.until_event("PlacementDiffers", "limits", &["--remediate manual", "\"region=eu\""]).await?;
    controller.settled(shop.world.hub()).await?;
    ensure!(patches(&controller, "patched").await? == 0.0);
    ensure!(!shop.get(&limits).await?.annotations().contains_key(SELECTOR), "the object was changed");
    controller.terminate().await.map(drop)
}
