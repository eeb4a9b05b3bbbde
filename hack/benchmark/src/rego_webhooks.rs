//! The webhooks of the controller that syncs, and their arguments, in runs with Rego policies.

use policy_sync_testenv::webhooks::Webhooks;

/// The namespace of the Rego policies.
pub(super) const NAMESPACE: &str = "policies";

/// Rego policies of the controller that syncs, with its webhooks.
pub(super) struct RegoWebhooks(pub(super) Webhooks);

impl RegoWebhooks {
    /// The controller's arguments.
    pub(super) fn arguments(&self) -> Vec<String> {
        let mut arguments = self.0.arguments();
        arguments.push(format!("--rego-namespace={NAMESPACE}"));
        // With `Fail`, the API server would reject the harness's writes while no controller runs.
        arguments.push("--webhook-failure-policy=Ignore".to_owned());
        arguments
    }
}
