//! What is kept of what is to be written, as graphs, writes and the watch follow one another. `tests/model` has every order.

use super::*;
use policy_sync_api::names::ObjectKey;
use policy_sync_topology::rows::RouteKind;

const UID: &str = "one";

fn route() -> StatusKey {
    StatusKey::Route(RouteKind::Http, ObjectKey::new("shop", "orders"))
}

fn digest(text: &str) -> Hash {
    Hash::of_text(text)
}

/// A graph that has the route say `text`, nothing where it says so already.
fn graph(text: Option<&str>, uid: &str) -> BTreeMap<StatusKey, DesiredStatus> {
    let desired = |text: &str| DesiredStatus {
        desired: Desired::Route { generation: 1, entries: Vec::new() },
        digest: digest(text),
        uid: Hash::of_text(uid),
        changed: true,
    };
    text.map(|text| (route(), desired(text))).into_iter().collect()
}

fn replace(pending: &mut PendingStatuses, text: Option<&str>, seen: u64) -> Replaced {
    pending.replace(graph(text, UID), &Versions::at(seen))
}

/// Writes what the route is to say, at `version`.
fn write(pending: &mut PendingStatuses, version: u64) {
    let write = pending.next(&route()).unwrap();
    pending.wrote(&route(), &write, version);
}

#[test]
fn what_was_written_is_done_with_once_the_watch_shows_it() {
    let mut pending = PendingStatuses::default();
    assert_eq!(replace(&mut pending, Some("new"), 1).turns.len(), 1);
    write(&mut pending, 5);
    assert!(pending.next(&route()).is_none(), "it is written once");
    assert!(pending.shows(&route(), digest("new"), 9));
    assert!(!pending.shows(&route(), digest("new"), 9), "nobody waits for it any more");
}

#[test]
fn what_a_graph_has_not_seen_has_it_built_anew() {
    let mut pending = PendingStatuses::default();
    let _ = replace(&mut pending, Some("new"), 1);
    write(&mut pending, 5);
    pending.begin();
    assert!(pending.shows(&route(), digest("new"), 9));
    // Of rows from before that: they say what this graph wants, and the hub does not.
    assert!(replace(&mut pending, None, 4).again);
    pending.begin();
    assert!(!replace(&mut pending, None, 5).again);
    // One that is given up has seen as little.
    let _ = replace(&mut pending, Some("newer"), 5);
    pending.begin();
    assert!(pending.shows(&route(), digest("newer"), 9));
    assert!(pending.give_up());
}

#[test]
fn what_the_watch_has_shown_while_a_graph_was_built_is_not_written_again() {
    let mut pending = PendingStatuses::default();
    let _ = replace(&mut pending, Some("new"), 1);
    write(&mut pending, 5);
    pending.begin();
    assert!(pending.shows(&route(), digest("new"), 9));
    // Of rows from before that.
    let replaced = replace(&mut pending, Some("new"), 4);
    assert!(replaced.turns.is_empty() && !replaced.again, "{replaced:?}");
}

#[test]
fn what_is_shown_of_before_a_write_is_behind() {
    let mut pending = PendingStatuses::default();
    let _ = replace(&mut pending, Some("new"), 1);
    write(&mut pending, 5);
    assert!(pending.shows(&route(), digest("old"), 4), "it was replaced");
    assert!(replace(&mut pending, Some("new"), 4).turns.is_empty(), "it is written");
    assert!(!pending.shows(&route(), digest("old"), 6), "somebody has written over it");
}

#[test]
fn the_same_of_the_config_map() {
    let mut pending = PendingStatuses::default();
    pending.expect_text(digest("text"), "full");
    assert!(!pending.shows_text(digest("text"), "routes"), "another detail");
    pending.begin();
    assert!(pending.shows_text(digest("text"), "full"));
    assert!(replace(&mut pending, None, 1).again);
}

#[test]
fn what_is_settled_is_not_what_a_later_graph_wants() {
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
fn what_a_later_graph_has_seen_undone_is_not_settled_by_an_older_look() {
    let mut pending = PendingStatuses::default();
    let _ = replace(&mut pending, Some("new"), 1);
    let taken = pending.next(&route()).unwrap();
    // Somebody has written the same at 3, which is read, and somebody else has undone it at 4, which the next graph has seen.
    assert!(replace(&mut pending, Some("new"), 4).turns.is_empty(), "it has a turn");
    let turn = pending.settle(&route(), &taken, 3).unwrap();
    assert_eq!((turn.key, pending.waiting()), (route(), 1));
}

#[test]
fn an_object_that_was_made_anew_is_another() {
    let mut pending = PendingStatuses::default();
    let _ = replace(&mut pending, Some("new"), 1);
    write(&mut pending, 5);
    let _ = pending.replace(graph(Some("new"), "another"), &Versions::at(1));
    assert!(pending.next(&route()).is_some());
}

#[test]
fn what_the_watch_has_passed_is_written_again() {
    let mut pending = PendingStatuses::default();
    let _ = replace(&mut pending, Some("new"), 1);
    write(&mut pending, 5);
    let _ = replace(&mut pending, Some("new"), 4);
    assert!(pending.next(&route()).is_none(), "the watch is behind");
    // It shows the object as something has left it since.
    let _ = replace(&mut pending, Some("new"), 5);
    assert!(pending.next(&route()).is_some());
}
