use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

use super::*;

fn owner(name: &str) -> OwnerReference {
    OwnerReference {
        api_version: "work.open-cluster-management.io/v1".into(),
        kind: "AppliedManifestWork".into(),
        name: name.into(),
        uid: format!("{name}-uid"),
        ..OwnerReference::default()
    }
}

fn object(owners: &[OwnerReference]) -> ObjectMeta {
    ObjectMeta { uid: Some("u1".into()), owner_references: Some(owners.to_vec()), ..ObjectMeta::default() }
}

fn recorded(version: &str, name: &str) -> AppliedResource {
    AppliedResource {
        group: Some("kuadrant.io".into()),
        version: version.into(),
        resource: "ratelimitpolicies".into(),
        namespace: Some("kuadrant-shop".into()),
        name: name.into(),
        uid: Some("u1".into()),
    }
}

#[test]
fn deletes_the_instance_that_was_recorded() {
    assert_eq!(removal(&object(&[owner("a")]), "u1", "a-uid"), Removal::Delete);
    assert_eq!(removal(&object(&[owner("a")]), "u2", "a-uid"), Removal::Forget);
}

#[test]
fn objects_of_other_owners_are_kept() {
    assert_eq!(removal(&object(&[]), "u1", "a-uid"), Removal::Forget);
    assert_eq!(removal(&object(&[owner("b")]), "u1", "a-uid"), Removal::Forget);
}

#[test]
fn shared_object_only_loses_its_owner_reference() {
    let shared = object(&[owner("a"), owner("b")]);
    assert_eq!(removal(&shared, "u1", "a-uid"), Removal::Disown(vec![owner("b")]));
}

#[test]
fn waits_for_finalizers() {
    let mut object = object(&[owner("a")]);
    object.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    assert_eq!(removal(&object, "u1", "a-uid"), Removal::Wait);
}

#[test]
fn a_new_version_is_the_same_object() {
    let known = [recorded("v1beta1", "a"), recorded("v1", "b")];
    assert_eq!(untracked(&known, &[recorded("v1", "a")]), [recorded("v1", "b")]);
}

#[test]
fn ownership_is_written_only_where_it_differs() {
    assert_eq!(owners(&object(&[]), &owner("a"), true), Some(vec![owner("a")]));
    assert_eq!(owners(&object(&[owner("a")]), &owner("a"), true), None);
    assert_eq!(owners(&object(&[owner("a"), owner("b")]), &owner("a"), false), Some(vec![owner("b")]));
    assert_eq!(owners(&object(&[owner("b")]), &owner("a"), false), None);
    let stale = OwnerReference { uid: "old".into(), ..owner("a") };
    assert_eq!(owners(&object(&[stale]), &owner("a"), true), Some(vec![owner("a")]));
}
