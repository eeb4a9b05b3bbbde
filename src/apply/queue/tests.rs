use super::*;
use crate::api::names::ObjectKey;

fn queue() -> Queue {
    Queue::new(Metrics::new().unwrap())
}

fn key(name: &str) -> Key {
    Key::Class(ObjectKey::new("", name))
}

async fn idle(queue: &Queue, time: Duration) -> bool {
    tokio::time::timeout(time, queue.next()).await.is_err()
}

#[tokio::test(start_paused = true)]
async fn a_key_is_there_once() {
    let queue = queue();
    queue.add(key("a"));
    queue.add(key("a"));
    assert_eq!(queue.next().await, key("a"));
    assert!(idle(&queue, Duration::from_secs(3600)).await);
}

#[tokio::test(start_paused = true)]
async fn a_key_added_while_it_is_worked_on_comes_again_after_it() {
    let queue = queue();
    queue.add(key("a"));
    let taken = queue.next().await;
    queue.add(key("a"));
    assert!(idle(&queue, Duration::from_secs(3600)).await);
    queue.done(&taken);
    assert_eq!(queue.next().await, key("a"));
}

#[tokio::test(start_paused = true)]
async fn failures_back_off_and_a_change_does_not_wait_for_it() {
    let queue = queue();
    queue.add(key("a"));
    for failure in 0..4 {
        let taken = queue.next().await;
        queue.failed(&taken);
        assert!(idle(&queue, FIRST_BACKOFF * (1 << failure) - Duration::from_millis(1)).await);
    }
    queue.add(key("a"));
    assert!(!idle(&queue, Duration::ZERO).await);
}

#[tokio::test(start_paused = true)]
async fn one_that_is_tried_sooner_waits_no_longer_for_it() {
    let queue = queue();
    queue.add(key("a"));
    let taken = queue.next().await;
    queue.failed(&taken);
    for _ in 0..20 {
        queue.add(key("a"));
        let taken = queue.next().await;
        queue.failed(&taken);
    }
    assert!(idle(&queue, FIRST_BACKOFF - Duration::from_millis(1)).await);
    assert!(!idle(&queue, Duration::from_millis(2)).await, "each of these was a failure of its own");
}

#[tokio::test(start_paused = true)]
async fn a_delayed_key_keeps_its_first_moment() {
    let queue = queue();
    queue.add_after(key("a"), Duration::from_secs(1));
    tokio::time::advance(Duration::from_millis(900)).await;
    queue.add_after(key("a"), Duration::from_secs(1));
    assert!(!idle(&queue, Duration::from_millis(101)).await);
    assert!(idle(&queue, Duration::from_secs(3600)).await);
}
