use super::*;

fn candidate(value: &str, help: Option<&str>) -> CompletionCandidate {
    CompletionCandidate::new(value).help(help.map(|help| help.to_owned().into()))
}

fn completions(words: &[&str]) -> String {
    let words = ["policy-sync"].iter().chain(words).map(OsString::from).collect();
    candidates_text(Invocation::PluginCompletion, words)
}

#[test]
fn values_are_listed_with_their_help() {
    assert_eq!(
        completions(&["explain", "a", "b", "-o", "j"]),
        "json\tAll details, with the names of all clusters\n:4\n"
    );
    assert_eq!(
        completions(&["completion", "z"]),
        "zsh\tsource <(policy-sync completion zsh), after compinit\n:4\n"
    );
}

#[test]
fn options_are_listed_only_after_a_dash() {
    let options = completions(&["status", "--not"]);
    assert!(options.starts_with("--not-synced\t") && options.ends_with(":4\n"), "{options}");
    assert!(
        !completions(&[""]).contains("--") && completions(&[""]).contains("status\tShow"),
        "{}",
        completions(&[""])
    );
    assert!(
        completions(&["status", "--output=w"]).starts_with("wide\t"),
        "the scripts put what is before = back"
    );
}

#[test]
fn unknown_commands_have_no_candidates() {
    assert_eq!(completions(&["nonsense", "--what", "x"]), ":4\n");
    assert_eq!(completions(&["controller", "--log-level", "x"]), ":4\n");
    assert_eq!(text("", &[]), ":4\n");
}

#[test]
fn folder_gets_no_space_and_control_characters_are_escaped() {
    let found = [candidate("shop/", None), candidate("a\u{1b}[2J\nb", Some("x\u{9b}"))];
    assert_eq!(text("", &found), "shop/\na\\u{1b}[2J\\nb\tx\\u{9b}\n:6\n");
}
