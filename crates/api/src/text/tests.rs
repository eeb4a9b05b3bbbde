use super::*;

#[test]
fn a_cut_text_says_so() {
    assert_eq!(cut("abcdef", 6), "abcdef");
    assert_eq!(cut("äbcdefg", 6), "äbcde…");
    assert_eq!(capped("abcdef", 6), "abcdef");
    assert_eq!(capped("äbcdefg", 6), "äb…", "six bytes, of which the ellipsis has three");
}

#[test]
fn a_fault_repeats_as_much_as_one_sees_at_a_glance() {
    assert_eq!(excerpt(&"é".repeat(100)), "é".repeat(64) + "…");
    assert_eq!(plain_excerpt("a\nb"), "a\\nb");
    assert_eq!(plain_excerpt(""), "\"\"");
}
