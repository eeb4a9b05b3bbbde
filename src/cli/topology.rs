//! `policy-sync topology`: prints Gateways, routes and the policies attached to them, with the reasons for
//! missing attachments.

mod files;

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::hub::HubArguments;
use super::manifests::{Manifests, UnreadableDocuments};
use super::output::{self, print, print_messages};
use super::settings::SettingsArguments;
use super::text::printable;
use super::{Outcome, manifests, progress};
pub(super) use files::objects_of;
use policy_sync_api::names::ObjectKey;
use policy_sync_report::{self as report, ClusterObjects, ClusterQuery, Known, cluster_objects};
use policy_sync_topology::Graph;
use policy_sync_topology::locator::{GATEWAY, Locator};
use policy_sync_topology::show::picture::Picture;
use policy_sync_topology::show::{self, Scope, TopologyReport, TopologyStatus};

pub(super) const EXAMPLES: &str = "\
Examples:
  # The topology of a namespace of the hub, or of any cluster
  policy-sync topology -n shop

  # The topology of the manifests in a directory, for Graphviz
  policy-sync topology -f shop/ -o dot";

/// The arguments that select the objects to read and to show.
#[derive(Debug, Args)]
pub struct TopologyInputArguments {
    /// Read objects from a file, a directory (its *.yaml, *.yml and *.json files), or standard input (-) instead of a
    /// cluster. Repeatable.
    #[arg(short, long = "filename", value_name = "FILE|DIR|-")]
    pub(super) filenames: Vec<PathBuf>,
    /// Show only objects in this namespace, and paths through it. Objects in files without a namespace get this one
    /// (default: `default`). On a cluster, rights in this namespace suffice.
    #[arg(short, long, value_name = "NAMESPACE")]
    pub(super) namespace: Option<String>,
    /// Show all namespaces. This is the default without --namespace.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Show only paths through the Gateway with this name.
    #[arg(long, value_name = "NAME")]
    gateway: Option<String>,
    #[command(flatten)]
    pub(super) settings: SettingsArguments,
}

impl TopologyInputArguments {
    /// Reads the cluster, or the files. Documents that cannot be parsed are returned, too.
    pub(super) async fn read(&self, hub: &HubArguments) -> anyhow::Result<TopologyInput> {
        self.check()?;
        let controller = self.settings.controller()?;
        let prefix = self.settings.settings()?.downstream_namespace_prefix;
        if !self.filenames.is_empty() {
            let namespace = self.namespace.as_deref().unwrap_or("default");
            let Manifests { read, unreadable } = manifests::read_each(&self.filenames)?;
            let found = objects_of(read, namespace, controller, prefix)?;
            let absent = self.absent_gateway(&found).into_iter().collect();
            return Ok(TopologyInput { found, unreadable, absent });
        }
        let _waiting = progress::begin();
        let client = hub.client(hub.config().await?)?;
        let namespace = self.namespace.as_deref();
        let hint = if namespace.is_none() { ": use -n with a namespace that you may read" } else { "" };
        let query = ClusterQuery { controller: &controller, namespace, hint };
        let mut found = cluster_objects(&client, query).await?;
        found.objects.downstream_prefix = prefix;
        controller.as_str().clone_into(&mut found.objects.controller);
        let mut absent = Vec::new();
        if let Some(namespace) = namespace
            && let Known::Known(false) = report::namespace(&client, namespace).await?
        {
            absent.push(format!("--namespace: the cluster at {} has no namespace {namespace}", client.url()));
        }
        if absent.is_empty() {
            absent.extend(self.absent_gateway(&found));
        }
        Ok(TopologyInput { found, unreadable: UnreadableDocuments::default(), absent })
    }

    /// The message that the Gateway of `--gateway` does not exist; `None` if the Gateway exists, or if not all Gateways
    /// could be listed.
    fn absent_gateway(&self, found: &ClusterObjects) -> Option<String> {
        let (name, scope) = (self.gateway.as_ref()?, self.scope());
        let is_known = found.objects.graph_input().knows(GATEWAY) == Some(true);
        let is_named = |key: &ObjectKey| scope.has_gateway(&Locator::of(GATEWAY, key));
        (is_known && !found.objects.gateways().keys().any(is_named)).then(|| match &self.namespace {
            Some(namespace) => format!("--gateway: there is no Gateway {namespace}/{name}"),
            None => format!("--gateway: there is no Gateway {name}"),
        })
    }

