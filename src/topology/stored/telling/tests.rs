//! What is kept of what is to be written, as graphs, writes and the watch follow one another.

use std::time::Duration;

use super::*;
use crate::telemetry::metrics::Metrics;

const UID: &str = "one";

fn telling() -> Telling {
    let metrics = Metrics::new().unwrap();
    let own = TopologyMetrics::new(&metrics).unwrap();
    Telling::new(Arc::new(Queue::new(Duration::ZERO, metrics)), own)
}

fn route() -> Key {
    Key::Route(RouteKind::Http, ObjectKey::new("shop", "orders"))
}

fn said(text: &str) -> Hash {
    Hash::of_text(text)
}

/// A graph that has the route say `text`, nothing where it says so already.
fn graph(text: Option<&str>, uid: &str) -> HashMap<Key, Pending> {
    let pending = |text: &str| Pending {
        told: Told::Route(1, Vec::new()),
        said: said(text),
        uid: Hash::of_text(uid),
        changed: true,
    };
    text.map(|text| (route(), pending(text))).into_iter().collect()
}

fn replace(telling: &Telling, text: Option<&str>, seen: u64) -> bool {
    telling.replace(graph(text, UID), &Versions::at(seen))
}

/// Writes what the route is to say, at `version`.
fn write(telling: &Telling, version: u64) {
    let wanted = telling.wanted(&route()).unwrap();
    telling.wrote(&route(), &wanted, version);
}

#[test]
fn what_was_written_is_done_with_once_the_watch_brings_it() {
    let telling = telling();
    replace(&telling, Some("new"), 1);
    write(&telling, 5);
    assert!(telling.wanted(&route()).is_none(), "it is written once");
    assert!(telling.brings(&route(), said("new")));
    assert!(!telling.brings(&route(), said("new")), "nobody waits for it any more");
}

#[test]
fn what_a_graph_has_not_seen_has_it_built_anew() {
    let telling = telling();
    replace(&telling, Some("new"), 1);
    write(&telling, 5);
    telling.begin();
    assert!(telling.brings(&route(), said("new")));
    // Of rows from before that: they say what this graph wants, and the hub does not.
    assert!(replace(&telling, None, 4));
    telling.begin();
    assert!(!replace(&telling, None, 5));
    // One that is given up has seen as little.
    replace(&telling, Some("newer"), 5);
    telling.begin();
    assert!(telling.brings(&route(), said("newer")));
    assert!(telling.give_up());
}

#[test]
fn the_same_of_the_config_map() {
    let telling = telling();
    telling.wants_text(said("text"), "full");
    assert!(!telling.brings_text(said("text"), "routes"), "another detail");
    telling.begin();
    assert!(telling.brings_text(said("text"), "full"));
    assert!(replace(&telling, None, 1));
}

#[test]
fn what_is_settled_is_not_what_a_later_graph_wants() {
    let telling = telling();
    replace(&telling, Some("old"), 1);
    let taken = telling.wanted(&route()).unwrap();
    replace(&telling, Some("new"), 2);
    telling.settle(&route(), &taken);
    assert_eq!(telling.wanted(&route()).map(|wanted| wanted.pending.said), Some(said("new")));
    let taken = telling.wanted(&route()).unwrap();
    telling.settle(&route(), &taken);
    assert!(telling.wanted(&route()).is_none());
}

#[test]
fn an_object_that_was_made_anew_is_another() {
    let telling = telling();
    replace(&telling, Some("new"), 1);
    write(&telling, 5);
    telling.replace(graph(Some("new"), "another"), &Versions::at(1));
    assert!(telling.wanted(&route()).is_some());
}

#[test]
fn what_the_watch_has_passed_is_written_again() {
    let telling = telling();
    replace(&telling, Some("new"), 1);
    write(&telling, 5);
    replace(&telling, Some("new"), 4);
    assert!(telling.wanted(&route()).is_none(), "the watch is behind");
    // It shows the object as something has left it since.
    replace(&telling, Some("new"), 5);
    assert!(telling.wanted(&route()).is_some());
}
