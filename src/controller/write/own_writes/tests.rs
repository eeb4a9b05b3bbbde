use super::*;
use policy_sync_hub::reconcile::Expectations;
use policy_sync_sync::kinds::WORKS;
use policy_sync_sync::testing::objects::{policy, policy_origin};
use policy_sync_sync::testing::world::{World, shop};

fn key() -> Key {
    Key::Works(policy_origin("limits"))
}

/// The keys of which anything is kept.
fn keys(expectations: &Expectations<Key, OwnWrites>) -> Vec<Key> {
    expectations.collect(|key, _| [key.clone()])
}

/// What is to be written now, of what is still visible.
fn visible(world: &World, own: &mut OwnWrites) -> Vec<WorkAction> {
    let actions = world.diff_of(&policy_origin("limits")).actions;
    world.see(|view| own.visible(view, actions))
}

fn wrote(own: &mut OwnWrites, action: &WorkAction, written: Written) {
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
fn without_writes_everything_is_visible() {
    assert_eq!(visible(&to_create(), &mut OwnWrites::default()).len(), 2);
}

#[test]
fn a_work_is_not_written_twice_before_the_watch_brings_it() {
    let (world, mut own) = (to_create(), OwnWrites::default());
    let created = visible(&world, &mut own).remove(0);
    wrote(&mut own, &created, Written::At(seen(&world) + 5));
    let left = visible(&world, &mut own);
    assert_eq!(left.len(), 1);
    assert_ne!(left[0].cluster(), created.cluster(), "others go on");
}

#[test]
fn once_the_watch_is_that_far_it_is_written_again_where_it_must_be() {
    let (world, mut own) = (to_create(), OwnWrites::default());
    let created = visible(&world, &mut own).remove(0);
    let version = seen(&world) + 5;
    wrote(&mut own, &created, Written::At(version));
    world.mirror.bookmark(&WORKS.all(), version - 1);
    assert_eq!(visible(&world, &mut own).len(), 1);
    world.mirror.bookmark(&WORKS.all(), version);
    assert_eq!(visible(&world, &mut own).len(), 2, "deleted again by someone, say");
    assert!(own.is_met(), "and nothing is kept");
}

#[test]
fn a_work_is_not_deleted_twice() {
    let (world, mut own) = (to_delete(), OwnWrites::default());
    let deleted = visible(&world, &mut own).remove(0);
    let WorkAction::Delete { uid, .. } = &deleted else { panic!() };
    wrote(&mut own, &deleted, Written::Deleted(uid.clone()));
    world.mirror.bookmark(&WORKS.all(), 1_000_000);
    assert_eq!(visible(&world, &mut own).len(), 1, "whatever else the watch brings");
}

#[test]
fn a_deletion_is_visible_once_the_work_terminates_or_is_gone() {
    let origin = policy_origin("limits");
    let mut own = OwnWrites::default();
    let world = to_delete();
    let deleted = visible(&world, &mut own).remove(0);
    let WorkAction::Delete { uid, cluster, .. } = &deleted else { panic!() };
    wrote(&mut own, &deleted, Written::Deleted(uid.clone()));
    let world = world.terminating(&origin, &cluster.0);
    visible(&world, &mut own);
    assert!(own.is_met());

    wrote(&mut own, &deleted, Written::Deleted(uid.clone()));
    let world = world.gone(&origin, &cluster.0);
    visible(&world, &mut own);
    assert!(own.is_met());
}

#[test]
fn a_new_work_of_that_name_is_another() {
    let (world, mut own) = (to_delete(), OwnWrites::default());
    let deleted = visible(&world, &mut own).remove(0);
    wrote(&mut own, &deleted, Written::Deleted("of-an-older-one".into()));
    assert_eq!(visible(&world, &mut own).len(), 2);
}

#[test]
fn each_key_has_its_own_writes() {
    let expectations = Expectations::<Key, OwnWrites>::default();
    expectations.note(&key(), |own| own.wrote_object(7));
    assert!(expectations.with(&Key::Works(policy_origin("other")), |own| own.is_visible(0)));
    assert!(!expectations.with(&key(), |own| own.is_visible(6)));
    assert!(!expectations.with(&key(), |own| own.is_visible(6)), "until it is seen");
    assert!(expectations.with(&key(), |own| own.is_visible(7)));
    assert!(!expectations.any(|_, _| true), "and then nothing is kept");
}

#[test]
fn an_object_is_visible_from_the_version_that_was_written() {
    let mut own = OwnWrites::default();
    assert!(own.is_visible(0), "nothing was written");
    own.wrote_object(7);
    assert!(!own.is_visible(6));
    assert!(own.is_visible(7));
    assert!(own.is_visible(6), "and then for good");
}

#[test]
fn a_key_with_nothing_on_its_way_is_not_kept() {
    let (world, expectations) = (to_create(), Expectations::<Key, OwnWrites>::default());
    let actions = world.diff_of(&policy_origin("limits")).actions;
    expectations.note(&key(), |own| own.sends(&actions));
    assert_eq!(keys(&expectations), [key()]);
    expectations.note(&key(), OwnWrites::sent);
    assert_eq!(keys(&expectations), []);
}
