use serde_json::json;

use crate::kinds::POLICIES;
use crate::testing::objects::{limits, policy, policy_origin};
use crate::testing::world::{World, world};
use policy_sync_api::moment::Moment;

fn changed(world: &World) -> Option<Moment> {
    world.see(|view| view.policy_changed(&policy_origin("limits")))
}

#[test]
fn generation_counts_from_the_moment_it_was_first_seen() {
    let (source, mut world) = (POLICIES.resource(limits()), world());
    world.list(&source, &[policy("limits")]);
    assert_eq!(changed(&world), None, "it may have been there for long");

    let mut world = world.after(1_000);
    let second = policy("limits").metadata("generation", json!(2));
    world.apply(&second);
    let came = Some(Moment(world.now));
    assert_eq!(changed(&world), came);

    let mut world = world.after(1_000);
    world.apply(&second.clone().annotation("note", "x"));
    world.list(&source, &[second]);
    assert_eq!(changed(&world), came, "the generation is the same");

    let mut world = world.after(1_000);
    world.apply(&policy("limits").metadata("generation", json!(2)).metadata("uid", json!("anew")));
    assert_eq!(changed(&world), Some(Moment(world.now)), "it was made anew");
}

#[test]
fn deleted_policy_leaves_no_entry() {
    let (source, mut world) = (POLICIES.resource(limits()), world());
    world.list(&source, &[]);
    world.apply(&policy("limits"));
    assert!(changed(&world).is_some());
    world.delete(&policy("limits"));
    assert_eq!(changed(&world), None);

    world.apply(&policy("limits"));
    world.forget(&source);
    assert_eq!(changed(&world), None, "its kind is watched no longer");
}
