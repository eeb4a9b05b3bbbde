use super::*;

#[test]
fn cut_text_ends_with_an_ellipsis() {
    assert_eq!(cut("abcdef", 6), "abcdef");
    assert_eq!(cut("äbcdefg", 6), "äbcde…");
    assert_eq!(truncate_bytes("abcdef", 6), "abcdef");
    assert_eq!(truncate_bytes("äbcdefg", 6), "äb…", "six bytes, of which the ellipsis has three");
}

#[test]
fn excerpts_are_short() {
    assert_eq!(excerpt(&"é".repeat(100)), "é".repeat(64) + "…");
    assert_eq!(escaped_excerpt("a\nb"), "a\\nb");
    assert_eq!(escaped_excerpt(""), "\"\"");
}
