//! Explains the steps of a resource: its kind, its placement, its share of the replicas.

use super::selection::by_policy;
use super::{DecisionStep, Explainer, Reason, no_cluster, not_selected_by};
use crate::desired::eligibility::of_resources;
use crate::desired::resource::{PlacementNotRequested, placement};
use policy_sync_api::annotations::REPLICA_PREFERENCES;
use policy_sync_api::cluster::PLACEMENT_LABEL;
use policy_sync_api::names::ClusterName;

impl Explainer<'_> {
    pub(super) fn resource_steps(&self) -> Vec<DecisionStep> {
        let mut steps = vec![self.kind()];
        match self.missing() {
            Some(step) => steps.push(step),
            None => {
                steps.extend(self.placement());
                steps.extend(self.problems());
            }
        }
        steps
    }

    /// Whether a Placement is configured for the resource.
    fn placement(&self) -> Option<DecisionStep> {
        let label = format!("{} label {PLACEMENT_LABEL}", self.regarding);
        let resource_entry = of_resources(self.view, self.origin.kind());
        let stops = |code: &'static str, text: String| Reason::new(code, text).change(label.clone());
        Some(
            match placement(self.view, self.origin, self.view.policy(self.origin)?, resource_entry.entry()) {
                Ok(Ok(placement)) => {
                    let clusters = self.view.decided(&placement).len();
                    let text = format!("Placement {placement} places it on {clusters} clusters");
                    DecisionStep::passes(Reason::new("Placed", text))
                }
                Ok(Err(unplaced)) => DecisionStep::stops(stops("NoPlacement", format!("it {unplaced}"))),
                Err(PlacementNotRequested::ControlledBy(owner)) => {
                    let text =
                        format!("it belongs to {owner}: the spoke creates its own object instead of a copy");
                    DecisionStep::stops(Reason::new("Controlled", text))
                }
                Err(PlacementNotRequested::NoPlacement) => {
                    let text = format!(
                        "it has no label {PLACEMENT_LABEL}, and parameters name no Placement for its kind"
                    );
                    let parameters =
                        self.of_parameters().into_iter().map(|place| format!("{place}[].placement"));
                    DecisionStep::stops(stops("NotPlaced", text).changes(parameters))
                }
                Err(PlacementNotRequested::NoDefault(placement)) => {
                    let text = format!(
                        "it has no label {PLACEMENT_LABEL}, and Placement {placement}, which parameters name for its \
                     kind, does not exist"
                    );
                    DecisionStep::stops(stops("NotPlaced", text).change(format!("Placement {placement}")))
                }
            },
        )
    }

    /// The fields of the parameters that list the resource's kind.
    pub(super) fn of_parameters(&self) -> Vec<String> {
        let parameters = self.listing_classes().map(|class| self.parameters(&class.name));
        parameters.map(|place| format!("{place} {}", self.role.key())).collect()
    }

    /// Why the resource's Placement has not selected `cluster`.
    pub(super) fn resource_not_placed(&self, cluster: &ClusterName) -> Vec<Reason> {
        let resource = self.view.policy(self.origin);
        let resource_entry = of_resources(self.view, self.origin.kind());
        let placement =
            resource.map(|resource| placement(self.view, self.origin, resource, resource_entry.entry()));
        let Some(Ok(Ok(placement))) = placement else { return Vec::new() };
        if self.view.cluster(cluster).is_none() {
            return vec![no_cluster()];
        }
        let reason = not_selected_by(self.view, &placement, "it");
        vec![reason.change(format!("{} label {PLACEMENT_LABEL}", self.regarding))]
    }

    /// The reason that the resource's replica preferences do not include the cluster.
    pub(super) fn not_named(&self) -> Option<Reason> {
        let annotations = self.view.annotations(self.origin)?;
        let preferences = annotations.get(REPLICA_PREFERENCES)?;
        let text = format!(
            "its annotation {REPLICA_PREFERENCES} does not name the cluster{}",
            by_policy(annotations, REPLICA_PREFERENCES, preferences)
        );
        Some(
            Reason::new("NotNamed", text)
                .change(format!("{} annotation {REPLICA_PREFERENCES}", self.regarding)),
        )
    }

    /// The reason with the resource's share of the replicas on `cluster`, if they are split.
    pub(super) fn share(&self, cluster: &ClusterName) -> Option<Reason> {
        let shares = self.plan.shares.as_ref()?;
        let spec: serde_json::Value = serde_json::from_str(&self.view.policy(self.origin)?.spec).ok()?;
        let (share, all) = (shares.get(cluster)?, spec["replicas"].as_u64()?);
        let entry = self.entries.get(cluster);
        let ready = entry.and_then(|entry| entry.fields.get("readyReplicas"));
        let ready = ready.map(|ready| format!(", of which {ready} are ready")).unwrap_or_default();
        let reason = Reason::new("Share", format!("the cluster gets {share} of its {all} replicas{ready}"));
        Some(reason.change(format!("{} annotation {REPLICA_PREFERENCES}", self.regarding)))
    }
}
