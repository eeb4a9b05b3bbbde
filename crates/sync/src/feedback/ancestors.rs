//! Reads `status.ancestors` of a copy ([GEP-713](https://gateway-api.sigs.k8s.io/geps/gep-713/)). A condition rule in
//! CEL makes the spoke's agent encode the ancestors in the message of one condition.
//!
//! ```text
//! policy-sync/1 ⟨revision⟩⟨generation⟩⟨ancestors⟩⟨messages⟩
//! ancestors   of each ancestor:        ⟨⟨gateway⟩⟨section⟩⟨controller⟩⟨conditions⟩⟩
//! conditions  of each of its four:     ⟨⟨type⟩⟨status⟩⟨observedGeneration⟩⟨reason⟩⟩
//! messages    of each condition above: ⟨message⟩
//! ```
//!
//! Each ⟨text⟩ is preceded by its length in characters: `5:hello`. Only the length decides where a text of the spoke
//! ends, so no part of a text can be mistaken for another ancestor or condition. The messages come last because the
//! agent cuts a message that is too long: the cut then affects only text for people. If the cut affects more than the
//! messages, the report counts as unreadable.

pub(super) mod rule;

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::budget::TextBudget;
use super::condition::{ReportedCondition, TEXT_LIMIT, as_revision};
use policy_sync_api::annotations::CONDITIONS;
use policy_sync_api::condition::{self, is_reason};
use policy_sync_api::text::truncate_bytes;
use policy_sync_api::work::ManifestWorkSpec;

/// The type of the condition that carries the message.
pub const CONDITION: &str = "PolicySyncAncestors";
/// The prefix of the message, with the version of the format.
pub const HEADER: &str = "policy-sync/1 ";
/// The maximum length of the message in characters. At twice this length the API server rejects the whole status of
/// the work.
pub const MESSAGE_LIMIT: usize = 16 * 1024;
/// The maximum number of bytes that are kept of a name or a reason.
pub const NAME_LIMIT: usize = 253;

/// The maximum number of conditions: at most 16 ancestors, each with the conditions that are read.
const LIMIT: usize = 16 * CONDITIONS.len();

/// The reason of the condition if the agent has evaluated the rule successfully.
const EVALUATED: &str = "ConditionRuleEvaluated";

/// The reported ancestors of a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ancestors {
    /// The agent has not reported the condition yet.
    #[default]
    NotReported,
    /// The condition cannot be read. Contains the reason.
    Unreadable(Box<str>),
    /// The condition was read.
    Reported(Box<ReportedAncestors>),
}

/// The content of a copy's `status.ancestors`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ReportedAncestors {
    /// The revision of the copy.
    pub revision: Box<str>,
    /// The generation of the copy.
    pub generation: i64,
    /// The conditions of all ancestors.
    pub conditions: Vec<AncestorCondition>,
}

/// A condition of one ancestor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AncestorCondition {
    /// The ancestor in a form for people: `<gateway>[/<section>] (<controller>)`.
    pub ancestor: Arc<str>,
    /// The condition, as reported for that ancestor.
    pub condition: ReportedCondition,
}

impl Ancestors {
    /// Whether a work with this spec has the condition rule.
    pub(super) fn requests_condition(spec: &ManifestWorkSpec) -> bool {
        let mut rules = spec.manifest_configs.iter().flat_map(|config| &config.condition_rules);
        rules.any(|rule| rule.condition == CONDITION)
    }

    /// Reads the ancestors from the conditions of a manifest.
    pub(super) fn new(conditions: &[Condition], budget: &mut TextBudget) -> Self {
        match conditions.iter().find(|condition| condition.type_ == CONDITION) {
            None => Self::NotReported,
            Some(condition) if condition.reason == EVALUATED => Self::read_into(&condition.message, budget),
            Some(condition) => Self::failed(&condition.message, budget),
        }
    }

    /// Reads the message of the condition.
    #[must_use]
    pub fn read(message: &str) -> Self {
        Self::read_into(message, &mut TextBudget::default())
    }

    fn read_into(message: &str, budget: &mut TextBudget) -> Self {
        // If the message expression fails, the agent reports the error as the message. Only the missing prefix shows
        // this.
        let Some(rest) = message.strip_prefix(HEADER) else { return Self::failed(message, budget) };
        // Only a message of maximum length can have lost its end.
        let cut = message.chars().count() >= MESSAGE_LIMIT;
        match ReportedAncestors::read(rest, cut, budget) {
            Some(reported) => Self::Reported(Box::new(reported)),
            None if cut => Self::Unreadable("status.ancestors is too large for the agent's report".into()),
            None => Self::Unreadable("the agent's report of status.ancestors cannot be parsed".into()),
        }
    }

