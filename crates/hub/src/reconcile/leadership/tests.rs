use std::time::Duration;

use futures::FutureExt;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use tokio::time::{Instant, advance};

use super::record::{self, Observed};
use super::{Leadership, LeadershipChange, Terms};

const DURATION: Duration = Duration::from_secs(15);

fn held_by(identity: &str, renewed: i64) -> Lease {
    record::held(record::new("lease"), identity, DURATION, Timestamp::from_second(renewed).unwrap())
}

fn taken_after(observed: &mut Observed, lease: &Lease, seconds: u64, start: Instant) -> bool {
    observed.may_be_taken(lease, start + Duration::from_secs(seconds))
}

#[test]
fn a_lease_is_taken_once_its_holder_has_been_silent_for_its_duration() {
    let (start, mut observed) = (Instant::now(), Observed::default());
    // By the clock of its holder it was renewed years ago, or will be in years.
    for renewed in [0, 10_000_000_000] {
        let lease = held_by("other", renewed);
        assert!(!taken_after(&mut observed, &lease, 100, start));
        assert!(!taken_after(&mut observed, &lease, 114, start));
        assert!(taken_after(&mut observed, &lease, 115, start));
    }
}

#[test]
fn a_renewal_starts_the_duration_anew() {
    let (start, mut observed) = (Instant::now(), Observed::default());
    assert!(!taken_after(&mut observed, &held_by("other", 0), 0, start));
    assert!(!taken_after(&mut observed, &held_by("other", 1), 14, start));
    assert!(!taken_after(&mut observed, &held_by("other", 1), 28, start));
    assert!(taken_after(&mut observed, &held_by("other", 1), 29, start));
}

#[test]
fn a_lease_that_was_never_held_or_given_back_is_taken_at_once() {
    let (start, mut observed) = (Instant::now(), Observed::default());
    assert!(taken_after(&mut observed, &record::new("lease"), 0, start));
    let held = held_by("other", 0);
    assert!(!taken_after(&mut observed, &held, 0, start));
    assert!(taken_after(&mut observed, &record::released(held, Timestamp::UNIX_EPOCH), 0, start));
}

#[test]
fn taking_counts_a_transition_and_renewing_does_not() {
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
async fn leadership_ends_by_itself() {
    let (terms, leadership) = Terms::new();
    assert!(!leadership.leads());
    terms.extend(Instant::now() + DURATION);
    advance(DURATION - Duration::from_millis(1)).await;
    assert!(leadership.leads());
    advance(Duration::from_millis(1)).await;
    assert!(!leadership.leads());
}

#[tokio::test(start_paused = true)]
async fn a_term_that_lapsed_unseen_is_followed_by_a_new_one() {
    let (terms, mut leadership) = Terms::new();
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
async fn without_rivals_it_leads_from_the_start_and_for_ever() {
    let mut leadership = Leadership::always();
    assert!(leadership.leads());
    assert_eq!(leadership.changed().now_or_never(), Some(LeadershipChange::Gained));
    assert!(leadership.changed().now_or_never().is_none());
}
