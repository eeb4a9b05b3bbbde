//! Tests that the annotations stay valid JSON and within the limits, for any number of clusters and any length of
//! texts.

use serde_json::{Value, json};

use super::*;
use crate::tests::problems::bad_selector;
use policy_sync_api::annotations::SyncedCondition;
use policy_sync_api::policy_state::PolicyState;

fn condition(name: &str, status: &str, message: &str) -> SyncedCondition {
    SyncedCondition {
        condition_type: name.to_owned(),
        status: status.to_owned(),
        reason: Some("Reason".to_owned()),
        message: Some(message.to_owned()),
    }
}

/// Entries of this number of clusters with names of this length, where every condition has this status and message.
fn fleet(clusters: usize, name_length: usize, status: &str, message: &str) -> Vec<Synced> {
    let entry = |n: usize| Synced {
        cluster: format!("{n:0>name_length$}").as_str().into(),
        name: "limits".to_owned(),
        namespace: "kuadrant-shop".to_owned(),
        applied: true,
        pending: false,
        deleting: false,
        message: None,
        conditions: ["Accepted", "Enforced"].map(|name| condition(name, status, message)).into(),
        fields: serde_json::Map::from_iter([("generation".to_owned(), json!(2))]),
        dropped: vec!["list".to_owned()],
        cut: false,
        partial: false,
        frozen: None,
    };
    (0..clusters).map(entry).collect()
}

fn written(entries: &[Synced], other_bytes: usize) -> BTreeMap<&'static str, String> {
    let summary = Summary::new(entries, |_| true);
    let annotations = annotations(&BTreeSet::new(), entries, true, &summary, other_bytes);
    let ours = bytes(&annotations);
    assert!(ours <= OWN_ANNOTATIONS_LIMIT, "ours have {ours} bytes");
    assert!(ours == 0 || ours + other_bytes <= ANNOTATIONS_LIMIT, "all have {} bytes", ours + other_bytes);
    annotations
}

/// The level of detail and the written entries.
fn rendered(entries: &[Synced], other_bytes: usize) -> (String, Vec<Value>) {
    let annotations = written(entries, other_bytes);
    let summary: Summary = serde_json::from_str(&annotations[POLICIES_SYNCED_SUMMARY]).unwrap();
    assert_eq!(summary.clusters, entries.len());
    let rendered = serde_json::from_str(&annotations[POLICIES_SYNCED]).unwrap();
    (annotations[POLICIES_SYNCED_DETAIL].clone(), rendered)
}

#[test]
fn hundred_clusters_are_listed_in_full() {
    let (level, rendered) = rendered(&fleet(100, 20, "True", "fine"), 0);
    assert_eq!((&*level, rendered.len()), ("full", 100));
    assert_eq!(rendered[0]["conditions"].as_array().unwrap().len(), 2);
    assert_eq!(rendered[0]["fields"], json!({"generation": 2}));
}

#[test]
fn thousand_clusters_are_listed_without_good_conditions() {
    let (level, rendered) = rendered(&fleet(1_000, 20, "True", "fine"), 0);
    assert_eq!((&*level, rendered.len()), ("minimal", 1_000));
    assert_eq!(rendered[0].get("conditions"), None);
    assert_eq!(rendered[0]["applied"], true);
}

#[test]
fn shortened_entry_keeps_the_condition_that_decides_its_state() {
    let mut entries = fleet(1_000, 20, "True", "fine");
    entries[0].conditions[0] = condition("Ready", "False", "starting");
    let (level, rendered) = rendered(&entries, 0);
    assert_eq!(level, "minimal");
    let shortened: Synced = serde_json::from_value(rendered[0].clone()).unwrap();
    assert_eq!(PolicyState::of(&shortened), PolicyState::of(&entries[0]));
    assert_eq!(PolicyState::of(&shortened), PolicyState::Enforced);
}

#[test]
fn messages_of_problems_are_cut_to_256_characters() {
    let mut entries = fleet(170, 20, "False", &"ü".repeat(300));
    entries.iter_mut().for_each(|entry| entry.conditions.truncate(1));
    let (level, rendered) = rendered(&entries, 0);
    assert_eq!((&*level, rendered.len()), ("minimal", 170));
    assert_eq!(rendered[0]["conditions"][0]["message"], "ü".repeat(256));
    assert_eq!((rendered[0].get("fields"), rendered[0].get("dropped")), (None, None));
}

#[test]
fn only_keys_are_listed_if_minimal_entries_do_not_fit() {
    let (level, rendered) = rendered(&fleet(1_000, 20, "False", &"x".repeat(500)), 0);
    assert_eq!((&*level, rendered.len()), ("keys", 1_000));
    let keys: Vec<&String> = rendered[0].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["cluster", "name", "namespace"]);
}

#[test]
fn first_keys_are_listed_if_not_all_keys_fit() {
    for clusters in [2_000, 5_000] {
        let (level, rendered) = rendered(&fleet(clusters, 60, "False", &"x".repeat(1_000)), 0);
        assert_eq!(level, format!("first {} of {clusters}", rendered.len()));
        assert!(rendered.len() > 900, "{}", rendered.len());
    }
}

