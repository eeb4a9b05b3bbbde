//! Runs the benchmark with small numbers: every row must yield a value. Only counts of writes are compared with goals,
//! because these counts are the same on every machine.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use futures::{StreamExt, stream};
use policy_sync_benchmark::{self as bench, Options, Row};
use serde_json::Value;

/// The number of concurrent measurements, each on its own hub. A measurement spends most of its time waiting.
const AT_ONCE: usize = 6;

fn options(row: Row, folder: &Path) -> Options {
    Options {
        controller: PathBuf::from(env!("CARGO_BIN_EXE_policy-sync")),
        rows: vec![row],
        policies: 2,
        clusters: 3,
        runs: 1,
        changes: 4,
        joined: 5,
        patches: 5,
        quiet: Duration::from_secs(2),
        idle: Duration::from_secs(1),
        policies_in_rego: false,
        documents: 60,
        objects: 40,
        turns: 1,
        rate: 20,
        load: 1,
        settles: Duration::from_secs(1),
        results: folder.join(format!("{row:?}/results.json")),
    }
}

/// Measures a row, and returns the results that it writes.
async fn measure(row: Row, folder: &Path) -> Vec<Value> {
    let options = options(row, folder);
    let measures = bench::run(&options).await.unwrap();
    let results: Vec<Value> = serde_json::from_slice(&std::fs::read(&options.results).unwrap()).unwrap();
    assert_eq!(results.len(), measures.len(), "{row:?}");
    let id = row.to_possible_value().unwrap().get_name().to_owned();
    assert!(results.iter().any(|result| result["id"] == *id), "{id} is missing in {results:#?}");
    results
}

#[tokio::test(flavor = "multi_thread")]
async fn every_row_yields_a_value() {
    let folder = tempfile::tempdir().unwrap();
    let rows = stream::iter(Row::value_variants()).map(|row| measure(*row, folder.path()));
    let results: Vec<Value> = rows.buffer_unordered(AT_ONCE).concat().await;
    for result in &results {
        assert!(result["value"].as_f64().is_some_and(f64::is_finite), "{result:#}");
        assert!(result["holds"].is_boolean() && result["goal"].is_number(), "{result:#}");
    }
    let counts = results.iter().filter(|result| result["unit"] == "writes");
    assert_eq!(counts.filter(|count| count["value"] == 0.0).count(), 4, "{results:#?}");
    let changed = results.iter().find(|result| result["measure"] == "writes a changed work").unwrap();
    assert_eq!(changed["value"], 1.0, "{changed:#}");
}
