//! What the parameters of a class say.

use std::sync::Arc;

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
