use super::*;
use policy_sync_hub::reconcile::Expectations;
use policy_sync_sync::kinds::WORKS;
use policy_sync_sync::testing::objects::{policy, policy_origin};
use policy_sync_sync::testing::world::{World, shop};

fn key() -> Key {
    Key::Works(policy_origin("limits"))
}

/// The keys that have an entry.
fn keys(expectations: &Expectations<Key, OwnWrites>) -> Vec<Key> {
    expectations.collect(|key, _| [key.clone()])
}

/// The actions for the policy `limits` that do not wait for the watch.
fn visible(world: &World, own: &mut OwnWrites) -> Vec<WorkAction> {
    let actions = world.diff_of(&policy_origin("limits")).actions;
    world.see(|view| own.visible(view, actions))
}

fn wrote(own: &mut OwnWrites, action: &WorkAction, written: UndeliveredWrite) {
    own.wrote((action.name().clone(), action.cluster().clone()), written);
}

fn to_create() -> World {
    shop(&["eu-1", "us-1"]).with(policy("limits").targets("web"))
}

fn to_delete() -> World {
    to_create().written().without(policy("limits"))
}

fn seen(world: &World) -> u64 {
    world.mirror.version(&WORKS.all())
}

#[test]
fn all_actions_are_visible_without_own_writes() {
    assert_eq!(visible(&to_create(), &mut OwnWrites::default()).len(), 2);
}

#[test]
fn work_is_not_written_again_before_the_watch_delivers_it() {
    let (world, mut own) = (to_create(), OwnWrites::default());
    let created = visible(&world, &mut own).remove(0);
    wrote(&mut own, &created, UndeliveredWrite::At(seen(&world) + 5));
    let left = visible(&world, &mut own);
    assert_eq!(left.len(), 1);
    assert_ne!(left[0].cluster(), created.cluster(), "others go on");
}

#[test]
fn work_is_written_again_once_the_watch_has_caught_up() {
    let (world, mut own) = (to_create(), OwnWrites::default());
    let created = visible(&world, &mut own).remove(0);
    let version = seen(&world) + 5;
    wrote(&mut own, &created, UndeliveredWrite::At(version));
    world.mirror.bookmark(&WORKS.all(), version - 1);
    assert_eq!(visible(&world, &mut own).len(), 1);
    world.mirror.bookmark(&WORKS.all(), version);
    assert_eq!(visible(&world, &mut own).len(), 2, "deleted again by someone, say");
    assert!(own.is_met(), "and nothing is kept");
}

#[test]
fn work_is_not_deleted_twice() {
    let (world, mut own) = (to_delete(), OwnWrites::default());
    let deleted = visible(&world, &mut own).remove(0);
    let WorkAction::Delete { uid, .. } = &deleted else { panic!() };
    wrote(&mut own, &deleted, UndeliveredWrite::Deleted(uid.clone()));
    world.mirror.bookmark(&WORKS.all(), 1_000_000);
    assert_eq!(visible(&world, &mut own).len(), 1, "whatever else the watch brings");
}

#[test]
fn deletion_is_visible_once_the_work_terminates_or_is_gone() {
    let origin = policy_origin("limits");
    let mut own = OwnWrites::default();
    let world = to_delete();
    let deleted = visible(&world, &mut own).remove(0);
    let WorkAction::Delete { uid, cluster, .. } = &deleted else { panic!() };
    wrote(&mut own, &deleted, UndeliveredWrite::Deleted(uid.clone()));
    let world = world.terminating(&origin, &cluster.0);
    visible(&world, &mut own);
    assert!(own.is_met());

    wrote(&mut own, &deleted, UndeliveredWrite::Deleted(uid.clone()));
    let world = world.gone(&origin, &cluster.0);
    visible(&world, &mut own);
    assert!(own.is_met());
}

#[test]
fn recreated_work_of_the_same_name_is_not_the_deleted_one() {
    let (world, mut own) = (to_delete(), OwnWrites::default());
    let deleted = visible(&world, &mut own).remove(0);
    wrote(&mut own, &deleted, UndeliveredWrite::Deleted("of-an-older-one".into()));
    assert_eq!(visible(&world, &mut own).len(), 2);
}

#[test]
fn writes_are_tracked_per_key() {
    let expectations = Expectations::<Key, OwnWrites>::default();
    expectations.note(&key(), |own| own.wrote_object(7));
    assert!(expectations.with(&Key::Works(policy_origin("other")), |own| own.is_visible(0)));
    assert!(!expectations.with(&key(), |own| own.is_visible(6)));
    assert!(!expectations.with(&key(), |own| own.is_visible(6)), "until it is seen");
    assert!(expectations.with(&key(), |own| own.is_visible(7)));
    assert!(!expectations.any(|_, _| true), "and then nothing is kept");
}

#[test]
fn object_is_visible_from_its_written_version() {
    let mut own = OwnWrites::default();
    assert!(own.is_visible(0), "nothing was written");
    own.wrote_object(7);
    assert!(!own.is_visible(6));
    assert!(own.is_visible(7));
    assert!(own.is_visible(6), "and then for good");
}

#[test]
fn key_without_pending_writes_is_dropped() {
    let (world, expectations) = (to_create(), Expectations::<Key, OwnWrites>::default());
    let actions = world.diff_of(&policy_origin("limits")).actions;
    expectations.note(&key(), |own| own.record_in_flight(&actions));
    assert_eq!(keys(&expectations), [key()]);
    expectations.note(&key(), OwnWrites::clear_in_flight);
    assert_eq!(keys(&expectations), []);
}
