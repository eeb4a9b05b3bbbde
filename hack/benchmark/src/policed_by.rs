//! What the controller that syncs is started with where it has policies in Rego.

use policy_sync_testenv::webhooks::Webhooks;

/// The namespace of the policies.
pub(super) const NAMESPACE: &str = "policies";

/// Policies in Rego of the controller that syncs: it is asked about what is written of what it syncs.
pub(super) struct Policed(pub(super) Webhooks);

impl Policed {
    /// The arguments of the controller.
    pub(super) fn arguments(&self) -> Vec<String> {
        let mut arguments = self.0.arguments();
        arguments.push(format!("--rego-namespace={NAMESPACE}"));
        // The harness also writes while none runs.
        arguments.push("--webhook-failure-policy=Ignore".to_owned());
        arguments
    }
}
