//! Builds the feedback rules of a work: the values that the spoke's agent reports about a copy.
//!
//! [`ValueName`] defines the names, and [`AgentReport`](super::AgentReport) reads the values back. Each path yields one
//! scalar, because lists and objects would need a feature gate of the agent. So the addresses of a Gateway are
//! requested by index, and its listeners by their names on the hub. An index past the end only fails its own path: the
//! agent reports the error in the manifest's `StatusFeedbackSynced` condition and sends all other values.

use std::collections::BTreeSet;

use serde_json::Value;

use super::ancestors::rule::rule;
use super::defaults;
use super::value::{ConditionField, ListenerValue, ValueName};
use policy_sync_api::annotations;
use policy_sync_api::gateway::{self, ADDRESSES_LIMIT, KINDS_LIMIT, LISTENER_CONDITIONS, LISTENERS_LIMIT};
use policy_sync_api::params::{Params, StatusField};
use policy_sync_api::syntax::{is_dns_subdomain, is_kind};
use policy_sync_api::work::{ConditionRule, FeedbackRule, FeedbackRuleType, JsonPath};

/// Messages of listeners are requested only if the Gateway has at most this number of listeners. If messages were
/// requested for the maximum of 64 listeners, the work of a Gateway would be several times as large. The hub has no
/// space for so much text from each cluster.
const FULL_LISTENERS_LIMIT: usize = 16;

/// The rules for the copy of one object.
#[derive(Debug)]
pub(crate) struct Feedback {
    /// The rules that request values.
    pub(crate) values: Vec<FeedbackRule>,
    /// The rules that compute conditions.
    pub(crate) conditions: Vec<ConditionRule>,
}

/// The rules for the copy of a policy, with the configured `statusFields` of its class.
pub(crate) fn of_policy(fields: &[StatusField]) -> Feedback {
    let mut paths = of_any(&annotations::CONDITIONS);
    paths.insert(2, path(ValueName::ObservedGeneration, ".status.observedGeneration"));
    paths.extend(fields.iter().map(|field| path(&field.name, &field.path)));
    values(paths)
}

impl Feedback {
    /// Adds the creation time of the copy. Policy controllers, such as Kuadrant, use this time to order policies with
    /// the same target.
    pub(crate) fn with_created(mut self) -> Self {
        if let Some(rule) = self.values.first_mut() {
            rule.json_paths.insert(0, path(ValueName::Created, ".metadata.creationTimestamp"));
        }
        self
    }

    /// Adds the rule that reports the conditions of these Gateways in the copy's `status.ancestors`.
    pub(crate) fn with_ancestors(mut self, gateways: &[&str]) -> Self {
        self.conditions.push(rule(gateways));
        self
    }
}

/// The rules for the copy of a Gateway with this spec, whose class has these parameters.
pub(crate) fn of_gateway(spec: &Value, params: &Params) -> Feedback {
    let mut paths = of_any(&gateway::CONDITIONS);
    paths.extend(
        (0..ADDRESSES_LIMIT)
            .map(|index| path(ValueName::Address(index), &format!(".status.addresses[{index}].value"))),
    );
    let mut seen = BTreeSet::new();
    let listeners = spec["listeners"].as_array().into_iter().flatten().filter_map(|listener| {
        let name = listener["name"].as_str().filter(|name| is_dns_subdomain(name))?;
        seen.insert(name).then_some((name, listener))
    });
    let listeners: Vec<(&str, &Value)> = listeners.take(LISTENERS_LIMIT).collect();
    let whole = listeners.len() <= FULL_LISTENERS_LIMIT;
    for (name, listener) in &listeners {
        of_listener(name, listener, whole, &mut paths);
    }
    let names: Vec<&str> = listeners.iter().map(|(name, _)| *name).collect();
    let fields = defaults::of_gateway(params, &names);
    paths.extend(fields.iter().map(|field| path(&field.name, &field.path)));
    values(paths)
}

fn of_any(conditions: &[&'static str]) -> Vec<JsonPath> {
    let mut paths = vec![
        path(ValueName::Revision, r".metadata.annotations.kuadrant\.io/revision"),
        path(ValueName::Generation, ".metadata.generation"),
    ];
    for condition in conditions {
        for part in [
            ConditionField::Status,
            ConditionField::Reason,
            ConditionField::Message,
            ConditionField::ObservedGeneration,
        ] {
            let place = format!(r#".status.conditions[?(@.type=="{condition}")].{}"#, part.field());
            paths.push(path(ValueName::Condition(condition, part), &place));
        }
    }
    paths
}

fn of_listener(name: &str, listener: &Value, whole: bool, paths: &mut Vec<JsonPath>) {
    let root = format!(r#".status.listeners[?(@.name=="{name}")]"#);
    let mut request = |what: ListenerValue<'_>, inside: &str| {
        paths.push(path(ValueName::Listener(name, what), &format!("{root}.{inside}")));
    };
    request(ListenerValue::AttachedRoutes, "attachedRoutes");
    // One observed generation serves all conditions, because controllers write them together.
    request(ListenerValue::ObservedGeneration, r#"conditions[?(@.type=="Programmed")].observedGeneration"#);
    let parts: &[ConditionField] = if whole {
        &[ConditionField::Status, ConditionField::Reason, ConditionField::Message]
    } else {
        &[ConditionField::Status, ConditionField::Reason]
    };
    for condition in LISTENER_CONDITIONS {
        for part in parts {
            let place = format!(r#"conditions[?(@.type=="{condition}")].{}"#, part.field());
            request(ListenerValue::Condition(condition, *part), &place);
        }
    }
    if whole {
        for kind in route_kinds(listener) {
            request(ListenerValue::Kind(kind), &format!(r#"supportedKinds[?(@.kind=="{kind}")].group"#));
        }
    }
}

/// The kinds of routes that a listener may support: those that it allows, else those of its protocol.
fn route_kinds(listener: &Value) -> BTreeSet<&str> {
    let allowed = listener["allowedRoutes"]["kinds"].as_array().into_iter().flatten();
    let allowed: BTreeSet<&str> = allowed
        .filter_map(|kind| kind["kind"].as_str())
        .filter(|kind| is_kind(kind))
        .take(KINDS_LIMIT)
        .collect();
    if !allowed.is_empty() {
        return allowed;
    }
    let kinds: &[&str] = match listener["protocol"].as_str() {
        Some("HTTP" | "HTTPS") => &["GRPCRoute", "HTTPRoute"],
        Some("TLS") => &["TCPRoute", "TLSRoute"],
        Some("TCP") => &["TCPRoute"],
        Some("UDP") => &["UDPRoute"],
        _ => &["GRPCRoute", "HTTPRoute", "TCPRoute", "TLSRoute", "UDPRoute"],
    };
    kinds.iter().copied().collect()
}

fn path(name: impl ToString, path: &str) -> JsonPath {
    JsonPath { name: name.to_string(), path: path.to_owned() }
}

fn values(paths: Vec<JsonPath>) -> Feedback {
    let rule = FeedbackRule { rule: FeedbackRuleType::JSONPaths, json_paths: paths };
    Feedback { values: vec![rule], conditions: Vec::new() }
}

#[cfg(test)]
mod tests;
