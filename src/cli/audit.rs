//! `policy-sync audit`: lists existing objects on a hub, or objects in files, that violate Rego policies.

mod files;
mod hub;

use std::path::PathBuf;

use anyhow::bail;
use clap::{Args, ValueEnum};

use super::controller::rego::RegoArguments;
use super::controller::webhooks::pattern;
use super::hub::HubArguments;
use super::manifests::{self, UnreadableDocuments};
use super::output::{self, print, print_message};
use super::settings::ControllerArguments;
use super::{Outcome, columns, progress};
use policy_sync_controller::admission::audit::Violation;
use policy_sync_rego::exemptions::Exemptions;

pub(super) const EXAMPLES: &str = "\
Examples:
  # Objects of the hub that violate its policies
  policy-sync audit --rego-namespace kube-federation-scheduling-policy

  # Objects in manifests that violate policies in files
  policy-sync audit -f objects -p policies";

const HEADERS: [&str; 6] = ["ENFORCEMENT", "KIND", "NAMESPACE", "NAME", "ID", "MESSAGE"];
/// The number of columns that identify a row; they are truncated last.
const NAMES: usize = 4;

/// Arguments of `policy-sync audit`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Existing objects and their Namespaces from files, directories, or standard input (-) instead of the hub.
    #[arg(
        short,
        long = "filename",
        value_name = "PATH",
        requires = "policies",
        conflicts_with_all = ["rego_namespace", "controller_name"]
    )]
    filenames: Vec<PathBuf>,
    /// Modules, directories with .rego files, or manifests with modules.
    #[arg(short, long = "policy", value_name = "PATH", requires = "filenames")]
    policies: Vec<PathBuf>,
    /// Namespaces whose objects are left out, in addition to the namespaces of Rego policies. `*` matches any
    /// text. A value replaces the default.
    #[arg(long, value_delimiter = ',', default_value = "kube-*", value_parser = pattern, value_name = "PATTERN")]
    exempt_namespaces: Vec<String>,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
    #[command(flatten)]
    hub_policies: HubPolicyArguments,
}

/// The controller's arguments that select the Rego policies of the hub, and how they are evaluated.
#[derive(Debug, Args)]
pub struct HubPolicyArguments {
    #[command(flatten)]
    controller: ControllerArguments,
    #[command(flatten)]
    rego: RegoArguments,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// A line for each violation.
    Table,
    /// One object with all violations.
    Json,
}

/// Runs the command.
///
/// # Errors
///
/// If the hub or a file cannot be read, or a Rego policy cannot be evaluated.
pub async fn run(hub: &HubArguments, arguments: &Arguments) -> anyhow::Result<Outcome> {
    let exempt = arguments.exempt_namespaces.iter().filter(|name| !name.is_empty()).cloned();
    let mut unreadable = UnreadableDocuments::default();
    let findings = if arguments.filenames.is_empty() {
        let Some(settings) = arguments.hub_policies.rego.settings(None)? else {
            bail!("set --rego-namespace for policies of the hub, or -f and -p for files");
        };
        let exemptions = Exemptions::new(exempt.chain(settings.namespaces.iter().cloned()));
        let _waiting = progress::begin();
        let found = hub::find(hub, &arguments.hub_policies, settings, exemptions).await?;
        let Some(findings) = found else { return Ok(Outcome::Negative) };
        findings
    } else {
        let rego = &arguments.hub_policies.rego;
        let policies = (&*arguments.policies, rego.packages()?, rego.replicate());
        let objects;
        (objects, unreadable) = manifests::read_objects(&arguments.filenames)?;
        let found = files::find(&objects, policies, &Exemptions::new(exempt)).await?;
        let Some(findings) = found else { return unreadable.end(Outcome::Negative) };
        findings
    };
    match arguments.output {
        Format::Json => print(&output::json(&findings.report())?)?,
        Format::Table if findings.count() == 0 => print_message("no violations"),
        Format::Table => print(&columns::table(&HEADERS, NAMES, findings.kept().iter().map(row)))?,
    }
    let errors = findings.errors();
    let unknown =
        (errors > 0).then(|| format!("the audit is incomplete: results with enforcement error: {errors}"));
    unreadable.end(super::outcome(findings.count() == errors, unknown.as_slice())?)
}

fn row(violation: &Violation) -> Vec<String> {
    let Violation { resource, id, resolution, enforcement, .. } = violation;
    [enforcement, &resource.kind, &resource.namespace, &resource.name, id, &resolution.message]
        .map(|cell| if cell.is_empty() { "-".to_owned() } else { cell.clone() })
        .to_vec()
}
