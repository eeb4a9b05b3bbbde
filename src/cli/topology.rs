//! `policy-sync topology`: what is attached to what, and why not.

mod world;

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::hub::HubArguments;
use super::manifests::{Manifests, Unreadable};
use super::output::{self, print, say_each};
use super::settings::SettingsArguments;
use super::text::printable;
use super::{Answer, manifests, progress};
use crate::report::{ClusterObjects, ClusterQuery, cluster_objects};
use crate::topology::Graph;
use crate::topology::show::picture::Picture;
use crate::topology::show::{self, Scope, TopologyReport};
pub(super) use world::objects_of;

pub(super) const EXAMPLES: &str = "\
Examples:
  # What is attached to what in a namespace of the hub, or of any cluster
  policy-sync topology -n shop

  # The same of a folder of manifests, as text for Graphviz
  policy-sync topology -f shop/ -o dot";

/// Which objects there are, and which of them are asked for.
#[derive(Debug, Args)]
pub struct WorldArguments {
    /// Not what the cluster has, but what a file, a directory (its *.yaml, *.yml and *.json files), or - for standard input
    /// has. Repeatable.
    #[arg(short, long = "filename", value_name = "FILE|DIR|-")]
    pub(super) filenames: Vec<PathBuf>,
    /// Show only what is in this namespace or on a path through it. Objects of files that name no namespace are in this one,
    /// otherwise in `default`; and of a cluster only what is in it is read, where more may not be.
    #[arg(short, long, value_name = "NAMESPACE")]
    pub(super) namespace: Option<String>,
    /// Show all namespaces, as without --namespace.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Show only what is on a path through the Gateway of this name.
    #[arg(long, value_name = "NAME")]
    gateway: Option<String>,
    #[command(flatten)]
    pub(super) settings: SettingsArguments,
}

impl WorldArguments {
    /// Reads the cluster, or files with the documents in them that cannot be read.
    pub(super) async fn read(&self, hub: &HubArguments) -> anyhow::Result<(ClusterObjects, Unreadable)> {
        self.check()?;
        let controller = self.settings.controller()?;
        let prefix = self.settings.settings()?.downstream_namespace_prefix;
        if !self.filenames.is_empty() {
            let namespace = self.namespace.as_deref().unwrap_or("default");
            let Manifests { read, unreadable } = manifests::read_each(&self.filenames)?;
            return Ok((objects_of(read, namespace, controller, prefix)?, unreadable));
        }
        let _waiting = progress::begin();
        let client = hub.client(hub.config().await?)?;
        let namespace = self.namespace.as_deref();
        let hint = if namespace.is_none() { ": name a namespace that you may read with -n" } else { "" };
        let query = ClusterQuery { controller: &controller, namespace, hint };
        let mut found = cluster_objects(&client, query).await?;
        found.objects.downstream_prefix = prefix;
        controller.as_str().clone_into(&mut found.objects.controller);
        Ok((found, Unreadable::default()))
    }

    /// Whether names can be names.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        super::names(&[("--namespace", self.namespace.as_ref()), ("--gateway", self.gateway.as_ref())])
    }

    pub(super) fn scope(&self) -> Scope {
        Scope { namespace: self.namespace.clone(), gateway: self.gateway.clone(), ..Scope::default() }
    }
}

/// Arguments of `policy-sync topology`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    world: WorldArguments,
    /// How to print it.
    #[arg(short, long, value_enum, default_value = "tree")]
    output: Format,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// A tree, then what is not attached, what has no effect, and what is wrong.
    Tree,
    /// Text for Graphviz.
    Dot,
    /// A picture, of at most 100 objects of a sort: what is at fault is not left out for others.
    Svg,
    /// All of it, for programs.
    Json,
    /// The same as YAML.
    Yaml,
}

/// Prints what is attached to what.
///
/// # Errors
///
/// Where a file, a document in it or the cluster cannot be read, two objects are one, or it is not known whether all attaches.
pub async fn run(hub: &HubArguments, arguments: &Arguments) -> anyhow::Result<Answer> {
    let (world, unreadable) = arguments.world.read(hub).await?;
    let scope = arguments.world.scope();
    let facts = world.objects.facts();
    let graph = Graph::build(&facts);
    say_each(world.unknown(&graph));
    let report = TopologyReport::new(&graph, scope, world.faults(&graph));
    match arguments.output {
        Format::Tree => print(&lines(&show::tree::tree(&report)))?,
        Format::Dot => print(&show::dot::dot(&report))?,
        Format::Svg => print(&show::svg::svg(&Picture::new(&report), &|_| None))?,
        Format::Json => output::print_json(&report)?,
        Format::Yaml => print(&output::yaml(&serde_json::to_value(&report)?)?)?,
    }
    if !matches!(arguments.output, Format::Tree) {
        say_each(report.faults());
    }
    let unknown = (!report.is_known()).then(|| "it is not known whether all of it is attached".to_owned());
    unreadable.end(super::answer(report.is_fine(), unknown.as_slice())?)
}

/// Lines of text, fit for a terminal.
pub(super) fn lines(lines: &[String]) -> String {
    lines.iter().map(|line| printable(line) + "\n").collect()
}
