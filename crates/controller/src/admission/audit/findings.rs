//! Collects the violations found by an audit. Counts all violations, and keeps the first violations in fixed memory.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{ERROR, Finding, Violation};
use policy_sync_api::moment::Moment;

/// How many violations are kept by default.
const MAX_VIOLATIONS: usize = 1_000;
/// Maximum size of a served report, in bytes of JSON.
const MAX_REPORT_BYTES: usize = 900 << 10;

/// The violations found by an audit. All are counted; the first in sort order are kept.
#[derive(Clone, Debug)]
pub struct Findings {
    kept: Vec<Violation>,
    limit: usize,
    counts: BTreeMap<String, usize>,
}

impl Default for Findings {
    fn default() -> Self {
        Self::with_limit(MAX_VIOLATIONS)
    }
}

impl Findings {
    /// Keeps at most `limit` violations.
    #[must_use]
    pub fn with_limit(limit: usize) -> Self {
        Self { kept: Vec::new(), limit, counts: BTreeMap::new() }
    }

    /// Adds a violation; ignores conflicts.
    pub fn note(&mut self, found: Finding) {
        if let Finding::Violation(violation) = found {
            self.add(violation);
        }
    }

    /// Counts a violation without keeping it.
    pub fn count_one(&mut self, enforcement: &str) {
        match self.counts.get_mut(enforcement) {
            Some(count) => *count += 1,
            None => drop(self.counts.insert(enforcement.to_owned(), 1)),
        }
    }

    /// Counts a violation, and keeps it if it is among the first in sort order.
    pub fn add(&mut self, violation: Violation) {
        self.count_one(&violation.enforcement);
        self.kept.push(violation);
        if self.kept.len() / 2 >= self.limit {
            self.sort();
        }
    }

    fn sort(&mut self) {
        self.kept.sort_by(|one, other| one.sort_key().cmp(&other.sort_key()));
        self.kept.truncate(self.limit);
    }

    /// Sorts the kept violations.
    #[must_use]
    pub fn sorted(mut self) -> Self {
        self.sort();
        self
    }

    /// The kept violations; sorted after [`Self::sorted`].
    #[must_use]
    pub fn kept(&self) -> &[Violation] {
        &self.kept
    }

    /// The number of all violations, including violations that are not kept.
    #[must_use]
    pub fn count(&self) -> usize {
        self.counts.values().sum()
    }

    /// How many objects and Rego policies could not be evaluated.
    #[must_use]
    pub fn errors(&self) -> usize {
        self.counts.get(ERROR).copied().unwrap_or_default()
    }

    /// The number of violations by enforcement: `deny`, `warn`, `dryrun`, `error`.
    #[must_use]
    pub fn counts(&self) -> &BTreeMap<String, usize> {
        &self.counts
    }

    /// A report of all kept violations.
    #[must_use]
    pub fn report(&self) -> Report<'_> {
        self.within(usize::MAX)
    }

    /// A report, smaller than 1 MiB, of an audit made at `at`.
    #[must_use]
    pub fn report_at(&self, at: Moment) -> Report<'_> {
        Report { at: Some(at.rfc3339()), ..self.within(MAX_REPORT_BYTES) }
    }

    /// A report of as many violations as fit into `bytes`.
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

/// Findings in the JSON format. Borrows the findings, because a tree of JSON values would need several times their
/// memory.
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
