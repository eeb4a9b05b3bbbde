//! Explains the steps of a policy: its kind, its targets, its selector.

use super::{DecisionStep, Explainer, Reason};
use crate::desired::eligibility::of_target;
use crate::desired::policy::foreign;
use policy_sync_api::names::{ClusterName, ObjectKey};

impl Explainer<'_> {
    pub(super) fn policy_steps(&self) -> Vec<DecisionStep> {
        let mut steps = vec![self.kind()];
        if let Some(step) = self.missing() {
            steps.push(step);
            return steps;
        }
        steps.extend(self.gateways.keys().map(|key| self.target(key)));
        let reference = format!("{} spec.targetRef", self.regarding);
        for key in foreign(self.view, self.origin) {
            let text = format!(
                "its reference to Gateway {key} is ignored, because that is in another namespace: a policy \
                 can only target Gateways in its own"
            );
            steps.push(DecisionStep::stops(Reason::new("OtherNamespace", text).change(reference.clone())));
        }
        let frozen = self.plan.problems.iter().any(crate::Problem::freezes);
        if steps.len() == 1 && !frozen && self.view.policy(self.origin).is_some() {
            steps.push(DecisionStep::stops(
                Reason::new("NoGateway", "it targets no Gateway").change(reference),
            ));
        }
        steps.extend(self.problems());
        steps
    }

    /// The step that stops the object if it is being deleted or does not exist.
    pub(super) fn missing(&self) -> Option<DecisionStep> {
        let reason = match self.view.policy(self.origin) {
            Some(policy) if policy.deleting => Reason::new("Deleting", "it is being deleted"),
            None if self.view.policies_synced(self.origin.kind()) => {
                Reason::new("Missing", "it does not exist")
            }
            _ => return None,
        };
        Some(DecisionStep::stops(reason.change(self.regarding.clone())))
    }

    fn target(&self, key: &ObjectKey) -> DecisionStep {
        let eligibility = of_target(self.view, key, self.origin.kind());
        self.gateway(key, &eligibility, &format!("it targets Gateway {key}"))
    }

    /// Why none of the targeted Gateways of this controller is placed on `cluster`.
    pub(super) fn targets_not_placed(&self, cluster: &ClusterName) -> Vec<Reason> {
        let ours = |key: &&ObjectKey| of_target(self.view, key, self.origin.kind()).is_ours();
        self.gateways.keys().filter(ours).flat_map(|key| self.not_placed(key, cluster)).collect()
    }
}
