use super::*;
use crate::api::names::{ObjectKey, Parent};

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

fn of_policy(name: &str) -> Parent {
    Parent::new("kuadrant.io", "ratelimitpolicies", "shop", name)
}

#[tokio::test(start_paused = true)]
async fn folds_give_way_for_a_while_to_works_that_are_written() {
    let fold = Key::Fold(of_policy("a"));
    // Works of which nothing is written are none to give way to.
    let queue = queue();
    queue.add(fold.clone());
    assert_eq!(queue.next().await, fold);
    queue.done(&fold);

    let writing = [queue.writing(), queue.writing()];
    queue.add(fold.clone());
    assert!(idle(&queue, FOLDS_GIVE_WAY / 2).await);
    let [one, another] = writing;
    drop(one);
    assert!(idle(&queue, FOLDS_GIVE_WAY / 4).await);
    drop(another);
    assert!(!idle(&queue, Duration::ZERO).await);
    queue.done(&fold);

    // However long that takes.
    let _writing = queue.writing();
    queue.add(fold.clone());
    let before = Instant::now();
    assert_eq!(queue.next().await, fold);
    assert_eq!(before.elapsed(), FOLDS_GIVE_WAY);
}

#[tokio::test(start_paused = true)]
async fn folds_that_have_given_way_take_turns_with_works() {
    let queue = queue();
    let _writing = queue.writing();
    for name in ["a", "b", "c"] {
        queue.add(Key::Fold(of_policy(name)));
        queue.add(Key::Works(of_policy(name)));
    }
    assert_eq!(queue.next().await, Key::Works(of_policy("a")));
    tokio::time::advance(FOLDS_GIVE_WAY).await;
    assert_eq!(queue.next().await, Key::Fold(of_policy("a")));
    assert_eq!(queue.next().await, Key::Works(of_policy("b")));
    assert_eq!(queue.next().await, Key::Fold(of_policy("b")));
    assert_eq!(queue.next().await, Key::Works(of_policy("c")));
    assert_eq!(queue.next().await, Key::Fold(of_policy("c")));
    assert!(idle(&queue, Duration::from_secs(3600)).await);
}
