//! Tests of single sequences of graphs, writes and watch events. `tests/model` tests all orders of these steps.

use super::*;
use policy_sync_topology::rows::RouteKind;

const UID: &str = "one";

fn route() -> StatusKey {
    StatusKey::Route(RouteKind::Http, ObjectKey::new("shop", "orders"))
}

fn digest(text: &str) -> Hash {
    Hash::of_text(text)
}

/// A graph with this desired status of the route; `None` if no write is needed.
fn graph(text: Option<&str>, uid: &str) -> BTreeMap<StatusKey, DesiredStatus> {
    let desired = |text: &str| DesiredStatus {
        desired: Desired::Route { generation: 1, entries: Vec::new() },
        digest: digest(text),
        uid: Hash::of_text(uid),
        changed: true,
    };
    text.map(|text| (route(), desired(text))).into_iter().collect()
}

fn replace(pending: &mut PendingStatuses, text: Option<&str>, seen: u64) -> ReplaceResult {
    pending.replace(graph(text, UID), &Versions::at(seen))
}

/// Writes the pending status of the route, at `version`.
fn write(pending: &mut PendingStatuses, version: u64) {
    let write = pending.next(&route()).unwrap();
    pending.wrote(&route(), &write, version);
}

#[test]
fn write_is_removed_once_the_watch_delivers_it() {
    let mut pending = PendingStatuses::default();
    assert_eq!(replace(&mut pending, Some("new"), 1).writes_to_queue.len(), 1);
    write(&mut pending, 5);
    assert!(pending.next(&route()).is_none(), "it is written once");
    assert!(pending.status_delivered(&route(), digest("new"), 9));
    assert!(!pending.status_delivered(&route(), digest("new"), 9), "nobody waits for it any more");
}

#[test]
fn write_missed_by_a_graph_triggers_a_rebuild() {
    let mut pending = PendingStatuses::default();
    let _ = replace(&mut pending, Some("new"), 1);
    write(&mut pending, 5);
    pending.begin_build();
    assert!(pending.status_delivered(&route(), digest("new"), 9));
    // The graph was built from older rows. These rows have the status that the graph requires, but the hub no longer
    // has it.
    assert!(replace(&mut pending, None, 4).rebuild);
    pending.begin_build();
    assert!(!replace(&mut pending, None, 5).rebuild);
    // An aborted build does not include the delivered write either.
    let _ = replace(&mut pending, Some("newer"), 5);
    pending.begin_build();
    assert!(pending.status_delivered(&route(), digest("newer"), 9));
    assert!(pending.abort_build());
}

#[test]
fn write_delivered_during_a_build_is_not_repeated() {
    let mut pending = PendingStatuses::default();
    let _ = replace(&mut pending, Some("new"), 1);
    write(&mut pending, 5);
    pending.begin_build();
    assert!(pending.status_delivered(&route(), digest("new"), 9));
    // The graph was built from older rows.
    let replaced = replace(&mut pending, Some("new"), 4);
    assert!(replaced.writes_to_queue.is_empty() && !replaced.rebuild, "{replaced:?}");
}

#[test]
fn watch_events_older_than_a_write_are_ignored() {
    let mut pending = PendingStatuses::default();
    let _ = replace(&mut pending, Some("new"), 1);
    write(&mut pending, 5);
    assert!(pending.status_delivered(&route(), digest("old"), 4), "it was replaced");
    assert!(replace(&mut pending, Some("new"), 4).writes_to_queue.is_empty(), "it is written");
    assert!(!pending.status_delivered(&route(), digest("old"), 6), "somebody has written over it");
}

#[test]
fn config_map_delivered_during_a_build_triggers_a_rebuild() {
    let mut pending = PendingStatuses::default();
    pending.expect_text(digest("text"), "full");
    assert!(!pending.text_delivered(digest("text"), "routes"), "another detail");
    pending.begin_build();
    assert!(pending.text_delivered(digest("text"), "full"));
    assert!(replace(&mut pending, None, 1).rebuild);
}

#[test]
fn settling_an_old_write_keeps_the_status_of_a_later_graph() {
    let mut pending = PendingStatuses::default();
    let _ = replace(&mut pending, Some("old"), 1);
    let taken = pending.next(&route()).unwrap();
    let _ = replace(&mut pending, Some("new"), 2);
    assert_eq!(pending.settle(&route(), &taken, 2), None, "that has a turn of its own");
    assert_eq!(pending.next(&route()).map(|write| write.status.digest), Some(digest("new")));
    let taken = pending.next(&route()).unwrap();
    assert_eq!(pending.settle(&route(), &taken, 3), None);
    assert!(pending.next(&route()).is_none());
}

#[test]
fn older_read_does_not_settle_a_status_reverted_since() {
    let mut pending = PendingStatuses::default();
    let _ = replace(&mut pending, Some("new"), 1);
    let taken = pending.next(&route()).unwrap();
    // One client writes the same status at version 3, and this version is read. Another client reverts the status at
    // version 4, which the next graph includes.
    assert!(replace(&mut pending, Some("new"), 4).writes_to_queue.is_empty(), "it has a turn");
    let turn = pending.settle(&route(), &taken, 3).unwrap();
    assert_eq!((turn.key, pending.waiting()), (route(), 1));
}

#[test]
fn recreated_object_is_written_again() {
    let mut pending = PendingStatuses::default();
    let _ = replace(&mut pending, Some("new"), 1);
    write(&mut pending, 5);
    let _ = pending.replace(graph(Some("new"), "another"), &Versions::at(1));
    assert!(pending.next(&route()).is_some());
}

#[test]
fn status_overwritten_since_is_written_again() {
    let mut pending = PendingStatuses::default();
    let _ = replace(&mut pending, Some("new"), 1);
    write(&mut pending, 5);
    let _ = replace(&mut pending, Some("new"), 4);
    assert!(pending.next(&route()).is_none(), "the watch is behind");
    // The watch has delivered a newer version of the object, written by another client.
    let _ = replace(&mut pending, Some("new"), 5);
    assert!(pending.next(&route()).is_some());
}
