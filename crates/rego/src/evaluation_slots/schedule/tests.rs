use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn requester(namespace: &str, member: &str, kind: &str) -> Requester {
    Requester { tenant: Tenant::namespace(namespace), member: member.into(), kind: kind.into() }
}

fn of(namespace: &str) -> Requester {
    requester(namespace, "user", "pods")
}

/// A schedule with this number of slots in which evaluations of Pods by these tenants are known to be short.
fn knowing(slots: usize, namespaces: &[&str], now: Instant) -> Schedule<u32> {
    let mut schedule = Schedule::new(slots);
    for namespace in namespaces {
        schedule.push(of(namespace), 0).unwrap();
        let (ticket, _) = schedule.pop(now).unwrap();
        schedule.end(&ticket, Some(false), now);
    }
    schedule
}

#[test]
fn tenants_share_time_not_counts() {
    let (now, mut clock) = (Instant::now(), Duration::ZERO);
    let mut schedule = knowing(1, &["slow", "quick"], now);
    let [mut slow, mut quick] = [0_u32; 2];
    for number in 0..20 {
        schedule.push(of("slow"), number).unwrap();
    }
    for number in 100..250 {
        schedule.push(of("quick"), number).unwrap();
    }
    while clock < 2 * SECOND {
        let (ticket, number) = schedule.pop(now + clock).unwrap();
        let length = if number < 100 { Duration::from_millis(40) } else { Duration::from_millis(10) };
        clock += length;
        *(if number < 100 { &mut slow } else { &mut quick }) += 1;
        schedule.end(&ticket, Some(false), now + clock);
        if number >= 100 {
            schedule.push(of("quick"), number).unwrap();
        } else {
            schedule.push(of("slow"), number).unwrap();
        }
    }
    // Each tenant gets one second: for 25 evaluations of 40 ms, or 100 evaluations of 10 ms.
    assert!((24..=27).contains(&slow) && (96..=105).contains(&quick), "{slow} slow, {quick} quick");
}

#[test]
fn tenant_has_a_limited_share_of_slots() {
    let now = Instant::now();
    for (slots, unknown, short) in [(1, 1, 1), (2, 1, 2), (4, 2, 4), (8, 4, 8)] {
        let begins = |schedule: &mut Schedule<u32>| {
            for number in 0..100 {
                schedule.push(of("shop"), number).unwrap();
            }
            std::iter::from_fn(|| schedule.pop(now)).count()
        };
        assert_eq!(begins(&mut Schedule::new(slots)), unknown, "unknown, {slots} slots");
        let mut schedule = knowing(slots, &["shop"], now);
        assert_eq!(begins(&mut schedule), short, "short, {slots} slots");
        for namespace in ["one", "other", "third"] {
            schedule.push(of(namespace), 0).unwrap();
        }
        assert!(schedule.pop(now).is_some() && schedule.pop(now).is_some(), "nothing is left to others");
        assert!(schedule.pop(now).is_none(), "more than two run beside {slots} slots");
    }
}

#[test]
fn long_evaluations_of_all_tenants_together_leave_a_slot() {
    let (now, mut schedule) = (Instant::now(), Schedule::new(2));
    for namespace in ["a", "b", "c"] {
        schedule.push(of(namespace), 0).unwrap();
        let (ticket, _) = schedule.pop(now).unwrap();
        schedule.end(&ticket, Some(true), now + SECOND);
    }
    let now = now + SECOND;
    for namespace in ["a", "b", "c"] {
        schedule.push(of(namespace), 0).unwrap();
    }
    let tickets: Vec<_> = std::iter::from_fn(|| schedule.pop(now)).collect();
    assert_eq!(tickets.len(), 2);
    schedule.push(of("shop"), 1).unwrap();
    let (ticket, number) = schedule.pop(now).expect("long ones have all slots");
    assert_eq!((number, ticket.cost), (1, Cost::Unknown));
}

#[test]
fn members_of_a_tenant_take_turns_and_so_do_its_kinds() {
    let now = Instant::now();
    let mut schedule = knowing(1, &["shop"], now);
    schedule.push(of("shop"), 0).unwrap();
    let (mut held, _) = schedule.pop(now).unwrap();
    for number in 0..10 {
        schedule.push(requester("shop", "many", "pods"), number).unwrap();
    }
    schedule.push(requester("shop", "one", "pods"), 100).unwrap();
    schedule.push(requester("shop", "many", "services"), 200).unwrap();
    let mut order = Vec::new();
    for _ in 0..4 {
        schedule.end(&held, Some(false), now);
        let (next, number) = schedule.pop(now).unwrap();
        held = next;
        order.push(number);
    }
    assert_eq!(order, [0, 200, 100, 1]);
}

#[test]
fn full_queue_drops_the_newest_waiter_of_the_busiest_tenant() {
    let now = Instant::now();
    let mut schedule = Schedule::new(1);
    schedule.push(of("many"), 0).unwrap();
    let (held, _) = schedule.pop(now).unwrap();
    for number in 0..256 {
        schedule.push(of("many"), number).unwrap();
    }
    assert_eq!(schedule.push(of("many"), 999), Err(999));
    schedule.push(of("other"), 1_000).unwrap();
    assert_eq!(schedule.waiting(), MAX_WAITING);
    let mut left = Vec::new();
    schedule.end(&held, Some(false), now);
    while let Some((ticket, number)) = schedule.pop(now) {
        left.push(number);
        schedule.end(&ticket, Some(false), now);
    }
    assert_eq!((left.len(), left.contains(&255), left.contains(&1_000)), (MAX_WAITING, false, true));
}

#[test]
fn tenant_without_waiters_displaces_one_with_a_higher_charge() {
    let (now, mut schedule) = (Instant::now(), Schedule::new(1));
    for number in 0..256 {
        let namespace = format!("hostile-{number}");
        schedule.push(of(&namespace), number).unwrap();
        let (ticket, _) = schedule.pop(now).unwrap();
        schedule.push(of(&namespace), number).unwrap();
        // Evaluations of other tenants wait, so a second evaluation of this tenant does not begin.
        schedule.end(&ticket, Some(true), now + SECOND);
    }
    assert_eq!(schedule.waiting(), MAX_WAITING);
    schedule.push(of("shop"), 1_000).expect("many tenants with one each keep it out");
    assert_eq!(schedule.waiting(), MAX_WAITING);
    let (_, number) = schedule.pop(now + SECOND).unwrap();
    assert_eq!(number, 1_000, "it has used the least");
}

#[test]
fn idle_tenants_are_forgotten_and_memory_is_bounded() {
    let (now, mut schedule) = (Instant::now(), Schedule::new(1));
    for number in 0..3 * MAX_IDLE_TENANTS {
        schedule.push(of(&number.to_string()), 0).unwrap();
        let (ticket, _) = schedule.pop(now).unwrap();
        schedule.end(&ticket, Some(false), now + SECOND);
        assert!(schedule.tenants() <= MAX_IDLE_TENANTS, "{number}: {}", schedule.tenants());
    }
    let mut schedule = Schedule::new(1);
    for number in 0..100 {
        schedule.push(of(&number.to_string()), 0).unwrap();
        let (ticket, _) = schedule.pop(now).unwrap();
        schedule.end(&ticket, None, now);
    }
    assert_eq!(schedule.tenants(), 0);
}
