//! Lists the objects that do not comply with placement policies, for commands that remediate them by hand.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use regorus::Value as Rego;
use serde_json::Value;
use tokio::sync::Notify;

use super::compliance::{Compliance, compliance};
use super::placed_kinds::{COMPONENT, is_placed, kinds};
use crate::rego_loading::Loaded;
use policy_sync_api::names::{GroupResource, GroupVersionResource, ObjectKey};
use policy_sync_rego::exemptions::Exemptions;
use policy_sync_rego::snapshot::{RegoQueryError, Snapshot};
use policy_sync_sync::desired::covered::ControllerScope;

/// Collects placement policies and objects, and evaluates compliance once both are loaded.
#[derive(Debug)]
pub struct ComplianceCheck {
    loaded: Loaded,
    covered: ControllerScope,
    /// The covered kinds.
    kinds: BTreeSet<GroupResource>,
    exemptions: Exemptions,
    changed: Arc<Notify>,
}

/// An object that does not comply.
#[derive(Clone, Debug)]
pub struct NonCompliantObject {
    /// The resource and version.
    pub gvr: GroupVersionResource,
    /// The object's namespace and name.
    pub key: ObjectKey,
    /// The object as replicated: without fields that placement policies cannot read.
    pub object: Value,
    /// The difference from the result of placement policies.
    pub compliance: Compliance,
}

impl ComplianceCheck {
    /// Evaluates the objects of the `covered` kinds with the placement policies of `loaded`. The loading must not be
    /// started yet.
    #[must_use]
    pub fn new(loaded: Loaded, covered: ControllerScope, exemptions: Exemptions) -> Self {
        let changed = Arc::new(Notify::new());
        let notify = changed.clone();
        loaded.follow(COMPONENT, move |_| notify.notify_one());
        let kinds = kinds(&covered, &BTreeSet::new());
        let mut kept = kinds.clone();
        kept.insert(GroupResource::namespaces());
        loaded.keep(COMPONENT, kept, BTreeSet::new());
        Self { loaded, covered, kinds, exemptions, changed }
    }

    /// Waits until placement policies and objects are loaded.
    pub async fn ready(&self) {
        let mut rego_usage = self.loaded.rego_usage();
        while self.not_ready_reason().is_some() {
            tokio::select! {
                () = self.changed.notified() => {}
                changed = rego_usage.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// Why compliance cannot be evaluated yet.
    #[must_use]
    pub fn not_ready_reason(&self) -> Option<String> {
        let (is_loaded, text) = self.loaded.health();
        if !is_loaded || self.loaded.snapshot().is_starting() {
            return Some(text.trim_end().replace('\n', "; "));
        }
        self.kinds
            .iter()
            .chain([&GroupResource::namespaces()])
            .find_map(|kind| self.loaded.objects(kind).err())
    }

    /// All objects in `namespace` (`None`: in all namespaces) that do not comply, sorted. Runs one evaluation for each
    /// object.
    ///
    /// # Errors
    ///
    /// If the covered kinds are unknown, objects are not loaded, or placement policies cannot be evaluated.
    pub fn non_compliant(&self, namespace: Option<&str>) -> Result<Vec<NonCompliantObject>, String> {
        if !self.covered.is_whole {
            return Err(
                "the parameters of a GatewayClass cannot be read, so the kinds that it lists are unknown"
                    .to_owned(),
            );
        }
        let spaces = self.loaded.objects(&GroupResource::namespaces())?;
        let spaces: BTreeMap<Arc<str>, Rego> =
            spaces.into_iter().map(|(key, space)| (key.name, space)).collect();
        let snapshot = self.loaded.snapshot();
        let mut found = Vec::new();
        for kind in &self.kinds {
            let mut objects = self.loaded.objects(kind)?;
            objects.sort_by(|(one, _), (other, _)| one.cmp(other));
            let Some((gvr, _)) = self.loaded.gvr_and_version(kind) else { continue };
            for (key, object) in objects {
                let is_selected = namespace.is_none_or(|namespace| &*key.namespace == namespace);
                let space = spaces.get(&key.namespace).filter(|_| is_selected);
                let Some(space) = space else { continue };
                if is_placed(&self.covered, &self.exemptions, kind, &object, space)
                    && let Some((object, compliance)) = one(&snapshot, kind, &key, &object)?
                {
                    found.push(NonCompliantObject { gvr: gvr.clone(), key, object, compliance });
                }
            }
        }
        Ok(found)
    }
}

fn one(
    snapshot: &Snapshot,
    kind: &GroupResource,
    key: &ObjectKey,
    object: &Rego,
) -> Result<Option<(Value, Compliance)>, String> {
    let object =
        serde_json::to_value(object).map_err(|error| format!("{kind} {key} cannot be read: {error}"))?;
    let compliance = match compliance(snapshot, &object) {
        Ok(compliance) => compliance,
        Err(RegoQueryError::Failed(failure)) => Compliance::Violates(failure.to_string()),
        Err(RegoQueryError::DocumentsOmitted(why)) => Compliance::Violates(why),
        Err(unanswered) => return Err(unanswered.to_string()),
    };
    Ok((compliance != Compliance::Compliant).then_some((object, compliance)))
}
