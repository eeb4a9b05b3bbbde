use super::*;

fn candidate(value: &str, help: Option<&str>) -> CompletionCandidate {
    CompletionCandidate::new(value).help(help.map(|help| help.to_owned().into()))
}

fn asked(words: &[&str]) -> String {
    let words = ["policy-sync"].iter().chain(words).map(OsString::from).collect();
    candidates_text(Invocation::PluginCompletion, words)
}

#[test]
fn values_are_listed_with_their_help() {
    assert_eq!(
        asked(&["explain", "a", "b", "-o", "j"]),
        "json\tAll details, with the names of all clusters\n:4\n"
    );
    assert_eq!(
        asked(&["completion", "z"]),
        "zsh\tsource <(policy-sync completion zsh), after compinit\n:4\n"
    );
}

#[test]
fn options_are_listed_only_after_a_dash() {
    let options = asked(&["status", "--not"]);
    assert!(options.starts_with("--not-synced\t") && options.ends_with(":4\n"), "{options}");
    assert!(!asked(&[""]).contains("--") && asked(&[""]).contains("status\tShow"), "{}", asked(&[""]));
    assert!(asked(&["status", "--output=w"]).starts_with("wide\t"), "the scripts put what is before = back");
}

#[test]
fn unknown_commands_have_no_candidates() {
    assert_eq!(asked(&["nonsense", "--what", "x"]), ":4\n");
    assert_eq!(asked(&["controller", "--log-level", "x"]), ":4\n");
    assert_eq!(text("", &[]), ":4\n");
}

#[test]
fn folder_gets_no_space_and_control_characters_are_escaped() {
    let found = [candidate("shop/", None), candidate("a\u{1b}[2J\nb", Some("x\u{9b}"))];
    assert_eq!(text("", &found), "shop/\na\\u{1b}[2J\\nb\tx\\u{9b}\n:6\n");
}
