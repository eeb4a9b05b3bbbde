//! What other rooms say, on which entries depend.

use crate::rego_loading::InUse;
use policy_sync_sync::desired::covered::Covered;

/// What other rooms say; `None` where it is not known yet.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Facts {
    /// Which policies there are.
    pub in_use: Option<InUse>,
    /// What is taken to the spokes.
    pub covered: Option<Covered>,
    /// Who this process is to the hub.
    pub user: Option<String>,
}

/// What a ServiceAccount is called as a user.
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

impl Facts {
    /// The user whose requests are not reviewed: this process's, where nobody else has it.
    #[must_use]
    pub(super) fn exempt_user(&self) -> Option<&str> {
        self.user.as_deref().filter(|user| user.starts_with(SERVICE_ACCOUNT))
    }
}
