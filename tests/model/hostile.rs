//! Worlds in which a spoke, or the users of a namespace, write random values wherever they have permission. All other
//! users' objects must stay correct. The attackers' objects are not checked.

use policy_sync_api::annotations::{CLUSTER_SELECTOR, UNPLACED_SINCE};
use policy_sync_api::names::{ControllerName, ObjectKey, Origin, WorkName};
use policy_sync_sync::kinds::{CLUSTERS, DECISIONS, GATEWAYS, PLACEMENTS, WORKS};
use policy_sync_testenv::fixtures::{gateway, placement, placement_decision};
use policy_sync_testenv::hostile::{HOSTILE_TENANT, Hostile, REGION, ROGUE};
use serde_json::{Value, json};

use crate::controller::CONTROLLER;
use crate::world::{
    self, Change, SHOP, World, create, delete, delete_in, edit, edit_in, limits, place, tighten, work_name,
};
use crate::worlds::part;

/// The number of states that are explored of each world.
const STATES: usize = 3_000;
/// The number of seeds for the values in each world.
const SEEDS: u64 = 6;
/// The limits for worlds with one kind of attack.
const FEW_STATES: usize = 1_000;
const FEW_SEEDS: u64 = 2;

/// The spoke writes random values into the work `name`.
fn forge(seed: u64, name: &str) -> Change {
    edit_in(ROGUE, WORKS.all(), name, move |work| {
        let mut hostile = Hostile::new(seed);
        (0..3).for_each(|_| hostile.work(work));
        // In these worlds, time does not matter once Placements have settled. `tests/soak` covers times.
        if let Some(annotations) = work["metadata"]["annotations"].as_object_mut() {
            annotations.remove(UNPLACED_SINCE);
        }
        hostile.respond(work);
    })
}

/// The spoke writes random values into its ManagedCluster.
fn relabel(seed: u64) -> Change {
    edit_in("", CLUSTERS.all(), ROGUE, move |cluster| Hostile::new(seed).cluster(cluster))
}

/// Flips a label of the hostile spoke's ManagedCluster.
fn flips(seed: u64) -> Vec<Change> {
    let regions = Hostile::new(seed).flips();
    let to = |region: &'static str| {
        edit_in("", CLUSTERS.all(), ROGUE, move |cluster| {
            cluster["metadata"]["labels"][REGION] = json!(region)
        })
    };
    regions.into_iter().map(to).collect()
}

fn gateway_work() -> String {
    let web = Origin::Gateway(ObjectKey::new(SHOP, "web"));
    WorkName::planned(&ControllerName::new(CONTROLLER), "Gateway", &web).to_string()
}

/// A world with a Gateway in the hostile namespace.
fn beside_mob(name: &'static str) -> World {
    World::new(name)
        .without("quota")
        .with(PLACEMENTS.all(), placement(HOSTILE_TENANT, "all", 2))
        .with(DECISIONS.all(), placement_decision(HOSTILE_TENANT, "all", 1, &["eu", "us"]))
        .with(GATEWAYS.all(), gateway(HOSTILE_TENANT, "web", SHOP, Some("all")))
}

/// A RateLimitPolicy in the hostile namespace.
fn theirs(seed: u64) -> Value {
    let mut hostile = Hostile::new(seed);
    let mut policies = (0..).map(|_| hostile.policy(HOSTILE_TENANT, "one"));
    let mut policy = policies.find(|policy| policy["kind"] == "RateLimitPolicy").unwrap();
    if seed.is_multiple_of(2) {
        policy["spec"]["targetRef"] = world::policy("one", "web")["spec"]["targetRef"].clone();
    }
    policy
}

#[test]
fn hostile_spoke_does_not_affect_changes_and_deletion_of_a_policy() {
    for seed in 0..SEEDS {
        let forged =
            || [forge(seed, &work_name("limits")), forge(seed + 100, &gateway_work()), relabel(seed)];
        let world = World::beside_rogue("a hostile spoke").without("quota").agents();
        part(&world.actor(forged()).actor([tighten("limits", 20), delete(limits(), "limits")]), STATES);
        let world =
            World::beside_rogue("a hostile spoke, with annotations").without("quota").agents().annotates();
        part(&world.actor(forged()).actor([tighten("limits", 20)]), STATES);
    }
}

