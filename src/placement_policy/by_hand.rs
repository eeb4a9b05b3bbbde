//! What policies say of objects that stand, for who brings them there by hand.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use regorus::Value as Rego;
use serde_json::Value;
use tokio::sync::Notify;

use super::compliance::{Compliance, compliance};
use super::placed_kinds::{KEEPER, is_placed, kinds};
use crate::rego_loading::Loaded;
use policy_sync_api::names::{GroupResource, GroupVersionResource, ObjectKey};
use policy_sync_rego::exemptions::Exemptions;
use policy_sync_rego::snapshot::{Snapshot, Unanswered};
use policy_sync_sync::desired::covered::Covered;

/// What a person waits for, and what they see.
#[derive(Debug)]
pub struct Look {
    loaded: Loaded,
    covered: Covered,
    /// The kinds that are covered.
    kinds: BTreeSet<GroupResource>,
    exemptions: Exemptions,
    moved: Arc<Notify>,
}

/// An object that is not as policies say.
#[derive(Clone, Debug)]
pub struct Found {
    /// How it is read.
    pub gvr: GroupVersionResource,
    /// Its namespace and name.
    pub key: ObjectKey,
    /// The object, without what nobody decides by.
    pub object: Value,
    /// How it stands.
    pub compliance: Compliance,
}

impl Look {
    /// A look at what is `covered`, by what is `loaded`, which is about to be started.
    #[must_use]
    pub fn new(loaded: Loaded, covered: Covered, exemptions: Exemptions) -> Self {
        let moved = Arc::new(Notify::new());
        let notify = moved.clone();
        loaded.follow(KEEPER, move |_| notify.notify_one());
        let kinds = kinds(&covered, &BTreeSet::new());
        let mut kept = kinds.clone();
        kept.insert(GroupResource::namespaces());
        loaded.keep(KEEPER, kept, BTreeSet::new());
        Self { loaded, covered, kinds, exemptions, moved }
    }

    /// Waits until policies, and what they place, are known.
    pub async fn ready(&self) {
        let mut in_use = self.loaded.in_use();
        while self.missing().is_some() {
            tokio::select! {
                () = self.moved.notified() => {}
                changed = in_use.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// What is not known yet, in words.
    #[must_use]
    pub fn missing(&self) -> Option<String> {
        let (is_loaded, text) = self.loaded.health();
        if !is_loaded || self.loaded.snapshot().is_starting() {
            return Some(text.trim_end().replace('\n', "; "));
        }
        self.kinds
            .iter()
            .chain([&GroupResource::namespaces()])
            .find_map(|kind| self.loaded.objects(kind).err())
    }

    /// Each object in `namespace`, or in any, that is not as policies say, in order. It takes the time of one evaluation each.
    ///
    /// # Errors
    ///
    /// Where something is not known, or policies cannot be asked.
    pub fn found(&self, namespace: Option<&str>) -> Result<Vec<Found>, String> {
        if !self.covered.is_whole {
            return Err(
                "a GatewayClass has parameters that cannot be read: what it lists is not known".to_owned()
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
            let Some((gvr, _)) = self.loaded.read_as(kind) else { continue };
            for (key, object) in objects {
                let is_meant = namespace.is_none_or(|namespace| &*key.namespace == namespace);
                let space = spaces.get(&key.namespace).filter(|_| is_meant);
                let Some(space) = space else { continue };
                if is_placed(&self.covered, &self.exemptions, kind, &object, space)
                    && let Some((object, compliance)) = one(&snapshot, kind, &key, &object)?
                {
                    found.push(Found { gvr: gvr.clone(), key, object, compliance });
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
        Err(Unanswered::Failed(failure)) => Compliance::Breaks(failure.to_string()),
        Err(unanswered) => return Err(unanswered.to_string()),
    };
    Ok((compliance != Compliance::AsSaid).then_some((object, compliance)))
}
