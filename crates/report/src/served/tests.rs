use super::*;

fn kind(group: &str, resource: &str, kind: &str, short: &str) -> ServedKind {
    let served = APIResource {
        kind: kind.into(),
        singular_name: kind.to_lowercase(),
        short_names: Some(vec![short.into()]),
        ..APIResource::default()
    };
    ServedKind::new(Role::Policy, GroupVersionResource::new(group, "v1", resource), &served)
}

#[test]
fn kind_is_found_by_plural_singular_and_short_name() {
    let kinds = [kind("kuadrant.io", "ratelimitpolicies", "RateLimitPolicy", "rlp")];
    for word in [
        "ratelimitpolicies",
        "RateLimitPolicies",
        "ratelimitpolicy",
        "RateLimitPolicy",
        "rlp",
        "ratelimitpolicies.kuadrant.io",
        "RateLimitPolicy.kuadrant.io",
        "rlp.kuadrant.io",
        "ratelimitpolicies.v1.kuadrant.io",
    ] {
        assert_eq!(match_kind(&kinds, word), KindMatch::Kind(&kinds[0]), "{word}");
    }
    for word in [
        "",
        ".",
        ".kuadrant.io",
        "authpolicies",
        "ratelimit",
        "ratelimitpolicies.example.com",
        "ratelimitpolicies.v2.kuadrant.io",
        "kuadrant.io",
    ] {
        assert_eq!(match_kind(&kinds, word), KindMatch::Nothing, "{word}");
    }
}

#[test]
fn name_of_two_kinds_is_ambiguous_without_the_group() {
    let kinds = [
        kind("a.example.com", "policies", "Policy", "po"),
        kind("b.example.com", "policies", "Policy", "pol"),
        kind("b.example.com", "po", "Portal", "pol"),
    ];
    assert_eq!(match_kind(&kinds, "policy"), KindMatch::Ambiguous(vec![&kinds[0], &kinds[1]]));
    assert_eq!(match_kind(&kinds, "pol"), KindMatch::Ambiguous(vec![&kinds[1], &kinds[2]]));
    assert_eq!(match_kind(&kinds, "policies.b.example.com"), KindMatch::Kind(&kinds[1]));
    // The plural of one kind is the short name of another.
    assert_eq!(match_kind(&kinds, "po"), KindMatch::Kind(&kinds[2]));
}

#[test]
fn kinds_of_an_unavailable_api_service_are_unknown() {
    let group = |name: &str, freshness: &str| {
        serde_json::from_value(serde_json::json!({
            "metadata": {"name": name},
            "versions": [{"version": "v1", "freshness": freshness, "resources": [
                {"resource": "policies", "responseKind": {"group": name, "version": "v1", "kind": "Policy"}, "scope": "Namespaced"}]}],
        }))
        .unwrap()
    };
    let current = DiscoveredKinds::of(vec![group("a.example.com", "Current")]);
    assert_eq!((current.kinds.len(), current.unread()), (1, None));
    let stale = DiscoveredKinds::of(vec![group("a.example.com", "Current"), group("b.example.com", "Stale")]);
    assert!(stale.stale.contains("b.example.com") && !stale.stale.contains("a.example.com"));
    let unread = "the kinds of b.example.com are unknown: their API services do not respond";
    assert_eq!(stale.unread().as_deref(), Some(unread));
}
