use super::*;

#[test]
fn intersection_is_the_more_specific_host() {
    let cases = [
        ("a.b.io", "a.b.io", Some("a.b.io")),
        ("a.b.io", "c.b.io", None),
        ("*.b.io", "a.b.io", Some("a.b.io")),
        ("*.b.io", "x.a.b.io", Some("x.a.b.io")),
        ("*.b.io", "b.io", None),
        ("*.b.io", "ab.io", None),
        ("*.b.io", "*.a.b.io", Some("*.a.b.io")),
        ("*.b.io", "*.b.io", Some("*.b.io")),
        ("*.a.io", "*.b.io", None),
        ("*.b.io", "*.ab.io", None),
    ];
    for (left, right, common) in cases {
        assert_eq!(intersect(left, right), common, "{left} {right}");
        assert_eq!(intersect(right, left), common, "{right} {left}");
    }
}

#[test]
fn hosts_are_sorted_without_duplicates() {
    assert_eq!(common_hosts(None, []), ["*"]);
    assert_eq!(common_hosts(Some("a.io"), []), ["a.io"]);
    assert_eq!(common_hosts(None, ["b.io", "a.io", "b.io"]), ["a.io", "b.io"]);
    assert_eq!(common_hosts(Some("a.io"), ["*.io", "a.io"]), ["a.io"]);
    assert_eq!(common_hosts(Some("a.io"), ["b.io"]), [""; 0]);
}
