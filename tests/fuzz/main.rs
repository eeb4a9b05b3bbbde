//! Runs the corpora of the fuzz targets (seeds and inputs kept from fuzzing) against the same code, on any
//! toolchain and in seconds. `hack/fuzz` searches for new inputs.

#![allow(clippy::unwrap_used)]

// These functions are public because the fuzz targets are in another crate. Here, the functions are part of this crate.
#[allow(unreachable_pub)]
#[path = "../../fuzz/src/bodies/mod.rs"]
mod bodies;

use std::collections::BTreeSet;
use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

/// The allocator of the product: the memory limits of evaluations read its counters.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn corpora() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus")
}

fn replay(name: &str) {
    let mut inputs: Vec<PathBuf> =
        fs::read_dir(corpora().join(name)).unwrap().map(|entry| entry.unwrap().path()).collect();
    inputs.sort();
    assert!(inputs.len() > 10, "{name} has {} inputs", inputs.len());
    let failed: Vec<&PathBuf> = inputs
        .iter()
        .filter(|path| {
            let data = fs::read(path).unwrap();
            catch_unwind(|| bodies::run(name, &data)).is_err()
        })
        .collect();
    assert!(failed.is_empty(), "{name} does not hold for {failed:#?}");
}

#[test]
fn builtins() {
    replay("builtins");
}

/// Random modules without the fuzzer, on any toolchain. `POLICY_SYNC_FUZZ_CASES=100000` runs more modules,
/// with another seed.
#[test]
fn builtins_of_dice() {
    let cases = std::env::var("POLICY_SYNC_FUZZ_CASES").map_or(150, |cases| cases.parse().unwrap());
    let mut rng = fastrand::Rng::with_seed(cases);
    for _ in 0..cases {
        let mut data = vec![0; rng.usize(20..200)];
        rng.fill(&mut data);
        bodies::run("builtins", &data);
    }
}

#[test]
fn decisions() {
    replay("decisions");
}

#[test]
fn feedback() {
    replay("feedback");
}

#[test]
fn parameters() {
    replay("parameters");
}

#[test]
fn policies() {
    replay("policies");
}

#[test]
fn selectors() {
    replay("selectors");
}

#[test]
fn request() {
    replay("request");
}

#[test]
fn topology() {
    replay("topology");
}

#[test]
fn every_target_has_a_body_and_a_corpus() {
    let names = |folder: PathBuf| -> BTreeSet<String> {
        let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        paths.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect()
    };
    let bodies: BTreeSet<String> = bodies::ALL.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names(corpora()), bodies);
    assert_eq!(names(corpora().join("../fuzz_targets")), bodies);
}
