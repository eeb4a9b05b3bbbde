//! The classes of the mirror, and what went of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::View;
use crate::index::CLASS_RETURNS;
use crate::kinds::CLASSES;
use crate::rows::class::Class;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::ObjectKey;
use policy_sync_api::params::{Params, ParamsFault};

/// What the parameters of a class of ours say.
#[derive(Clone, Debug, PartialEq)]
pub enum ClassParams {
    /// They are valid.
    Valid(Arc<Params>),
    /// They are not. What they last were is kept.
    Invalid {
        /// What is wrong, and where.
        fault: ParamsFault,
        /// The last valid ones that this process has seen.
        known: Option<Arc<Params>>,
    },
    /// They were not read yet.
    Unread {
        /// Why not, where that is more than a moment's: `parameters shop/params cannot be read: …`.
        fault: Option<String>,
        /// The last valid ones that this process has seen.
        known: Option<Arc<Params>>,
    },
}

impl ClassParams {
    /// The valid parameters, or the last valid ones.
    #[must_use]
    pub fn known(&self) -> Option<&Arc<Params>> {
        match self {
            Self::Valid(params) => Some(params),
            Self::Invalid { known, .. } | Self::Unread { known, .. } => known.as_ref(),
        }
    }
}

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
