use super::*;

#[test]
fn version_has_the_short_commit_if_known() {
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(format_version(None), version);
    assert_eq!(format_version(Some("045f0f00135c")), format!("{version} (045f0f00135c)"));
    let whole = "045f0f00135c7cbd0a3a1f1f7c0d6e6d3f0b2c1a";
    assert_eq!(format_version(Some(whole)), format!("{version} (045f0f00135c)"));
}
