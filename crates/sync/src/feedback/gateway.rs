//! What a spoke's agent says about the copy of a Gateway: its addresses and its listeners.

use super::room::Room;
use super::value::{OfListener, Part, ValueName};
use policy_sync_api::condition;
use policy_sync_api::gateway::{ADDRESSES_LIMIT, KINDS_LIMIT, LISTENERS_LIMIT};
use policy_sync_api::syntax::{LABEL_LIMIT, SUBDOMAIN_LIMIT, is_dns_subdomain};
use policy_sync_api::work::FieldValue;

/// The most bytes that are kept of one text about a listener: a Gateway has many, and each says four times as much.
const TEXT_LIMIT: usize = 256;

/// What only the copy of a Gateway says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct GatewayAnswer {
    /// Its addresses, each with its index.
    pub addresses: Vec<(usize, Box<str>)>,
    /// Its listeners, in the order in which they were asked for.
    pub listeners: Vec<AnsweredListener>,
}

/// What a listener of a copy says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct AnsweredListener {
    /// Its name.
    pub name: Box<str>,
    /// How many routes are attached to it.
    pub attached_routes: Option<i64>,
    /// The kinds of routes that it supports: each with its API group.
    pub kinds: Vec<(Box<str>, Box<str>)>,
    /// Its conditions.
    pub conditions: Vec<ListenerCondition>,
    /// The generation for which they were written.
    pub observed_generation: Option<i64>,
}

/// A condition of a listener of a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ListenerCondition {
    /// One of [`policy_sync_api::gateway::LISTENER_CONDITIONS`].
    pub condition_type: &'static str,
    /// `True`, `False` or `Unknown`; empty where it was not fed back, or says anything else.
    pub status: &'static str,
    /// A word for programs.
    pub reason: Box<str>,
    /// A sentence for people.
    pub message: Box<str>,
}

impl GatewayAnswer {
    /// Takes in a value that is of a Gateway alone.
    pub(super) fn take(&mut self, name: ValueName<'_>, value: &FieldValue, room: &mut Room) {
        match name {
            ValueName::Address(index @ ..ADDRESSES_LIMIT) => {
                if let Some(text) = value.string.as_deref() {
                    self.addresses.retain(|(known, _)| *known != index);
                    self.addresses.push((index, room.text(text, SUBDOMAIN_LIMIT)));
                }
            }
            ValueName::Listener(listener, what) => {
                if let Some(listener) = self.listener_mut(listener, room) {
                    listener.take(what, value, room);
                }
            }
            _ => {}
        }
    }

    /// The listener `name`, where it can be one and there is room for it. The values of one follow each other.
    fn listener_mut(&mut self, name: &str, room: &mut Room) -> Option<&mut AnsweredListener> {
        let known = self.listeners.iter().rposition(|listener| &*listener.name == name);
        if known.is_none() {
            if self.listeners.len() >= LISTENERS_LIMIT || !is_dns_subdomain(name) || !room.takes(&[name]) {
                return None;
            }
            self.listeners.push(AnsweredListener { name: name.into(), ..AnsweredListener::default() });
        }
        match known {
            Some(index) => self.listeners.get_mut(index),
            None => self.listeners.last_mut(),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let addresses = self.addresses.iter().map(|address| size_of_val(address) + address.1.len());
        let listeners = self.listeners.iter().map(AnsweredListener::bytes);
        size_of::<Self>() + addresses.chain(listeners).sum::<usize>()
    }
}

impl AnsweredListener {
    fn take(&mut self, what: OfListener<'_>, value: &FieldValue, room: &mut Room) {
        let text = value.string.as_deref();
        match what {
            OfListener::AttachedRoutes => self.attached_routes = value.integer,
            OfListener::ObservedGeneration => self.observed_generation = value.integer,
            OfListener::Kind(kind) => {
                self.kinds.retain(|(_, known)| **known != *kind);
                let fits = self.kinds.len() < KINDS_LIMIT && kind.len() <= LABEL_LIMIT;
                if let Some(group) = text.filter(|_| fits && room.takes(&[kind])) {
                    self.kinds.push((room.text(group, SUBDOMAIN_LIMIT), kind.into()));
                }
            }
            OfListener::Condition(condition_type, part) => {
                if let Some(text) = text {
                    self.condition_mut(condition_type).take(part, text, room);
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
    fn take(&mut self, part: Part, text: &str, room: &mut Room) {
        match part {
            Part::Status => self.status = condition::status(text).unwrap_or_default(),
            Part::Reason => self.reason = room.text(text, TEXT_LIMIT),
            Part::Message => self.message = room.text(text, TEXT_LIMIT),
            // One stands for all conditions of a listener.
            Part::ObservedGeneration => {}
        }
    }
}

#[cfg(test)]
mod tests;
