use super::super::Format;
use super::super::hub::tests::{kind, scripted, status};
use super::super::view::{Rows, View};
use super::*;

fn refused(code: u16) -> watcher::Error {
    watcher::Error::WatchError(serde_json::from_value(status(code)).unwrap())
}

#[tokio::test]
async fn only_what_keeps_the_watch_from_going_on_is_a_failure() {
    let hub = scripted(Vec::new());
    assert!(failure(&hub, &kind(), refused(410)).is_none());
    let said = |code| failure(&hub, &kind(), refused(code)).map(|failure| (failure.text, failure.forbidden));
    let text = |code| format!("cannot watch RateLimitPolicy on the hub at https://hub: no ({code})");
    assert_eq!(said(403), Some((text(403), true)));
    assert_eq!(said(500), Some((text(500), false)));
}

#[test]
fn an_outage_is_said_once_and_ends_with_the_last_kind() {
    let mut outage = Outage::default();
    assert!(!outage.ends("a"));
    assert!(outage.is_new("a".into(), "away"));
    assert!(!outage.is_new("b".into(), "away") && !outage.is_new("a".into(), "away"));
    assert!(outage.is_on() && !outage.ends("a") && outage.ends("b") && !outage.ends("b"));
    assert!(outage.is_new("a".into(), "away"));
}

#[test]
fn a_list_counts_once_it_is_complete() {
    let object = |name: &str| {
        let object = serde_json::json!({"metadata": {"name": name, "namespace": "shop"}});
        serde_json::from_value::<DynamicObject>(object).unwrap()
    };
    let view = View { rows: Rows::Policies, namespaces: false, wide: false, differences: None };
    let mut shown = Shown::new(view, Format::Table, false);
    let watched = Watched::Policies(kind());
    let mut seen = Seen::default();
    let first = seen.changes(&watched, Event::Apply(object("gone")), &shown);
    shown.news(first, Timestamp::now()).unwrap();
    for event in [Event::InitApply(object("cut short")), Event::Init, Event::InitApply(object("new"))] {
        assert!(seen.changes(&watched, event, &shown).is_empty());
    }
    let changes = seen.changes(&watched, Event::InitDone, &shown);
    let names: Vec<_> = changes.iter().map(|(key, report)| (key.name.as_str(), report.is_some())).collect();
    assert_eq!(names, [("gone", false), ("new", true)]);
}
