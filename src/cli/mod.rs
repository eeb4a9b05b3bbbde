//! The command line, with one module for each command. Arguments are validated before a command opens a port.

pub mod audit;
mod columns;
pub mod completion;
pub mod controller;
pub mod documents;
mod duration;
pub mod effective;
pub mod explain;
mod groups;
pub mod hub;
mod invocation;
mod manifests;
pub mod output;
pub mod params;
pub mod placement;
pub mod plan;
mod policies;
mod progress;
mod queries;
pub mod rego;
pub mod settings;
pub mod status;
pub mod text;
pub mod topology;
mod usage;
#[cfg(feature = "web")]
pub mod web;

use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, Subcommand};
use tokio::signal::unix::{SignalKind, signal};

use crate::version;
pub use completion::complete;
use policy_sync_api::syntax::is_dns_subdomain;
use policy_sync_hub::HubClient;
use policy_sync_report::{self as report, Known};
pub use usage::parse;

/// The examples in the main help. Tests run them unchanged.
const EXAMPLES: &str = "\
Examples:
  # Everything on the hub, in all namespaces
  policy-sync status -A

  # Why a policy is on its clusters, or is missing
  policy-sync explain ratelimitpolicy limits -n shop";

/// Sync Gateway API policies from a hub to its spokes through Open Cluster Management.
#[derive(Debug, Parser)]
#[command(
    name = "policy-sync",
    version = version::text(),
    about,
    arg_required_else_help = true,
    after_help = EXAMPLES
)]
pub struct Cli {
    #[command(flatten)]
    hub: hub::HubArguments,
    #[command(subcommand)]
    command: Command,
    /// A warning about a deprecated flag.
    #[arg(skip)]
    deprecation: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the controller on a hub.
    #[command(after_help = controller::EXAMPLES)]
    Controller(Box<controller::Arguments>),
    /// Print the ManifestWorks that the controller would create from manifests, or its changes on a hub.
    #[command(after_help = plan::EXAMPLES)]
    Plan(plan::Arguments),
    /// Check GatewayClass parameters before you apply them.
    #[command(subcommand, after_help = params::EXAMPLES)]
    Params(params::Command),
    /// Show the sync and enforcement state of the Gateways and policies of a hub.
    #[command(after_help = status::EXAMPLES)]
    Status(status::Arguments),
    /// Explain why a Gateway or a policy is on a cluster, or is missing, and what to change.
    #[command(after_help = explain::EXAMPLES)]
    Explain(explain::Arguments),
    /// Show how Gateways, listeners, routes and Services are attached, and the policies that target them.
    #[command(after_help = topology::EXAMPLES)]
    Topology(topology::Arguments),
    /// Show the effective policies of each path to a route, with the source of each rule.
    #[command(after_help = effective::EXAMPLES)]
    Effective(effective::Arguments),
    /// Show in a browser on this machine which policies each cluster enforces.
    #[cfg(feature = "web")]
    #[command(after_help = web::EXAMPLES)]
    Web(web::Arguments),
    /// Check, evaluate and test Rego policies.
    #[command(subcommand, after_help = rego::EXAMPLES)]
    Rego(rego::Command),
    /// List existing objects that violate Rego policies.
    #[command(after_help = audit::EXAMPLES)]
    Audit(Box<audit::Arguments>),
    /// Compare existing objects with placement policies, and patch them.
    #[command(subcommand, after_help = placement::EXAMPLES)]
    Placement(placement::Command),
    /// Print the completion script for a shell.
    #[command(after_help = completion::EXAMPLES)]
    Completion(completion::Arguments),
}

/// The result of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A positive result: exit code 0.
    Positive,
    /// A negative result, such as invalid, denied or out of sync: exit code 1.
    Negative,
}

/// The result of a command that could not read all of the hub. A known fault is a negative result, even with
/// `unread` parts.
///
/// # Errors
///
/// If there is no fault, but some parts are `unread`.
fn outcome(fine: bool, unread: &[String]) -> anyhow::Result<Outcome> {
    let unread = unread.join("; ");
    match (fine, unread.is_empty()) {
        (true, true) => Ok(Outcome::Positive),
        (true, false) => Err(anyhow::anyhow!(unread)),
        (false, true) => Ok(Outcome::Negative),
        (false, false) => {
            output::print_message(text::printable(&format!("policy-sync: {unread}")));
            Ok(Outcome::Negative)
        }
    }
}

/// Whether the namespaces `names` of `argument` exist. Prints the namespaces that do not exist.
///
/// # Errors
///
/// If a request fails.
async fn namespaces_exist(
    hub: &HubClient,
    argument: &str,
    names: impl IntoIterator<Item = &String>,
) -> anyhow::Result<bool> {
    let mut all = true;
    for name in names {
        // A user without the right to get Namespaces may have rights within a namespace.
        if let Known::Known(false) = report::namespace(hub, name).await? {
            let text = format!("policy-sync: {argument}: the hub at {} has no namespace {name}", hub.url());
            output::print_message(text::printable(&text));
            all = false;
        }
    }
    Ok(all)
}

/// Checks that arguments are Kubernetes names, because they become parts of paths and selectors.
///
/// # Errors
///
/// The first argument that is no valid name.
fn names(arguments: &[(&str, Option<&String>)]) -> anyhow::Result<()> {
    for (argument, text) in arguments {
        if let Some(text) = text.filter(|text| !is_dns_subdomain(text)) {
            anyhow::bail!("{argument} {text:?} is not a valid Kubernetes name");
        }
    }
    Ok(())
}

/// Returns a future that ends when the process receives SIGTERM or SIGINT. Signals are received from this call on, not
/// only from the first poll.
///
/// # Errors
///
/// If signal handlers cannot be installed.
fn shutdown_signal() -> anyhow::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// Runs the command line. Returns the exit code: 0 for a positive result, 1 for a negative result, 2 for an
/// error.
pub async fn run(cli: Cli) -> ExitCode {
    let deprecation = cli.deprecation;
    if let (Some(warning), false) = (&deprecation, matches!(cli.command, Command::Controller(_))) {
        output::print_message(format_args!("policy-sync: {warning}"));
    }
    let outcome = match cli.command {
        Command::Controller(arguments) => controller::run(&cli.hub, *arguments, deprecation).await,
        Command::Plan(arguments) => plan::run(&cli.hub, &arguments).await,
        Command::Params(command) => params::run(&cli.hub, &command).await,
        Command::Status(arguments) => status::run(&cli.hub, &arguments).await,
        Command::Explain(arguments) => explain::run(&cli.hub, &arguments).await,
        Command::Topology(arguments) => topology::run(&cli.hub, &arguments).await,
        Command::Effective(arguments) => effective::run(&cli.hub, &arguments).await,
        #[cfg(feature = "web")]
        Command::Web(arguments) => web::run(&cli.hub, &arguments).await,
        Command::Rego(command) => rego::run(&command).await,
        Command::Audit(arguments) => audit::run(&cli.hub, &arguments).await,
        Command::Placement(command) => placement::run(&cli.hub, &command).await,
        Command::Completion(arguments) => completion::run(&arguments),
    };
    match outcome {
        Ok(Outcome::Positive) => ExitCode::SUCCESS,
        Ok(Outcome::Negative) => ExitCode::from(1),
        Err(error) => {
            output::print_message(text::printable(&format!("policy-sync: {error:#}")));
            ExitCode::from(2)
        }
    }
}
