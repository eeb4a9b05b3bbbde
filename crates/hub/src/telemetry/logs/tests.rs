use super::*;

fn chosen(text: &str) -> Result<String, String> {
    let filter = filter(Some(OsStr::new(text)), Level::DEBUG);
    filter.map(|filter| filter.to_string()).map_err(|error| error.to_string())
}

#[test]
fn environment_overrides_the_level() {
    assert_eq!(chosen("kube=trace"), Ok("kube=trace".to_owned()));
    assert_eq!(chosen(""), Ok(default_filter(Level::DEBUG).to_string()), "what is empty says nothing");
    assert_eq!(filter(None, Level::INFO).unwrap().to_string(), default_filter(Level::INFO).to_string());
}

#[test]
fn other_crates_log_at_most_warnings() {
    for (level, most) in [(Level::ERROR, "error"), (Level::INFO, "warn"), (Level::TRACE, "warn")] {
        let filter = default_filter(level).to_string();
        let of_all: Vec<&str> = filter.split(',').filter(|directive| !directive.contains('=')).collect();
        assert_eq!(of_all, [most], "{filter}");
    }
}

#[test]
fn invalid_filter_is_rejected_with_its_text() {
    let refused = Err("RUST_LOG \"bogus=what\" is not a filter such as info or policy_sync=debug".to_owned());
    assert_eq!(chosen("bogus=what"), refused);
    assert!(chosen("info,[{").is_err());
}
