//! Runs promtool, which parses expressions and evaluates alerts on scraped metrics.
//!
//! The metrics are real, but the time is not. A state is repeated for as long as an alert waits, with the
//! same values in each scrape or with the growth from [`Pod::growing`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use policy_sync_testenv::binaries;
use policy_sync_testenv::metrics::{Metrics, Series};
use serde_json::{Value, json};

/// The interval of scrapes and evaluations in seconds.
pub(crate) const STEP: usize = 30;

/// The scraped metrics of a pod.
#[derive(Clone, Debug)]
pub(crate) struct Pod {
    name: &'static str,
    served: Metrics,
    /// The growth of series from one scrape to the next.
    growth: BTreeMap<String, f64>,
}

impl Pod {
    pub(crate) fn new(name: &'static str, served: Metrics) -> Self {
        Self { name, served, growth: BTreeMap::new() }
    }

    pub(crate) fn served(&self) -> &Metrics {
        &self.served
    }

    /// Makes each series `name` that differs from `before` grow by this value with each scrape.
    pub(crate) fn growing(mut self, name: &str, by: f64, before: &[Self]) -> Self {
        let before = before.iter().find(|before| before.name == self.name);
        let was = |series: &Series| {
            let same = |other: &&Series| (&other.name, &other.labels) == (&series.name, &series.labels);
            before.and_then(|before| before.served.series().iter().find(same)).map(|series| series.value)
        };
        let grows = |series: &&Series| series.name == name && was(series) != Some(series.value);
        let grown: Vec<_> =
            self.served.series().iter().filter(grows).map(|series| written(series, &[])).collect();
        self.growth.extend(grown.into_iter().map(|series| (series, by)));
        self
    }
}

/// The pods of a job for this number of scrapes.
#[derive(Clone, Debug)]
pub(crate) struct Phase(pub(crate) usize, pub(crate) Vec<Pod>);

/// A firing alert, with its labels in addition to the labels of the rule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FiringAlert(pub(crate) &'static str, pub(crate) &'static [(&'static str, &'static str)]);

/// The metrics of a job over time, and all alerts that fire at each checked scrape.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) phases: Vec<Phase>,
    pub(crate) checks: Vec<(usize, Vec<FiringAlert>)>,
}

/// The rules of a PrometheusRule.
pub(crate) struct Rules<'r>(pub(crate) &'r Value);

impl Rules<'_> {
    /// The alerting rules of the PrometheusRule.
    pub(crate) fn alerts(&self) -> Result<Vec<&Value>> {
        let groups = self.0["groups"].as_array().context("no groups")?;
        Ok(groups.iter().flat_map(|group| group["rules"].as_array().into_iter().flatten()).collect())
    }

    /// The rule of the alert `name`.
    pub(crate) fn alert(&self, name: &str) -> Result<&Value> {
        let found = self.alerts()?.into_iter().find(|rule| rule["alert"] == name);
        found.with_context(|| format!("no alert {name}"))
    }

    /// The `for` duration of an alert, in scrapes.
    pub(crate) fn waits(&self, name: &str) -> Result<usize> {
        let text = self.alert(name)?["for"].as_str().context("the alert has no for")?.to_owned();
        let minutes = text.strip_suffix('m').with_context(|| format!("for is {text}"))?;
        Ok(minutes.parse::<usize>()? * 60 / STEP)
    }

    /// Checks with promtool that only the expected alerts fire in `cases`. The pods in the cases belong to the
    /// Prometheus job `job`.
    ///
    /// # Errors
    ///
    /// If an alert fires that is not expected. The error names such alerts.
    pub(crate) async fn hold(&self, job: &str, cases: &[Case]) -> Result<()> {
        let folder = tempfile::tempdir()?;
        fs::write(folder.path().join("rules.json"), self.0.to_string())?;
        let expressions: Vec<_> = self.alerts()?.iter().map(|rule| rule["expr"].to_string()).collect();
        let is_used = |series: &Series| expressions.iter().any(|text| text.contains(&series.name));
        let mut tests = Vec::new();
        for case in cases {
            let checks = case.checks.iter().map(|(at, firing)| self.checks(*at, firing));
            // A healthy release in the same Prometheus must not hide the alerts of the tested release.
            let scrapes = case.phases.iter().map(|Phase(scrapes, _)| scrapes).sum();
            let well = case.phases.first().map(|Phase(_, well)| well.clone()).unwrap_or_default();
            let other = input("other/policy-sync", &[Phase(scrapes, well)], is_used);
            let series = [input(job, &case.phases, is_used), other].concat();
            tests.push(json!({
                "name": case.name,
                "interval": format!("{STEP}s"),
                "input_series": series,
                "alert_rule_test": checks.collect::<Result<Vec<_>>>()?.concat(),
            }));
        }
        run_tests(folder.path(), &tests, &["rules.json"]).await
    }

    /// promtool's expectations at one scrape: for each alert, whether it fires.
    fn checks(&self, at: usize, firing: &[FiringAlert]) -> Result<Vec<Value>> {
        for FiringAlert(name, _) in firing {
            self.alert(name)?;
        }
        let check = |rule: &&Value| {
            let firing =
                firing.iter().filter(|firing| rule["alert"] == firing.0).map(|FiringAlert(_, labels)| {
                    let (mut all, mut annotations) =
                        (rule["labels"].clone(), rule["annotations"].to_string());
                    for (label, value) in *labels {
                        all[label] = json!(value);
                        annotations = annotations.replace(&format!("{{{{ $labels.{label} }}}}"), value);
                    }
                    let annotations: Value = serde_json::from_str(&annotations)?;
                    anyhow::Ok(json!({ "exp_labels": all, "exp_annotations": annotations }))
                });
            let expected: Vec<Value> = firing.collect::<Result<_>>()?;
            let at = format!("{}s", at * STEP);
            anyhow::Ok(json!({ "eval_time": at, "alertname": rule["alert"], "exp_alerts": expected }))
        };
        self.alerts()?.iter().map(check).collect()
    }
}

