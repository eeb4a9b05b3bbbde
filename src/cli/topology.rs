//! `policy-sync topology`: what is attached to what, and why not.

mod files;

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::Answer;
use super::output::{self, print, say_each};
use super::text::printable;
use crate::topology::Graph;
use crate::topology::show::{self, Scope, TopologyReport};
pub(super) use files::World;

pub(super) const EXAMPLES: &str = "\
Examples:
  # What is attached to what in a folder of manifests, and what is not
  policy-sync topology -f shop/

  # The same as text for Graphviz
  policy-sync topology -f shop/ -o dot";

/// Which objects there are, and which of them are asked for.
#[derive(Debug, Args)]
pub struct WorldArguments {
    /// A file, a directory (its *.yaml, *.yml and *.json files), or - for standard input. Repeatable.
    #[arg(short, long = "filename", required = true, value_name = "FILE|DIR|-")]
    filenames: Vec<PathBuf>,
    /// Show only what is in this namespace or on a path through it. Objects that name no namespace are in this one, otherwise
    /// in `default`.
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Show all namespaces, as without --namespace.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Show only what is on a path through the Gateway of this name.
    #[arg(long, value_name = "NAME")]
    gateway: Option<String>,
}

impl WorldArguments {
    pub(super) fn read(&self) -> anyhow::Result<World> {
        super::names(&[("--namespace", self.namespace.as_ref()), ("--gateway", self.gateway.as_ref())])?;
        World::read(&self.filenames, self.namespace.as_deref().unwrap_or("default"))
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
    /// All of it, for programs.
    Json,
    /// The same as YAML.
    Yaml,
}

/// Prints what is attached to what.
///
/// # Errors
///
/// Where a file cannot be read, or two objects are one.
pub fn run(arguments: &Arguments) -> anyhow::Result<Answer> {
    let world = arguments.world.read()?;
    let scope = arguments.world.scope();
    let facts = world.facts();
    let graph = Graph::build(&facts);
    say_each(World::unknown(&graph));
    let report = TopologyReport::new(&graph, scope, world.faults(&graph));
    match arguments.output {
        Format::Tree => print(&lines(&show::tree::tree(&report)))?,
        Format::Dot => print(&show::dot::dot(&report))?,
        Format::Json => output::print_json(&report)?,
        Format::Yaml => print(&output::yaml(&serde_json::to_value(&report)?)?)?,
    }
    if !matches!(arguments.output, Format::Tree) {
        say_each(report.faults());
    }
    Ok(if report.is_fine() { Answer::Fine } else { Answer::No })
}

/// Lines of text, fit for a terminal.
pub(super) fn lines(lines: &[String]) -> String {
    lines.iter().map(|line| printable(line) + "\n").collect()
}
