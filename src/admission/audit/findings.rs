//! What an audit has found.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{ERROR, Found, Violation};
use policy_sync_api::moment::Moment;

/// How many violations are told one by one.
const TOLD: usize = 1_000;
/// The most bytes of what is told to whoever asks a server.
const BYTES: usize = 900 << 10;

/// What an audit has found: all is counted, and the first in order are kept.
#[derive(Clone, Debug)]
pub struct Findings {
    kept: Vec<Violation>,
    most: usize,
    counts: BTreeMap<String, usize>,
}

impl Default for Findings {
    fn default() -> Self {
        Self::keeping(TOLD)
    }
}

impl Findings {
    /// Nothing yet, where no more than `most` are to be kept.
    #[must_use]
    pub fn keeping(most: usize) -> Self {
        Self { kept: Vec::new(), most, counts: BTreeMap::new() }
    }

    /// Adds what is a violation.
    pub fn note(&mut self, found: Found) {
        if let Found::Violation(violation) = found {
            self.add(violation);
        }
    }

    /// Counts one that is so strict, and keeps nothing of it.
    pub fn count_one(&mut self, enforcement: &str) {
        match self.counts.get_mut(enforcement) {
            Some(count) => *count += 1,
            None => drop(self.counts.insert(enforcement.to_owned(), 1)),
        }
    }

    /// Adds one.
    pub fn add(&mut self, violation: Violation) {
        self.count_one(&violation.enforcement);
        self.kept.push(violation);
        if self.kept.len() / 2 >= self.most {
            self.sort();
        }
    }

    fn sort(&mut self) {
        self.kept.sort_by(|one, other| one.place().cmp(&other.place()));
        self.kept.truncate(self.most);
    }

    /// The same, in order.
    #[must_use]
    pub fn in_order(mut self) -> Self {
        self.sort();
        self
    }

    /// Those that are kept.
    #[must_use]
    pub fn kept(&self) -> &[Violation] {
        &self.kept
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.counts.values().sum()
    }

    /// How many objects and policies could not be evaluated.
    #[must_use]
    pub fn errors(&self) -> usize {
        self.counts.get(ERROR).copied().unwrap_or_default()
    }

    /// How many there are by how strict they are: `deny`, `warn`, `dryrun`, `error`.
    #[must_use]
    pub fn counts(&self) -> &BTreeMap<String, usize> {
        &self.counts
    }

    /// The report with all that is kept.
    #[must_use]
    pub fn report(&self) -> Report<'_> {
        self.within(usize::MAX)
    }

    /// The report of an audit at this time, in less than 1 MiB.
    #[must_use]
    pub fn report_of(&self, at: Moment) -> Report<'_> {
        Report { at: Some(at.rfc3339()), ..self.within(BYTES) }
    }

    /// The report with as many violations as fit into `bytes`.
    fn within(&self, bytes: usize) -> Report<'_> {
        let mut left = bytes;
        let fitting = self.kept.iter().take_while(|violation| {
            let length = serde_json::to_vec(violation).map_or(usize::MAX, |text| text.len() + 1);
            let fits = length <= left;
            left = left.saturating_sub(length);
            fits
        });
        let violations = &self.kept[..fitting.count()];
        Report {
            at: None,
            message: format!("total violations:{}", self.count()),
            truncated: violations.len() < self.count(),
            violations,
            left_out: Vec::new(),
        }
    }
}

/// Findings in the format for programs. It borrows them: a tree of JSON values would take a multiple of the text's memory.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report<'f> {
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<String>,
    message: String,
    truncated: bool,
    violations: &'f [Violation],
    /// Reasons why the audit is incomplete.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}
