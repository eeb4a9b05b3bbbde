//! `policy-sync rego test`: runs the rules of Rego modules whose names start with `test_`. Also evaluates the admission
//! policies for samples, which are the values of rules whose names start with `sample_`.

use std::path::PathBuf;

use clap::Args;
use regorus::Value;

use super::check::counted_noun;
use super::files;
use crate::cli::Outcome;
use crate::cli::output::{print, print_message};
use crate::cli::queries::QueryArguments;
use crate::cli::text::printable;
use policy_sync_controller::admission::patches::check_patches;
use policy_sync_rego::embedded::{Embedded, EvaluationResult};
use policy_sync_rego::prefixed_rules::{PrefixedRule, SAMPLE_PREFIX, TEST_PREFIX};
use policy_sync_rego::queries::ADMISSION;

pub(super) const EXAMPLES: &str = "\
Examples:
  # The tests of all modules in a directory
  policy-sync rego test policies

  # The tests of one policy
  policy-sync rego test policies/placement";

/// Arguments of `policy-sync rego test`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Modules, directories with .rego files, or manifests with modules; - for a module on standard input.
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    queries: QueryArguments,
}

pub(super) async fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let files = files::read(&arguments.paths)?.with_packages(arguments.queries.packages()?);
    let Some((bundle, _)) = files.bundle().await? else { return Ok(Outcome::Negative) };
    let admission = files.packages().of(ADMISSION).to_owned();
    let engine = Embedded::new(&bundle, files.data.into())?;
    let (tests, samples) = (bundle.rules_with_prefix(TEST_PREFIX), bundle.rules_with_prefix(SAMPLE_PREFIX));
    let failed = tests.iter().filter_map(|test| failure(&engine, test));
    let failed = failed.chain(samples.iter().filter_map(|sample| conflict(&engine, &admission, sample)));
    let mut count = 0;
    for message in failed {
        count += 1;
        print(&(printable(&message) + "\n"))?;
    }
    let all = tests.len() + samples.len();
    if all == 0 {
        print_message("no rule is called test_… or sample_…");
    }
    print(&format!("{}, {count} failed\n", counted_noun(all, "test")))?;
    Ok(if count == 0 && all > 0 { Outcome::Positive } else { Outcome::Negative })
}

/// The message of a failed test; `None` if the test passes.
fn failure(engine: &Embedded, test: &PrefixedRule) -> Option<String> {
    if test.definitions > 1 {
        let PrefixedRule { fault, definitions, .. } = test;
        return Some(format!("{fault} is defined {definitions} times: each test needs its own name"));
    }
    match engine.evaluate(&test.query, &Value::Undefined) {
        Ok(evaluated) => {
            evaluated.prints.iter().for_each(|line| print_message(printable(line)));
            let is_true = evaluated.into_value() == Some(Value::Bool(true));
            (!is_true).then(|| format!("{} is not true", test.fault))
        }
        Err(failure) => Some(format!("{} is not true: {failure}", test.fault)),
    }
}

/// The message if the changes of the admission policies to a sample conflict; `None` if they can be applied.
fn conflict(engine: &Embedded, admission: &str, sample: &PrefixedRule) -> Option<String> {
    let message = match engine.evaluate(&sample.query, &Value::Undefined).map(EvaluationResult::into_value) {
        Ok(Some(input)) => check_patches(engine, admission, &input).err()?,
        Ok(None) => "it is undefined".to_owned(),
        Err(failure) => failure.to_string(),
    };
    Some(format!("{}: {message}", sample.fault))
}
