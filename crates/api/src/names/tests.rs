use proptest::prelude::*;

use super::*;

fn controller() -> ControllerName {
    ControllerName::new("kuadrant.io/policy-sync")
}

fn policy(namespace: &str, name: &str) -> Origin {
    Origin::named("kuadrant.io", "ratelimitpolicies", namespace, name)
}

#[test]
fn work_names_differ_for_parts_that_join_to_the_same_text() {
    let of = |namespace, name| WorkName::planned(&controller(), "RateLimitPolicy", &policy(namespace, name));
    assert_ne!(of("a-b", "c"), of("a", "b-c"));
    assert_ne!(
        of("shop", "limits"),
        WorkName::planned(&ControllerName::new("other"), "RateLimitPolicy", &policy("shop", "limits"))
    );
}

#[test]
fn long_work_name_is_a_valid_label_value() {
    let name = WorkName::planned(&controller(), "RateLimitPolicy", &policy("shop", &"a.".repeat(126)));
    assert_eq!(name.0.len(), 63 - 1);
    assert!(name.0.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'));
}

#[test]
fn long_kind_gives_a_valid_work_name() {
    let kind = "AVeryLongKindNameThatLeavesNoRoomForTheObject";
    let origin = policy("shop", "limits");
    let name = WorkName::planned(&controller(), kind, &origin);
    assert!(name.0.len() <= 63);
}

#[test]
fn work_name_matches_only_its_origin() {
    let name = WorkName::planned(&controller(), "RateLimitPolicy", &policy("shop", "limits"));
    assert!(name.is_for(&controller(), &policy("shop", "limits")));
    assert!(!name.is_for(&controller(), &policy("shop", "other")));
    assert!(
        !name.is_for(&controller(), &Origin::named("example.com", "ratelimitpolicies", "shop", "limits"))
    );
    assert!(!name.is_for(&ControllerName::new("other"), &policy("shop", "limits")));
}

#[test]
fn origin_survives_a_round_trip_as_text() {
    let core = Origin::named("", "configmaps", "shop", "settings");
    assert_eq!(core.to_string(), "configmaps/shop/settings");
    for origin in [policy("shop", "limits"), Origin::Gateway(ObjectKey::new("shop", "web.example")), core] {
        assert_eq!(Origin::parse(&origin.to_string()), Some(origin));
    }
    for wrong in ["", "a", "a.b", "a.b/c", "a.b/c/", "a./c/d", "/c/d", "a.b/c/d/e", ".b/c/d"] {
        assert_eq!(Origin::parse(wrong), None, "{wrong}");
    }
}

proptest! {
    #[test]
    fn work_name_matches_its_origin(
        kind in "[A-Z][A-Za-z0-9]{0,20}",
        namespace in "[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?",
        name in "[a-z0-9]([-a-z0-9.]{0,200}[a-z0-9])?",
    ) {
        let origin = policy(&namespace, &name);
        let work = WorkName::planned(&controller(), &kind, &origin);
        prop_assert!(work.0.len() <= 63);
        prop_assert!(work.is_for(&controller(), &origin));
    }
}

#[test]
fn path_is_that_of_one_or_all_namespaces() {
    let works = GroupVersionResource::new("work.open-cluster-management.io", "v1", "manifestworks");
    let secrets = GroupVersionResource::new("", "v1", "secrets");
    assert_eq!(works.path(""), "/apis/work.open-cluster-management.io/v1/manifestworks");
    assert_eq!(works.path("eu-1"), "/apis/work.open-cluster-management.io/v1/namespaces/eu-1/manifestworks");
    assert_eq!(secrets.path("shop"), "/api/v1/namespaces/shop/secrets");
}
