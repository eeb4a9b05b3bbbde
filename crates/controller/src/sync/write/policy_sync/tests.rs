use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use futures::FutureExt;
use http::Request;
use kube::Client;
use kube::client::Body;
use tokio::sync::{Semaphore, watch};

use super::*;
use policy_sync_api::moment::Moment;
use policy_sync_hub::clock::Clock;
use policy_sync_hub::reconcile::{Leadership, Queue};
use policy_sync_hub::tasks::Tasks;
use policy_sync_hub::telemetry::metrics::Metrics;
use policy_sync_sync::Mirror;
use policy_sync_sync::kinds::WORKS;
use policy_sync_sync::testing::objects::{gateway_origin, policy, policy_origin};
use policy_sync_sync::testing::sizes::{TENTH, fleet, varied};
use policy_sync_sync::testing::world::{World, shop};

/// A `PolicySync` with the objects of `world` and a hub that never responds.
fn sync(world: World) -> (PolicySync, Arc<Mirror>) {
    let serve = |_: Request<Body>| std::future::pending::<Result<http::Response<Body>, std::io::Error>>();
    let client = Client::new(tower::service_fn(serve), "default");
    let metrics = Metrics::new().unwrap();
    let (mirror, queue) = (Arc::new(world.mirror), Arc::new(Queue::new(Duration::ZERO, metrics.clone())));
    let options = PolicySyncOptions {
        settings: world.settings,
        leadership: Leadership::always(),
        wanted: watch::channel(Default::default()).0,
        others: watch::channel(Default::default()).0,
        covered: watch::channel(None).0,
        tasks: Tasks::new(metrics.clone()),
        hub_metrics: HubMetrics::new(&metrics).unwrap(),
    };
    let clock = Clock::starting_at(Moment(world.now));
    (PolicySync::new(client, mirror.clone(), queue, clock, metrics, options), mirror)
}

#[tokio::test]
async fn large_copies_are_built_without_holding_the_slot_or_the_mirror() {
    let (sync, mirror) = sync(fleet().with(varied(TENTH)));
    let (limits, slots) = (policy_origin("limits"), Arc::new(Semaphore::new(1)));
    let mut slot = Some(slots.clone().acquire_owned().await);
    let turn = sync.large_works.turn().await;
    {
        let mut built = Box::pin(sync.build_ahead(&limits, &mut slot));
        assert!((&mut built).now_or_never().is_none(), "it waits for its turn");
        assert_eq!(slots.available_permits(), 1, "it keeps others from being worked on");
        // `bookmark` would deadlock if `build_ahead` still held the lock on the mirror.
        mirror.bookmark(&WORKS.all(), u64::MAX);
        drop(turn);
        assert!(built.await);
    }
    let unbuilt = policy_sync_sync::desired::ahead::unbuilt_copies(
        mirror.read().view(sync.clock.now()),
        &sync.settings,
        &limits,
    );
    assert!(unbuilt.is_empty(), "the plan would make it again");
}

#[tokio::test]
async fn quick_plan_keeps_its_slot() {
    let (sync, _) = sync(fleet().with(varied((2_000, 7_000))));
    let slots = Arc::new(Semaphore::new(1));
    let mut slot = Some(slots.clone().acquire_owned().await);
    let _turn = sync.large_works.turn().await;
    assert_eq!(sync.build_ahead(&policy_origin("limits"), &mut slot).now_or_never(), Some(true));
    assert_eq!(slots.available_permits(), 0);
}

#[tokio::test]
async fn new_gateway_waits_for_policy_delete_that_began_during_its_decision() {
    let (web, limits) = (gateway_origin("web"), policy_origin("limits"));
    let keys = [&web, &limits].map(|origin| Key::Works(origin.clone()));
    let world = shop(&["eu-1"]).with(policy("limits").targets("web")).settled(std::slice::from_ref(&limits));
    let (sync, _) = sync(world.without(policy("limits")));
    let deletes: Vec<_> =
        sync.decide_works(&keys[1], &limits).deletes.into_iter().map(|delete| delete.action).collect();
    assert_eq!(deletes.len(), 1);
    sync.expectations.note(&keys[1], OwnWrites::clear_in_flight);
    assert_eq!(sync.decide_works(&keys[0], &web).writes.len(), 1, "nothing passes it");
    sync.expectations.note(&keys[0], OwnWrites::clear_in_flight);

    // The test holds the lock as the policy's key does, so that the Gateway's key has to wait.
    let transition_lock = sync.transition_lock.lock();
    let creates = thread::scope(|scope| {
        let creates = scope.spawn(|| sync.decide_works(&keys[0], &web).writes);
        let began = Instant::now();
        while !creates.is_finished() && began.elapsed() < Duration::from_millis(100) {
            thread::yield_now();
        }
        sync.expectations.note(&keys[1], |own| own.record_in_flight(&deletes));
        drop(transition_lock);
        creates.join().unwrap()
    });
    assert!(creates.is_empty(), "{creates:?}");
}
