use super::*;

#[test]
fn a_kind_has_many_names() {
    let served = APIResource {
        kind: "RateLimitPolicy".into(),
        singular_name: "ratelimitpolicy".into(),
        short_names: Some(vec!["rlp".into()]),
        ..APIResource::default()
    };
    let kind = PolicyKind::new(GroupVersionResource::new("kuadrant.io", "v1", "ratelimitpolicies"), &served);
    for word in [
        "ratelimitpolicies",
        "RateLimitPolicies",
        "ratelimitpolicy",
        "RateLimitPolicy",
        "rlp",
        "ratelimitpolicies.kuadrant.io",
        "RateLimitPolicy.kuadrant.io",
    ] {
        assert!(kind.is(word), "{word}");
    }
    for word in ["", ".", "authpolicies", "ratelimit", "ratelimitpolicies.example.com", "kuadrant.io"] {
        assert!(!kind.is(word), "{word}");
    }
}
