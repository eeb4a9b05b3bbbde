use super::*;

/// Asserts that `is` accepts all of `good` and none of `bad`.
fn assert_accepts(is: fn(&str) -> bool, good: &[&str], bad: &[&str]) {
    good.iter().for_each(|text| assert!(is(text), "{text:?}"));
    bad.iter().for_each(|text| assert!(!is(text), "{text:?}"));
}

#[test]
fn names_follow_the_syntax_of_kubernetes() {
    let (long, longer) = ("a".repeat(63), "a".repeat(64));
    assert_accepts(
        is_dns_label,
        &["a", "0", "eu-1", "1-a", &long],
        &["", "-a", "a-", "a.b", "A", "a_b", "ä", "..", "a/b", &longer],
    );
    let (subdomain, larger) = (format!("{}.a", "a".repeat(251)), format!("{}.a", "a".repeat(252)));
    assert_accepts(
        is_dns_subdomain,
        &["a", "kuadrant.io", "a-b.c-d", "1.2", &longer, &subdomain],
        &["", ".", "..", "a..b", ".a", "a.", "-a.b", "a-.b", "a.-b", "A.b", "a/b", "a b", &larger],
    );
    assert_accepts(
        is_label_value,
        &["", "a", "A.b_c-d", "0", &long],
        &["-a", "a-", ".a", "a_", "a b", "a/b", "ä", &longer],
    );
    assert_accepts(
        is_label_key,
        &["a", "A_b", "kuadrant.io/a", "a.b/c"],
        &["", "/", "a/", "/a", "a..b/c", "A/b", "-a/b", "a/b/c", "a/-b"],
    );
    assert_accepts(
        is_kind,
        &["HTTPRoute", "a", "A-1", &long],
        &["", "1A", "-A", "A-", "A.b", "A b", "A\"]", &longer],
    );
}
