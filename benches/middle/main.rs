//! Benchmarks of the flow without a server: the mirror stores objects, the planner plans works, and the fold
//! aggregates statuses.
//!
//! `cargo bench` runs the benchmarks, and first prints the allocations of each benchmark. There are 100 policies on 100
//! clusters, which gives 10,000 works.

#![allow(clippy::unwrap_used)]

mod hub;

use std::hint::black_box;
use std::ops::ControlFlow;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use policy_sync_sync::desired::plan_works;
use policy_sync_sync::kinds::WORKS;
use policy_sync_sync::status::policy::Fold;
use policy_sync_sync::{diff, status};
use policy_sync_topology::{EffectiveCache, Graph, Objects};

use hub::{Hub, origin};
use policy_sync_benchmark::topology::{World, take};

const POLICIES: usize = 100;
const CLUSTERS: usize = 100;

/// Prints the allocations of `work`, and measures its duration.
fn measure(criterion: &mut Criterion, name: &str, elements: usize, mut work: impl FnMut()) {
    let allocated = allocation_counter::measure(&mut work);
    println!("{name}: {} allocations, {} KiB", allocated.count_total, allocated.bytes_total / 1024);
    let mut group = criterion.benchmark_group("middle");
    group.sample_size(20).throughput(Throughput::Elements(elements as u64));
    group.bench_function(name, |bencher| bencher.iter(&mut work));
    group.finish();
}

fn middle(criterion: &mut Criterion) {
    let hub = Hub::new(POLICIES, CLUSTERS);
    let policy = origin(POLICIES / 2);

    // Checks the starting point: no action is planned, and all clusters have reported.
    let plan = hub.see(|view| plan_works(view, &hub.settings, &policy));
    assert_eq!(plan.outcomes.len(), CLUSTERS);
    assert!(hub.see(|view| diff::works(view, &policy, &plan)).actions.is_empty());
    let folded = hub.see(|view| status::policy::plan(view, &hub.settings, &policy));
    assert_eq!(folded.summary.unwrap().enforced, CLUSTERS);
    assert!(matches!(folded.fold, Fold::Write { .. }));

    measure(criterion, "plan a policy on 100 clusters, and compare it with its works", 1, || {
        hub.see(|view| {
            let plan = plan_works(view, &hub.settings, &policy);
            black_box(diff::works(view, &policy, &plan));
        });
    });
    measure(criterion, "fold the reports of 100 clusters", 1, || {
        black_box(hub.see(|view| status::policy::plan(view, &hub.settings, &policy)));
    });
    measure(criterion, "mirror a changed work", 1, || {
        hub.show(&WORKS.all(), &hub.works[0]);
    });
    measure(criterion, "list 10,000 works", POLICIES * CLUSTERS, || hub.list_works());
}

/// Measures how long it takes to build the graph and to merge all policies. For comparison, also measures how long it
/// takes to read the routes.
fn graph(criterion: &mut Criterion) {
    for objects in [1_000, 10_000, 100_000] {
        let world = World::new(objects);
        let rows = world.objects().unwrap();
        let graph_input = rows.graph_input();
        let build = || {
            let graph = Graph::build(&graph_input);
            let mut cache = EffectiveCache::new(&graph);
            let mut paths = 0_usize;
            let _ = graph.walk::<()>(&mut cache, &mut |path, _| {
                paths += usize::from(!path.nodes.is_empty());
                ControlFlow::Continue(())
            });
            paths
        };
        // The expected number of paths: each route has two rules and attaches to three listeners. One listener of each
        // Gateway has no routes.
        let gateways = objects - objects * 7 / 10 - objects / 5 - objects * 95 / 1000;
        assert_eq!(build(), objects * 7 / 10 * 2 * 3 + gateways);
        let read = || {
            let mut rows = Objects::default();
            world.routes.iter().for_each(|route| take(&mut rows, route).unwrap());
            rows
        };
        measure(criterion, &format!("read the routes of {objects} objects"), objects, || {
            drop(black_box(read()))
        });
        measure(criterion, &format!("build and fold the graph of {objects} objects"), objects, || {
            black_box(build());
        });
        let peak = allocation_counter::measure(|| {
            black_box(build());
        })
        .bytes_max;
        let kept = {
            let mut rows = None;
            let kept = allocation_counter::measure(|| rows = Some(world.objects().unwrap())).bytes_current;
            drop(rows);
            kept
        };
        println!(
            "{objects} objects: rows {} KiB, at most {} KiB while a graph is built",
            kept / 1024,
            peak / 1024
        );
    }
}

criterion_group!(benches, middle, graph);
criterion_main!(benches);
