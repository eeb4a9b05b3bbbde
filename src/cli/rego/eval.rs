//! `policy-sync rego eval`: evaluates a query with Rego modules, data and an input from files.

use std::path::PathBuf;

use anyhow::ensure;
use clap::Args;
use regorus::Value;

use super::files;
use crate::cli::Outcome;
use crate::cli::output::{self, print, print_message};
use crate::cli::queries::QueryArguments;
use crate::cli::text::printable;
use policy_sync_rego::embedded::Embedded;

pub(super) const EXAMPLES: &str = "\
Examples:
  # The placement of an app
  policy-sync rego eval data.io.k8s.federation.admission -f policies \\
    --data policies/clusters.yaml --input policies/app.yaml

  # The value of an expression
  policy-sync rego eval 'input.metadata.name' -f policies \\
    --input policies/app.yaml";

/// Arguments of `policy-sync rego eval`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Query, such as data.admission.deny.
    #[arg(value_name = "QUERY")]
    query: String,
    /// Modules, directories with .rego files, or manifests with modules; - for a module on standard input.
    #[arg(short, long = "file", value_name = "PATH", required = true)]
    files: Vec<PathBuf>,
    /// Value of data, as JSON or YAML, with objects of a hub at kubernetes.PLURAL.NAMESPACE.NAME.
    #[arg(long, value_name = "FILE|-")]
    data: Option<PathBuf>,
    /// Value of input, as JSON or YAML.
    #[arg(long, value_name = "FILE|-")]
    input: Option<PathBuf>,
    #[command(flatten)]
    queries: QueryArguments,
}

pub(super) async fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let from_stdin = arguments.files.iter().chain(&arguments.data).chain(&arguments.input);
    ensure!(
        from_stdin.filter(|file| file.as_os_str() == "-").count() < 2,
        "standard input can only be one of these"
    );
    let document = |file: &Option<PathBuf>| -> anyhow::Result<Option<Value>> {
        Ok(file.as_deref().map(files::document).transpose()?.map(Value::from))
    };
    let (data, input) = (document(&arguments.data)?, document(&arguments.input)?);
    let files = files::read(&arguments.files)?.with_packages(arguments.queries.packages()?);
    let Some((bundle, _)) = files.bundle().await? else { return Ok(Outcome::Negative) };
    let mut engine = Embedded::new(&bundle, files.data.into())?;
    if let Some(data) = data {
        engine.add(data).map_err(|fault| anyhow::anyhow!("--data: {}", fault.text))?;
    }
    let evaluated = match engine.evaluate(&arguments.query, &input.unwrap_or(Value::Undefined)) {
        Ok(evaluated) => evaluated,
        Err(failure) => {
            print_message(printable(&failure.to_string()));
            return Ok(Outcome::Negative);
        }
    };
    evaluated.prints.iter().for_each(|line| print_message(printable(line)));
    let values: Vec<Value> = evaluated
        .results
        .result
        .into_iter()
        .map(|result| match result.bindings.as_object() {
            Ok(bindings) if !bindings.is_empty() => result.bindings,
            _ => result.expressions.into_iter().next_back().map_or(Value::Undefined, |last| last.value),
        })
        .filter(|value| *value != Value::Undefined)
        .collect();
    if values.is_empty() {
        print_message("undefined");
        return Ok(Outcome::Negative);
    }
    for value in &values {
        print(&output::json(value)?)?;
    }
    Ok(Outcome::Positive)
}