/// The series of a job in consecutive phases. A series that ends becomes stale.
fn input(job: &str, phases: &[Phase], is_used: impl Fn(&Series) -> bool) -> Vec<Value> {
    let scrapes: usize = phases.iter().map(|Phase(scrapes, _)| scrapes).sum();
    let mut values: BTreeMap<String, Vec<Option<f64>>> = BTreeMap::new();
    let mut begin = 0;
    for Phase(scrapes_of_phase, pods) in phases {
        for pod in pods {
            for series in pod.served.series().iter().filter(|series| is_used(series)) {
                let growth = pod.growth.get(&written(series, &[])).copied().unwrap_or_default();
                let target = target(job, pod.name);
                let values = values.entry(written(series, &target)).or_insert_with(|| vec![None; scrapes]);
                for scrape in 0..*scrapes_of_phase {
                    values[begin + scrape] = Some(series.value + growth * scrape as f64);
                }
            }
        }
        begin += scrapes_of_phase;
    }
    let text = |values: &[Option<f64>]| {
        let mut text = String::new();
        let mut before = None;
        for value in values {
            // Writing to a String cannot fail.
            let _ = match value {
                Some(value) => write!(text, "{value} "),
                None if before.is_some() => write!(text, "stale "),
                None => write!(text, "_ "),
            };
            before = *value;
        }
        text.trim_end().to_owned()
    };
    values.iter().map(|(series, values)| json!({ "series": series, "values": text(values) })).collect()
}

/// The labels that a PodMonitor's target gives each series.
fn target<'t>(job: &'t str, pod: &'t str) -> [(&'static str, &'t str); 6] {
    let namespace = job.split('/').next().unwrap_or_default();
    let endpoint = [("container", "controller"), ("endpoint", "metrics")];
    [("job", job), ("namespace", namespace), ("pod", pod), ("instance", pod), endpoint[0], endpoint[1]]
}

/// The names of the labels of a target.
pub(crate) fn target_labels() -> [&'static str; 6] {
    target("", "").map(|(label, _)| label)
}

fn written(series: &Series, target: &[(&str, &str)]) -> String {
    let own = series.labels.iter().map(|(label, value)| format!("{label}={value:?}"));
    let labels: Vec<_> =
        own.chain(target.iter().map(|(label, value)| format!("{label}={value:?}"))).collect();
    format!("{}{{{}}}", series.name, labels.join(","))
}

