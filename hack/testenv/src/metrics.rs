//! Parses and lints the metrics that a process serves at `/metrics`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::binaries;

/// The metrics of one scrape.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    text: String,
    series: Vec<Series>,
}

/// One line of the text format.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// The name. The names of a histogram's series end with `_bucket`, `_sum` or `_count`.
    pub name: String,
    /// Labels by name.
    pub labels: BTreeMap<String, String>,
    /// The sample's value.
    pub value: f64,
}

impl Metrics {
    /// Parses the text format. Escaped quotes and commas in labels are not supported, because the controller's labels
    /// never contain such characters.
    ///
    /// # Errors
    ///
    /// Returns an error if a line cannot be parsed.
    pub fn parse(text: String) -> Result<Self> {
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        let series =
            lines.map(|line| series(line).with_context(|| format!("invalid line of metrics: {line}")));
        Ok(Self { series: series.collect::<Result<_>>()?, text })
    }

    /// The sum of all series with this name and these labels, 0 if there are none.
    #[must_use]
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.with(name, labels).map(|series| series.value).sum()
    }

    /// The value of the only series with this name and these labels.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such series, or more than one.
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> Result<f64> {
        let mut found = self.with(name, labels);
        let value = found.next().map(|series| series.value);
        ensure!(found.next().is_none(), "several {name} {labels:?} in {}", self.text);
        value.with_context(|| format!("no {name} {labels:?} in {}", self.text))
    }

    /// All values of `label` in series called `name`.
    #[must_use]
    pub fn labels(&self, name: &str, label: &str) -> BTreeSet<&str> {
        self.with(name, &[]).filter_map(|series| series.labels.get(label)).map(String::as_str).collect()
    }

    /// Number of reported problems in `category`.
    #[must_use]
    pub fn problems(&self, category: &str) -> f64 {
        self.sum("policy_sync_problems", &[("category", category)])
    }

    /// All series.
    #[must_use]
    pub fn series(&self) -> &[Series] {
        &self.series
    }

    /// The names of all metrics; a histogram appears once, under its base name.
    #[must_use]
    pub fn names(&self) -> BTreeSet<&str> {
        let types = self.text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        types.filter_map(|line| line.split(' ').next()).collect()
    }

    fn with(&self, name: &str, labels: &[(&str, &str)]) -> impl Iterator<Item = &Series> {
        let has = move |series: &&Series| {
            series.name == name
                && labels
                    .iter()
                    .all(|(label, value)| series.labels.get(*label).is_some_and(|found| found == value))
        };
        self.series.iter().filter(has)
    }

    /// Checks the text with promtool, Prometheus' linter.
    ///
    /// # Errors
    ///
    /// Returns an error if the linter reports a problem or cannot be run.
    pub async fn lint(&self) -> Result<()> {
        let mut linter = Command::new(promtool().await?)
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("starting promtool")?;
        let mut input = linter.stdin.take().context("promtool has no input")?;
        input.write_all(self.text.as_bytes()).await.context("writing to promtool")?;
        drop(input);
        let output = linter.wait_with_output().await.context("waiting for promtool")?;
        let found = [output.stdout, output.stderr].concat();
        ensure!(output.status.success(), "promtool: {}", String::from_utf8_lossy(&found));
        Ok(())
    }
}

/// The path of promtool: from the `PATH`, otherwise from a Debian package.
async fn promtool() -> Result<PathBuf> {
    binaries::debian("prometheus", "usr/bin/promtool").await
}

impl fmt::Display for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn series(line: &str) -> Option<Series> {
    let (series, value) = line.rsplit_once(' ')?;
    let (name, labels) = match series.split_once('{') {
        Some((name, labels)) => (name, labels.strip_suffix('}')?),
        None => (series, ""),
    };
    let label = |label: &str| {
        let (name, value) = label.split_once("=\"")?;
        Some((name.to_owned(), value.strip_suffix('"')?.to_owned()))
    };
    let labels = labels.split(',').filter(|text| !text.is_empty()).map(label).collect::<Option<_>>()?;
    Some(Series { name: name.to_owned(), labels, value: value.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_read_with_their_labels() {
        let text = "# TYPE works gauge\nworks{for=\"policy\",state=\"applied\"} 2\nworks{for=\"access\",state=\"applied\"} 1\n\
                    # TYPE up gauge\nup 1\n";
        let metrics = Metrics::parse(text.to_owned()).unwrap();
        assert_eq!(metrics.sum("works", &[("state", "applied")]), 3.0);
        assert_eq!(metrics.value("works", &[("for", "policy")]).unwrap(), 2.0);
        assert_eq!(metrics.value("up", &[]).unwrap(), 1.0);
        assert!(metrics.value("down", &[]).is_err() && metrics.value("works", &[]).is_err());
        assert_eq!(metrics.labels("works", "for"), ["access", "policy"].into());
        assert_eq!(metrics.names(), ["up", "works"].into());
        assert!(Metrics::parse("up".to_owned()).is_err());
    }
}