#[test]
fn room_is_used_up_to_the_last_entry() {
    let entries = fleet(5_000, 60, "True", "");
    let first = serde_json::to_string(&rendered(&entries, 0).1[0]).unwrap().len();
    let taken = bytes(&written(&entries, 0));
    assert!(OWN_ANNOTATIONS_LIMIT - taken <= first + 1, "{taken}");
}

#[test]
fn escaped_texts_are_measured_with_their_escapes() {
    for text in ["\"", "\u{1}", "\\", "\u{10ffff}", "<", "\u{2028}"] {
        rendered(&fleet(150, 20, "False", &text.repeat(1_000)), 0);
    }
}

#[test]
fn annotations_fit_into_the_room_left_by_others() {
    let entries = fleet(1_000, 20, "False", &"x".repeat(500));
    for (other, level) in [(100 * 1024, "keys"), (140 * 1024, "keys"), (200 * 1024, "first ")] {
        let (found, _) = rendered(&entries, other);
        assert!(found.starts_with(level), "{other}: {found}");
    }
}

#[test]
fn every_limit_is_kept_exactly() {
    let entries = fleet(3, 10, "True", "");
    let all = bytes(&written(&entries, 0));
    for room in 0..=all + 1 {
        written(&entries, ANNOTATIONS_LIMIT - room);
    }
    assert_eq!(rendered(&entries, ANNOTATIONS_LIMIT - all).0, "full");
    assert_eq!(rendered(&entries, ANNOTATIONS_LIMIT - all + 1).0, "minimal");
}

#[test]
fn nothing_is_written_if_others_leave_no_room() {
    for other in [ANNOTATIONS_LIMIT, 256 * 1024] {
        assert!(written(&fleet(1, 10, "True", ""), other).is_empty());
    }
}

#[test]
fn ten_long_problems_fit() {
    let problems: BTreeSet<Problem> =
        (0..20).map(|n| bad_selector(format!("{n}{}", "\u{1}ü".repeat(100_000)))).collect();
    let annotations = annotations(&problems, &[], true, &Summary::default(), 0);
    assert!(annotations[POLICY_SYNC_MESSAGE].len() <= 10 * 1_026 + 20);
}

/// The entries of a hundred clusters. The first `failing` of them have `words` in each condition.
fn with_failing(failing: usize, words: &str) -> Vec<Synced> {
    let mut entries = fleet(failing, 20, "False", words);
    entries.extend(fleet(100, 20, "True", "fine").into_iter().skip(failing));
    entries
}

#[test]
fn long_messages_of_some_clusters_do_not_reduce_detail_of_others() {
    for text in ["x", "\"", "\u{1}", "ü", "\u{10ffff}"] {
        let entries = with_failing(60, &text.repeat(1_000));
        let (level, rendered) = rendered(&entries, 0);
        assert_eq!((&*level, rendered.len()), ("full", 100), "{text:?}");
        let limit = |entry: &Value| entry.to_string().len() <= 1_024;
        assert!(rendered.iter().all(limit), "{text:?}: an entry has more than 1 KiB");
        assert!(rendered[..60].iter().all(|entry| entry["cut"] == true), "{text:?}");
        for (entry, full) in rendered[60..].iter().zip(&entries[60..]) {
            assert_eq!(*entry, json!(full), "{text:?}");
        }
    }
}

#[test]
fn long_entry_loses_long_messages_first_and_then_fields() {
    let entry = |field: usize| {
        let mut entry = fleet(1, 20, "False", &"x".repeat(900)).remove(0);
        entry.conditions.truncate(1);
        entry.message = Some("m".repeat(300));
        entry.fields = serde_json::Map::from_iter([("list".to_owned(), json!("y".repeat(field)))]);
        entry
    };
    for (field, kept) in [(100, true), (500, false)] {
        let (_, rendered) = rendered(&[entry(field)], 0);
        assert_eq!(rendered[0]["conditions"][0]["message"], "x".repeat(256));
        assert_eq!((&rendered[0]["message"], &rendered[0]["cut"]), (&json!("m".repeat(256)), &json!(true)));
        assert_eq!(rendered[0].get("fields").is_some(), kept, "{field}");
    }
}

#[test]
fn entry_of_1_kib_is_kept_whole() {
    let entry = |length: usize| fleet(1, 20, "False", &"x".repeat(length)).remove(0);
    let rest = serde_json::to_string(&entry(0)).unwrap().len();
    let fitting = (1_024 - rest) / 2;
    let (_, rendered) = rendered(&[entry(fitting)], 0);
    assert_eq!(
        (rendered[0].get("cut"), &rendered[0]["conditions"][0]["message"]),
        (None, &json!("x".repeat(fitting)))
    );
    assert_eq!(self::rendered(&[entry(fitting + 1)], 0).1[0]["cut"], true);
}