/// Checks with promtool that each of `expressions` returns a result for the metrics of the pods of `job`.
///
/// # Errors
///
/// If an expression is invalid or returns nothing.
pub(crate) async fn check_results(job: &str, pods: &[Pod], expressions: &[String]) -> Result<()> {
    let nothing = |expression: &String| json!({ "expr": format!("absent({expression})"), "eval_time": "5m", "exp_samples": [] });
    let test = json!({
        "name": "served metrics",
        "interval": format!("{STEP}s"),
        "input_series": input(job, &[Phase(20, pods.to_vec())], |_| true),
        "promql_expr_test": expressions.iter().map(nothing).collect::<Vec<_>>(),
    });
    run_tests(tempfile::tempdir()?.path(), &[test], &[]).await
}

/// Runs promtool's unit tests in `folder`.
async fn run_tests(folder: &Path, tests: &[Value], rules: &[&str]) -> Result<()> {
    let file = folder.join("tests.json");
    let tests = json!({ "rule_files": rules, "evaluation_interval": format!("{STEP}s"), "tests": tests });
    fs::write(&file, tests.to_string())?;
    promtool(&["test", "rules", &file.display().to_string()]).await
}

/// Checks `rules` with promtool.
///
/// # Errors
///
/// If promtool finds a fault.
pub(crate) async fn check_rules(rules: &Value) -> Result<()> {
    let file = tempfile::NamedTempFile::new()?;
    fs::write(file.path(), rules.to_string())?;
    promtool(&["check", "rules", "--lint-fatal", &file.path().display().to_string()]).await
}

async fn promtool(arguments: &[&str]) -> Result<()> {
    let program = binaries::debian("prometheus", "usr/bin/promtool").await?;
    let output = Command::new(program).args(arguments).output().context("running promtool")?;
    let printed = [output.stdout, output.stderr].concat();
    ensure!(output.status.success(), "promtool: {}", String::from_utf8_lossy(&printed));
    Ok(())
}

/// The words of an expression, without quoted text, numbers and durations.
pub(crate) fn words(expression: &str) -> BTreeSet<&str> {
    let outside = expression.split('"').step_by(2);
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let words = outside.flat_map(|text| text.split(move |c| !is_word(c)));
    words.filter(|word| word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')).collect()
}

/// Checks that each word of an expression is a PromQL keyword that rules and dashboard use, a served series,
/// or a label of these series.
///
/// # Errors
///
/// If a word is unknown, or if no word is a series.
pub(crate) fn check_metric_names(expression: &str, served: &Metrics) -> Result<()> {
    const LANGUAGE: [&str; 10] =
        ["absent", "and", "by", "histogram_quantile", "label_values", "max", "min", "on", "rate", "sum"];
    let words = words(expression);
    let named: Vec<&Series> =
        served.series().iter().filter(|series| words.contains(series.name.as_str())).collect();
    ensure!(!named.is_empty(), "{expression} uses no served metric");
    let labels: BTreeSet<&str> = named
        .iter()
        .flat_map(|series| series.labels.keys().map(String::as_str))
        .chain(target_labels())
        .collect();
    let is_known = |word: &&&str| {
        LANGUAGE.contains(*word)
            || labels.contains(**word)
            || named.iter().any(|series| series.name == **word)
    };
    let unknown: Vec<_> = words.iter().filter(|word| !is_known(word)).collect();
    ensure!(unknown.is_empty(), "{expression} uses unknown names: {unknown:?}");
    Ok(())
}

/// The Prometheus operator's CustomResourceDefinition for PrometheusRules, with only the fields that the chart uses.
pub(crate) fn prometheus_rules() -> Value {
    let text = json!({ "type": "string" });
    let texts = json!({ "type": "object", "additionalProperties": text });
    let rule = json!({
        "type": "object",
        "required": ["expr"],
        "properties": { "alert": text, "expr": text, "for": text, "labels": texts, "annotations": texts },
    });
    let group = json!({
        "type": "object",
        "properties": { "name": text, "rules": { "type": "array", "items": rule } },
    });
    let spec = json!({ "type": "object", "properties": { "groups": { "type": "array", "items": group } } });
    definition("PrometheusRule", "prometheusrules", &spec)
}

/// A CustomResourceDefinition of the Prometheus operator with only this `spec`.
pub(crate) fn definition(kind: &str, plural: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.monitoring.coreos.com") },
        "spec": {
            "group": "monitoring.coreos.com",
            "scope": "Namespaced",
            "names": { "kind": kind, "plural": plural },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": spec } } },
            }],
        },
    })
}
