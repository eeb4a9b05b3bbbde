//! T1: the time to build the graph and all effective policies, in comparison with reading the routes once. T2:
//! the growth of a build's time and memory with the number of objects.

use std::hint::black_box;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use policy_sync_topology::{EffectiveCache, Graph, Objects};

use super::world::{World, take};
use crate::Options;
use crate::growth::exponent;
use crate::report::{Measure, against, progress};
use crate::sample::{self, Sample};

/// Goals of T1, and of T2 for time and memory.
const REBUILD_GOAL: f64 = 0.5;
const TIME_GOAL: f64 = 1.3;
const MEMORY_GOAL: f64 = 1.05;

/// Measurements for one number of objects.
struct Measured {
    objects: usize,
    reading: Sample,
    building: Sample,
    /// Peak of the bytes that a build allocates.
    bytes: f64,
}

/// Compares a rebuild with reading the routes, and computes the exponents of a rebuild's time and memory.
pub(crate) async fn measure(options: &Options) -> Result<Vec<Measure>> {
    let (turns, objects) = (options.turns.clamp(1, 20), options.objects);
    let all = move || -> Result<Vec<Measured>> {
        let sizes = [objects.div_ceil(10), objects, 10 * objects];
        sizes.into_iter().map(|objects| one(objects, turns)).collect()
    };
    let measured = tokio::task::spawn_blocking(all).await.context("the measurement panicked")??;
    let Measured { objects, reading, building, .. } = &measured[1];
    let what = format!("rebuild of {objects} objects, over reading their routes once");
    let points = |value: fn(&Measured) -> f64| -> Vec<(f64, f64)> {
        measured.iter().map(|one| (sample::count(one.objects), value(one))).collect()
    };
    let row = |what: &str, unit: &str, points: &[(f64, f64)], least: f64, goal: f64| {
        let detail: Vec<String> =
            points.iter().map(|(count, value)| format!("{count}: {value:.2} {unit}")).collect();
        Measure::at_most("T2", format!("growth of {what}"), exponent(points, least), "", goal)
            .detail(detail.join(", "))
    };
    let times = points(|one| 1e3 * one.building.median());
    let memory = points(|one| one.bytes / 1024.0 / 1024.0);
    Ok(vec![
        Measure::at_most("T1", what, building.median() / reading.median(), "×", REBUILD_GOAL)
            .detail(against(building, reading)),
        row("a rebuild's time", "ms", &times, 0.01, TIME_GOAL),
        row("a rebuild's memory", "MiB", &memory, 0.01, MEMORY_GOAL),
    ])
}

fn one(count: usize, turns: usize) -> Result<Measured> {
    let world = World::new(count);
    let objects = world.objects()?;
    let (mut reading, mut building) = (Vec::new(), Vec::new());
    for _ in 0..turns {
        reading.push(read(&world)?);
        building.push(build(&objects));
    }
    let held = allocation_counter::measure(|| _ = build(&objects));
    progress(&format!("topology of {count} objects"));
    #[expect(clippy::cast_precision_loss, reason = "memory is below 2⁵² bytes")]
    let bytes = held.bytes_max as f64;
    Ok(Measured {
        objects: count,
        reading: Sample::seconds(&reading),
        building: Sample::seconds(&building),
        bytes,
    })
}

/// The time to read the world's routes.
fn read(world: &World) -> Result<Duration> {
    let (mut objects, began) = (Objects::default(), Instant::now());
    world.routes.iter().try_for_each(|json| take(&mut objects, json))?;
    let took = began.elapsed();
    drop(black_box(objects));
    Ok(took)
}

/// The time to build the graph, and to compute the effective policies of all paths.
fn build(objects: &Objects) -> Duration {
    let began = Instant::now();
    let graph_input = objects.graph_input();
    let graph = Graph::build(&graph_input);
    let mut cache = EffectiveCache::new(&graph);
    let mut paths = 0_usize;
    let _ = graph.walk::<()>(&mut cache, &mut |path, _| {
        paths += path.nodes.len();
        ControlFlow::Continue(())
    });
    black_box(paths);
    began.elapsed()
}
