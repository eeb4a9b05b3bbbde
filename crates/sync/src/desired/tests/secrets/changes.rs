//! Tests of the effects of changes to Secrets, grants and references.

use super::*;
use crate::kinds::SECRETS;
use crate::{Key, Keys};
use policy_sync_mirror::{SourceEvent, WatchFailure};

fn settled(references: &[Value], objects: &[Object]) -> World {
    copying(references, objects).settled(&[gateway_origin("web")])
}

/// The works and fold keys of these Gateways.
fn keys_of(names: &[&str]) -> Keys {
    let both = |name: &&str| [Key::Works(gateway_origin(name)), Key::Fold(gateway_origin(name))];
    names.iter().flat_map(both).collect()
}

#[test]
fn rotated_secret_causes_one_update() {
    let world = settled(&[own("a")], &[secret("a")]);
    assert_eq!(writes(&world), Vec::<String>::new());
    let revision = world.copy_of(&gateway_origin("web"), "eu-1");
    let mut world = world;
    assert_eq!(world.apply(&secret("a").holding("bmV3")), keys_of(&["web"]));
    assert_eq!(writes(&world), ["update eu-1"]);
    assert_eq!(manifests(&world)[1]["data"]["tls.key"], "bmV3");
    assert!(revision["data"].is_object(), "the Secret comes before its Gateway");
}

#[test]
fn revision_of_a_gateway_does_not_depend_on_its_secrets() {
    let revision = |world: &World| manifests(world).pop().unwrap()["metadata"]["annotations"].clone();
    let world = settled(&[own("a")], &[secret("a")]);
    let before = revision(&world);
    let world = world.with(secret("a").holding("bmV3"));
    assert_eq!(revision(&world), before);
    assert_eq!(work(&world).revision, before["kuadrant.io/revision"].as_str().unwrap());
}

#[test]
fn deleted_secret_is_withdrawn_and_reported() {
    let world = settled(&[own("a")], &[secret("a")]);
    let world = world.without(secret("a"));
    assert_eq!(manifest_names(&world), ALONE);
    assert_eq!(writes(&world), ["update eu-1"]);
    assert_eq!(problems(&world).len(), 1);
}

#[test]
fn deleted_grant_withdraws_the_copy() {
    let world = settled(&[of_tls("a")], &[secret("a").in_ns("tls"), grant("g")]);
    let mut world = world;
    assert_eq!(world.delete(&grant("g")), keys_of(&["web"]));
    assert_eq!(manifest_names(&world), ALONE);
    assert_eq!(writes(&world), ["update eu-1"]);
    assert_eq!(world.apply(&grant("g")), keys_of(&["web"]));
    assert_eq!(writes(&world), Vec::<String>::new());
}

#[test]
fn removed_reference_withdraws_the_copy() {
    let world = settled(&[own("a"), own("b")], &[secret("a"), secret("b")]).with(web(&[own("a")]));
    assert_eq!(manifest_names(&world), WITH_A);
    assert_eq!(writes(&world), ["update eu-1"]);
}

#[test]
fn disabling_secrets_in_parameters_withdraws_all_copies() {
    let world = settled(&[own("a")], &[secret("a")]).class("multi", &json!({"tlsSecrets": "none"}));
    assert_eq!(writes(&world), ["update eu-1"]);
    assert_eq!(manifest_names(&world), ALONE);
    assert_eq!(writes(&settled(&[own("a")], &[secret("a")]).params("multi", "{")), Vec::<String>::new());
}

#[test]
fn only_gateways_that_name_a_secret_are_affected() {
    let references = [own("a"), of_tls("b")];
    let api = gateway("api").certificates(&[own("b")]);
    let mut world = settled(&references, &[secret("a"), secret("b")]).with(api);
    assert_eq!(world.apply(&secret("a").holding("bmV3")), keys_of(&["web"]));
    assert_eq!(world.apply(&secret("a").holding("bmV3")), keys_of(&[]), "nothing has changed");
    assert_eq!(world.apply(&secret("b").label("team", "shop")), keys_of(&["api"]));
    assert_eq!(world.apply(&secret("other")), keys_of(&[]));
    assert_eq!(world.apply(&secret("b").in_ns("tls")), keys_of(&["web"]));
    assert_eq!(world.delete(&secret("a")), keys_of(&["web"]));
    assert_eq!(world.apply(&grant("g")), keys_of(&["web"]));
    assert_eq!(
        world.apply(&grant("g").in_ns("shop")),
        keys_of(&[]),
        "of one's own namespace nothing is asked"
    );
    assert_eq!(world.apply(&grant("g").in_ns("other")), keys_of(&[]));
    assert_eq!(world.delete(&grant("g")), keys_of(&["web"]));
}

#[test]
fn first_listing_of_secrets_affects_all_gateways_that_name_any() {
    let mut world = settled(&[own("a")], &[secret("a")]).with(gateway("api"));
    world.forget(&SECRETS.all());
    let fault = Some(WatchFailure::transient("secrets is forbidden (403)"));
    let failing = |world: &World| world.change(SourceEvent::FailureChanged(SECRETS.all(), fault.clone()));
    assert_eq!(failing(&world), keys_of(&["web"]));
    assert_eq!(failing(&world), keys_of(&[]), "it says the same again");
    world.mirror.begin_resync(&SECRETS.all());
    assert_eq!(world.apply(&secret("a")), keys_of(&[]), "the list is not whole yet");
    assert_eq!(world.end_resync(&SECRETS.all()), keys_of(&["web"]));
    assert_eq!(failing(&world), keys_of(&[]), "what was listed is planned from");
}
