//! `policy-sync plan`: prints the works that the controller would create for manifests, without a hub. With `--diff`,
//! prints the changes that the controller would make on a hub. The hub is only read.
//!
//! ```text
//! files ─▶ documents ─▶ manifests ─▶ inventory ─▶ mirror ─▶ plan ─▶ works on stdout
//!                                                    └─────────┴──▶ diagnostics on stderr
//! hub ──────────────────────────────────────────▶ mirror ─▶ plan ─▶ differences on stdout
//! ```
//!
//! The mirror and the plans use the controller's own code. Functions of the API server are not emulated: schema
//! defaults, validation, and conversion between versions.

mod diff;
mod fill;
mod inventory;
mod kinds;
#[cfg(feature = "web")]
pub(super) mod pages;
mod works;

use std::path::PathBuf;

use anyhow::bail;
use clap::{Args, ValueEnum};
use serde_json::json;

use super::hub::HubArguments;
use super::manifests::Manifest;
use super::output::{self, print, print_messages};
use super::settings::SettingsArguments;
use super::{Outcome, manifests, progress};
use fill::FilledMirror;
use inventory::Inventory;
use policy_sync_api::names::ControllerName;
use policy_sync_api::secret;
use policy_sync_hub::clock::Clock;
use policy_sync_report::snapshot;
use policy_sync_sync::OfflineMirror;
use policy_sync_sync::dry_run::{self, Diagnostic, Severity};

pub(super) const EXAMPLES: &str = "\
Examples:
  # The works for the manifests in a directory, without a hub
  policy-sync plan -f shop/

  # What the controller would create, change and delete on the hub
  policy-sync plan --diff -o table";

/// Arguments of `policy-sync plan`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// A file, a directory (its *.yaml, *.yml and *.json files), or - for standard input. Repeatable.
    #[arg(
        short,
        long = "filename",
        required_unless_present = "diff",
        conflicts_with = "diff",
        value_name = "FILE|DIR|-"
    )]
    filenames: Vec<PathBuf>,
    /// Print the objects that the controller would create, change and delete on the hub, without
    /// writing to it.
    #[arg(long)]
    diff: bool,
    /// Namespace of objects without one.
    #[arg(short, long, default_value = "default", conflicts_with = "diff", value_name = "NAMESPACE")]
    namespace: String,
    /// Output format of the works (default: YAML) or, with --diff, of the changes (default: text).
    #[arg(short, long, value_enum)]
    output: Option<Format>,
    #[command(flatten)]
    settings: SettingsArguments,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// Works: one document each. With --diff: one list of all changes.
    Yaml,
    /// Works: one List. With --diff: one list of all changes.
    Json,
    /// A row for each change.
    Table,
}

/// Runs the command.
///
/// # Errors
///
/// If an argument is invalid, or a file, a document or the hub cannot be read.
pub async fn run(hub: &HubArguments, arguments: &Arguments) -> anyhow::Result<Outcome> {
    if arguments.diff { plan_hub(hub, arguments).await } else { plan_manifests(arguments) }
}

fn plan_manifests(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let settings = arguments.settings.settings()?;
    let controller = arguments.settings.controller()?;
    let (objects, unreadable) = manifests::read_objects(&arguments.filenames)?;
    let inventory = Inventory::new(objects, &arguments.namespace);
    let (mut works, diagnostics) = works::plan(fill::fill(&inventory, &controller), &settings)?;
    works.iter_mut().for_each(secret::redact);
    let text = match arguments.output {
        None | Some(Format::Yaml) => output::yaml_documents(&works)?,
        Some(Format::Json) => output::json(&json!({"apiVersion": "v1", "kind": "List", "items": works}))?,
        Some(Format::Table) => bail!("-o table requires --diff: works are printed as yaml or json"),
    };
    print_messages(&diagnostics);
    print(&text)?;
    let invalid = diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error);
    unreadable.end(if invalid { Outcome::Negative } else { Outcome::Positive })
}

/// A mirror of `manifests`, with diagnostics. Objects without a namespace are put into `namespace`.
pub(super) fn mirror(
    manifests: Vec<Manifest>,
    namespace: &str,
    controller: &ControllerName,
) -> (OfflineMirror, Vec<Diagnostic>) {
    let FilledMirror { mirror, diagnostics, .. } =
        fill::fill(&Inventory::new(manifests, namespace), controller);
    (mirror, diagnostics)
}

async fn plan_hub(hub: &HubArguments, arguments: &Arguments) -> anyhow::Result<Outcome> {
    let settings = arguments.settings.settings()?;
    let controller = arguments.settings.controller()?;
    let _waiting = progress::begin();
    let client = hub.client(hub.config().await?)?;
    let hub = snapshot::read(&client, &controller).await?;
    let (changes, diagnostics) = dry_run::plan(hub, &settings, Clock::start().now())?;
    print_messages(&diagnostics);
    print(&match arguments.output {
        None => diff::text(&changes)?,
        Some(Format::Yaml) => output::yaml(&diff::list(&changes))?,
        Some(Format::Json) => output::json(&diff::list(&changes))?,
        Some(Format::Table) => diff::table(&changes),
    })?;
    Ok(if changes.is_empty() { Outcome::Positive } else { Outcome::Negative })
}
