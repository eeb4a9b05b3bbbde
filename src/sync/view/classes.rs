//! The classes of the mirror, and what went of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::View;
use crate::sync::class_params::ClassParams;
use crate::sync::index::CLASS_RETURNS;
use crate::sync::kinds::CLASSES;
use crate::sync::rows::class::Class;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::ObjectKey;
use policy_sync_api::params::Params;

impl<'m> View<'m> {
    /// A GatewayClass of any controller.
    #[must_use]
    pub fn class(&self, key: &ObjectKey) -> Option<&'m Class> {
        self.tables.get(&CLASSES, key)
    }

    /// The GatewayClasses of all controllers, in no order.
    pub fn classes(&self) -> impl Iterator<Item = (&'m ObjectKey, &'m Class)> {
        self.tables.rows(&CLASSES)
    }

    /// The GatewayClasses of ours, by name.
    #[must_use]
    pub fn our_classes(&self) -> BTreeMap<&'m ObjectKey, &'m Class> {
        self.classes().filter(|(_, class)| self.index.is_ours(class)).collect()
    }

    /// The GatewayClasses of ours that went so short a while ago that they may return, each with its last valid
    /// parameters.
    pub fn departed(&self) -> impl Iterator<Item = (&'m ObjectKey, &'m Class, Option<&'m Arc<Params>>)> {
        let now = self.now;
        let departed = self.index.departed.iter();
        let departed = departed.filter(move |(_, departed)| departed.since.after(CLASS_RETURNS) > now);
        departed.map(|(key, departed)| (key, &departed.class, departed.params.as_ref()))
    }

    /// Until when a class called `name`, which does not exist, may return: counted from when this process saw it go, or
    /// began to see; `None` where it exists, or that is over.
    #[must_use]
    pub fn class_returns(&self, name: &str) -> Option<Moment> {
        let key = ObjectKey::new("", name);
        if self.class(&key).is_some() {
            return None;
        }
        let gone = self.index.departed.get(&key).map(|departed| departed.since);
        let ends = gone.max(self.synced(&CLASSES.all()))?.after(CLASS_RETURNS);
        (ends > self.now).then_some(ends)
    }

    /// When the next class that went has been gone for too long to return.
    #[must_use]
    pub fn next_departure(&self) -> Option<Moment> {
        let ends = self.index.departed.values().map(|departed| departed.since.after(CLASS_RETURNS));
        ends.filter(|ends| *ends > self.now).min()
    }

    /// The parameters of the class `name`, `None` where it is gone or not ours.
    #[must_use]
    pub fn class_params(&self, name: &str) -> Option<ClassParams> {
        let key = ObjectKey::new("", name);
        let class = self.class(&key).filter(|class| self.index.is_ours(class))?;
        let known = || self.index.known_params.get(&key).cloned();
        Some(match self.index.params_of(self.tables, name, class) {
            None => ClassParams::Unread { fault: self.unread(class), known: known() },
            Some(Ok(params)) => ClassParams::Valid(params),
            Some(Err(fault)) => ClassParams::Invalid { fault, known: known() },
        })
    }
}
