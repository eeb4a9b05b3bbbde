//! Passes over all objects of a kind.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use regorus::Value as Rego;
use tracing::debug;

use super::evaluate::Evaluation;
use super::key::{Key, Object};
use super::remediator::{Remediator, UNREACHABLE_RETRY_DELAY};
use super::violations::ViolationReason;
use crate::placement_policy::compliance::Compliance;
use crate::placement_policy::placed_kinds::is_placed;
use policy_sync_api::names::{GroupResource, ObjectKey};
use policy_sync_rego::snapshot::RegoQueryError;

/// Orders objects so that namespaces take turns. Slow evaluations of one namespace then delay each object of another
/// namespace by at most one evaluation.
fn in_turn<T>(objects: Vec<(ObjectKey, T)>) -> Vec<(ObjectKey, T)> {
    let mut counts: BTreeMap<Arc<str>, usize> = BTreeMap::new();
    let turn = |(key, object): (ObjectKey, T)| {
        let count = counts.entry(key.namespace.clone()).or_default();
        *count += 1;
        (*count, key, object)
    };
    let mut turns: Vec<_> = objects.into_iter().map(turn).collect();
    turns.sort_by_key(|(turn, ..)| *turn);
    turns.into_iter().map(|(_, key, object)| (key, object)).collect()
}

impl Remediator {
    /// Evaluates all objects of `kind` and queues those that do not comply.
    pub(super) async fn pass(&self, key: &Key, kind: &GroupResource) {
        let began = self.clock.now();
        let time_to_next_pass = {
            let passes = self.passes.lock();
            if !passes.kept().contains(kind) {
                return;
            }
            passes.time_to_next_pass(kind, began)
        };
        if let Some(time_to_next_pass) = time_to_next_pass {
            return self.queue.add_after(key.clone(), time_to_next_pass);
        }
        // `kind` or Namespaces may not be listed yet. The next pass starts once `kind` and Namespaces are listed.
        let (Ok(all), Ok(spaces)) =
            (self.loaded.objects(kind), self.loaded.objects(&GroupResource::namespaces()))
        else {
            return;
        };
        let Some(covered) = self.covered.borrow().clone() else { return };
        let spaces: BTreeMap<Arc<str>, Rego> =
            spaces.into_iter().map(|(key, space)| (key.name, space)).collect();
        let mut objects = Vec::new();
        for (key, object) in all {
            let space = spaces.get(&key.namespace);
            if space.is_some_and(|space| is_placed(&covered, &self.settings.exemptions, kind, &object, space))
            {
                objects.push((key, object));
            } else {
                self.forget(&Object { kind: kind.clone(), key });
            }
        }
        let present: BTreeSet<&ObjectKey> = objects.iter().map(|(key, _)| key).collect();
        let is_present = |object: &Object| object.kind != *kind || present.contains(&object.key);
        self.violations.retain(is_present);
        self.causes.lock().retain(is_present);
        let (count, mut differ, mut left) = (objects.len(), 0, in_turn(objects));
        while !left.is_empty() {
            if self.stop.is_cancelled() || !self.leadership.leads() {
                return;
            }
            let batch = self.evaluate(left, Vec::new()).await;
            left = batch.left;
            for ((name, _), Evaluation { compliance, content }) in batch.results {
                let object = Object { kind: kind.clone(), key: name };
                let is_known = match compliance {
                    // The loader reports this error in the status of the placement policies. It starts another pass
                    // once the placement policies can be evaluated.
                    Err(RegoQueryError::Starting(_) | RegoQueryError::PolicyRejected(_)) => return,
                    // The loader reports that documents of this object's namespace are left out. Objects in other
                    // namespaces are evaluated.
                    Err(RegoQueryError::DocumentsOmitted(_)) => true,
                    Err(RegoQueryError::Unreachable(why)) => {
                        debug!(%kind, why, "placement policies cannot be evaluated");
                        return self.queue.add_after(key.clone(), UNREACHABLE_RETRY_DELAY);
                    }
                    Err(RegoQueryError::Failed(failure)) => {
                        self.violations.is_noted(&object, ViolationReason::Violated, &failure.to_string())
                    }
                    Ok(Compliance::Violates(text)) => {
                        self.violations.is_noted(&object, ViolationReason::Violated, &text)
                    }
                    Ok(Compliance::Compliant) => {
                        self.violations.forget(&object);
                        self.record_compliant(&object, content, batch.at);
                        true
                    }
                    Ok(Compliance::Differs(_)) => {
                        differ += 1;
                        false
                    }
                };
                if !is_known {
                    self.queue.enqueue([Key::Object(object)]);
                }
            }
        }
        let now = self.clock.now();
        let took = now.since(began);
        debug!(%kind, count, differ, took = took.as_secs_f64(), "evaluated placement policies for all objects");
        self.passes.lock().ended(kind, took, now);
        self.schedule_trace_check(kind);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_of_namespaces_are_interleaved() {
        let many = (0..100).map(|number| (ObjectKey::new("a", &number.to_string()), ()));
        let few = (0..2).map(|number| (ObjectKey::new("shop", &number.to_string()), ()));
        let order: Vec<ObjectKey> =
            in_turn(many.chain(few).collect()).into_iter().map(|(key, ())| key).collect();
        let places = [0, 1].map(|name: usize| {
            order.iter().position(|key| *key == ObjectKey::new("shop", &name.to_string()))
        });
        assert_eq!((order.len(), places), (102, [Some(1), Some(3)]));
    }
}
