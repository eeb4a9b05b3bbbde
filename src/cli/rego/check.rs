//! `policy-sync rego check`: checks whether Rego modules can be loaded as one bundle.

use std::path::PathBuf;

use clap::Args;

use super::files;
use crate::cli::Outcome;
use crate::cli::output::{print, print_message};
use crate::cli::queries::{QueryArguments, plural};
use crate::cli::text::printable;
use policy_sync_rego::confined;
use policy_sync_rego::engine::EngineKind;
use policy_sync_rego::fault::Fault;
use policy_sync_rego::secrets::SecretReads;

pub(super) const EXAMPLES: &str = "\
Examples:
  # All modules in a directory
  policy-sync rego check policies

  # A module on standard input
  policy-sync rego check - < policies/placement/pci.rego";

/// Arguments of `policy-sync rego check`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Modules, directories with .rego files, or manifests with modules; - for a module on standard input.
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// Value of the controller's --replicate. Modules may read the contents of Secrets only if this value includes secrets.
    #[arg(long, value_delimiter = ',', value_parser = plural, value_name = "RESOURCE")]
    replicate: Vec<String>,
    /// Exit with code 1 if there is a warning, for example about a misspelt package.
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    queries: QueryArguments,
    /// Check the JSON on standard input in this process, within its limits. For internal use.
    #[arg(long, hide = true)]
    confined: bool,
    /// Check the modules for OPA.
    #[arg(long, hide = true)]
    for_opa: bool,
}

pub(super) async fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    if arguments.confined {
        let evaluator = if arguments.for_opa { EngineKind::Opa } else { EngineKind::Embedded };
        print(&confined::serve(evaluator, arguments.queries.packages()?)?)?;
        return Ok(Outcome::Positive);
    }
    let files = files::read(&arguments.paths)?.with_packages(arguments.queries.packages()?);
    let (bundle, secrets) = match files.checked().await? {
        Ok(checked) => checked,
        Err(faults) => {
            print(&files::lines(&faults))?;
            return Ok(Outcome::Negative);
        }
    };
    let secrets = match files::secrets_read(&bundle, secrets, &arguments.replicate) {
        Ok(secrets) => secrets,
        Err(faults) => {
            print(&files::lines(&faults))?;
            return Ok(Outcome::Negative);
        }
    };
    let advice = bundle.advice().into_iter().chain(secrets.iter().flat_map(SecretReads::advice));
    let count = files.texts.len();
    let mut warnings = 0;
    for Fault { module, place, text } in files.ignored.into_iter().chain(advice) {
        warnings += 1;
        let fault = Fault { module, place, text: format!("warning: {text}") };
        print_message(printable(&fault.to_string()));
    }
    let modules = counted_noun(count, "module");
    if arguments.strict && warnings > 0 {
        print(&format!("{modules}: {}\n", counted_noun(warnings, "warning")))?;
        return Ok(Outcome::Negative);
    }
    print(&format!("{modules}: ok\n"))?;
    Ok(Outcome::Positive)
}

pub(super) fn counted_noun(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}
