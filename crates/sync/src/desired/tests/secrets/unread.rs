//! Tests of Gateways while Secrets or grants are not listed.

use super::*;
use crate::Problem;
use crate::kinds::{GRANTS, SECRETS};
use policy_sync_mirror::{SourceEvent, WatchFailure};

fn fails(world: World, source: Source, fault: Option<&str>) -> World {
    world.change(SourceEvent::FailureChanged(source, fault.map(WatchFailure::transient)));
    world
}

/// Like [`copying`], but these sources have not been listed.
fn without(sources: &[Source], references: &[Value], objects: &[Object]) -> World {
    let world = copying(references, objects);
    sources.iter().for_each(|source| drop(world.forget(source)));
    world
}

const FORBIDDEN: &str = "secrets is forbidden (403)";

#[test]
fn gateway_is_frozen_until_secrets_are_listed() {
    let world = copying(&[own("a")], &[secret("a")]).settled(&[gateway_origin("web")]);
    world.forget(&SECRETS.all());
    assert_eq!(writes(&world), Vec::<String>::new());
    let world = world.decisions("all", &["eu-1", "us-1"]);
    assert_eq!(world.outcomes_of(&gateway_origin("web")), ["eu-1 (keep)", "us-1 (keep)"]);
    let passes = |world: &World| world.plan_of(&gateway_origin("web")).problems.iter().all(Problem::passes);
    assert!(passes(&world), "it is nothing to tell: {:?}", problems(&world));

    let world = fails(world, SECRETS.all(), Some(FORBIDDEN));
    assert_eq!(writes(&world), Vec::<String>::new());
    let expected = format!(
        "cannot determine which Secrets of its listeners may be copied: cannot list secrets: {FORBIDDEN}"
    );
    assert_eq!(problems(&world), [expected]);
    assert!(!passes(&world));

    let mut world = fails(world, SECRETS.all(), None);
    world.list(&SECRETS.all(), &[secret("a")]);
    assert_eq!(writes(&world), ["create us-1"]);
}

#[test]
fn gateway_without_secrets_is_not_frozen() {
    let both = [SECRETS.all(), GRANTS.all()];
    let world = fails(without(&both, &[], &[]), SECRETS.all(), Some(FORBIDDEN));
    assert_eq!(writes(&world), ["create eu-1"]);
    assert_eq!(problems(&world), Vec::<String>::new());
}

#[test]
fn secrets_of_the_own_namespace_do_not_wait_for_grants() {
    let world = without(&[GRANTS.all()], &[own("a")], &[secret("a")]);
    assert_eq!(manifest_names(&world), WITH_A);
    let world = without(&[GRANTS.all()], &[own("a"), of_tls("a")], &[secret("a")]);
    assert_eq!(world.outcomes_of(&gateway_origin("web")), ["eu-1 (keep)"]);
    let world = fails(world, GRANTS.all(), Some("not found (404)"));
    assert!(problems(&world)[0].ends_with("cannot list referencegrants: not found (404)"));
}

#[test]
fn listed_secrets_are_used_while_their_watch_fails() {
    let world = copying(&[own("a")], &[secret("a")]).settled(&[gateway_origin("web")]);
    let world = fails(world, SECRETS.all(), Some(FORBIDDEN));
    assert_eq!(writes(&world), Vec::<String>::new());
    let world = world.decisions("all", &["eu-1", "us-1"]);
    assert_eq!(writes(&world), ["create us-1"]);
    assert_eq!(manifest_names(&world), WITH_A);
}

#[test]
fn restart_withdraws_no_secrets() {
    let mut world = copying(&[own("a")], &[secret("a")]).settled(&[gateway_origin("web")]);
    let decision = crate::testing::objects::decision("all", "all-1", &["eu-1"]);
    let placement = crate::testing::objects::placement("all").selects(1);
    let class = crate::testing::objects::class("multi");
    world = world
        .restarted(vec![class, placement, decision, web(&[own("a")])])
        .params("multi", r#"{"tlsSecrets": "copy"}"#)
        .after(60_000);
    assert_eq!(writes(&world), Vec::<String>::new());
    world.list(&SECRETS.all(), &[secret("a")]);
    assert_eq!(writes(&world), Vec::<String>::new());
}
