//! Which of the clusters that a Placement chose an object's own annotations select: Kubernetes
//! [label selectors](https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/) as text (`region=us`,
//! `tier!=edge`, `zone in (a, b)`, `zone notin (c)`, `gpu`, `!gpu`, joined by commas), and those of Kubernetes' federation.
//! Where both are there, both must select.

mod federation;

use std::collections::BTreeMap;

use kube::core::{Expression, Selector, SelectorExt};

use super::annotations::{CLUSTER_SELECTOR, FEDERATION_SELECTOR, SELECTORS};
use super::json::written::Fault;
use super::syntax::{is_label_key, is_label_value};
use super::text::excerpt;
use federation::Requirement;

/// The most requirements of one selector: every one is held against every cluster.
const LIMIT: usize = 100;

/// Labels or annotations.
type Strings = BTreeMap<String, String>;

/// Why the annotations that select clusters cannot be read: which, the place in it, and the fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadSelector {
    /// The annotation.
    pub annotation: &'static str,
    /// `[1].operator`, empty for all of it.
    pub place: String,
    /// What is wrong.
    pub fault: String,
}

/// What the annotations of an object select.
#[derive(Clone, Debug)]
pub struct ClusterSelector {
    text: Selector,
    federation: Vec<Requirement>,
}

impl ClusterSelector {
    /// What `annotations` select; `None` where they say nothing of it.
    ///
    /// # Errors
    ///
    /// The first fault.
    pub fn read(annotations: &Strings) -> Result<Option<Self>, BadSelector> {
        let [text, federation] = SELECTORS.map(|key| annotations.get(key));
        if text.is_none() && federation.is_none() {
            return Ok(None);
        }
        let bad = |annotation, Fault { place, text }| BadSelector { annotation, place, fault: text };
        let text = text.map(|text| parse(text)).transpose();
        let text = text.map_err(|error| bad(CLUSTER_SELECTOR, Fault::here(error.to_string())))?;
        let federation = federation.map(|text| federation::parse(text)).transpose();
        let federation = federation.map_err(|fault| bad(FEDERATION_SELECTOR, fault))?;
        Ok(Some(Self { text: text.unwrap_or_default(), federation: federation.unwrap_or_default() }))
    }

    /// Whether a cluster with these labels is selected.
    #[must_use]
    pub fn matches(&self, labels: &Strings) -> bool {
        self.text.matches(labels) && self.federation.iter().all(|requirement| requirement.matches(labels))
    }
}

/// Why a selector is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{fault} in {requirement:?}")]
pub struct SelectorError {
    /// What is wrong.
    fault: &'static str,
    /// The requirement it is in, or all of them.
    requirement: String,
}

/// Reads a selector. An empty one selects everything.
///
/// # Errors
///
/// The first requirement that cannot be read.
pub fn parse(text: &str) -> Result<Selector, SelectorError> {
    if text.trim().is_empty() {
        return Ok(Selector::default());
    }
    let parts: Vec<&str> = requirements(text).into_iter().map(str::trim).collect();
    if parts.len() > LIMIT {
        return Err(SelectorError {
            fault: "more than 100 requirements",
            requirement: excerpt(text).to_string(),
        });
    }
    if parts.contains(&"") {
        let fault = "a requirement is missing beside a comma";
        return Err(SelectorError { fault, requirement: text.to_owned() });
    }
    parts.into_iter().map(requirement).collect()
}

/// Splits at the commas outside of parentheses.
fn requirements(text: &str) -> Vec<&str> {
    let mut depth = 0_i32;
    text.split(|c| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        c == ',' && depth <= 0
    })
    .collect()
}

fn requirement(text: &str) -> Result<Expression, SelectorError> {
    let fail = |fault| SelectorError { fault, requirement: text.to_owned() };
    let key = |key: &str| if is_label_key(key) { Ok(key.to_owned()) } else { Err(fail("not a label key")) };
    let value = |value: &str| {
        if is_label_value(value) { Ok(value.to_owned()) } else { Err(fail("not a label value")) }
    };

    if let Some(values) = text.strip_suffix(')') {
        let (left, values) = values.split_once('(').ok_or_else(|| fail("expected `(`"))?;
        let values = values.split(',').map(|v| value(v.trim())).collect::<Result<_, _>>()?;
        let mut words = left.split_whitespace();
        return match (words.next(), words.next(), words.next()) {
            (Some(name), Some("in"), None) => Ok(Expression::In(key(name)?, values)),
            (Some(name), Some("notin"), None) => Ok(Expression::NotIn(key(name)?, values)),
            _ => Err(fail("expected `key in (…)` or `key notin (…)`")),
        };
    }
    for (operator, equal) in [("!=", false), ("==", true), ("=", true)] {
        if let Some((name, wanted)) = text.split_once(operator) {
            let (name, wanted) = (key(name.trim())?, value(wanted.trim())?);
            return Ok(if equal {
                Expression::Equal(name, wanted)
            } else {
                Expression::NotEqual(name, wanted)
            });
        }
    }
    match text.strip_prefix('!') {
        Some(name) => Ok(Expression::DoesNotExist(key(name.trim())?)),
        None => Ok(Expression::Exists(key(text)?)),
    }
}

#[cfg(test)]
mod tests;
