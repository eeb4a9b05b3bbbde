//! The benchmark itself, small: every row can be measured and tells a value. What the values are is not looked at here,
//! but for those that are counts, and so the same on every machine.

#![allow(clippy::unwrap_used)]

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use policy_sync_benchmark::{self as bench, Options, Row};
use serde_json::Value;

#[tokio::test(flavor = "multi_thread")]
async fn every_row_tells_a_value() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        controller: PathBuf::from(env!("CARGO_BIN_EXE_policy-sync")),
        rows: Row::value_variants().to_vec(),
        policies: 2,
        clusters: 3,
        runs: 1,
        changes: 4,
        joined: 5,
        patches: 5,
        quiet: Duration::from_secs(2),
        idle: Duration::from_secs(1),
        results: folder.path().join("bench/results.json"),
    };
    let measures = bench::run(&options).await.unwrap();
    let results: Vec<Value> = serde_json::from_slice(&std::fs::read(&options.results).unwrap()).unwrap();
    assert_eq!(results.len(), measures.len());
    for row in &options.rows {
        let id = row.to_possible_value().unwrap().get_name().to_owned();
        assert!(results.iter().any(|result| result["id"] == *id), "{id} is missing in {results:#?}");
    }
    for result in &results {
        assert!(result["value"].as_f64().is_some_and(f64::is_finite), "{result:#}");
        assert!(result["holds"].is_boolean() && result["goal"].is_number(), "{result:#}");
    }
    let counts = results.iter().filter(|result| result["unit"] == "writes");
    assert_eq!(counts.filter(|count| count["value"] == 0.0).count(), 2, "{results:#?}");
    let changed = results.iter().find(|result| result["measure"] == "writes a changed work").unwrap();
    assert_eq!(changed["value"], 1.0, "{changed:#}");
}
