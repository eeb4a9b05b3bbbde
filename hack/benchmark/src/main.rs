//! Command line of the benchmark, which `hack/bench` builds and runs.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use policy_sync_benchmark::{self as bench, Measure, Options, Row};
use tokio::signal::unix::{SignalKind, signal};

/// Measures the controller against a raw writer, on a real etcd and kube-apiserver on this machine.
#[derive(Parser)]
#[command(name = "bench", version)]
struct Arguments {
    /// Measure only these rows.
    #[arg(long, value_name = "ROW", value_delimiter = ',')]
    only: Vec<Row>,
    /// Measure only the rows of the topology.
    #[arg(long, conflicts_with = "only")]
    topology: bool,
    /// Measure only the rows of the web pages, with 1,000 policies that change 100 times per second.
    #[arg(long, conflicts_with_all = ["only", "topology"])]
    web: bool,
    /// 1,000 policies instead of 100.
    #[arg(long)]
    full: bool,
    /// Number of policies.
    #[arg(long, value_name = "N", conflicts_with = "full")]
    policies: Option<usize>,
    /// Number of clusters of each policy.
    #[arg(long, value_name = "N", default_value_t = 100)]
    clusters: usize,
    /// Number of measurements of both the baseline and the controller.
    #[arg(long, value_name = "N", default_value_t = 3)]
    runs: usize,
    /// Number of changes of a policy (B2), or of an object that Rego policies read (R5).
    #[arg(long, value_name = "N", default_value_t = 500)]
    changes: usize,
    /// Duration without changes (B8, R7), in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    idle: u64,
    /// Also load Rego policies, and objects that they read, in the rows B….
    #[arg(long)]
    policies_in_rego: bool,
    /// Number of objects that Rego policies read (R1 to R8, G1 to G6).
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    documents: usize,
    /// Number of objects in the topology (T1 to T6), of routes (W3) and of policies (W4).
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    objects: usize,
    /// Duration of requests at a fixed rate, in seconds (R3, R5, G1, G3, G4, W6; five times as long for G7).
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    load: usize,
    /// The program of the controller. Default: `policy-sync` next to this program.
    #[arg(long, value_name = "FILE")]
    controller: Option<PathBuf>,
    /// File for the results, as JSON.
    #[arg(long, value_name = "FILE", default_value = "target/bench/results.json")]
    results: PathBuf,
}

impl Arguments {
    fn options(self) -> Result<Options> {
        let controller = match self.controller {
            Some(path) => path,
            None => std::env::current_exe().context("finding this program")?.with_file_name("policy-sync"),
        };
        let rows = match self.only {
            _ if self.topology => Row::TOPOLOGY_ROWS.to_vec(),
            _ if self.web => Row::WEB_ROWS.to_vec(),
            rows if rows.is_empty() => Row::value_variants().to_vec(),
            rows => rows,
        };
        Ok(Options {
            controller,
            rows,
            policies: self.policies.unwrap_or(if self.full || self.web { 1_000 } else { 100 }),
            clusters: self.clusters,
            runs: self.runs.max(1),
            changes: self.changes,
            joined: 1_000,
            patches: 1_000,
            // Longer than the batching window and the delay for clusters that disappear together.
            quiet: Duration::from_secs(7),
            idle: Duration::from_secs(self.idle),
            policies_in_rego: self.policies_in_rego,
            documents: self.documents,
            objects: self.objects,
            turns: 100,
            rate: if self.web { 100 } else { 200 },
            load: self.load,
            // Allows the controller and OPA to release the memory of loading.
            settles: Duration::from_secs(30),
            results: self.results,
        })
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Exit code 0 if every goal is reached, otherwise 1.
async fn run() -> Result<ExitCode> {
    // Registered before anything starts, so that no signal is lost.
    let mut interrupt = signal(SignalKind::interrupt()).context("listening for SIGINT")?;
    let mut terminate = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
    let options = Arguments::parse().options()?;
    let measures = tokio::select! {
        measures = bench::run(&options) => measures?,
        _ = interrupt.recv() => return Ok(ExitCode::from(130)),
        _ = terminate.recv() => return Ok(ExitCode::from(143)),
    };
    Ok(if measures.iter().all(Measure::holds) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
