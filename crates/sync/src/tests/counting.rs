//! Tests of the numbers of works for the metrics.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::*;
use crate::counts::{purpose, state};
use crate::kinds::WORKS;

/// Counts all works without the stored counts.
fn counted_anew(world: &World) -> BTreeMap<(&'static str, &'static str), usize> {
    let mut counts = BTreeMap::new();
    world.see(|view| {
        view.works().for_each(|(.., work)| *counts.entry((purpose(work), state(work))).or_default() += 1);
    });
    counts
}

fn holds(world: &World) {
    assert_eq!(world.see(|view| view.work_counts()), counted_anew(world));
}

#[test]
fn work_counts_follow_creates_updates_and_deletes() {
    let origins = [policy_origin("limits"), gateway_origin("web")];
    let mut world = shop(&["eu-1", "us-1"]).with(policy("limits").targets("web")).settled(&origins);
    holds(&world);
    let deleted =
        |work: &mut serde_json::Value| work["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    world.edit(&origins[0], "eu-1", |work| work["status"] = applied().status(work));
    holds(&world);
    world.edit(&origins[1], "us-1", |work| work["metadata"]["annotations"] = json!({}));
    holds(&world);
    world.edit(&origins[0], "us-1", deleted);
    holds(&world);
    let mut world = world.gone(&origins[0], "us-1");
    holds(&world);
    world.list(&WORKS.all(), &[]);
    assert_eq!(world.see(|view| view.work_counts()), BTreeMap::new());
}

#[test]
fn reading_work_counts_stays_fast_with_many_works() {
    let world = hub();
    let (name, row) = world.see(|view| {
        let (name, _, row) = view.works_of(&policy_origin("limits")).next().unwrap();
        (name.clone(), row.clone())
    });
    for number in 0..100_000 {
        world.mirror.change(
            SourceEvent::Applied {
                source: WORKS.all(),
                key: ObjectKey::new(&format!("c{number}"), &name.0),
                version: 1,
                row: policy_sync_mirror::AnyRow::new(row.clone()),
            },
            Moment(world.now),
        );
    }
    let ask = || {
        let start = Instant::now();
        let counts = world.see(|view| view.work_counts());
        assert_eq!(counts[&("policy", "pending")], 100_001);
        start.elapsed()
    };
    // The minimum is not affected by other load on the machine.
    let least = (0..5).map(|_| ask()).min().unwrap();
    assert!(least < Duration::from_millis(10), "{least:?}");
}
