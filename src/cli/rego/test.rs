//! `policy-sync rego test`: runs the rules of Rego modules whose names start with `test_`, and checks
//! samples.

use std::path::PathBuf;

use clap::Args;
use regorus::Value;

use super::check::counted;
use super::files;
use crate::cli::Answer;
use crate::cli::output::{print, say};
use crate::cli::queries::QueryArguments;
use crate::cli::text::printable;
use policy_sync_controller::admission::sample::mended;
use policy_sync_rego::asked::ADMISSION;
use policy_sync_rego::called::{Called, SAMPLE, TEST};
use policy_sync_rego::embedded::{Embedded, Evaluated};

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

pub(super) async fn run(arguments: &Arguments) -> anyhow::Result<Answer> {
    let files = files::read(&arguments.paths)?.asking(arguments.queries.packages()?);
    let Some((bundle, _)) = files.bundle().await? else { return Ok(Answer::No) };
    let admission = files.packages().of(ADMISSION).to_owned();
    let engine = Embedded::new(&bundle, files.data.into())?;
    let (tests, samples) = (bundle.called(TEST), bundle.called(SAMPLE));
    let failed = tests.iter().filter_map(|test| failure(&engine, test));
    let failed = failed.chain(samples.iter().filter_map(|sample| conflict(&engine, &admission, sample)));
    let mut count = 0;
    for said in failed {
        count += 1;
        print(&(printable(&said) + "\n"))?;
    }
    let all = tests.len() + samples.len();
    if all == 0 {
        say("no rule is called test_… or sample_…");
    }
    print(&format!("{}, {count} failed\n", counted(all, "test")))?;
    Ok(if count == 0 && all > 0 { Answer::Fine } else { Answer::No })
}

/// The message of a failed test; `None` if it passes.
fn failure(engine: &Embedded, test: &Called) -> Option<String> {
    if test.definitions > 1 {
        let Called { place, definitions, .. } = test;
        return Some(format!("{place} is defined {definitions} times: each test needs its own name"));
    }
    match engine.evaluate(&test.query, &Value::Undefined) {
        Ok(evaluated) => {
            evaluated.prints.iter().for_each(|line| say(printable(line)));
            let is_true = evaluated.into_value() == Some(Value::Bool(true));
            (!is_true).then(|| format!("{} is not true", test.place))
        }
        Err(failure) => Some(format!("{} is not true: {failure}", test.place)),
    }
}

/// The message if the changes of the admission policies to a sample conflict; `None` if they can be applied.
fn conflict(engine: &Embedded, admission: &str, sample: &Called) -> Option<String> {
    let said = match engine.evaluate(&sample.query, &Value::Undefined).map(Evaluated::into_value) {
        Ok(Some(input)) => mended(engine, admission, &input).err()?,
        Ok(None) => "it is undefined".to_owned(),
        Err(failure) => failure.to_string(),
    };
    Some(format!("{}: {said}", sample.place))
}
