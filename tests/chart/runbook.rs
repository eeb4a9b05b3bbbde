//! Runs `docs/runbook.md` as the person on call: each alert has a heading, and the commands below the heading are
//! executed as written.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Output;

use anyhow::{Context, Result, bail, ensure};
use policy_sync_testenv::ControlPlane;
use policy_sync_testenv::binaries::chart_tools;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

use crate::binary;
use crate::helm::{Helm, Release, required};
use crate::prometheus::Rules;

/// The programs that the commands of the runbook run.
const PROGRAMS: [&str; 3] = ["kubectl", "policy-sync", "helm"];

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/runbook.md")
}

/// The commands of one alert.
#[derive(Debug, Default)]
struct Section {
    find: Vec<String>,
    repair: Vec<String>,
}

/// The sections of the runbook, by alert.
#[derive(Debug)]
struct Runbook(BTreeMap<String, Section>);

impl Runbook {
    fn read() -> Result<Self> {
        let mut sections: BTreeMap<String, Section> = BTreeMap::new();
        let (mut alert, mut mends) = (None, false);
        for line in fs::read_to_string(path())?.lines() {
            if let Some(heading) = line.strip_prefix("## ") {
                alert = Some(heading.to_owned());
                sections.entry(heading.to_owned()).or_default();
            }
            match line {
                line if line.starts_with("**Diagnose.**") => mends = false,
                line if line.starts_with("**Fix.**") => mends = true,
                line if line.starts_with("    ") => {
                    let command = line.trim();
                    let is_one = PROGRAMS.iter().any(|program| command.starts_with(&format!("{program} ")));
                    ensure!(is_one, "not a command: {line}");
                    let section = alert.as_ref().and_then(|alert| sections.get_mut(alert));
                    let section = section.with_context(|| format!("no heading above {command}"))?;
                    if mends { &mut section.repair } else { &mut section.find }.push(command.to_owned());
                }
                _ => {}
            }
        }
        Ok(Self(sections))
    }

    fn section(&self, alert: &str) -> Result<&Section> {
        self.0.get(alert).with_context(|| format!("docs/runbook.md has no heading {alert}"))
    }
}

/// A person with the runbook, a hub and the programs.
pub(crate) struct OnCall {
    page: Runbook,
    /// The home directory, with the programs in `bin`.
    home: TempDir,
    kubeconfig: PathBuf,
    /// The values of the placeholders that have the same value for every alert.
    known: Vec<(&'static str, String)>,
    /// The commands that were run, as written in the runbook.
    ran: BTreeSet<String>,
}

impl OnCall {
    /// A reader with administrator rights on `hub`, where `release` is installed.
    pub(crate) async fn of(hub: &ControlPlane, release: Release<'_>) -> Result<Self> {
        let home = tempfile::tempdir()?;
        let bin = home.path().join("bin");
        fs::create_dir(&bin)?;
        let helm = chart_tools().await?.helm;
        let programs: [&Path; 3] = [&hub.binaries().kubectl, binary(), &helm];
        for (name, program) in PROGRAMS.iter().zip(programs) {
            symlink(program, bin.join(name))?;
        }
        let known = [("name", release.0), ("release", release.0), ("namespace", release.1)];
        Ok(Self {
            page: Runbook::read()?,
            home,
            kubeconfig: hub.kubeconfig().to_owned(),
            known: known.map(|(key, value)| (key, value.to_owned())).into(),
            ran: BTreeSet::new(),
        })
    }

    /// Runs all commands for diagnosis in the section of `alert`, with `filled` in place of the text in angle brackets,
    /// and returns the output of the commands.
    ///
    /// # Errors
    ///
    /// If a command cannot be run.
    pub(crate) async fn find(&mut self, alert: &str, filled: &[(&str, &str)]) -> Result<RunbookOutput> {
        let mut found = String::new();
        for command in self.page.section(alert)?.find.clone() {
            // A command may fail, because the hub has a problem.
            let output = self.run(&command, filled).await?;
            found += &output_text(&output);
        }
        Ok(RunbookOutput(found))
    }

    /// Runs the commands for repair in the section of `alert` that start with `beginning`.
    ///
    /// # Errors
    ///
    /// If no command starts with `beginning`, or if a command fails.
    pub(crate) async fn repair(
        &mut self,
        alert: &str,
        beginning: &str,
        filled: &[(&str, &str)],
    ) -> Result<()> {
        let commands =
            self.page.section(alert)?.repair.iter().filter(|command| command.starts_with(beginning));
        let commands: Vec<_> = commands.cloned().collect();
        ensure!(!commands.is_empty(), "{alert}: no repair command begins with {beginning}");
        for command in commands {
            let output = self.run(&command, filled).await?;
            ensure!(output.status.success(), "{command}: {}", output_text(&output));
        }
        Ok(())
    }

