use futures::FutureExt;
use futures::future::BoxFuture;

use super::*;

type Waiting<'t> = BoxFuture<'t, Option<Turn>>;

/// One that waits for a turn of `kind`.
fn waiting<'t>(turns: &'t Turns, kind: &'t str) -> Waiting<'t> {
    let mut waiting = turns.take(kind).boxed();
    assert!(waiting.as_mut().now_or_never().is_none(), "{kind} has its turn at once");
    waiting
}

fn now(turns: &Turns, kind: &str) -> Turn {
    turns.take(kind).now_or_never().expect("its turn is not at once").expect("too many wait")
}

#[test]
fn so_many_have_their_turn_at_once_and_the_next_after_one_of_them() {
    let turns = Turns::new(2);
    let (first, second) = (now(&turns, "pods"), now(&turns, "pods"));
    let mut third = waiting(&turns, "pods");
    drop(first);
    let third = third.as_mut().now_or_never().unwrap().unwrap();
    drop((second, third));
    drop((now(&turns, "pods"), now(&turns, "pods")));
}

#[test]
fn kinds_take_turns_however_many_one_has() {
    let turns = Turns::new(1);
    let mut held = Some(now(&turns, "pods"));
    let mut pods: Vec<Waiting<'_>> = (0..10).map(|_| waiting(&turns, "pods")).collect();
    let mut service = waiting(&turns, "services");
    held.take();
    let first = pods[0].as_mut().now_or_never().unwrap();
    drop(first);
    assert!(service.as_mut().now_or_never().is_some(), "it waits for one of the others alone");
}

#[test]
fn a_kind_that_ran_out_of_time_waits_for_all_others_until_it_does_not() {
    let turns = Turns::new(1);
    now(&turns, "slow").ended("slow", true);
    let held = now(&turns, "pods");
    let mut slow = waiting(&turns, "slow");
    let mut pods: Vec<Waiting<'_>> = (0..3).map(|_| waiting(&turns, "pods")).collect();
    let mut turn = held;
    for pod in &mut pods {
        drop(turn);
        turn = pod.as_mut().now_or_never().unwrap().unwrap();
    }
    drop(turn);
    slow.as_mut().now_or_never().unwrap().unwrap().ended("slow", false);
    let held = now(&turns, "pods");
    let mut again = waiting(&turns, "slow");
    let mut pod = waiting(&turns, "pods");
    drop(held);
    drop(again.as_mut().now_or_never().expect("it still waits for all others").unwrap());
    assert!(pod.as_mut().now_or_never().is_some());
}

#[test]
fn beyond_so_many_nobody_waits_but_who_has_left_leaves_a_place() {
    let turns = Turns::new(1);
    let held = now(&turns, "pods");
    let mut all: Vec<Waiting<'_>> = (0..WAITING).map(|_| waiting(&turns, "pods")).collect();
    assert!(turns.take("pods").now_or_never().expect("it waits").is_none());
    // Another kind takes the place of the newest.
    let other = waiting(&turns, "others");
    assert!(all.pop().unwrap().as_mut().now_or_never().expect("it still waits").is_none());
    assert!(all.last_mut().unwrap().as_mut().now_or_never().is_none(), "more than one has gone");
    drop(other);
    all.truncate(1);
    let mut service = waiting(&turns, "services");
    drop(held);
    drop(all[0].as_mut().now_or_never().unwrap());
    drop(service.as_mut().now_or_never().unwrap());
    drop(now(&turns, "pods"));
    assert_eq!(turns.0.lock().waiting, 0);
}

#[test]
fn a_turn_of_one_that_has_left_is_the_next_ones() {
    let turns = Turns::new(1);
    let held = now(&turns, "pods");
    let (left, mut stays) = (waiting(&turns, "pods"), waiting(&turns, "pods"));
    drop(left);
    drop(held);
    let turn = stays.as_mut().now_or_never().unwrap();
    // It was given a turn, and leaves before it sees that.
    let leaves = waiting(&turns, "pods");
    drop(turn);
    drop(leaves);
    drop(now(&turns, "pods"));
}

#[test]
fn kinds_that_never_come_back_keep_no_place_among_the_slow() {
    let turns = Turns::new(1);
    for number in 0..2 * SLOW {
        now(&turns, "k").ended(&number.to_string(), true);
    }
    let slow = turns.0.lock().slow_kinds.clone();
    assert_eq!(
        (slow.len(), slow.back().map(|kind| &**kind)),
        (SLOW, Some((2 * SLOW - 1).to_string().as_str()))
    );
}
