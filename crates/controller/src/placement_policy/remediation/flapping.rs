//! Remediation while documents are flapping.

use std::collections::BTreeMap;

use regorus::Value as Rego;
use tracing::warn;

use super::causes::{Step, step};
use super::evaluate::reference;
use super::key::Object;
use super::remediator::Remediator;
use crate::placement_policy::compliance::Change;
use crate::placement_policy::evaluation::ContentHash;
use policy_sync_api::moment::Moment;
use policy_sync_hub::reconcile::namespace_reference;

/// The reason of the Event on a flapping document.
const FLAPPING: &str = "PlacementFlapping";

impl Remediator {
    /// Records that `object` complies.
    pub(super) fn record_compliant(&self, object: &Object, content: Option<ContentHash>, at: u64) {
        if let Some(content) = content {
            self.causes.lock().record_compliant(object, content, at);
        }
    }

    /// The next step for `object`, to which placement policies would apply `change`. `flapping` are the documents that
    /// are flapping now.
    pub(super) async fn next_step(
        &self,
        object: &Object,
        found: Rego,
        change: Change,
        flapping: &BTreeMap<Object, Moment>,
    ) -> (Rego, Step) {
        if flapping.is_empty() {
            return (found, Step::Change(change));
        }
        let documents: Vec<Object> = flapping.keys().cloned().collect();
        let hidden = documents.iter().map(|document| (document.kind.clone(), document.key.clone())).collect();
        let batch = self.evaluate(vec![(object.key.clone(), found.clone())], hidden).await;
        match batch.results.into_iter().next().map(|(_, evaluation)| evaluation.compliance) {
            Some(Ok(without)) => (found, step(change, without, documents)),
            Some(Err(_)) | None => (found, Step::Hold),
        }
    }

    /// Records that changes of the documents `causes` have moved an object. Publishes an Event on each document that is
    /// flapping from now on.
    pub(super) fn moved(
        &self,
        mut causes: BTreeMap<Object, u64>,
        flapping: &BTreeMap<Object, Moment>,
        now: Moment,
    ) {
        causes.retain(|document, _| !flapping.contains_key(document));
        let new = self.causes.lock().moved(&causes, now);
        for document in new {
            warn!(%document, "its changes have moved objects too often: they move no objects for a while");
            let text = format!(
                "changes of {document} have moved objects three times within 10 minutes: until these have passed, its changes \
                 move no objects, and no objects are moved to it if it is a cluster"
            );
            let found = self.loaded.object(&document.kind, &document.key);
            let about =
                found.map_or_else(|| namespace_reference(&document.key.name), |found| reference(&found));
            self.events.warn(about, FLAPPING, text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_event_and_the_metric_are_documented() {
        let (events, metrics) = (
            include_str!("../../../../../docs/reference/events.md"),
            include_str!("../../../../../docs/metrics.md"),
        );
        assert!(events.contains(&format!("| `{FLAPPING}` |")));
        assert!(metrics.contains("| `policy_sync_placement_flapping` |"));
    }
}
