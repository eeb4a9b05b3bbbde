use super::*;
use crate::plan::tests::objects::{policy, policy_parent};
use crate::plan::tests::world::{World, shop};

fn key() -> Key {
    Key::Works(policy_parent("limits"))
}

/// What is to be written now, of what is still visible.
fn visible(world: &World, pending: &Pending) -> Vec<WorkAction> {
    let actions = world.diff_of(&policy_parent("limits")).actions;
    world.see(|view| pending.visible(view, &key(), actions))
}

fn wrote(pending: &Pending, action: &WorkAction, written: Written) {
    pending.wrote(&key(), (action.name().clone(), action.cluster().clone()), written);
}

fn to_create() -> World {
    shop(&["eu-1", "us-1"]).with(policy("limits").targets("web"))
}

fn to_delete() -> World {
    to_create().written().without(policy("limits"))
}

fn seen(world: &World) -> u64 {
    world.mirror.version(&Source::Works)
}

#[test]
fn without_writes_everything_is_visible() {
    assert_eq!(visible(&to_create(), &Pending::default()).len(), 2);
}

#[test]
fn a_work_is_not_written_twice_before_the_watch_brings_it() {
    let (world, pending) = (to_create(), Pending::default());
    let created = visible(&world, &pending).remove(0);
    wrote(&pending, &created, Written::At(seen(&world) + 5));
    let left = visible(&world, &pending);
    assert_eq!(left.len(), 1);
    assert_ne!(left[0].cluster(), created.cluster(), "others go on");
}

#[test]
fn once_the_watch_is_that_far_it_is_written_again_where_it_must_be() {
    let (world, pending) = (to_create(), Pending::default());
    let created = visible(&world, &pending).remove(0);
    let version = seen(&world) + 5;
    wrote(&pending, &created, Written::At(version));
    world.mirror.bookmark(&Source::Works, version - 1);
    assert_eq!(visible(&world, &pending).len(), 1);
    world.mirror.bookmark(&Source::Works, version);
    assert_eq!(visible(&world, &pending).len(), 2, "deleted again by someone, say");
    assert!(pending.works.lock().is_empty(), "and nothing is kept");
}

#[test]
fn a_work_is_not_deleted_twice() {
    let (world, pending) = (to_delete(), Pending::default());
    let deleted = visible(&world, &pending).remove(0);
    let WorkAction::Delete { uid, .. } = &deleted else { panic!() };
    wrote(&pending, &deleted, Written::Deleted(uid.clone()));
    world.mirror.bookmark(&Source::Works, 1_000_000);
    assert_eq!(visible(&world, &pending).len(), 1, "whatever else the watch brings");
}

#[test]
fn a_deletion_is_visible_once_the_work_terminates_or_is_gone() {
    let parent = policy_parent("limits");
    let pending = Pending::default();
    let world = to_delete();
    let deleted = visible(&world, &pending).remove(0);
    let WorkAction::Delete { uid, cluster, .. } = &deleted else { panic!() };
    wrote(&pending, &deleted, Written::Deleted(uid.clone()));
    let world = world.terminating(&parent, &cluster.0);
    visible(&world, &pending);
    assert!(pending.works.lock().is_empty());

    wrote(&pending, &deleted, Written::Deleted(uid.clone()));
    let world = world.gone(&parent, &cluster.0);
    visible(&world, &pending);
    assert!(pending.works.lock().is_empty());
}

#[test]
fn a_new_work_of_that_name_is_another() {
    let (world, pending) = (to_delete(), Pending::default());
    let deleted = visible(&world, &pending).remove(0);
    wrote(&pending, &deleted, Written::Deleted("of-an-older-one".into()));
    assert_eq!(visible(&world, &pending).len(), 2);
}

#[test]
fn each_key_has_its_own_writes() {
    let (world, pending) = (to_create(), Pending::default());
    let created = visible(&world, &pending).remove(0);
    let other = Key::Works(policy_parent("other"));
    pending.wrote(&other, (created.name().clone(), created.cluster().clone()), Written::At(u64::MAX));
    assert_eq!(visible(&world, &pending).len(), 2);
}

#[test]
fn an_object_is_visible_from_the_version_that_was_written() {
    let pending = Pending::default();
    assert!(pending.is_visible(&key(), 0), "nothing was written");
    pending.wrote_object(&key(), 7);
    assert!(!pending.is_visible(&key(), 6));
    assert!(pending.is_visible(&key(), 7));
    assert!(pending.is_visible(&key(), 6), "and then for good");
}
