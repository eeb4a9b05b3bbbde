use std::time::Duration;

use futures::FutureExt;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use tokio::time::{Instant, advance};

use super::record::{self, ObservedLease};
use super::{Leadership, LeadershipChange, TermSender};

const DURATION: Duration = Duration::from_secs(15);

fn held_by(identity: &str, renewed: i64) -> Lease {
    record::held(record::new("lease"), identity, DURATION, Timestamp::from_second(renewed).unwrap())
}

fn taken_after(observed: &mut ObservedLease, lease: &Lease, seconds: u64, start: Instant) -> bool {
    observed.may_be_acquired(lease, start + Duration::from_secs(seconds))
}

#[test]
fn lease_is_taken_if_unchanged_for_its_duration() {
    let (start, mut observed) = (Instant::now(), ObservedLease::default());
    // By the holder's clock, the renewal is years in the past or in the future.
    for renewed in [0, 10_000_000_000] {
        let lease = held_by("other", renewed);
        assert!(!taken_after(&mut observed, &lease, 100, start));
        assert!(!taken_after(&mut observed, &lease, 114, start));
        assert!(taken_after(&mut observed, &lease, 115, start));
    }
}

#[test]
fn renewal_restarts_the_duration() {
    let (start, mut observed) = (Instant::now(), ObservedLease::default());
    assert!(!taken_after(&mut observed, &held_by("other", 0), 0, start));
    assert!(!taken_after(&mut observed, &held_by("other", 1), 14, start));
    assert!(!taken_after(&mut observed, &held_by("other", 1), 28, start));
    assert!(taken_after(&mut observed, &held_by("other", 1), 29, start));
}

#[test]
fn new_or_released_lease_is_taken_at_once() {
    let (start, mut observed) = (Instant::now(), ObservedLease::default());
    assert!(taken_after(&mut observed, &record::new("lease"), 0, start));
    let held = held_by("other", 0);
    assert!(!taken_after(&mut observed, &held, 0, start));
    assert!(taken_after(&mut observed, &record::released(held, Timestamp::UNIX_EPOCH), 0, start));
}

#[test]
fn taking_a_lease_counts_as_transition_and_renewing_does_not() {
    let mut lease = held_by("one", 0);
    lease.metadata.resource_version = Some("7".to_owned());
    let renewed = record::held(lease.clone(), "one", DURATION, Timestamp::from_second(5).unwrap());
    let taken = record::held(lease.clone(), "two", DURATION, Timestamp::from_second(5).unwrap());
    let transitions = |lease: &Lease| lease.spec.as_ref().unwrap().lease_transitions;
    let acquired = |lease: &Lease| lease.spec.as_ref().unwrap().acquire_time.clone();
    assert_eq!((transitions(&renewed), acquired(&renewed)), (transitions(&lease), acquired(&lease)));
    assert_eq!(transitions(&taken), transitions(&lease).map(|before| before + 1));
    assert_ne!(acquired(&taken), acquired(&lease));
    assert_eq!(taken.resource_version(), lease.resource_version(), "it guards the write");
}

#[tokio::test(start_paused = true)]
async fn leadership_ends_when_its_time_is_over() {
    let (terms, leadership) = TermSender::new();
    assert!(!leadership.leads());
    terms.extend(Instant::now() + DURATION);
    advance(DURATION - Duration::from_millis(1)).await;
    assert!(leadership.leads());
    advance(Duration::from_millis(1)).await;
    assert!(!leadership.leads());
}

#[tokio::test(start_paused = true)]
async fn renewal_after_an_unnoticed_lapse_starts_a_new_term() {
    let (terms, mut leadership) = TermSender::new();
    terms.extend(Instant::now() + DURATION);
    assert_eq!(leadership.changed().now_or_never(), Some(LeadershipChange::Gained));
    terms.extend(Instant::now() + DURATION);
    assert!(leadership.changed().now_or_never().is_none(), "it was renewed in time");
    advance(DURATION).await;
    terms.extend(Instant::now() + DURATION);
    assert_eq!(leadership.changed().now_or_never(), Some(LeadershipChange::Gained));
    terms.end();
    assert_eq!(leadership.changed().now_or_never(), Some(LeadershipChange::Lost));
}

#[tokio::test(start_paused = true)]
async fn process_without_election_always_leads() {
    let mut leadership = Leadership::always();
    assert!(leadership.leads());
    assert_eq!(leadership.changed().now_or_never(), Some(LeadershipChange::Gained));
    assert!(leadership.changed().now_or_never().is_none());
}
