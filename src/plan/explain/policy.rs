//! The steps of a policy: its kind, its targets, its selector.

use super::{CLUSTER, Explainer, Reason, Step};
use crate::api::annotations::CLUSTER_SELECTOR;
use crate::api::names::{ClusterName, ObjectKey};
use crate::plan::policy::foreign;
use crate::plan::standing::of_target;

impl Explainer<'_> {
    pub(super) fn policy_steps(&self) -> Vec<Step> {
        let mut steps = vec![self.kind()];
        match self.view.policy(self.parent) {
            Some(policy) if policy.deleting => {
                let reason = Reason::new("Deleting", "it is being deleted");
                return steps.into_iter().chain([Step::stops(reason.change(self.subject.clone()))]).collect();
            }
            None if self.view.policies_synced(&self.parent.kind) => {
                let reason = Reason::new("Missing", "it does not exist");
                return steps.into_iter().chain([Step::stops(reason.change(self.subject.clone()))]).collect();
            }
            _ => {}
        }
        steps.extend(self.gateways.keys().map(|key| self.target(key)));
        let reference = format!("{} spec.targetRef", self.subject);
        for key in foreign(self.view, self.parent) {
            let text = format!(
                "its reference to Gateway {key} is dropped, because that is in another namespace: policies target \
                 Gateways of their own"
            );
            steps.push(Step::stops(Reason::new("OtherNamespace", text).change(reference.clone())));
        }
        let frozen = self.plan.problems.iter().any(crate::plan::Problem::freezes);
        if steps.len() == 1 && !frozen && self.view.policy(self.parent).is_some() {
            steps.push(Step::stops(Reason::new("NoGateway", "it targets no Gateway").change(reference)));
        }
        steps.extend(self.problems());
        steps
    }

    fn target(&self, key: &ObjectKey) -> Step {
        let standing = of_target(self.view, key, &self.parent.kind);
        self.gateway(key, &standing, &format!("it targets Gateway {key}"))
    }

    /// Why the policy, which targets a Gateway of ours, is not to be on `cluster`.
    pub(super) fn policy_absent(&self, cluster: &ClusterName) -> Vec<Reason> {
        let ours = |key: &ObjectKey| of_target(self.view, key, &self.parent.kind).is_ours();
        let ours: Vec<_> = self.gateways.iter().filter(|(key, _)| ours(key)).collect();
        if !ours.iter().any(|(_, target)| target.placed.clusters.contains(cluster)) {
            return ours.iter().filter_map(|(key, _)| self.not_placed(key, cluster)).collect();
        }
        let selector =
            self.view.policy(self.parent).and_then(|policy| policy.annotations.get(CLUSTER_SELECTOR));
        let selector = selector.map(|selector| {
            let text = format!(
                "its annotation {CLUSTER_SELECTOR}, {selector:?}, does not select the cluster's labels"
            );
            Reason::new("NotSelected", text)
                .change(format!("{} annotation {CLUSTER_SELECTOR}", self.subject))
                .change(format!("ManagedCluster {CLUSTER} labels"))
        });
        selector.into_iter().collect()
    }
}
