//! What has been printed while watching, and so what is new.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::Format;
use super::report::Report;
use super::table::Row;
use super::view::View;
use crate::cli::columns::Columns;
use crate::cli::output;

/// What tells a policy from all others: `<resource>.<group>`, namespace, name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) resource: String,
    pub(super) namespace: String,
    pub(super) name: String,
}

/// What is new, to be printed and to be said.
#[derive(Debug, Default, PartialEq)]
pub(super) struct News {
    pub(super) printed: String,
    pub(super) said: Vec<String>,
}

/// What has been printed.
pub(super) struct Shown {
    view: View,
    format: Format,
    columns: Columns,
    headed: bool,
    policies: BTreeMap<Key, Policy>,
}

/// What has been printed of a policy.
#[derive(Default)]
struct Policy {
    rows: Vec<Row>,
    document: Option<Value>,
    said: Vec<String>,
}

impl Key {
    pub(super) fn of(report: &Report) -> Self {
        let (resource, namespace, name) = (&report.resource, &report.namespace, &report.name);
        Self { resource: resource.clone(), namespace: namespace.clone(), name: name.clone() }
    }
}

impl Shown {
    pub(super) fn new(view: View, format: Format) -> Self {
        Self { view, format, columns: Columns::default(), headed: false, policies: BTreeMap::new() }
    }

    /// The policies of a kind that have been seen.
    pub(super) fn of_kind<'s>(&'s self, resource: &'s str) -> impl Iterator<Item = &'s Key> {
        self.policies.keys().filter(move |key| key.resource == resource)
    }

    /// What is new with policies of which these are the reports; `None` where the policy is gone.
    ///
    /// # Errors
    ///
    /// Where a report cannot be written in the format.
    pub(super) fn news(
        &mut self,
        reports: impl IntoIterator<Item = (Key, Option<Report>)>,
        now: Timestamp,
    ) -> anyhow::Result<News> {
        let (mut news, mut cells) = (News::default(), Vec::new());
        for (key, report) in reports {
            let old = self.policies.remove(&key).unwrap_or_default();
            let shown = report.as_ref().filter(|report| self.view.shows(report));
            let new = shown.map(|report| self.policy(report)).unwrap_or_default();
            news.said.extend(new.said.iter().filter(|text| !old.said.contains(text)).cloned());
            match self.format {
                Format::Table | Format::Wide => {
                    let created = shown.and_then(|report| report.created);
                    let rows = rows(&old.rows, &new.rows);
                    cells.extend(rows.iter().map(|row| self.view.cells(row, created, now)));
                }
                Format::Json | Format::Yaml if new.document != old.document => {
                    let gone = || json!({"resource": key.resource, "namespace": key.namespace, "name": key.name, "gone": true});
                    let document = new.document.clone().unwrap_or_else(gone);
                    news.printed.push_str(&self.text(&document)?);
                }
                Format::Json | Format::Yaml => {}
            }
            if report.is_some() {
                self.policies.insert(key, new);
            }
        }
        if !cells.is_empty() {
            let headers = Some(self.view.headers()).filter(|_| !self.headed);
            self.headed = true;
            news.printed = self.columns.text(headers.into_iter().chain(cells));
        }
        Ok(news)
    }

    fn policy(&self, report: &Report) -> Policy {
        let documents = matches!(self.format, Format::Json | Format::Yaml);
        Policy {
            rows: if documents { Vec::new() } else { self.view.rows(report) },
            document: documents.then(|| self.view.json(report)),
            said: self.view.remarks(report),
        }
    }

    fn text(&self, document: &Value) -> anyhow::Result<String> {
        match self.format {
            Format::Yaml => Ok(format!("---\n{}", output::yaml(document)?)),
            _ => output::json_line(document),
        }
    }
}

/// The rows of `new` that were not there, and in the words of those that are gone, that they are.
fn rows(old: &[Row], new: &[Row]) -> Vec<Row> {
    let changed = new.iter().filter(|row| !old.contains(row)).cloned();
    let gone = old.iter().filter(|row| !new.iter().any(|other| other.of == row.of)).map(|row| {
        let mut state = vec!["-".to_owned(); row.state.len()];
        state[0] = "gone".to_owned();
        Row { of: row.of.clone(), state }
    });
    changed.chain(gone).collect()
}

#[cfg(test)]
mod tests;
