use super::*;
use crate::sync::rows::kind::Resolution;
use crate::sync::tests::objects::listing;
use crate::sync::tests::world::started;

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
