//! Commit messages: the subject is one line in the imperative.

use std::path::Path;
use std::process::{Command, Output};

/// The last commit that is not checked, because it is older than the rule.
const UNCHECKED: &str = "629e3966b247ce271fb581f9dea26f52311e4f3e";

/// The number of commits that are checked in a clone that lacks [`UNCHECKED`], such as a shallow clone.
const WITHOUT_START: &str = "--max-count=200";

/// The maximum length of a subject in characters.
const LENGTH: usize = 72;

/// Imperatives that look like another form of a verb. Imperatives in `-ss`, such as "Address", need no entry.
const IMPERATIVES: [&str; 13] = [
    "Alias", "Bring", "Embed", "Exceed", "Feed", "Focus", "Need", "Ping", "Proceed", "Seed", "Shed", "Speed",
    "String",
];

/// The fault in a commit message; `None` if its subject follows the rules.
fn fault(message: &str) -> Option<String> {
    let mut lines = message.lines();
    let subject = lines.next().unwrap_or_default();
    let word = subject.split_whitespace().next().unwrap_or_default();
    let looks_imperative = || {
        let ends = |end: &str| word.ends_with(end);
        let other_form = ends("ed") || ends("ing") || (ends("s") && !ends("ss"));
        IMPERATIVES.contains(&word) || !other_form
    };
    let length = subject.chars().count();
    let fault = if word.is_empty() {
        "there is no subject".to_owned()
    } else if length > LENGTH {
        format!("the subject has {length} characters, more than {LENGTH}")
    } else if lines.next().is_some_and(|line| !line.trim().is_empty()) {
        "the subject has more than one line".to_owned()
    } else if subject.trim() != subject || subject.ends_with('.') {
        "the subject ends with a period, or has spaces around it".to_owned()
    } else if !word.starts_with(char::is_uppercase) {
        format!("the subject starts with {word:?}, not with a capital letter")
    } else if !looks_imperative() {
        format!("the subject starts with {word:?}, not with an imperative")
    } else {
        return None;
    };
    Some(format!("{fault}: {subject:?}"))
}

fn git(arguments: &[&str]) -> Output {
    Command::new("git").arg("-C").arg(env!("CARGO_MANIFEST_DIR")).args(arguments).output().unwrap()
}

/// The output of a git command that must succeed.
fn text(arguments: &[&str]) -> String {
    let output = git(arguments);
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Checks the commits since [`UNCHECKED`], and `HEAD` in any case. An archive of the sources has no commits to check.
#[test]
fn commit_subjects_are_short_imperatives() {
    // In a Git worktree, `.git` is a file.
    if !Path::new(env!("CARGO_MANIFEST_DIR")).join(".git").exists() {
        println!("no .git: there are no commits to check");
        return;
    }
    let start = format!("{UNCHECKED}..HEAD");
    let has_start = git(&["merge-base", "--is-ancestor", UNCHECKED, "HEAD"]).status.success();
    let commits = if has_start { start.as_str() } else { WITHOUT_START };
    let checked = [commits, "--max-count=1"].map(|range| text(&["log", "-z", "--format=%B", range]));
    let messages: Vec<&str> =
        checked.iter().flat_map(|text| text.split_terminator('\0')).map(str::trim_end).collect();
    assert!(!messages.is_empty(), "git lists no commits");
    println!("{} commit messages", messages.len());
    let faults: Vec<String> = messages.iter().filter_map(|message| fault(message)).collect();
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn subject_is_one_short_line_in_the_imperative() {
    let longest = format!("Add {}", "x".repeat(LENGTH - 4));
    for good in [
        "Report the age of unplaced Gateways",
        "Address a race between two watches",
        "Bypass the cache for deletes",
        "Discuss the grace period",
        "Feed the mirror from files",
        "Focus the first table",
        "Pass the timeout to the engine",
        "Process pages while they arrive",
        "Revert \"Add a cache\"",
        "Use β in names",
        "Add a test\n\nThe reason for it, in one line.\nAnd in another one.",
        longest.as_str(),
    ] {
        assert_eq!(fault(good), None);
    }
    let too_long = format!("{longest}x");
    for (bad, reason) in [
        ("", "no subject"),
        (too_long.as_str(), "73 characters"),
        ("Add a test\nfor subjects", "more than one line"),
        ("Add a test.", "period"),
        (" Add a test", "spaces"),
        ("add a test", "capital letter"),
        ("fixup! Add a test", "capital letter"),
        ("`status`: add a column", "capital letter"),
        ("Added a test", "imperative"),
        ("Adding a test", "imperative"),
        ("Adds a test", "imperative"),
        ("Fixes the test", "imperative"),
        ("Tests for subjects", "imperative"),
    ] {
        let fault = fault(bad).unwrap_or_else(|| panic!("{bad:?} has no fault"));
        assert!(fault.contains(reason), "{bad:?}: {fault}");
    }
}
