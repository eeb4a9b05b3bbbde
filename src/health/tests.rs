use super::*;
use policy_sync_mirror::{Change, Failure};
use policy_sync_sync::kinds::CLUSTERS;
use policy_sync_sync::rows::kind::Resolution;
use policy_sync_sync::testing::objects::listing;
use policy_sync_sync::testing::world::{World, started, unlisted};

fn fails(world: &World, source: &Source) {
    world.change(Change::Failing(source.clone(), Some(Failure::passing("forbidden"))));
}

#[test]
fn what_is_needed_has_to_be_listed_and_may_fail_then() {
    let clusters = CLUSTERS.all();
    let later = started();
    fails(&later, &clusters);
    assert!(matches!(later.see(health), Health::Ready(text) if text.contains("failing: forbidden")));

    let mut never = unlisted();
    for source in needed().filter(|source| *source != clusters) {
        never.list(&source, &[]);
    }
    fails(&never, &clusters);
    let Health::Starting(text) = never.see(health) else { panic!("it is ready") };
    let expected = format!("[-]{clusters} not listed yet, which everything waits for: forbidden\n");
    assert!(text.contains(&expected), "{text}");
}

#[test]
fn a_kind_that_does_not_resolve_is_no_watch() {
    let no = || "no".to_owned();
    let kinds = ["ratelimitpolicies", "authpolicies", "tlspolicies", "dnspolicies"];
    let world = started()
        .class("multi", &listing(&kinds))
        .kind("ratelimitpolicies", "RateLimitPolicy")
        .resolution("authpolicies", Resolution::Forbidden(no()))
        .resolution("tlspolicies", Resolution::Gone)
        // Whether it resolves, the hub did not say.
        .resolution("dnspolicies", Resolution::Unknown(no()));
    let watches = world.see(watches);
    let kinds: Vec<&str> =
        watches.keys().filter_map(|resource| resource.strip_suffix(".kuadrant.io")).collect();
    assert_eq!(kinds, ["dnspolicies", "ratelimitpolicies"]);
    assert_eq!(watches.len(), needed().count() + 1 + kinds.len(), "{watches:?}");
    assert!(!watches["dnspolicies.kuadrant.io"] && watches["gateways"]);
}
