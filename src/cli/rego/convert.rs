//! `policy-sync rego convert`: converts Gatekeeper's ConstraintTemplates and constraints to Rego modules.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, ensure};
use clap::Args;
use serde_json::Value;

use super::check::counted_noun;
use super::files::{self, find_files};
use crate::cli::output::{print, print_message};
use crate::cli::text::printable;
use crate::cli::{Outcome, documents, manifests};
use policy_sync_rego::constraints::{self, Case, Constraint, Converted, SuiteTest, Template};

pub(super) const EXAMPLES: &str = "\
Examples:
  # Templates, constraints and suites in a directory
  policy-sync rego convert gatekeeper --to ~/policies

  # The files that a suite names
  policy-sync rego convert gatekeeper/suite.yaml --to ~/tested";

/// Arguments of `policy-sync rego convert`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Manifests of ConstraintTemplates, constraints and test suites, or directories with .yaml, .yml or .json files.
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// Directory for the modules. It is created if it does not exist. Existing files are not changed.
    #[arg(long, value_name = "FOLDER")]
    to: PathBuf,
}

/// The objects in the files, and the faults in some of them.
#[derive(Debug, Default)]
struct Objects {
    templates: BTreeMap<String, Template>,
    constraints: Vec<ConstraintFile>,
    /// The test cases, by the file of their constraint.
    cases: BTreeMap<PathBuf, Vec<Case>>,
    read: BTreeSet<PathBuf>,
    faults: Vec<String>,
}

/// A constraint in a file.
#[derive(Debug)]
struct ConstraintFile {
    file: PathBuf,
    place: String,
    constraint: Constraint,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let mut files = Vec::new();
    for path in &arguments.paths {
        if path.is_dir() {
            find_files(path, manifests::is_manifest_file, &mut files)?
        } else {
            files.push(path.clone())
        }
    }
    files.sort();
    let mut objects = Objects::default();
    files.iter().try_for_each(|file| objects.read(file))?;
    ensure!(
        !objects.templates.is_empty() || !objects.faults.is_empty(),
        "there is no ConstraintTemplate in these files"
    );
    let modules = objects.converted();
    let write = || -> anyhow::Result<()> {
        fs::create_dir_all(&arguments.to)?;
        modules.iter().try_for_each(|module| write(&arguments.to, module))
    };
    write().with_context(|| format!("cannot write to {}", arguments.to.display()))?;
    objects.faults.iter().for_each(|fault| print_message(printable(fault)));
    print(&format!("{} in {}\n", counted_noun(modules.len(), "module"), arguments.to.display()))?;
    Ok(if objects.faults.is_empty() { Outcome::Positive } else { Outcome::Negative })
}

fn write(folder: &Path, Converted { name, text }: &Converted) -> anyhow::Result<()> {
    let path = folder.join(format!("{name}.rego"));
    let mut file = fs::File::create_new(&path).with_context(|| path.display().to_string())?;
    Ok(file.write_all(text.as_bytes())?)
}

impl Objects {
    /// Reads the objects of `file`, and the files that its suites reference.
    fn read(&mut self, file: &Path) -> anyhow::Result<()> {
        if !self.read.insert(file.to_owned()) {
            return Ok(());
        }
        let (name, text) = documents::read(file)?;
        let documents = documents::documents(&text).map_err(|fault| anyhow!("{name}: {fault}"))?;
        for document in documents {
            let place = format!("{name}:{}", document.line);
            self.add(&place, file, &document.value)?;
        }
        Ok(())
    }

    fn add(&mut self, place: &str, file: &Path, object: &Value) -> anyhow::Result<()> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        if let Some(template) = Template::read(object) {
            match template {
                Ok(template) => {
                    let known = self.templates.entry(template.kind.clone()).or_insert(template.clone());
                    if *known != template {
                        self.faults.push(format!(
                            "{place}: ConstraintTemplate {name}: another template has the kind {}",
                            template.kind
                        ));
                    }
                }
                Err(fault) => self.faults.push(format!("{place}: ConstraintTemplate {name}: {fault}")),
            }
        } else if let Some(constraint) = Constraint::read(object) {
            match constraint {
                Ok(constraint) => {
                    self.constraints.push(ConstraintFile {
                        file: file.to_owned(),
                        place: place.to_owned(),
                        constraint,
                    });
                }
                Err(fault) => self.faults.push(format!("{place}: constraint {name}: {fault}")),
            }
        } else if let Some(tests) = constraints::suite(object) {
            let folder = file.parent().unwrap_or(Path::new(""));
            for test in tests {
                self.suite(folder, &test).with_context(|| format!("{place}: Suite {name}"))?;
            }
        }
        Ok(())
    }

    /// Reads the files that `test`, of a suite in `folder`, references.
    fn suite(&mut self, folder: &Path, test: &SuiteTest) -> anyhow::Result<()> {
        self.read(&folder.join(&test.template))?;
        let file = folder.join(&test.constraint);
        self.read(&file)?;
        let cases = test.cases.iter().map(|(name, object, assertions)| {
            let object = files::document(&folder.join(object))?;
            Ok(Case { name: name.clone(), object, assertions: assertions.clone() })
        });
        let cases = cases.collect::<anyhow::Result<Vec<_>>>()?;
        self.cases.entry(file).or_default().extend(cases);
        Ok(())
    }

    /// Converts all objects to modules. Adds the faults of objects that cannot be converted.
    fn converted(&mut self) -> Vec<Converted> {
        let (mut modules, mut faults) = (Vec::new(), Vec::new());
        let mut unconverted = BTreeSet::new();
        for template in self.templates.values() {
            match constraints::template(template) {
                Ok(found) => modules.extend(found),
                Err(found) => {
                    unconverted.insert(&template.kind);
                    faults.extend(found.iter().map(|fault| format!("ConstraintTemplate {fault}")));
                }
            }
        }
        let mut names: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for ConstraintFile { file, place, constraint } in &mut self.constraints {
            let Constraint { kind, name, enforcement, .. } = &*constraint;
            if unconverted.contains(kind) {
                continue;
            }
            let fault = |fault: &str| format!("{place}: {kind} {name}: {fault}");
            let Some(template) = self.templates.get(kind) else {
                faults.push(fault("there is no ConstraintTemplate of this kind: name its file, too"));
                continue;
            };
            if enforcement != "deny" {
                print_message(printable(&format!(
                    "warning: {}",
                    fault(&format!(
                        "annotate the ConfigMap of the module with kuadrant.io/enforcement: {enforcement}"
                    ))
                )));
            }
            let unused = constraints::unused(names.entry(kind.clone()).or_default(), name, '-');
            if unused != *name {
                let text = fault(&format!("its name is {unused} here: another constraint has this name"));
                print_message(printable(&format!("warning: {text}")));
                constraint.name = unused;
            }
            let tests = self.cases.get(file);
            let converted = constraints::constraint(template, constraint).and_then(|module| {
                let tests = tests.map(|cases| constraints::tests(template, constraint, cases));
                Ok([module].into_iter().chain(tests.transpose()?).collect::<Vec<_>>())
            });
            match converted {
                Ok(found) => modules.extend(found),
                Err(found) => {
                    faults.push(format!("{place}: {} {}: {found}", constraint.kind, constraint.name))
                }
            }
        }
        self.faults.extend(faults);
        modules
    }
}
