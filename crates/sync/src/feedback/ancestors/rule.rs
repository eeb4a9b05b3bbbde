//! The condition rule that makes an agent report `status.ancestors`. It is in CEL, since JSONPath cannot read a list
//! in a list.
//!
//! The rule uses only the standard macros and functions, `substring` and `join`. Each field is tested for presence
//! before it is read. [`super`] documents the format of the message and parses the message.

use serde_json::json;

use super::{CONDITION, HEADER, MESSAGE_LIMIT, NAME_LIMIT};
use crate::feedback::condition::TEXT_LIMIT;
use policy_sync_api::annotations::{CONDITIONS, REVISION};
use policy_sync_api::gateway::GROUP;
use policy_sync_api::work::{ConditionRule, ConditionRuleType};

/// The rule that reports the conditions of the Gateways with these names in the copy's namespace, from all
/// controllers.
pub(in crate::feedback) fn rule(gateways: &[&str]) -> ConditionRule {
    ConditionRule {
        condition: CONDITION.to_owned(),
        rule: ConditionRuleType::CEL,
        cel_expressions: vec!["true".to_owned()],
        message_expression: Some(message(gateways)),
    }
}

fn message(gateways: &[&str]) -> String {
    // JSON without numbers or objects is valid CEL.
    let (gateways, conditions) = (json!(gateways), json!(CONDITIONS));
    let ours = [
        "has(a.ancestorRef)".to_owned(),
        format!("(!has(a.ancestorRef.group) || a.ancestorRef.group == '{GROUP}')"),
        "(!has(a.ancestorRef.kind) || a.ancestorRef.kind == 'Gateway')".to_owned(),
        "(!has(a.ancestorRef.namespace) || a.ancestorRef.namespace == object.metadata.namespace)".to_owned(),
        format!("has(a.ancestorRef.name) && a.ancestorRef.name in {gateways}"),
        "has(a.conditions)".to_owned(),
    ];
    let ancestors = format!(
        "(has(object.status) && has(object.status.ancestors) ? object.status.ancestors : []).filter(a, {})",
        ours.join(" && ")
    );
    let matching = format!("a.conditions.filter(c, has(c.type) && c.type in {conditions})");
    let reported = {
        let condition = ["c.type".to_owned(), or_empty("c.status"), observed("c"), or_empty("c.reason")];
        let conditions = texts(&format!("{matching}.map(c, {})", short_texts(&condition)));
        let section = or_empty("a.ancestorRef.sectionName");
        let name = ["a.ancestorRef.name".to_owned(), section, or_empty("a.controllerName")];
        let ancestor = format!("{} + {}", short_texts(&name), texts(&format!("[{conditions}]")));
        texts(&format!("l.map(a, {ancestor})"))
    };
    // Messages are cut to one character more than the reader keeps, so that the reader can detect the cut.
    let messages = texts(&format!(
        "{matching}.map(c, {}){}",
        or_empty("c.message"),
        cut_to(TEXT_LIMIT.saturating_add(1))
    ));
    let messages = format!("l.map(a, {messages}).join('')");
    let revision = format!(
        "has(object.metadata.annotations) && '{REVISION}' in object.metadata.annotations \
         ? object.metadata.annotations['{REVISION}'] : ''"
    );
    let whole = texts(&format!("[{revision}, string(object.metadata.generation), {reported}, {messages}]"));
    format!("[{ancestors}].map(l, '{HEADER}' + {whole}){}.join('')", cut_to(MESSAGE_LIMIT))
}

fn or_empty(field: &str) -> String {
    format!("has({field}) ? {field} : ''")
}

fn observed(condition: &str) -> String {
    format!("has({condition}.observedGeneration) ? string({condition}.observedGeneration) : ''")
}

/// Joins the texts of a list, each preceded by its length.
fn texts(list: &str) -> String {
    format!("{list}.map(s, string(size(s)) + ':' + s).join('')")
}

/// Joins names, each preceded by its length. Names are cut to one character more than the reader keeps, so that the
/// reader can detect the cut.
fn short_texts(items: &[String]) -> String {
    texts(&format!("[{}]{}", items.join(", "), cut_to(NAME_LIMIT.saturating_add(1))))
}

/// Cuts each text of a list to this number of characters.
fn cut_to(characters: usize) -> String {
    format!(".map(s, size(s) > {characters} ? s.substring(0, {characters}) : s)")
}

#[cfg(test)]
mod tests;
