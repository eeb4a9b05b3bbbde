//! Tests that a spoke cannot affect other clusters or exceed limits with data in its works and its ManagedCluster.

use super::*;
use crate::delete_guard::{DeleteGuard, Precondition};

fn made_up(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("made-up-{number}")).collect()
}

/// Sets the Gateways that the work of the policy `limits` in `eu-1` lists as served.
fn serves(world: &mut World, gateways: &[String]) -> Keys {
    world.edit(&policy_origin("limits"), "eu-1", |work| {
        work["metadata"]["annotations"]["kuadrant.io/gateways"] = json!(gateways).to_string().into();
    })
}

/// The Gateways that are read before works of the policy `limits` are deleted.
fn gateways_read(world: &World) -> Vec<String> {
    let reads = world.see(|view| DeleteGuard::new(view, &policy_origin("limits")).on(&"eu-1".into()).0);
    let gateways = reads.iter().filter_map(|read| match read {
        Precondition::Object(_, gvr, key, _) | Precondition::Absent(gvr, key)
            if *gvr.kind.resource == *"gateways" =>
        {
            Some(key.name.to_string())
        }
        _ => None,
    });
    gateways.collect()
}

#[test]
fn invented_gateways_of_a_spoke_are_neither_keys_nor_read() {
    let mut world = hub();
    let keys = serves(&mut world, &made_up(5_000));
    assert_eq!(keys, Keys::from([Key::Works(policy_origin("limits")), fold(), access()]));
    assert_eq!(gateways_read(&world), ["web"], "its policy targets it");
}

#[test]
fn at_most_sixteen_gateways_of_a_work_count() {
    let mut world = hub();
    for number in 0..40 {
        world = world.with(gateway(&format!("g{number:02}")));
    }
    let named: Vec<String> = (0..40).map(|number| format!("g{number:02}")).collect();
    let keys = serves(&mut world, &named);
    let gateways =
        keys.iter().filter(|key| matches!(key, Key::Fold(origin) if origin.as_gateway().is_some()));
    assert_eq!(gateways.count(), 16);
    assert_eq!(gateways_read(&world).len(), 17, "and the one that its policy targets");
}

#[test]
fn deleted_gateway_is_read_while_its_work_exists() {
    let world = hub().without(policy("limits")).without(gateway("web"));
    assert_eq!(gateways_read(&world), ["web"]);
    let world = world.gone(&gateway_origin("web"), "eu-1");
    assert_eq!(gateways_read(&world), [""; 0]);
}

#[test]
fn overwritten_reports_of_a_spoke_free_their_memory() {
    let mut world = hub();
    let long = |number: usize| number.to_string().repeat(64 * 1024);
    let before = world.see(|view| view.work_text_bytes());
    for number in 10..60 {
        world.edit(&policy_origin("limits"), "eu-1", |work| {
            let text = long(number);
            work["spec"]["workload"]["manifests"][1]["metadata"]["annotations"]["kuadrant.io/revision"] =
                text.as_str().into();
            work["metadata"]["annotations"]["kuadrant.io/gateways"] = json!(made_up(16)).to_string().into();
            work["status"] =
                applied().of_revision(&text).condition("Enforced", "True", "R", &text).status(work);
        });
    }
    let after = world.see(|view| view.work_text_bytes());
    assert!(after < before + 256 * 1024, "{before} bytes became {after}");
}

#[test]
fn deleted_gateway_is_planned_once_more() {
    let mut world = shop(&[]).with(gateway("idle").in_ns("idle"));
    let idle = policy_sync_api::names::Origin::Gateway(ObjectKey::new("idle", "idle"));
    let keys = world.delete(&gateway("idle").in_ns("idle"));
    assert_eq!(
        keys,
        Keys::from([Key::Works(idle.clone()), Key::Fold(idle)]),
        "the stored state of the Gateway is removed"
    );
}

#[test]
fn cluster_label_affects_only_keys_with_works_there() {
    let flip = |world: &mut World, name: &str, key: &str| world.apply(&cluster(name).label(key, "x"));
    let web = || Keys::from([Key::Works(gateway_origin("web")), gateway_fold()]);
    let mut world = hub().with(gateway("elsewhere").placed_on("far")).with(gateway("unplaced"));
    assert_eq!(flip(&mut world, "eu-1", "kuadrant.io/region"), web());
    assert_eq!(flip(&mut world, "us-1", "kuadrant.io/region"), Keys::new(), "nothing is there");
    let selective = policy("limits").targets("web").annotation("kuadrant.io/cluster-selector", "region!=us");
    let mut world = hub().with(selective);
    let and_policy = || &web() | &Keys::from([Key::Works(policy_origin("limits")), fold()]);
    assert_eq!(flip(&mut world, "eu-1", "region"), and_policy());
    assert_eq!(flip(&mut world, "eu-1", "kuadrant.io/zone"), and_policy(), "the label region went");
    assert_eq!(flip(&mut world, "us-1", "region"), Keys::new());
    let mut world = world.with(cluster("eu-1"));
    assert_eq!(flip(&mut world, "eu-1", "kuadrant.io/zone"), web(), "the policy does not ask for it");
}

#[test]
fn left_cluster_affects_the_gateway_until_its_work_is_gone() {
    let mut world = hub().with(cluster("eu-1")).decisions("all", &[]);
    let web = Keys::from([Key::Works(gateway_origin("web")), gateway_fold()]);
    assert_eq!(world.delete(&cluster("eu-1")), web);
    let mut world = world.gone(&gateway_origin("web"), "eu-1").gone(&policy_origin("limits"), "eu-1");
    assert_eq!(world.apply(&cluster("eu-1")), Keys::new());
}