    fn failed(message: &str, budget: &mut TextBudget) -> Self {
        let text = format!("the agent cannot report status.ancestors: {message}");
        Self::Unreadable(budget.text(&text, TEXT_LIMIT))
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::NotReported => 0,
            Self::Unreadable(text) => text.len(),
            Self::Reported(reported) => {
                let conditions = reported.conditions.iter();
                let conditions = conditions.map(|found| found.ancestor.len() + found.condition.bytes());
                size_of::<ReportedAncestors>() + reported.revision.len() + conditions.sum::<usize>()
            }
        }
    }
}

impl ReportedAncestors {
    fn read(text: &str, cut: bool, budget: &mut TextBudget) -> Option<Self> {
        let mut texts = LengthPrefixed(text);
        let revision = as_revision(texts.next()?)?.into();
        let generation = texts.next()?.parse().ok()?;
        let mut conditions = Vec::new();
        let mut ancestors = LengthPrefixed(texts.next()?);
        while !ancestors.0.is_empty() {
            read_ancestor(ancestors.next()?, &mut conditions, budget)?;
        }
        let messages = if cut { texts.next_or_truncated()? } else { texts.next()? };
        texts.0.is_empty().then_some(())?;
        let mut messages = LengthPrefixed(messages);
        for AncestorCondition { condition, .. } in &mut conditions {
            let message = match messages.next() {
                Some(message) => budget.text(message, TEXT_LIMIT),
                None if cut => "…".into(),
                None => return None,
            };
            condition.message = (!message.is_empty()).then_some(message);
        }
        (cut || messages.0.is_empty()).then_some(Self { revision, generation, conditions })
    }
}

fn read_ancestor(text: &str, into: &mut Vec<AncestorCondition>, budget: &mut TextBudget) -> Option<()> {
    let mut texts = LengthPrefixed(text);
    let [gateway, section, controller] = [texts.next()?, texts.next()?, texts.next()?];
    let mut name = gateway.to_owned();
    if !section.is_empty() {
        name.push('/');
        name.push_str(&truncate_bytes(section, NAME_LIMIT));
    }
    if !controller.is_empty() {
        name.push_str(&format!(" ({})", truncate_bytes(controller, NAME_LIMIT)));
    }
    let ancestor: Arc<str> = budget.text(&name, 3 * NAME_LIMIT).into();
    let mut conditions = LengthPrefixed(texts.next()?);
    while !conditions.0.is_empty() {
        let condition = read_condition(conditions.next()?, budget)?;
        (into.len() < LIMIT).then_some(())?;
        into.push(AncestorCondition { ancestor: ancestor.clone(), condition });
    }
    texts.0.is_empty().then_some(())
}

fn read_condition(text: &str, budget: &mut TextBudget) -> Option<ReportedCondition> {
    let mut texts = LengthPrefixed(text);
    let [condition_type, status, observed, reason] =
        [texts.next()?, texts.next()?, texts.next()?, texts.next()?];
    texts.0.is_empty().then_some(())?;
    Some(ReportedCondition {
        condition_type: CONDITIONS.into_iter().find(|known| *known == condition_type)?.into(),
        status: condition::parse_status(status).unwrap_or("Unknown").into(),
        // The rule has cut a reason that exceeds the limit. A reason without its end is not stored.
        reason: (reason.len() <= NAME_LIMIT && is_reason(reason)).then(|| budget.text(reason, NAME_LIMIT)),
        message: None,
        observed_generation: if observed.is_empty() { None } else { Some(observed.parse().ok()?) },
    })
}

/// The unread part of a sequence of texts, each preceded by its length.
struct LengthPrefixed<'t>(&'t str);

impl<'t> LengthPrefixed<'t> {
    fn next(&mut self) -> Option<&'t str> {
        let (length, rest) = self.length()?;
        let mut ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
        let (text, rest) = rest.split_at(ends.nth(length)?);
        self.0 = rest;
        Some(text)
    }

    /// The next text, or the beginning of the next text if the message was cut.
    fn next_or_truncated(&mut self) -> Option<&'t str> {
        let (_, rest) = self.length()?;
        Some(self.next().unwrap_or_else(|| {
            self.0 = "";
            rest
        }))
    }

    fn length(&self) -> Option<(usize, &'t str)> {
        let (length, rest) = self.0.split_once(':')?;
        Some((length.parse().ok()?, rest))
    }
}

#[cfg(test)]
pub(crate) mod tests;
