//! The part of an agent's report that only copies of Gateways have: addresses and listeners.

use super::budget::TextBudget;
use super::value::{ConditionField, ListenerValue, ValueName};
use policy_sync_api::condition;
use policy_sync_api::gateway::{ADDRESSES_LIMIT, KINDS_LIMIT, LISTENERS_LIMIT};
use policy_sync_api::syntax::{LABEL_LIMIT, SUBDOMAIN_LIMIT, is_dns_subdomain};
use policy_sync_api::work::FieldValue;

/// The maximum number of bytes that are kept of one text about a listener. It is low because a Gateway can have 64
/// listeners with four conditions each.
const TEXT_LIMIT: usize = 256;

/// The reported addresses and listeners of a Gateway's copy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ReportedGateway {
    /// The addresses, each with its index in the status.
    pub addresses: Vec<(usize, Box<str>)>,
    /// The listeners, in the order of the feedback rules.
    pub listeners: Vec<ReportedListener>,
}

/// The reported status of one listener.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ReportedListener {
    /// The name of the listener.
    pub name: Box<str>,
    /// The number of attached routes.
    pub attached_routes: Option<i64>,
    /// The supported kinds of routes, each with its API group.
    pub kinds: Vec<(Box<str>, Box<str>)>,
    /// The conditions of the listener.
    pub conditions: Vec<ListenerCondition>,
    /// The generation of the copy for which the conditions were written.
    pub observed_generation: Option<i64>,
}

/// A reported condition of a listener.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ListenerCondition {
    /// One of [`policy_sync_api::gateway::LISTENER_CONDITIONS`].
    pub condition_type: &'static str,
    /// `True`, `False` or `Unknown`; empty if the status was not reported or is invalid.
    pub status: &'static str,
    /// The reason, in CamelCase for programs.
    pub reason: Box<str>,
    /// The message for people.
    pub message: Box<str>,
}

impl ReportedGateway {
    /// Stores a value that only Gateways have.
    pub(super) fn take(&mut self, name: ValueName<'_>, value: &FieldValue, budget: &mut TextBudget) {
        match name {
            ValueName::Address(index @ ..ADDRESSES_LIMIT) => {
                if let Some(text) = value.string.as_deref() {
                    self.addresses.retain(|(known, _)| *known != index);
                    self.addresses.push((index, budget.text(text, SUBDOMAIN_LIMIT)));
                }
            }
            ValueName::Listener(listener, what) => {
                if let Some(listener) = self.listener_mut(listener, budget) {
                    listener.take(what, value, budget);
                }
            }
            _ => {}
        }
    }

    /// The listener `name`; `None` if the name is invalid or the report has no space for another listener. The search
    /// begins at the end, because the values of a listener arrive together.
    fn listener_mut(&mut self, name: &str, budget: &mut TextBudget) -> Option<&mut ReportedListener> {
        let known = self.listeners.iter().rposition(|listener| &*listener.name == name);
        if known.is_none() {
            if self.listeners.len() >= LISTENERS_LIMIT || !is_dns_subdomain(name) || !budget.reserve(&[name])
            {
                return None;
            }
            self.listeners.push(ReportedListener { name: name.into(), ..ReportedListener::default() });
        }
        match known {
            Some(index) => self.listeners.get_mut(index),
            None => self.listeners.last_mut(),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let addresses = self.addresses.iter().map(|address| size_of_val(address) + address.1.len());
        let listeners = self.listeners.iter().map(ReportedListener::bytes);
        size_of::<Self>() + addresses.chain(listeners).sum::<usize>()
    }
}

impl ReportedListener {
    fn take(&mut self, what: ListenerValue<'_>, value: &FieldValue, budget: &mut TextBudget) {
        let text = value.string.as_deref();
        match what {
            ListenerValue::AttachedRoutes => self.attached_routes = value.integer,
            ListenerValue::ObservedGeneration => self.observed_generation = value.integer,
            ListenerValue::Kind(kind) => {
                self.kinds.retain(|(_, known)| **known != *kind);
                let fits = self.kinds.len() < KINDS_LIMIT && kind.len() <= LABEL_LIMIT;
                if let Some(group) = text.filter(|_| fits && budget.reserve(&[kind])) {
                    self.kinds.push((budget.text(group, SUBDOMAIN_LIMIT), kind.into()));
                }
            }
            ListenerValue::Condition(condition_type, part) => {
                if let Some(text) = text {
                    self.condition_mut(condition_type).take(part, text, budget);
                }
            }
        }
    }

    fn bytes(&self) -> usize {
        let kinds = self.kinds.iter().map(|kind| size_of_val(kind) + kind.0.len() + kind.1.len());
        let conditions = self.conditions.iter();
        let conditions = conditions
            .map(|condition| size_of_val(condition) + condition.reason.len() + condition.message.len());
        size_of::<Self>() + self.name.len() + kinds.chain(conditions).sum::<usize>()
    }

    fn condition_mut(&mut self, condition_type: &'static str) -> &mut ListenerCondition {
        let same = |condition: &ListenerCondition| condition.condition_type == condition_type;
        let index = self.conditions.iter().position(same).unwrap_or_else(|| {
            self.conditions.push(ListenerCondition { condition_type, ..ListenerCondition::default() });
            self.conditions.len() - 1
        });
        &mut self.conditions[index]
    }
}

impl ListenerCondition {
    fn take(&mut self, part: ConditionField, text: &str, budget: &mut TextBudget) {
        match part {
            ConditionField::Status => self.status = condition::parse_status(text).unwrap_or_default(),
            ConditionField::Reason => self.reason = budget.text(text, TEXT_LIMIT),
            ConditionField::Message => self.message = budget.text(text, TEXT_LIMIT),
            // The observed generation is requested once for all conditions of a listener.
            ConditionField::ObservedGeneration => {}
        }
    }
}

#[cfg(test)]
mod tests;
