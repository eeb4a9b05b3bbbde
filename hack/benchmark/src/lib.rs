//! The benchmark: what the controller costs beside a raw writer that sends the same requests without any logic.
//!
//! ```text
//! MeasuredHub  the hub, and the controller as a process of its own
//! Scene        clusters in name only, a Gateway that is placed on them, policies
//! raw          the baseline: the same objects, the same client, the best concurrency found by trying
//! Observer     sees works and policies come, change and go, in both arms alike
//! agents       answers for the clusters
//! counts       requests, by the API server's own metrics; usage: memory and processor time of a process
//! row files    one for each row of the table
//! report       the table, and results.json
//! ```
//!
//! Baseline and controller take turns on the same hub, so that what else the machine does meets both.

mod agents;
mod change;
mod counts;
mod fan_out;
mod growth;
mod hub;
mod idle;
mod membership;
mod memory;
mod observer;
mod raw;
mod report;
mod restart;
mod sample;
mod scene;
mod scrape;
mod spoke;
mod storm;
mod tenants;
mod usage;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::ValueEnum;

use self::hub::MeasuredHub;
pub use self::report::Measure;

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Row {
    /// Cold fan-out.
    #[value(name = "B1")]
    FanOut,
    /// A change of one policy, and the requests that it takes.
    #[value(name = "B2", alias = "B3")]
    Change,
    /// Restart with everything settled.
    #[value(name = "B4")]
    Restart,
    /// A cluster joins many policies, and leaves them.
    #[value(name = "B5")]
    Membership,
    /// Memory.
    #[value(name = "B6")]
    Memory,
    /// The status of every work changes.
    #[value(name = "B7")]
    Storm,
    /// Nothing happens.
    #[value(name = "B8")]
    Idle,
    /// How cost grows.
    #[value(name = "B9")]
    Growth,
    /// Tenants with large policies, beside somebody else's.
    #[value(name = "B10")]
    Tenants,
    /// A spoke that says much about one work.
    #[value(name = "B11")]
    Spoke,
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
    /// How often a policy is changed.
    pub changes: usize,
    /// How many policies a cluster joins and leaves.
    pub joined: usize,
    /// How often a spoke changes the status of its work.
    pub patches: usize,
    /// How long nobody must have written anything before all counts as settled.
    pub quiet: Duration,
    /// How long nothing happens.
    pub idle: Duration,
    /// Where the results go, as JSON.
    pub results: PathBuf,
}

/// Measures, prints the table and writes the results.
///
/// # Errors
///
/// Where a row cannot be measured.
pub async fn run(options: &Options) -> Result<Vec<Measure>> {
    let mut hub = MeasuredHub::start(options).await?;
    let mut measures = Vec::new();
    for row in &options.rows {
        let measured = match row {
            Row::FanOut => fan_out::measure(&mut hub, options.runs).await,
            Row::Change => change::measure(&mut hub, options.runs, options.changes).await,
            Row::Membership => membership::measure(&mut hub, options.runs, options.joined).await,
            Row::Memory => memory::measure(&mut hub).await,
            Row::Storm => storm::measure(&mut hub).await,
            Row::Idle => idle::measure(&mut hub, options.idle).await,
            Row::Growth => growth::measure(&mut hub).await,
            Row::Tenants => tenants::measure(&mut hub, options.changes).await,
            Row::Spoke => spoke::measure(&mut hub, options.patches).await,
            Row::Restart => restart::measure(&mut hub, options.runs).await,
        };
        measures.extend(measured.with_context(|| format!("measuring {row:?}"))?);
        report::write(&options.results, &measures)?;
    }
    report::print(&measures);
    Ok(measures)
}
