//! The benchmark: what the controller costs beside a raw writer that sends the same requests without any logic.
//!
//! ```text
//! Stage      the hub: clusters in name only, a placed Gateway, policies; starts the controller as a process of its own
//! raw        the baseline: the same objects, the same client, the best concurrency found by trying
//! Observer   sees works and policies come, change and go, in both arms alike
//! agents     answers for the clusters
//! counts     requests, by the API server's own metrics; usage: memory and processor time of a process
//! row files  one for each row of the table
//! report     the table, and results.json
//! ```
//!
//! Baseline and controller take turns on the same hub, so that what else the machine does meets both.

mod agents;
mod counts;
mod fan_out;
mod observer;
mod raw;
mod report;
mod restart;
mod sample;
mod stage;

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::ValueEnum;

pub use self::report::Measure;
use self::stage::Stage;

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Row {
    /// Cold fan-out.
    #[value(name = "B1")]
    FanOut,
    /// Restart with everything settled.
    #[value(name = "B4")]
    Restart,
}

/// What to measure, and on what.
#[derive(Debug)]
pub struct Options {
    /// The program `policy-sync`, as it is released.
    pub controller: PathBuf,
    /// The rows.
    pub rows: Vec<Row>,
    /// How many policies there are.
    pub policies: usize,
    /// How many clusters each of them goes to.
    pub clusters: usize,
    /// How often baseline and controller take turns.
    pub runs: usize,
    /// Where the results go, as JSON.
    pub results: PathBuf,
}

/// Measures, prints the table and writes the results.
///
/// # Errors
///
/// Where a row cannot be measured.
pub async fn run(options: &Options) -> Result<Vec<Measure>> {
    let mut stage = Stage::start(options).await?;
    let mut measures = Vec::new();
    for row in &options.rows {
        let measured = match row {
            Row::FanOut => fan_out::measure(&mut stage, options.runs).await,
            Row::Restart => restart::measure(&mut stage, options.runs).await,
        };
        measures.extend(measured.with_context(|| format!("measuring {row:?}"))?);
        report::write(&options.results, &measures)?;
    }
    report::print(&measures);
    Ok(measures)
}
