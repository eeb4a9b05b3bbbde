//! `policy-sync effective`: prints the policy rules in force for each path, with the policy of each rule.

pub(super) mod clusters;
mod text;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use serde::Serialize;

use super::Outcome;
use super::hub::HubArguments;
use super::output::{self, print, print_messages};
use super::topology::{TopologyInputArguments, lines};
use policy_sync_topology::show::{EffectiveReport, Scope};
use policy_sync_topology::{Graph, Request};

pub(super) const EXAMPLES: &str = "\
Examples:
  # The rules that apply to a request on the hub, and their policies
  policy-sync effective --host shop.example.com --path /cart

  # The rules that apply at its listener on each cluster
  policy-sync effective --host shop.example.com --clusters";

/// Arguments of `policy-sync effective`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    input: TopologyInputArguments,
    /// Show only paths to this route, such as `httproute/orders`.
    #[arg(long, value_name = "KIND/NAME", conflicts_with_all = ["gateway", "policy"])]
    route: Option<String>,
    /// Show only paths with this policy, such as `ratelimitpolicy/limits`.
    #[arg(long, value_name = "KIND/NAME", conflicts_with = "gateway")]
    policy: Option<String>,
    /// Show the effective policies at the listeners on this cluster of the hub. Routes are not copied.
    #[arg(long, value_name = "CLUSTER", conflicts_with_all = ["clusters", "route"])]
    cluster: Option<String>,
    /// Show the effective policies on all clusters; clusters with the same result are grouped.
    #[arg(long, conflicts_with = "route")]
    clusters: bool,
    /// Output format.
    #[arg(short, long, value_enum, default_value = "text")]
    output: Format,
    // This field is last, because its heading also applies to later fields.
    #[command(flatten)]
    request: RequestArguments,
}

/// A request. The report is reduced to the path that handles it, for each port of each Gateway.
#[derive(Debug, Args)]
#[command(next_help_heading = "Request")]
struct RequestArguments {
    /// Host of the request, such as `shop.example.com` or `shop.example.com:8443`. The port selects listeners only if a
    /// Gateway for the host has a listener with this port. Without a host, only listeners and routes without hostnames
    /// match.
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// Path of the request, with or without a query; for gRPC, `/SERVICE/METHOD`.
    #[arg(long, value_name = "PATH")]
    path: Option<String>,
    /// Method of the request. Default: GET, for gRPC POST.
    #[arg(long, value_name = "METHOD")]
    method: Option<String>,
    /// Header of the request. Repeatable.
    #[arg(long = "header", value_name = "NAME=VALUE")]
    headers: Vec<String>,
    /// Query parameter of the request. Repeatable.
    #[arg(long = "query", value_name = "NAME=VALUE")]
    query: Vec<String>,
    /// Port of the listener. It takes precedence over the port of the host. Without a port, listeners of all ports
    /// match, except TCP and UDP listeners.
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
}

impl RequestArguments {
    /// The parsed request; `None` without request arguments.
    fn request(&self) -> anyhow::Result<Option<Request>> {
        let others = self.headers.is_empty() && self.query.is_empty() && self.port.is_none();
        if others && self.host.is_none() && self.path.is_none() && self.method.is_none() {
            return Ok(None);
        }
        let mut request = Request { path: "/".to_owned(), port: self.port, ..Request::default() };
        if let Some(host) = &self.host {
            request = request.with_host(host).context("--host")?;
        }
        if let Some(path) = &self.path {
            request = request.with_path(path).context("--path")?;
        }
        if let Some(method) = &self.method {
            request = request.with_method(method).context("--method")?;
        }
        for header in &self.headers {
            request = request.with_header(header).context("--header")?;
        }
        for parameter in &self.query {
            request = request.with_query(parameter).context("--query")?;
        }
        Ok(Some(request))
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// Each path, with its rules and their policies.
    Text,
    /// All details.
    Json,
    /// The content of the JSON output, as YAML.
    Yaml,
}

impl Format {
    /// Prints `report`; as text, the lines that `text` returns.
    fn print<R: Serialize>(self, report: &R, text: impl FnOnce(&R) -> Vec<String>) -> anyhow::Result<()> {
        match self {
            Self::Text => print(&lines(&text(report))),
            Self::Json => output::print_json(report),
            Self::Yaml => print(&output::yaml(&serde_json::to_value(report)?)?),
        }
    }
}

/// Runs the command.
///
/// # Errors
///
/// If an argument is invalid, the cluster, a file or a document cannot be read, or two objects have the same
/// name.
pub async fn run(hub: &HubArguments, arguments: &Arguments) -> anyhow::Result<Outcome> {
    let scope = Scope {
        route: kind_and_name("--route", arguments.route.as_ref())?,
        policy: kind_and_name("--policy", arguments.policy.as_ref())?,
        ..arguments.input.scope()
    };
    let request = arguments.request.request()?;
    if arguments.clusters || arguments.cluster.is_some() {
        return clusters::run(hub, arguments, &scope, request).await;
    }
    let input = arguments.input.read(hub).await?;
    let (report, faults) = {
        let graph_input = input.found.objects.graph_input();
        let graph = Graph::build(&graph_input);
        let unknown = input.found.unknown(&graph);
        let report = EffectiveReport::new(&graph, &scope, request, unknown);
        (report.with_partial(!input.found.unread.is_empty()), input.found.faults(&graph))
    };
    // Missing rights are left out here, because `outcome` reports them at the end.
    print_messages(report.unknown.iter().filter(|line| !input.found.unread.contains(line)));
    print_messages(&faults);
    arguments.output.print(&report, text::lines)?;
    let is_fine = faults.is_empty() && (report.is_unknown() || !report.answers.is_empty());
    // If rights are missing, `outcome` reports them as the reason.
    let unknown = report.is_unknown() && !report.is_partial;
    input.outcome(is_fine, unknown.then(|| "it is unknown whether such a path exists".to_owned()))
}

/// Splits an argument of the form `KIND/NAME`.
fn kind_and_name(argument: &str, text: Option<&String>) -> anyhow::Result<Option<(String, String)>> {
    let Some(text) = text else { return Ok(None) };
    match text.split_once('/') {
        Some((kind, name)) if !kind.is_empty() && !name.is_empty() => {
            super::names(&[(argument, Some(&name.to_owned()))])?;
            Ok(Some((kind.to_owned(), name.to_owned())))
        }
        _ => bail!("{argument} {text:?} is not of the form KIND/NAME"),
    }
}
