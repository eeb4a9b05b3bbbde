use super::*;

fn soon(milliseconds: u64) -> Instant {
    Instant::now() + Duration::from_millis(milliseconds)
}

#[tokio::test]
async fn earliest_due_time_wins() {
    let mut queue = Queue::default();
    let (early, late) = (soon(10), soon(20));
    queue.add("a".into(), late);
    queue.add("a".into(), early);
    queue.add("a".into(), late);
    assert_eq!(queue.next(), Some(early));
    assert_eq!(queue.take(early), Some("a".into()));
    assert_eq!(queue.take(late), None);
}

#[tokio::test]
async fn a_name_never_runs_twice_at_once() {
    let mut queue = Queue::default();
    let now = soon(0);
    queue.add("a".into(), now);
    assert_eq!(queue.take(now), Some("a".into()));
    queue.add("a".into(), now);
    assert_eq!((queue.take(now), queue.next()), (None, None));
    queue.done("a".into(), None);
    assert_eq!(queue.take(now), Some("a".into()));
}

#[tokio::test]
async fn backs_off_until_it_is_reset() {
    let mut backoff = Backoff::new(Duration::from_millis(5), Duration::from_millis(30));
    let delays: Vec<_> = (0..5).map(|_| backoff.failed("a").as_millis()).collect();
    assert_eq!(delays, [5, 10, 20, 30, 30]);
    assert_eq!(backoff.failed("b").as_millis(), 5);
    backoff.forget("a");
    assert_eq!(backoff.failed("a").as_millis(), 5);
}

#[tokio::test]
async fn drives_until_it_is_stopped() {
    let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
    let (seen, mut runs) = tokio::sync::mpsc::unbounded_channel();
    let stop = CancellationToken::new();
    let driver = tokio::spawn(drive(receiver, 2, stop.clone(), move |name| {
        let seen = seen.clone();
        async move {
            seen.send(name).ok()?;
            Some(Duration::from_millis(1))
        }
    }));
    sender.send("a".into()).unwrap();
    for _ in 0..3 {
        assert_eq!(runs.recv().await, Some("a".into()));
    }
    stop.cancel();
    driver.await.unwrap();
}
