//! The inputs of the webhook entries from other parts of the controller.

use crate::rego_loading::RegoUsage;
use policy_sync_sync::desired::covered::ControllerScope;

/// The inputs of the plan; `None` if not known yet.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct EntryInputs {
    /// A summary of the existing Rego policies.
    pub rego_usage: Option<RegoUsage>,
    /// The kinds synced to the spokes.
    pub covered: Option<ControllerScope>,
    /// The user name of this process on the hub.
    pub user: Option<String>,
}

/// The prefix of the user name of a ServiceAccount.
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

impl EntryInputs {
    /// The user whose requests are not reviewed: this process, if it runs as a ServiceAccount. A shared user
    /// such as `admin` is not exempt.
    #[must_use]
    pub(super) fn exempt_user(&self) -> Option<&str> {
        self.user.as_deref().filter(|user| user.starts_with(SERVICE_ACCOUNT))
    }
}
