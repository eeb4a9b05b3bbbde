//! `policy-sync rego`: checks, evaluates, converts and tests Rego modules as the controller would, without a
//! hub.

mod check;
mod convert;
mod eval;
pub(super) mod files;
mod test;

use clap::Subcommand;

use super::Outcome;

pub(super) const EXAMPLES: &str = "\
Examples:
  # Check whether policies can be loaded
  policy-sync rego check policies

  # The placement of an app
  policy-sync rego eval data.io.k8s.federation.admission -f policies \\
    --data policies/clusters.yaml --input policies/app.yaml";

/// The subcommands of `policy-sync rego`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Check whether modules can be loaded together.
    #[command(after_help = check::EXAMPLES)]
    Check(check::Arguments),
    /// Convert ConstraintTemplates and constraints of Gatekeeper to modules.
    #[command(after_help = convert::EXAMPLES)]
    Convert(convert::Arguments),
    /// Evaluate a query.
    #[command(after_help = eval::EXAMPLES)]
    Eval(eval::Arguments),
    /// Run the rules whose names begin with test_, and print the rules that are not true.
    #[command(after_help = test::EXAMPLES)]
    Test(test::Arguments),
}

/// Runs the command.
///
/// # Errors
///
/// If a file cannot be read, or the check cannot run.
pub async fn run(command: &Command) -> anyhow::Result<Outcome> {
    match command {
        Command::Check(arguments) => check::run(arguments).await,
        Command::Convert(arguments) => convert::run(arguments),
        Command::Eval(arguments) => eval::run(arguments).await,
        Command::Test(arguments) => test::run(arguments).await,
    }
}
