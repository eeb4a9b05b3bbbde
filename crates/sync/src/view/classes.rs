//! The GatewayClasses of a view, including those that were deleted recently, and their parameters.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::View;
use crate::index::CLASS_RETURNS;
use crate::kinds::CLASSES;
use crate::rows::class::Class;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::ObjectKey;
use policy_sync_api::params::{Params, ParamsFault};

/// The parameters of a GatewayClass of this controller.
#[derive(Clone, Debug, PartialEq)]
pub enum ClassParams {
    /// The parameters are valid.
    Valid(Arc<Params>),
    /// They are invalid. The last valid ones are kept.
    Invalid {
        /// The fault and its place.
        fault: ParamsFault,
        /// The last valid parameters that this process has read.
        known: Option<Arc<Params>>,
    },
    /// This process has not read them yet.
    Unread {
        /// The reason, if it lasts: `parameters shop/params cannot be read: …`.
        fault: Option<String>,
        /// The last valid parameters that this process has read.
        known: Option<Arc<Params>>,
    },
}

impl ClassParams {
    /// The valid parameters, else the last valid ones.
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

    /// The GatewayClasses of this controller, by name.
    #[must_use]
    pub fn our_classes(&self) -> BTreeMap<&'m ObjectKey, &'m Class> {
        self.classes().filter(|(_, class)| self.index.is_ours(class)).collect()
    }

    /// The GatewayClasses of this controller that were deleted less than [`CLASS_RETURNS`] ago, each with its last
    /// valid parameters.
    pub fn departed(&self) -> impl Iterator<Item = (&'m ObjectKey, &'m Class, Option<&'m Arc<Params>>)> {
        let now = self.now;
        let departed = self.index.departed.iter();
        let departed = departed.filter(move |(_, departed)| departed.since.after(CLASS_RETURNS) > now);
        departed.map(|(key, departed)| (key, &departed.class, departed.params.as_ref()))
    }

    /// The end of the time within which the missing class `name` may be created again. It starts when this process
    /// saw the deletion, or started watching. `None` if the class exists or the time is over.
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

    /// When [`CLASS_RETURNS`] ends for the next deleted class.
    #[must_use]
    pub fn next_departure(&self) -> Option<Moment> {
        let ends = self.index.departed.values().map(|departed| departed.since.after(CLASS_RETURNS));
        ends.filter(|ends| *ends > self.now).min()
    }

    /// The parameters of the class `name`; `None` if it does not exist or belongs to another controller.
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
