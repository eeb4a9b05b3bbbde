//! The benchmark: compares the controller with a raw writer that sends the same requests without any logic.
//!
//! ```text
//! MeasuredHub    the hub, and the controller as a separate process
//! Scene          clusters without control planes, a Gateway placed on them, policies
//! raw            the baseline: the same objects, the same client, the best of several concurrencies
//! Observer       watches works and policies in the same way for both arms
//! agents         work statuses of the clusters
//! counts         requests in the API server's metrics; usage: memory and processor time of a process
//! documents      documents for Rego policies; modules: the Rego policies; asking: queries of two engines in turn
//! pace           requests at a rate; allowing: a webhook that allows everything
//! topology       objects and rows of the topology
//! web            rows of the web pages, with a browser
//! rego_policies  a controller that loads Rego policies and documents from the hub; apps: objects for its review
//! row files      one for each row of the table; the rows of admission, authorization and audit are in gates
//! report         the table, and results.json
//! ```
//!
//! The two *arms* of a comparison, baseline and controller, take turns on the same hub. So other load on the machine
//! affects both arms.

mod agents;
mod allowing;
mod apps;
mod asking;
mod change;
mod counts;
mod creates;
mod documents;
mod fan_out;
mod fresh;
mod gates;
mod growth;
mod holding;
mod hub;
mod idle;
mod membership;
mod memory;
mod modules;
mod moving;
mod observer;
mod pace;
mod question;
mod raw;
mod refill;
mod rego_policies;
mod rego_webhooks;
mod report;
mod restart;
mod sample;
mod scale;
mod scene;
mod scrape;
mod spoke;
mod storm;
mod tenants;
pub mod topology;
mod usage;
mod web;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::ValueEnum;

use self::hub::MeasuredHub;
pub use self::report::Measure;

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Row {
    /// First sync of many policies.
    #[value(name = "B1")]
    FanOut,
    /// A change of one policy, and its requests.
    #[value(name = "B2", alias = "B3")]
    Change,
    /// Restart without pending changes.
    #[value(name = "B4")]
    Restart,
    /// A cluster is added to many policies, and removed.
    #[value(name = "B5")]
    Membership,
    /// Memory of the controller.
    #[value(name = "B6")]
    Memory,
    /// The status of every work changes.
    #[value(name = "B7")]
    Storm,
    /// CPU and writes without changes.
    #[value(name = "B8")]
    Idle,
    /// Growth of time and memory with the number of works.
    #[value(name = "B9")]
    Growth,
    /// Changes of a policy next to tenants with large policies.
    #[value(name = "B10")]
    Tenants,
    /// A spoke with large statuses of one work.
    #[value(name = "B11")]
    Spoke,
    /// A query of Rego policies, compared with OPA.
    #[value(name = "R1")]
    Query,
    /// A query with more documents and more policies.
    #[value(name = "R2")]
    Scale,
    /// Creates with a review.
    #[value(name = "R3")]
    Creates,
    /// Memory of documents, compared with OPA.
    #[value(name = "R4")]
    Holding,
    /// Delay until a changed document is visible to queries.
    #[value(name = "R5")]
    Fresh,
    /// Apps that move after a change of a cluster.
    #[value(name = "R6")]
    Moving,
    /// CPU and writes without changes, with Rego policies.
    #[value(name = "R7")]
    IdlePolicies,
    /// An OPA that restarts without data.
    #[value(name = "R8")]
    Refill,
    /// Creates with two reviews.
    #[value(name = "G1")]
    Admitted,
    /// A review with more documents, compared with OPA.
    #[value(name = "G2")]
    Review,
    /// Authorization reviews.
    #[value(name = "G3")]
    Authorized,
    /// An audit of all objects.
    #[value(name = "G4")]
    Standing,
    /// Growth of the time of an audit.
    #[value(name = "G5")]
    AuditGrowth,
    /// Many violations, and their reports.
    #[value(name = "G6")]
    Reports,
    /// Admission and authorization requests while policies change.
    #[value(name = "G7")]
    Traffic,
    /// A rebuild of the topology, and its growth.
    #[value(name = "T1", alias = "T2")]
    Rebuild,
    /// The topology on a hub: memory, one change, and statuses of routes.
    #[value(name = "T4", aliases = ["T3", "T5"])]
    Statuses,
    /// The topology of the largest Gateway, as JSON.
    #[value(name = "T6")]
    Largest,
    /// Cost of the topology on a hub without routes.
    #[value(name = "T7")]
    Beside,
    /// The page of a fleet: response time, time in a browser, memory, and many tabs.
    #[value(name = "W1", aliases = ["W2", "W5", "W6"])]
    Matrix,
    /// The page of a Gateway with many routes.
    #[value(name = "W3")]
    GatewayPage,
    /// Time from the start until all pages are complete.
    #[value(name = "W4")]
    PagesStart,
}

