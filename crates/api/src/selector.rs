//! Selects some of the clusters that an object's Placement selected, by annotations of the object.
//!
//! The annotations hold a Kubernetes [label
//! selector](https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/) as text (`region=us`,
//! `tier!=edge`, `zone in (a, b)`, `zone notin (c)`, `gpu`, `!gpu`, joined by commas), or a selector in the format of
//! Kubernetes federation. If both are present, a cluster must match both.

mod federation;

use std::collections::BTreeMap;

use kube::core::{Expression, Selector, SelectorExt};

use super::annotations::{CLUSTER_SELECTOR, FEDERATION_SELECTOR, SELECTOR_ANNOTATIONS};
use super::json::strict::JsonError;
use super::syntax::{is_label_key, is_label_value};
use super::text::excerpt;
use federation::Requirement;

/// The maximum number of requirements in a selector. Each requirement is evaluated for each cluster.
const REQUIREMENT_LIMIT: usize = 100;

/// Labels or annotations.
type Strings = BTreeMap<String, String>;

/// An invalid selector annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadSelector {
    /// The annotation's key.
    pub annotation: &'static str,
    /// The place in the annotation's value, for example `[1].operator`; empty for the whole value.
    pub place: String,
    /// The description of the error.
    pub fault: String,
}

/// The selector of an object's annotations.
#[derive(Clone, Debug)]
pub struct ClusterSelector {
    text: Selector,
    federation: Vec<Requirement>,
}

impl ClusterSelector {
    /// Parses the selectors in `annotations`; `None` if there are none.
    ///
    /// # Errors
    ///
    /// The first fault.
    pub fn read(annotations: &Strings) -> Result<Option<Self>, BadSelector> {
        let [text, federation] = SELECTOR_ANNOTATIONS.map(|key| annotations.get(key));
        if text.is_none() && federation.is_none() {
            return Ok(None);
        }
        let bad = |annotation, JsonError { place, text }| BadSelector { annotation, place, fault: text };
        let text = text.map(|text| parse(text)).transpose();
        let text = text.map_err(|error| bad(CLUSTER_SELECTOR, JsonError::new(error.to_string())))?;
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

/// Why a label selector is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{fault} in {requirement:?}")]
pub struct SelectorError {
    /// The description of the error.
    fault: &'static str,
    /// The invalid requirement, or the whole selector.
    requirement: String,
}

/// Parses a label selector. An empty selector selects everything.
///
/// # Errors
///
/// The first invalid requirement.
pub fn parse(text: &str) -> Result<Selector, SelectorError> {
    if text.trim().is_empty() {
        return Ok(Selector::default());
    }
    let parts: Vec<&str> = requirements(text).into_iter().map(str::trim).collect();
    if parts.len() > REQUIREMENT_LIMIT {
        return Err(SelectorError {
            fault: "more than 100 requirements",
            requirement: excerpt(text).to_string(),
        });
    }
    if parts.contains(&"") {
        let fault = "a requirement is missing before or after a comma";
        return Err(SelectorError { fault, requirement: text.to_owned() });
    }
    parts.into_iter().map(requirement).collect()
}

/// Splits `text` at commas outside of parentheses.
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