    /// Checks that the arguments are valid names.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        super::names(&[("--namespace", self.namespace.as_ref()), ("--gateway", self.gateway.as_ref())])
    }

    pub(super) fn scope(&self) -> Scope {
        Scope { namespace: self.namespace.clone(), gateway: self.gateway.clone(), ..Scope::default() }
    }
}

/// The objects that a command reads, and the faults of its arguments.
pub(super) struct TopologyInput {
    /// The objects, with the kinds that could not be read.
    pub(super) found: ClusterObjects,
    /// Documents of files that cannot be parsed.
    unreadable: UnreadableDocuments,
    /// Objects that arguments name and that do not exist, one line each.
    absent: Vec<String>,
}

impl TopologyInput {
    /// Returns the exit code after the report was printed. `is_fine`: the report has no fault. `unknown`: a
    /// reason for exit code 2 in addition to missing rights.
    ///
    /// # Errors
    ///
    /// If there is no fault but something is unknown, or if a document cannot be parsed.
    pub(super) fn outcome(self, is_fine: bool, unknown: Option<String>) -> anyhow::Result<Outcome> {
        let Self { mut found, unreadable, absent } = self;
        found.unread.extend(unknown);
        print_messages(absent.iter().map(|absent| format!("policy-sync: {absent}")));
        unreadable.end(super::outcome(is_fine && absent.is_empty(), &found.unread)?)
    }
}

/// Arguments of `policy-sync topology`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    input: TopologyInputArguments,
    /// Output format.
    #[arg(short, long, value_enum, default_value = "tree")]
    output: Format,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// A tree, then the objects that are not attached, the policies without effect, and errors.
    Tree,
    /// DOT, for Graphviz.
    Dot,
    /// A picture with at most 100 objects in each column. If there are more, objects with errors are kept first.
    Svg,
    /// All details.
    Json,
    /// The content of the JSON output, as YAML.
    Yaml,
}

/// Runs the command.
///
/// # Errors
///
/// If the cluster, a file or a document cannot be read, two objects have the same name, or attachment is
/// unknown.
pub async fn run(hub: &HubArguments, arguments: &Arguments) -> anyhow::Result<Outcome> {
    let mut input = arguments.input.read(hub).await?;
    let (is_fine, unknown, unserved) = {
        let graph_input = input.found.objects.graph_input();
        let graph = Graph::build(&graph_input);
        let missing = input.found.missing(&graph);
        // Files may omit kinds. If a cluster does not serve a kind, the objects of that kind are unknown.
        let unserved = if input.found.unserved.is_some() {
            missing
        } else {
            print_messages(missing);
            Vec::new()
        };
        let report = TopologyReport::new(&graph, arguments.input.scope(), input.found.faults(&graph));
        let report = report.with_unread([&input.found.unread[..], &unserved].concat());
        print_report(&report, arguments.output)?;
        (report.verdict() != TopologyStatus::Faulty, report.unknown_attachment(), unserved)
    };
    input.found.unread.extend(unserved);
    let unknown = unknown.map(|cause| format!("it is unknown whether everything is attached: {cause}"));
    input.outcome(is_fine, unknown)
}

fn print_report(report: &TopologyReport<'_, '_>, format: Format) -> anyhow::Result<()> {
    match format {
        Format::Tree => print(&lines(&show::tree::tree(report)))?,
        Format::Dot => print(&show::dot::dot(report))?,
        Format::Svg => print(&show::svg::svg(&Picture::new(report), &|_| None))?,
        Format::Json => output::print_json(report)?,
        Format::Yaml => print(&output::yaml(&serde_json::to_value(report)?)?)?,
    }
    if !matches!(format, Format::Tree) {
        print_messages(report.faults());
    }
    Ok(())
}

/// Joins lines, with control characters escaped.
pub(super) fn lines(lines: &[String]) -> String {
    lines.iter().map(|line| printable(line) + "\n").collect()
}
