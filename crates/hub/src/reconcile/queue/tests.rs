use super::*;

/// A namespace and a name. An empty namespace means first priority; the prefix `batched` of a name makes the key
/// batched.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Named(String, String);

impl Key for Named {
    const CATEGORIES: &'static [&'static str] = &["named"];

    fn category(&self) -> &'static str {
        "named"
    }

    fn priority(&self) -> Priority {
        if self.0.is_empty() { Priority::High } else { Priority::Fair(self.0.as_str().into()) }
    }

    fn is_batched(&self) -> bool {
        self.1.starts_with("batched")
    }
}

const WINDOW: Duration = Duration::from_secs(1);

fn queue() -> Queue<Named> {
    Queue::new(WINDOW, Metrics::new().unwrap())
}

fn key(name: &str) -> Named {
    Named(String::new(), name.to_owned())
}

async fn idle(queue: &Queue<Named>, time: Duration) -> bool {
    tokio::time::timeout(time, queue.next()).await.is_err()
}

#[tokio::test(start_paused = true)]
async fn queue_holds_each_key_once() {
    let queue = queue();
    queue.add(key("a"));
    queue.add(key("a"));
    assert_eq!(queue.next().await, key("a"));
    assert!(idle(&queue, Duration::from_secs(3600)).await);
}

#[tokio::test(start_paused = true)]
async fn key_added_while_active_is_queued_again_when_done() {
    let queue = queue();
    queue.add(key("a"));
    let taken = queue.next().await;
    queue.add(key("a"));
    assert!(idle(&queue, Duration::from_secs(3600)).await);
    queue.done(&taken);
    assert_eq!(queue.next().await, key("a"));
}

#[tokio::test(start_paused = true)]
async fn failures_back_off_and_a_change_skips_the_backoff() {
    let queue = queue();
    queue.add(key("a"));
    for failure in 0..4 {
        let taken = queue.next().await;
        queue.failed(&taken);
        let wait = backoff(&key("a"), failure);
        let longest = FIRST_BACKOFF * (1 << failure);
        assert!((longest.mul_f64(1.0 - JITTER)..=longest).contains(&wait), "{wait:?}");
        assert!(idle(&queue, wait - Duration::from_millis(1)).await);
    }
    queue.add(key("a"));
    assert!(!idle(&queue, Duration::ZERO).await);
}

#[test]
fn keys_that_fail_together_are_retried_at_different_times() {
    let waits: Vec<Duration> = (0..100).map(|number| backoff(&key(&number.to_string()), 20)).collect();
    let (first, last) = (waits.iter().min().unwrap(), waits.iter().max().unwrap());
    assert!(*last <= LONGEST_BACKOFF && *last - *first > LONGEST_BACKOFF / 5, "{first:?} {last:?}");
}

#[tokio::test(start_paused = true)]
async fn failures_before_the_retry_do_not_extend_the_backoff() {
    let queue = queue();
    queue.add(key("a"));
    let taken = queue.next().await;
    queue.failed(&taken);
    for _ in 0..20 {
        queue.add(key("a"));
        let taken = queue.next().await;
        queue.failed(&taken);
    }
    assert!(idle(&queue, backoff(&taken, 0) - Duration::from_millis(1)).await);
    assert!(!idle(&queue, Duration::from_millis(2)).await, "each of these was a failure of its own");
}

#[tokio::test(start_paused = true)]
async fn delayed_key_keeps_its_first_due_time() {
    let queue = queue();
    queue.add_after(key("a"), Duration::from_secs(1));
    tokio::time::advance(Duration::from_millis(900)).await;
    queue.add_after(key("a"), Duration::from_secs(1));
    assert!(!idle(&queue, Duration::from_millis(101)).await);
    assert!(idle(&queue, Duration::from_secs(3600)).await);
}

#[tokio::test(start_paused = true)]
async fn changes_within_the_window_are_batched() {
    let queue = queue();
    for _ in 0..10 {
        queue.enqueue([key("batched")]);
        tokio::time::advance(WINDOW / 20).await;
    }
    queue.enqueue([key("a")]);
    assert_eq!(queue.next().await, key("a"));
    assert!(idle(&queue, WINDOW / 2 - Duration::from_millis(1)).await);
    assert_eq!(queue.next().await, key("batched"));
    assert!(idle(&queue, Duration::from_secs(3600)).await);
}

#[tokio::test(start_paused = true)]
async fn idle_waits_until_the_queue_is_empty_or_the_limit_is_reached() {
    let queue = queue();
    let begin = Instant::now();
    queue.add_after(key("a"), Duration::from_secs(5));
    queue.idle(Duration::from_secs(3600)).await;
    assert_eq!(begin.elapsed(), Duration::ZERO, "what waits for its time keeps nobody");
    queue.add(key("b"));
    queue.idle(Duration::from_secs(1)).await;
    assert_eq!(begin.elapsed(), Duration::from_secs(1));
    let taken = queue.next().await;
    let working = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        queue.add(key("b"));
        queue.done(&taken);
        let re_added = queue.next().await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        queue.failed(&re_added);
    };
    tokio::join!(working, queue.idle(Duration::from_secs(3600)), queue.idle(Duration::from_secs(3600)));
    assert_eq!(begin.elapsed(), Duration::from_secs(3));
}

#[tokio::test(start_paused = true)]
async fn first_priority_keys_are_taken_first() {
    let queue = queue();
    queue.add(in_turn("calm", "a"));
    queue.add(key("first"));
    assert_eq!(queue.next().await, key("first"));
    assert_eq!(queue.next().await, in_turn("calm", "a"));
}

fn in_turn(namespace: &str, name: &str) -> Named {
    Named(namespace.to_owned(), name.to_owned())
}

#[tokio::test(start_paused = true)]
async fn namespace_with_many_keys_takes_turns_with_others() {
    let queue = queue();
    (0..1_000).for_each(|n| queue.add(in_turn("busy", &n.to_string())));
    for name in ["a", "b"] {
        queue.add(in_turn("calm", name));
    }
    let mut taken = Vec::new();
    for _ in 0..5 {
        taken.push(queue.next().await);
    }
    let turns = [("busy", "0"), ("calm", "a"), ("busy", "1"), ("calm", "b"), ("busy", "2")];
    assert_eq!(taken, turns.map(|(namespace, name)| in_turn(namespace, name)));
}

#[tokio::test(start_paused = true)]
async fn namespaces_without_keys_use_no_memory() {
    let queue = queue();
    for n in 0..1_000 {
        queue.add(in_turn(&n.to_string(), "a"));
        queue.add(in_turn(&n.to_string(), "b"));
    }
    for _ in 0..2_000 {
        let key = queue.next().await;
        queue.done(&key);
    }
    let state = queue.state.lock();
    assert_eq!(state.ready.group_counts(), (0, 0));
}