#[test]
fn hostile_spoke_does_not_affect_a_gateway_that_moves() {
    for seed in 0..SEEDS {
        let world =
            World::beside_rogue("a Gateway leaves a hostile spoke").without("quota").holds().crashes(1);
        let forged = [forge(seed, &gateway_work()), forge(seed + 100, &work_name("limits"))];
        part(&world.actor(forged).actor(place("all", &["eu"])), STATES);
    }
}

#[test]
fn hostile_namespace_does_not_affect_changes_of_another() {
    for seed in 0..SEEDS {
        let world = World::new("a hostile namespace")
            .without("quota")
            .without("all")
            .without("all-decision-1")
            .with(PLACEMENTS.all(), placement(SHOP, "all", 1))
            .with(DECISIONS.all(), placement_decision(SHOP, "all", 1, &["eu"]))
            .with(PLACEMENTS.all(), placement(HOSTILE_TENANT, "all", 2))
            .with(DECISIONS.all(), placement_decision(HOSTILE_TENANT, "all", 1, &["eu", "us"]))
            .with(GATEWAYS.all(), gateway(HOSTILE_TENANT, "web", SHOP, Some("all")));
        let changed = edit_in(HOSTILE_TENANT, limits(), "one", move |policy| {
            let metadata = policy["metadata"].clone();
            *policy = theirs(seed + 100);
            policy["metadata"]["uid"] = metadata["uid"].clone();
            policy["metadata"]["generation"] = metadata["generation"].clone();
            policy["metadata"]["creationTimestamp"] = metadata["creationTimestamp"].clone();
        });
        let untouched = edit_in(HOSTILE_TENANT, GATEWAYS.all(), "web", |json| {
            json["metadata"]["labels"] = json!({});
        });
        let attack = [create(limits(), theirs(seed)), changed, untouched];
        part(
            &world.faults(1).actor(attack).actor([tighten("limits", 20), delete(limits(), "limits")]),
            STATES,
        );
    }
}

#[test]
fn changing_cluster_labels_do_not_affect_selection_of_others() {
    for seed in 0..FEW_SEEDS {
        let selects = |region: &'static str| {
            edit(limits(), "limits", move |json| {
                json["metadata"]["annotations"][CLUSTER_SELECTOR] = json!(format!("{REGION}={region}"));
            })
        };
        let world = World::beside_rogue("a spoke changes its label repeatedly").without("quota").crashes(1);
        part(&world.actor(flips(seed)).actor([selects("eu"), selects("us")]), FEW_STATES);
    }
}

#[test]
fn terminating_hostile_policy_does_not_affect_another_namespace() {
    for seed in 0..FEW_SEEDS {
        let held = move |seed: u64| {
            let mut policy = theirs(seed);
            policy["metadata"]["finalizers"] = json!(["example.com/never"]);
            policy
        };
        let changed = edit_in(HOSTILE_TENANT, limits(), "one", move |policy| {
            policy["spec"] = held(seed + 100)["spec"].clone();
        });
        let released = edit_in(HOSTILE_TENANT, limits(), "one", |policy| {
            policy["metadata"]["finalizers"] = json!([]);
        });
        let world = beside_mob("a hostile namespace with a terminating policy");
        let attack =
            [create(limits(), held(seed)), delete_in(HOSTILE_TENANT, limits(), "one"), changed, released];
        part(&world.actor(attack).actor([tighten("limits", 20), delete(limits(), "limits")]), FEW_STATES);
    }
}

#[test]
fn large_hostile_policy_does_not_affect_another_namespace() {
    for seed in 0..FEW_SEEDS {
        // `remediate: manual` matters only for placement policies; here it is one of many annotations.
        let large = move |seed: u64| {
            let (mut hostile, mut policy) = (Hostile::new(seed), theirs(seed));
            hostile.enlarge(&mut policy, "spec");
            hostile.keep(&mut policy);
            policy
        };
        let mut forged = large(seed);
        Hostile::forge_deletion(&mut forged);
        let changed = edit_in(HOSTILE_TENANT, limits(), "one", move |policy| {
            policy["spec"] = large(seed + 100)["spec"].clone();
        });
        let released = edit_in(HOSTILE_TENANT, limits(), "one", |policy| {
            policy["metadata"]["finalizers"] = json!([]);
        });
        let attack = [create(limits(), forged), changed, released, create(limits(), large(seed + 200))];
        let world = beside_mob("a hostile namespace with a large, forged policy");
        part(&world.actor(attack).actor([tighten("limits", 20), delete(limits(), "limits")]), FEW_STATES);
    }
}