    async fn run(&mut self, command: &str, filled: &[(&str, &str)]) -> Result<Output> {
        self.ran.insert(command.to_owned());
        let known = self.known.iter().map(|(key, value)| (*key, value.as_str()));
        let line = known
            .chain(filled.iter().copied())
            .fold(command.to_owned(), |line, (key, value)| line.replace(&format!("<{key}>"), value));
        ensure!(!line.contains('<'), "a placeholder has no value: {line}");
        let mut shell = Command::new("sh");
        let paths = std::env::var("PATH").unwrap_or_default();
        shell.env("PATH", format!("{}:{paths}", self.home.path().join("bin").display()));
        shell.env("HOME", self.home.path()).env("KUBECONFIG", &self.kubeconfig);
        for (variable, folder) in
            [("HELM_CACHE_HOME", "cache"), ("HELM_CONFIG_HOME", "config"), ("HELM_DATA_HOME", "data")]
        {
            shell.env(variable, self.home.path().join(folder));
        }
        shell.env_remove("HELM_NAMESPACE").current_dir(env!("CARGO_MANIFEST_DIR"));
        shell.args(["-c", &line]).kill_on_drop(true).output().await.with_context(|| format!("running {line}"))
    }

    /// Checks that every command in the runbook was run.
    ///
    /// # Errors
    ///
    /// Names a command that was not run.
    pub(crate) fn ran_everything(&self) -> Result<()> {
        for (alert, Section { find, repair }) in &self.page.0 {
            let unseen = find.iter().chain(repair).find(|command| !self.ran.contains(*command));
            ensure!(unseen.is_none(), "{alert}: never run: {unseen:?}");
        }
        Ok(())
    }
}

fn output_text(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes)).concat()
}

/// The output of commands.
#[derive(Debug)]
pub(crate) struct RunbookOutput(String);

impl RunbookOutput {
    /// Checks that one line contains all of these words.
    ///
    /// # Errors
    ///
    /// If no line contains all words.
    pub(crate) fn names(&self, words: &[&str]) -> Result<&Self> {
        let has_all = |line: &str| words.iter().all(|word| line.contains(word));
        ensure!(self.0.lines().any(has_all), "no line has {words:?}:\n{}", self.0);
        Ok(self)
    }

    /// Whether the output has this line.
    pub(crate) fn has_line(&self, line: &str) -> bool {
        self.0.lines().any(|found| found.trim() == line)
    }
}

/// The runbook has the same alerts as the chart.
#[tokio::test]
async fn every_alert_has_a_heading_in_the_runbook_and_every_heading_an_alert() -> Result<()> {
    let mut values = required();
    values["prometheusRule"] = json!({ "enabled": true });
    let rendered = Helm::alone().await?.template(Release("policy-sync", "policy-sync"), &values)?;
    let rules = Rules(&rendered.one("PrometheusRule")?["spec"]);
    let page = Runbook::read()?;
    let text = fs::read_to_string(path())?;
    let mut rows: BTreeSet<&str> = text.lines().filter(|line| line.starts_with("| [")).collect();
    let mut headings: BTreeSet<&str> = page.0.keys().map(String::as_str).collect();
    for rule in rules.alerts()? {
        let alert = rule["alert"].as_str().context("no name")?;
        let section = page.section(alert)?;
        headings.remove(alert);
        let word = |word: &Value| word.as_str().unwrap_or_default().to_owned();
        let (severity, wait) = (word(&rule["labels"]["severity"]), word(&rule["for"]));
        let row = format!("| [{alert}](#{}) | {severity} | {wait} |", alert.to_lowercase());
        ensure!(rows.remove(row.as_str()), "the table has no row {row}");
        ensure!(!section.find.is_empty(), "{alert}: no diagnosis commands");
        let annotation =
            |name: &str| rule["annotations"][name].as_str().with_context(|| format!("{alert}: no {name}"));
        ensure!(annotation("runbook")? == format!("docs/runbook.md#{}", alert.to_lowercase()), "{rule}");
        ensure!(
            !annotation("summary")?.ends_with('.') && annotation("description")?.ends_with('.'),
            "{rule}"
        );
        // The runbook contains the command in the alert's description.
        let Some(command) = annotation("description")?.split('`').nth(1) else {
            bail!("{alert}: no command in the description")
        };
        let is_it = |found: &&String| {
            let found = found.replace("<namespace>", "policy-sync").replace("<name>", "policy-sync");
            found.replace("<resource>", "{{ $labels.resource }}") == command
        };
        ensure!(
            section.find.iter().any(|found| is_it(&found)),
            "{alert}: {command} is missing in the runbook"
        );
    }
    ensure!(headings.is_empty() && rows.is_empty(), "without an alert: {headings:?} {rows:?}");
    Ok(())
}
