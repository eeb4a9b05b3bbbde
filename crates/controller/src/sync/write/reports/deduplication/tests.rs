use super::*;
use policy_sync_sync::testing::objects::policy_origin;

fn notice(reason: NoticeReason, clusters: &[&str]) -> Notice {
    let note = format!("on {}", clusters.join(", "));
    let clusters = clusters.iter().map(|cluster| ClusterName::from(*cluster)).collect();
    Notice { reason, clusters, note }
}

fn synced(clusters: usize) -> Notice {
    Notice { note: format!("on {clusters}"), ..notice(NoticeReason::Synced, &[]) }
}

fn reasons(deduplication: &Deduplication, notices: &[Notice], at: i64) -> Vec<&'static str> {
    let (due_notices, _) =
        deduplication.due_notices(&policy_origin("limits"), notices.to_vec(), false, Moment(at));
    due_notices.into_iter().map(|notice| notice.reason.as_str()).collect()
}

const NOTHING: [&str; 0] = [];
const MINUTE: i64 = 60_000;

#[test]
fn unchanged_state_is_reported_once() {
    let deduplication = Deduplication::default();
    let overridden = [notice(NoticeReason::Overridden, &["eu-1", "us-1"])];
    assert_eq!(reasons(&deduplication, &overridden, 0), ["Overridden"]);
    assert_eq!(reasons(&deduplication, &overridden, 2 * MINUTE), NOTHING);
    assert_eq!(
        reasons(&deduplication, &[notice(NoticeReason::Overridden, &["eu-1"])], 3 * MINUTE),
        NOTHING,
        "fewer"
    );
    assert_eq!(reasons(&deduplication, &overridden, 4 * MINUTE), ["Overridden"], "more again");
    assert_eq!(reasons(&deduplication, &[], 5 * MINUTE), NOTHING);
    assert_eq!(reasons(&deduplication, &overridden, 6 * MINUTE), ["Overridden"], "again");
}

#[test]
fn reason_is_reported_at_most_once_a_minute_with_all_clusters() {
    let deduplication = Deduplication::default();
    assert_eq!(reasons(&deduplication, &[notice(NoticeReason::Stuck, &["eu-1"])], 0), ["Stuck"]);
    let more = vec![notice(NoticeReason::Stuck, &["eu-1", "us-1"])];
    let (due_notices, next) =
        deduplication.due_notices(&policy_origin("limits"), more.clone(), false, Moment(1));
    assert_eq!((due_notices, next), (vec![], Some(Moment(MINUTE))));
    assert_eq!(
        reasons(&deduplication, &[notice(NoticeReason::Overridden, &["eu-1"]), more[0].clone()], 2),
        ["Overridden"]
    );
    let (due_notices, next) =
        deduplication.due_notices(&policy_origin("limits"), more.clone(), false, Moment(MINUTE));
    assert_eq!((due_notices, next), (more, None));
}

#[test]
fn good_state_is_reported_for_changed_objects_only() {
    let deduplication = Deduplication::default();
    assert_eq!(reasons(&deduplication, &[synced(2)], 0), NOTHING, "it may have been so for long");
    assert_eq!(reasons(&deduplication, &[synced(3)], 1), ["Synced"], "one more cluster");
    let (due_notices, _) =
        Deduplication::default().due_notices(&policy_origin("quota"), vec![synced(2)], true, Moment(0));
    assert_eq!(due_notices, [synced(2)]);
    deduplication.forget(&policy_origin("limits"));
    assert_eq!(reasons(&deduplication, &[synced(2)], 2 * MINUTE), NOTHING);
}
