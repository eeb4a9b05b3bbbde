//! `policy-sync rego test`.

use std::path::PathBuf;

use clap::Args;
use regorus::Value;

use super::check::counted;
use super::files;
use crate::cli::Answer;
use crate::cli::output::{print, say};
use crate::cli::text::printable;
use crate::rego::embedded::Embedded;

pub(super) const EXAMPLES: &str = "\
Examples:
  # The tests of all modules below a folder
  policy-sync rego test policies

  # Those of one policy
  policy-sync rego test policies/placement";

/// Arguments of `policy-sync rego test`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Modules, folders with files that end in .rego, or manifests that carry modules; - for a module on standard input.
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
}

pub(super) async fn run(arguments: &Arguments) -> anyhow::Result<Answer> {
    let files = files::read(&arguments.paths)?;
    let Some(bundle) = files.bundle().await? else { return Ok(Answer::No) };
    let engine = Embedded::new(&bundle, files.data.into())?;
    let tests = bundle.tests();
    let mut failed = 0;
    for test in &tests {
        let said = match engine.evaluate(&test.query, &Value::Undefined) {
            Ok(evaluated) => {
                evaluated.prints.iter().for_each(|line| say(printable(line)));
                if evaluated.into_value() == Some(Value::Bool(true)) {
                    continue;
                }
                test.fault.to_string()
            }
            Err(failure) => format!("{}: {failure}", test.fault),
        };
        failed += 1;
        print(&(printable(&said) + "\n"))?;
    }
    if tests.is_empty() {
        say("no rule is called test_…");
    }
    print(&format!("{}, {failed} failed\n", counted(tests.len(), "test")))?;
    Ok(if failed == 0 && !tests.is_empty() { Answer::Fine } else { Answer::No })
}
