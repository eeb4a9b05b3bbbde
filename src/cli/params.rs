//! `policy-sync params check`: reports faults in parameters before a GatewayClass uses them.
//!
//! Without a hub, only the text is checked. With a hub, each kind is resolved as the controller resolves it,
//! with the rights of the user, whose name is printed. If these rights do not suffice and there is no other
//! fault, the command ends with an error.

mod access;
mod object;
mod sources;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

use super::Outcome;
use super::columns::table;
use super::hub::HubArguments;
use super::output::{self, print, print_message};
use super::progress;
use super::settings::ControllerArguments;
use super::text::printable;
use access::{AccessReviewer, ClassFault};
use policy_sync_api::names::GroupVersionResource;
use policy_sync_api::params::Role;
use policy_sync_sync::rows::kind::Resolution;
use sources::Source;

pub(super) const EXAMPLES: &str = "\
Examples:
  # Parameters in a manifest, without a hub
  policy-sync params check shop/class.yaml --offline

  # The parameters of a class on the hub, and whether their kinds can be synced
  kubectl get configmap params -n shop -o json |
    policy-sync params check -";

/// The subcommands of `policy-sync params`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Check whether parameters are valid, and whether the hub can sync the kinds that they list.
    #[command(after_help = EXAMPLES)]
    Check(Arguments),
}

/// Arguments of `policy-sync params check`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The parameters as JSON, or manifests with their ConfigMap; - for standard input.
    #[arg(value_name = "FILE|-")]
    file: PathBuf,
    /// Print the values of each statusFields path in the objects of this file; - for standard input.
    #[arg(long, value_name = "FILE|-")]
    object: Option<PathBuf>,
    /// Do not contact the hub.
    #[arg(long)]
    offline: bool,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
    #[command(flatten)]
    controller: ControllerArguments,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// A line for each error, and a row for each kind.
    Table,
    /// A list with all details.
    Json,
    /// The content of the JSON output, as YAML.
    Yaml,
}

/// The kinds that one text of parameters lists, each with the result of its resolution on the hub.
type Kinds = Vec<(GroupVersionResource, Resolution)>;

/// Runs the command. The exit code is 0 if all parameters are valid and every kind resolves.
///
/// # Errors
///
/// If the file or the hub cannot be read, or if missing rights make the result unknown.
pub async fn run(hub: &HubArguments, command: &Command) -> anyhow::Result<Outcome> {
    let Command::Check(arguments) = command;
    let controller = arguments.controller.controller()?;
    if arguments.file.as_os_str() == "-" && arguments.object.as_deref() == Some(Path::new("-")) {
        bail!("FILE and --object cannot both be standard input");
    }
    let mut sources = sources::read(&arguments.file)?;
    let _waiting = progress::begin();
    let reviewer = if arguments.offline {
        None
    } else if hub.is_configured() {
        Some(AccessReviewer::new(hub.client(hub.config().await?)?).await?)
    } else {
        print_message("no hub is configured: whether the kinds can be synced is not checked");
        None
    };
    let mut kinds: Vec<Kinds> = Vec::new();
    let mut unchecked = BTreeSet::new();
    for source in &mut sources {
        for warning in &source.checked.warnings {
            print_message(printable(&format!("{}: warning: {warning}", source.place)));
        }
        let mut resolved = Kinds::new();
        if let Some(reviewer) = reviewer.as_ref().filter(|_| source.checked.faults.is_empty()) {
            match reviewer.class_fault(&source.checked.params, &controller).await? {
                ClassFault::None => {}
                ClassFault::Invalid(fault) => source.checked.faults.push(fault),
                ClassFault::Unchecked(why) => {
                    unchecked.insert(format!("downstreamClass is not checked: {why:#}"));
                }
            }
            let params = &source.checked.params;
            for (role, gvr) in params.all_listed() {
                let taken = role == Role::Resource && params.lists(Role::Policy, &gvr.kind);
                let resolution = if taken {
                    Resolution::NotSyncable(format!("{} lists it as well", Role::Policy.key()))
                } else {
                    reviewer.resolve(role, &gvr).await
                };
                resolved.push((gvr, resolution));
            }
        }
        kinds.push(resolved);
    }
    let user = reviewer.as_ref().map(|reviewer| reviewer.user.as_str());
    if let Some(user) = user {
        print_message(printable(&format!(
            "these are the rights of {user}; the rights of the controller may differ"
        )));
    }
    let unchecked: Vec<String> = unchecked.into_iter().collect();
    // `--object` uses only valid parameters, so faults of parameters are reported first.
    let valid = sources.iter().any(|source| source.checked.faults.is_empty());
    let object = arguments.object.as_deref().filter(|_| valid);
    let objects = object.map(|file| object::read(file, &sources)).transpose()?;
    let results: Vec<(&Source, Kinds)> = sources.iter().zip(kinds).collect();
    let list = || {
        let mut list = list(&results, user, &unchecked);
        if let Some(objects) = &objects {
            list["objects"] = object::list(objects);
        }
        list
    };
    print(&match arguments.output {
        Format::Table => text(&results) + &objects.as_deref().map(object::text).unwrap_or_default(),
        Format::Json => output::json(&list())?,
        Format::Yaml => output::yaml(&list())?,
    })?;
    let fine = results.iter().all(|(source, kinds)| {
        source.checked.faults.is_empty()
            && kinds.iter().all(|(_, resolution)| matches!(resolution, Resolution::Resolved(_)))
    });
    super::outcome(fine, &unchecked)
}

/// The message for a kind; empty if the kind can be synced.
fn message(resolution: &Resolution, user: &str) -> String {
    match resolution {
        Resolution::Resolved(info) if !info.can_patch => {
            format!("{user} has no right to patch it: its annotations would be missing")
        }
        _ => resolution.fault().to_owned(),
    }
}

fn text(results: &[(&Source, Kinds)]) -> String {
    let mut text = String::new();
    for (source, kinds) in results {
        for fault in &source.checked.faults {
            text.push_str(&printable(&format!("{}: {fault}", source.place)));
            text.push('\n');
        }
        if source.checked.faults.is_empty() {
            text.push_str(&printable(&format!("{}: valid", source.place)));
            text.push('\n');
        }
        if !kinds.is_empty() {
            let rows = kinds.iter().map(|(gvr, resolution)| {
                let message = message(resolution, "the user");
                let message = if message.is_empty() { "-".to_owned() } else { message };
                vec![gvr.to_string(), resolution.reason().as_str().to_owned(), message]
            });
            text.push_str(&table(&["KIND", "RESULT", "MESSAGE"], 1, rows));
        }
    }
    text
}

fn list(results: &[(&Source, Kinds)], user: Option<&str>, unchecked: &[String]) -> Value {
    let places = |errors: &[policy_sync_api::params::ParamsError]| -> Vec<Value> {
        errors.iter().map(|error| json!({"place": error.place, "fault": error.fault})).collect()
    };
    let items: Vec<Value> = results
        .iter()
        .map(|(source, kinds)| {
            let kinds: Vec<Value> = kinds
                .iter()
                .map(|(gvr, resolution)| {
                    json!({
                        "group": gvr.kind.group, "version": gvr.version, "resource": gvr.kind.resource,
                        "reason": resolution.reason().as_str(), "message": message(resolution, user.unwrap_or_default()),
                    })
                })
                .collect();
            json!({
                "source": source.place, "valid": source.checked.faults.is_empty(),
                "faults": places(&source.checked.faults), "warnings": places(&source.checked.warnings),
                "kinds": kinds,
            })
        })
        .collect();
    json!({"rightsOf": user, "items": items, "unchecked": unchecked})
}
