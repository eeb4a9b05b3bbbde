use super::*;
use policy_sync_mirror::{SourceEvent, WatchFailure};
use policy_sync_sync::kinds::CLUSTERS;
use policy_sync_sync::rows::kind::Resolution;
use policy_sync_sync::testing::objects::listing;
use policy_sync_sync::testing::world::{World, started, unlisted};

fn fails(world: &World, source: &Source) {
    world.change(SourceEvent::FailureChanged(source.clone(), Some(WatchFailure::transient("forbidden"))));
}

#[test]
fn required_kind_must_be_listed_once_but_may_fail_later() {
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
fn unresolved_kinds_are_not_reported_as_watches() {
    let no = || "no".to_owned();
    let kinds = ["ratelimitpolicies", "authpolicies", "tlspolicies", "dnspolicies"];
    let world = started()
        .class("multi", &listing(&kinds))
        .kind("ratelimitpolicies", "RateLimitPolicy")
        .resolution("authpolicies", Resolution::Forbidden(no()))
        .resolution("tlspolicies", Resolution::Gone)
        // The hub did not report whether the kind is served.
        .resolution("dnspolicies", Resolution::Unknown(no()));
    let watches = world.see(watches);
    let kinds: Vec<&str> =
        watches.keys().filter_map(|resource| resource.strip_suffix(".kuadrant.io")).collect();
    assert_eq!(kinds, ["dnspolicies", "ratelimitpolicies"]);
    assert_eq!(watches.len(), needed().count() + 1 + kinds.len(), "{watches:?}");
    assert!(!watches["dnspolicies.kuadrant.io"] && watches["gateways"]);
}
