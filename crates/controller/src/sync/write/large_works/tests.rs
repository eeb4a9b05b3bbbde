use futures::FutureExt;
use serde_json::json;

use super::*;
use policy_sync_sync::testing::objects::{policy, policy_origin};
use policy_sync_sync::testing::sizes::{TENTH, fleet, varied};
use policy_sync_sync::testing::world::World;

fn actions(world: &World) -> Vec<WorkAction> {
    world.diff_of(&policy_origin("limits")).actions
}

#[test]
fn large_works_in_flight_are_limited_and_small_works_never_wait() {
    let large_works = LargeWorkLimits::new();
    let large = policy("limits").targets("web").spec("text", json!("x".repeat(480_000)));
    let large = actions(&fleet().with(large));
    let under_way: Vec<_> =
        large.iter().map_while(|action| large_works.memory(action).now_or_never()).collect();
    let bytes: usize = large.iter().take(under_way.len()).map(WorkAction::bytes).sum();
    assert!((7 << 20..=8 << 20).contains(&bytes), "{bytes} bytes in {} works", under_way.len());
    let small = actions(&fleet().with(policy("limits").targets("web")));
    assert!(small.iter().all(|action| large_works.memory(action).now_or_never().is_some()));
    drop(under_way);
    assert!(large_works.memory(&large[0]).now_or_never().is_some());
}

#[tokio::test]
async fn works_not_kept_in_memory_are_built_one_at_a_time_when_sent() {
    let large_works = LargeWorkLimits::new();
    let action = &actions(&fleet().with(varied(TENTH)))[0];
    assert!(!action.is_in_memory());
    let turn = large_works.turn().await;
    let mut request = Box::pin(large_works.request(action));
    assert!((&mut request).now_or_never().is_none(), "something else is made");
    drop(turn);
    assert_eq!(request.await.unwrap().body(), works::request(action).unwrap().body());
}