/// Options of a run.
#[derive(Debug)]
pub struct Options {
    /// Path of the release build of `policy-sync`.
    pub controller: PathBuf,
    /// The rows to measure.
    pub rows: Vec<Row>,
    /// Number of policies.
    pub policies: usize,
    /// Number of clusters of each policy.
    pub clusters: usize,
    /// Number of turns of baseline and controller.
    pub runs: usize,
    /// Number of changes of a policy.
    pub changes: usize,
    /// Number of policies that a cluster joins and leaves.
    pub joined: usize,
    /// Number of status patches for one work of a spoke.
    pub patches: usize,
    /// Period without writes after which everything counts as settled.
    pub quiet: Duration,
    /// Duration of the rows B8 and R7.
    pub idle: Duration,
    /// Whether the controller has Rego policies in the rows B….
    pub policies_in_rego: bool,
    /// Number of documents of Rego policies.
    pub documents: usize,
    /// Number of objects in the topology.
    pub objects: usize,
    /// Number of turns of queries for each engine.
    pub turns: usize,
    /// Creates of apps, or changes of documents, per second.
    pub rate: usize,
    /// Duration of requests at a constant rate, in seconds.
    pub load: usize,
    /// Delay between loading and the measurement of memory.
    pub settles: Duration,
    /// Path of the results in JSON.
    pub results: PathBuf,
}

/// Measures, prints the table and writes the results.
///
/// # Errors
///
/// Returns an error if a row cannot be measured.
pub async fn run(options: &Options) -> Result<Vec<Measure>> {
    let mut hub = None;
    let mut measures = Vec::new();
    for row in &options.rows {
        let measured = measure(*row, &mut hub, options).await;
        measures.extend(measured.with_context(|| format!("measuring {row:?}"))?);
        report::write(&options.results, &measures)?;
    }
    report::print(&measures);
    Ok(measures)
}

impl Row {
    /// The rows of the topology.
    pub const TOPOLOGY_ROWS: [Self; 4] = [Self::Rebuild, Self::Statuses, Self::Largest, Self::Beside];

    /// The rows of the web pages.
    pub const WEB_ROWS: [Self; 3] = [Self::Matrix, Self::GatewayPage, Self::PagesStart];

    /// Whether the row requires Rego policies in the controller that syncs.
    fn is_policed(self, options: &Options) -> bool {
        match self {
            Self::IdlePolicies => true,
            Self::Query | Self::Scale | Self::Creates | Self::Holding => false,
            Self::Fresh | Self::Moving | Self::Refill => false,
            Self::Admitted | Self::Review | Self::Authorized | Self::Standing => false,
            Self::AuditGrowth | Self::Reports | Self::Traffic => false,
            Self::Rebuild | Self::Statuses | Self::Largest | Self::Beside => false,
            Self::Matrix | Self::GatewayPage | Self::PagesStart => false,
            _ => options.policies_in_rego,
        }
    }
}

/// The hub for `row`, started by the first row that needs it.
async fn hub_for<'h>(
    row: Row,
    hub: &'h mut Option<MeasuredHub>,
    options: &Options,
) -> Result<&'h mut MeasuredHub> {
    let hub = match hub {
        Some(hub) => hub,
        None => hub.insert(MeasuredHub::start(options).await?),
    };
    match row.is_policed(options) {
        true => rego_policies::enable(hub, options.documents).await?,
        false => rego_policies::disable(hub).await?,
    }
    Ok(hub)
}

async fn measure(row: Row, hub: &mut Option<MeasuredHub>, options: &Options) -> Result<Vec<Measure>> {
    let hub = hub_for(row, hub, options);
    match row {
        Row::FanOut => fan_out::measure(hub.await?, options.runs).await,
        Row::Change => change::measure(hub.await?, options.runs, options.changes).await,
        Row::Membership => membership::measure(hub.await?, options.runs, options.joined).await,
        Row::Memory => memory::measure(hub.await?).await,
        Row::Storm => storm::measure(hub.await?).await,
        Row::Idle => idle::measure(hub.await?, options.idle).await,
        Row::Growth => growth::measure(hub.await?).await,
        Row::Tenants => tenants::measure(hub.await?, options.changes).await,
        Row::Spoke => spoke::measure(hub.await?, options.patches).await,
        Row::Restart => restart::measure(hub.await?, options.runs).await,
        Row::Query => question::measure(options).await,
        Row::Scale => scale::measure(options).await,
        Row::Holding => holding::measure(hub.await?, options).await,
        Row::Creates => creates::measure(hub.await?, options).await,
        Row::Fresh => fresh::measure(hub.await?, options).await,
        Row::Moving => moving::measure(hub.await?, options).await,
        Row::IdlePolicies => idle::with_policies(hub.await?, options.documents, options.idle).await,
        Row::Refill => refill::measure(hub.await?, options).await,
        Row::Admitted => gates::admitted::measure(hub.await?, options).await,
        Row::Review => gates::review::measure(options).await,
        Row::Authorized => gates::authorized::measure(hub.await?, options).await,
        Row::Standing => gates::standing::measure(hub.await?, options).await,
        Row::AuditGrowth => gates::growth::measure(options).await,
        Row::Reports => gates::reports::measure(hub.await?, options).await,
        Row::Traffic => gates::traffic::measure(hub.await?, options).await,
        Row::Rebuild => topology::rebuild::measure(options).await,
        Row::Statuses => topology::statuses::measure(hub.await?, options).await,
        Row::Largest => topology::command::measure(options).await,
        Row::Beside => topology::beside::measure(hub.await?, options).await,
        Row::Matrix => web::matrix::measure(hub.await?, options).await,
        Row::GatewayPage => web::gateway::measure(hub.await?, options).await,
        Row::PagesStart => web::start::measure(hub.await?, options).await,
    }
}
