//! `policy-sync placement`: compares existing objects with the placement policies, and patches them on
//! request, with the user's rights.

mod text;

use anyhow::bail;
use clap::{Args, Subcommand, ValueEnum};
use kube::Config;
use kube::api::{Patch, PatchParams};
use kube::core::{PartialObjectMeta, request};

use super::controller::rego::RegoArguments;
use super::controller::webhooks::ExemptArguments;
use super::hub::HubArguments;
use super::output::{self, print, print_message};
use super::settings::ControllerArguments;
use super::text::printable;
use super::{Outcome, names, namespaces_exist, policies, progress};
use policy_sync_controller::placement_policy::compliance::Compliance;
use policy_sync_controller::placement_policy::compliance_check::NonCompliantObject;
use policy_sync_controller::rego_loading::Settings;
use policy_sync_hub::HubClient;

pub(super) const EXAMPLES: &str = "\
Examples:
  # Objects in a namespace that differ from placement policies
  policy-sync placement diff -n shop \\
    --rego-namespace kube-federation-scheduling-policy

  # Patch them
  policy-sync placement apply -n shop \\
    --rego-namespace kube-federation-scheduling-policy";

const DIFF_EXAMPLES: &str = "\
Examples:
  # All objects that differ
  policy-sync placement diff \\
    --rego-namespace kube-federation-scheduling-policy

  # The same in one namespace, as JSON
  policy-sync placement diff -n shop -o json \\
    --rego-namespace kube-federation-scheduling-policy";

const APPLY_EXAMPLES: &str = "\
Examples:
  # Patch all objects that differ
  policy-sync placement apply \\
    --rego-namespace kube-federation-scheduling-policy

  # The same in one namespace
  policy-sync placement apply -n shop \\
    --rego-namespace kube-federation-scheduling-policy";

/// The field manager of patches.
const MANAGER: &str = "policy-sync-placement";

/// The subcommands of `policy-sync placement`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Print how existing objects differ from placement policies.
    #[command(after_help = DIFF_EXAMPLES)]
    Diff(Box<Arguments>),
    /// Patch existing objects as placement policies require.
    #[command(after_help = APPLY_EXAMPLES)]
    Apply(Box<Arguments>),
}

/// Arguments of `policy-sync placement diff` and `policy-sync placement apply`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Only objects in this namespace.
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Output format; text by default.
    #[arg(short, long, value_enum)]
    output: Option<Format>,
    #[command(flatten)]
    controller: ControllerArguments,
    #[command(flatten)]
    rego: RegoArguments,
    #[command(flatten)]
    exempt: ExemptArguments,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// One list of all objects.
    Yaml,
    /// The content of the YAML output, as JSON.
    Json,
}

/// Runs the command.
///
/// # Errors
///
/// If the hub cannot be read, or a Rego policy cannot be evaluated.
pub async fn run(hub: &HubArguments, command: &Command) -> anyhow::Result<Outcome> {
    let (arguments, applies) = match command {
        Command::Diff(arguments) => (arguments, false),
        Command::Apply(arguments) => (arguments, true),
    };
    names(&[("--namespace", arguments.namespace.as_ref())])?;
    let Some(settings) = arguments.rego.settings(None)? else {
        bail!("--rego-namespace is required");
    };
    let waiting = progress::begin();
    let config = hub.config().await?;
    let client = hub.client(config.clone())?;
    let of_policies = namespaces_exist(&client, "--rego-namespace", &settings.namespaces).await?;
    if !of_policies || !namespaces_exist(&client, "--namespace", &arguments.namespace).await? {
        return Ok(Outcome::Negative);
    }
    let found = compare(hub, config, &client, arguments, settings).await?;
    drop(waiting);
    print(&match arguments.output {
        None => text::text(&found),
        Some(Format::Yaml) => output::yaml(&text::list(&found))?,
        Some(Format::Json) => output::json(&text::list(&found))?,
    })?;
    if !applies {
        return Ok(if found.is_empty() { Outcome::Positive } else { Outcome::Negative });
    }
    let mut outcome = Outcome::Positive;
    for found in &found {
        let heading = text::heading(found);
        match apply(&client, found).await {
            Ok(true) => print_message(printable(&format!("{heading} changed"))),
            Ok(false) => outcome = Outcome::Negative,
            Err(why) => {
                print_message(printable(&format!("policy-sync: {heading} not changed: {why}")));
                outcome = Outcome::Negative;
            }
        }
    }
    Ok(outcome)
}

async fn compare(
    hub: &HubArguments,
    config: Config,
    client: &HubClient,
    arguments: &Arguments,
    settings: Settings,
) -> anyhow::Result<Vec<NonCompliantObject>> {
    let controller = arguments.controller.controller()?;
    let exemptions = arguments.exempt.exemptions(None, &settings);
    let (loaded, _stops) = policies::start(hub, config, controller.clone(), settings)?;
    policies::placement(client, &controller, loaded, exemptions, arguments.namespace.clone()).await
}

/// Patches an object as the placement policies require. Returns `false` if a patch cannot make it comply.
async fn apply(hub: &HubClient, found: &NonCompliantObject) -> Result<bool, String> {
    let Compliance::Differs(change) = &found.compliance else { return Ok(false) };
    let text = |field: &str| found.object["metadata"][field].as_str().unwrap_or_default();
    let patch = Patch::Merge(change.merge_patch(text("uid"), text("resourceVersion")));
    let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    let objects = request::Request::new(found.gvr.path(&found.key.namespace));
    let request = objects.patch(&found.key.name, &params, &patch).map_err(|error| error.to_string())?;
    match hub.client().request::<PartialObjectMeta>(request).await {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 409 => {
            Err("it was changed in the meantime: run the command again".to_owned())
        }
        Err(error) => Err(hub.failure("patch it", &error).to_string()),
    }
}
