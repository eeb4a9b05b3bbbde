use super::*;

fn read(words: &[&str]) -> CommandLine {
    CommandLine::read(&["policy-sync"].iter().chain(words).map(OsString::from).collect::<Vec<_>>())
}

#[test]
fn options_are_found_in_any_position() {
    for words in [
        &["--context", "dev", "status", "limits", "-n", "shop", ""][..],
        &["status", "-n=shop", "limits", "--context=dev", "--cluster", "e"],
        &["status", "--context", "dev", "limits", "--namespace", "shop", "x", "-o", "nonsense", ""],
    ] {
        let line = read(words);
        assert!(format!("{:?}", line.hub).contains("Some(\"dev\")"), "{words:?} {line:?}");
        assert_eq!(line.namespace.as_deref(), Some("shop"), "{words:?}");
        assert_eq!(line.kind.as_deref(), Some("limits"), "{words:?}");
        assert_eq!(line.controller().as_str(), "kuadrant.io/policy-sync");
    }
    assert!(read(&["status", "-A", ""]).all_namespaces && !read(&["status", ""]).all_namespaces);
    let other = read(&["explain", "--controller-name", "example.com/other", ""]);
    assert_eq!(other.controller().as_str(), "example.com/other");
}

#[test]
fn word_being_typed_is_ignored() {
    assert_eq!(read(&["status", "limits"]).kind, None);
    assert_eq!(read(&["status", "-n", "shop"]).namespace, None);
}

#[test]
fn unknown_words_are_ignored() {
    for words in [&[][..], &[""], &["--", ""], &["nonsense", ""], &["status", "--nonsense", "a", ""]] {
        assert_eq!(read(words).namespace, None, "{words:?}");
    }
    assert_eq!(CommandLine::read(&[]).kind, None);
}
