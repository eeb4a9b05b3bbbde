use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;

use super::*;
use policy_sync_api::tenant::Tenant;

const LONG: Duration = Duration::from_secs(1);
const SHORT: Duration = Duration::from_millis(5);
/// After this time, the cost of every tenant's evaluations is known.
const WARM: Duration = Duration::from_secs(3);

fn requester(namespace: &str, kind: &str) -> Requester {
    Requester { tenant: Tenant::namespace(namespace), member: "user".into(), kind: kind.into() }
}

/// Runs evaluations of this length back to back in a number of threads.
fn keep_busy(
    tasks: &mut JoinSet<()>,
    evaluation_slots: &EvaluationSlots,
    requester: &Requester,
    threads: usize,
    length: Duration,
) {
    for _ in 0..threads {
        let (evaluation_slots, requester) = (evaluation_slots.clone(), requester.clone());
        tasks.spawn(async move {
            loop {
                let slot = evaluation_slots.acquire(requester.clone()).await;
                sleep(length).await;
                slot.into_iter().for_each(|slot| slot.finish(length >= LONG));
            }
        });
    }
}

/// The longest wait of 100 evaluations of this length, one after another.
async fn longest_wait(
    evaluation_slots: &EvaluationSlots,
    requester: &Requester,
    length: Duration,
) -> Duration {
    let mut longest = Duration::ZERO;
    for _ in 0..100 {
        let began = Instant::now();
        let slot = evaluation_slots.acquire(requester.clone()).await.expect("too many wait");
        longest = longest.max(began.elapsed());
        sleep(length).await;
        slot.finish(false);
        sleep(3 * SHORT).await;
    }
    longest
}

#[tokio::test(start_paused = true)]
async fn long_evaluations_of_one_namespace_delay_no_other_of_the_same_kind() {
    for slots in [1, 2, 4, 64] {
        let (evaluation_slots, mut tasks) = (EvaluationSlots::new(slots), JoinSet::new());
        keep_busy(&mut tasks, &evaluation_slots, &requester("hostile", "ingresses"), 16, LONG);
        sleep(WARM).await;
        let longest = longest_wait(&evaluation_slots, &requester("shop", "ingresses"), SHORT).await;
        assert!(longest <= SHORT, "{longest:?} with {slots} slots");
    }
}

#[tokio::test(start_paused = true)]
async fn long_evaluations_of_many_namespaces_delay_short_ones_of_no_other() {
    let (evaluation_slots, mut tasks) = (EvaluationSlots::new(2), JoinSet::new());
    for number in 0..40 {
        keep_busy(
            &mut tasks,
            &evaluation_slots,
            &requester(&format!("hostile-{number}"), "ingresses"),
            4,
            LONG,
        );
    }
    // The first evaluation of each namespace is not known to be long.
    sleep(40 * LONG).await;
    let longest = longest_wait(&evaluation_slots, &requester("shop", "ingresses"), SHORT).await;
    assert!(longest <= SHORT, "{longest:?}");
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_runs_out_of_time_for_every_namespace_delays_no_other_kind() {
    let (evaluation_slots, mut tasks) = (EvaluationSlots::new(2), JoinSet::new());
    tasks.spawn({
        let (evaluation_slots, mut newcomers) = (evaluation_slots.clone(), JoinSet::new());
        async move {
            for number in 0.. {
                // Each namespace is new, so the cost of its evaluations is unknown.
                keep_busy(
                    &mut newcomers,
                    &evaluation_slots,
                    &requester(&number.to_string(), "services"),
                    1,
                    LONG,
                );
                sleep(LONG / 8).await;
            }
        }
    });
    sleep(10 * LONG).await;
    let longest = longest_wait(&evaluation_slots, &requester("shop", "pods"), SHORT).await;
    assert!(longest <= SHORT, "{longest:?}");
}

#[tokio::test(start_paused = true)]
async fn many_short_evaluations_of_one_namespace_delay_no_other() {
    let (evaluation_slots, mut tasks) = (EvaluationSlots::new(2), JoinSet::new());
    keep_busy(&mut tasks, &evaluation_slots, &requester("hostile", "pods"), 200, SHORT);
    sleep(WARM).await;
    let longest = longest_wait(&evaluation_slots, &requester("shop", "pods"), SHORT).await;
    assert!(longest <= 2 * SHORT, "{longest:?}");
}

#[tokio::test(start_paused = true)]
async fn long_evaluations_of_a_tenant_leave_a_slot_for_its_other_kinds() {
    let (evaluation_slots, mut tasks) = (EvaluationSlots::new(2), JoinSet::new());
    keep_busy(&mut tasks, &evaluation_slots, &requester("shop", "ingresses"), 16, LONG);
    sleep(WARM).await;
    let longest = longest_wait(&evaluation_slots, &requester("shop", "pods"), SHORT).await;
    // The first evaluation of a kind may be long, so it waits for a slot in the tenant's share of long evaluations.
    assert!(longest <= LONG, "{longest:?}");
    let longest = longest_wait(&evaluation_slots, &requester("shop", "pods"), SHORT).await;
    assert!(longest <= SHORT, "{longest:?}");
}

#[tokio::test(start_paused = true)]
async fn unused_turn_passes_to_the_next_waiter() {
    let evaluation_slots = EvaluationSlots::new(1);
    let held = evaluation_slots.acquire(requester("shop", "pods")).await.unwrap();
    let leaves = tokio::spawn({
        let evaluation_slots = evaluation_slots.clone();
        async move { evaluation_slots.acquire(requester("shop", "pods")).await.is_some() }
    });
    sleep(SHORT).await;
    leaves.abort();
    assert!(leaves.await.is_err());
    drop(held);
    assert!(evaluation_slots.acquire(requester("shop", "pods")).await.is_some());
    let schedule = evaluation_slots.0.lock();
    assert_eq!((schedule.waiting(), schedule.tenants()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn cancelled_waiters_free_their_places() {
    let (evaluation_slots, mut tasks) = (EvaluationSlots::new(1), JoinSet::new());
    let _held = evaluation_slots.acquire(requester("shop", "pods")).await.unwrap();
    keep_busy(&mut tasks, &evaluation_slots, &requester("shop", "pods"), MAX_WAITING, SHORT);
    sleep(SHORT).await;
    assert_eq!(evaluation_slots.0.lock().waiting(), MAX_WAITING);
    assert!(evaluation_slots.acquire(requester("shop", "pods")).await.is_none());
    tasks.shutdown().await;
    let waits = evaluation_slots.acquire(requester("shop", "pods"));
    assert!(tokio::time::timeout(SHORT, waits).await.is_err(), "its tenant has its share of slots");
    assert_eq!(evaluation_slots.0.lock().waiting(), 1);
}
