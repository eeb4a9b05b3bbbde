//! The GatewayClasses of a view, including those that were deleted recently, and their parameters.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::View;
use crate::Problem;
use crate::index::CLASS_DELETION_DELAY;
use crate::kinds::CLASSES;
use crate::problem::PausedObject;
use crate::rows::class::Class;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::ObjectKey;
use policy_sync_api::params::{InvalidParams, Params};

/// The parameters of a GatewayClass of this controller.
#[derive(Clone, Debug, PartialEq)]
pub enum ClassParams {
    /// The parameters are valid.
    Valid(Arc<Params>),
    /// The parameters are invalid. The last valid parameters are kept.
    Invalid {
        /// The fault and its position in the parameters.
        fault: InvalidParams,
        /// The last valid parameters that this process has read.
        known: Option<Arc<Params>>,
    },
    /// This process has not read the parameters yet.
    Unread {
        /// The reason, if the reason is not transient: `parameters shop/params cannot be read: …`.
        fault: Option<String>,
        /// The last valid parameters that this process has read.
        known: Option<Arc<Params>>,
    },
}

impl ClassParams {
    /// The current parameters if they are valid, else the last valid parameters.
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

    /// The GatewayClasses of this controller that were deleted less than [`CLASS_DELETION_DELAY`] ago, each with its
    /// last valid parameters.
    pub fn deleted_classes(
        &self,
    ) -> impl Iterator<Item = (&'m ObjectKey, &'m Class, Option<&'m Arc<Params>>)> {
        let now = self.now;
        let deleted_classes = self.index.deleted_classes.iter();
        let deleted_classes =
            deleted_classes.filter(move |(_, deleted)| deleted.since.after(CLASS_DELETION_DELAY) > now);
        deleted_classes.map(|(key, deleted)| (key, &deleted.class, deleted.params.as_ref()))
    }

    /// The end of the time within which the missing class `name` may be created again. This time starts when this
    /// process sees the deletion, or starts watching. `None` if the class exists or the time is over.
    #[must_use]
    pub fn class_deletion_ends(&self, name: &str) -> Option<Moment> {
        let key = ObjectKey::new("", name);
        if self.class(&key).is_some() {
            return None;
        }
        let gone = self.index.deleted_classes.get(&key).map(|deleted| deleted.since);
        let ends = gone.max(self.synced(&CLASSES.all()))?.after(CLASS_DELETION_DELAY);
        (ends > self.now).then_some(ends)
    }

    /// When [`CLASS_DELETION_DELAY`] ends for the next deleted class.
    #[must_use]
    pub fn next_class_expiry(&self) -> Option<Moment> {
        let ends =
            self.index.deleted_classes.values().map(|deleted| deleted.since.after(CLASS_DELETION_DELAY));
        ends.filter(|ends| *ends > self.now).min()
    }

    /// The problem that the class `name` is paused; `None` if the class is not paused.
    pub(crate) fn class_pause(&self, name: &str) -> Option<Problem> {
        let class = self.class(&ObjectKey::new("", name))?;
        Problem::of_pause(&class.paused, PausedObject::Class(name.to_owned()))
    }

    /// The parameters of the class `name`; `None` if the class does not exist or belongs to another controller.
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
