//! What is on one cluster, or is to be: a copy, as its work says, and what its hub object says of it.

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::item::Item;
use super::report::Detail;
use super::table::{Row, cells, message};
use crate::api::annotations::{REVISION, Synced};
use crate::api::names::{ControllerName, Parent};
use crate::api::object::HubObject;
use crate::api::work::{ManifestWorkSpec, ManifestWorkStatus};
use crate::cli::kinds::PolicyKind;
use crate::plan::fold::said;
use crate::sync::rows::work::{Purpose, Work};

pub(super) const ROW: [&str; 5] = ["APPLIED", "ENFORCED", "REASON", "SINCE", "MESSAGE"];

/// What is said where no work is there yet.
const NOT_WRITTEN: &str = "the controller has not created its work yet";

/// A copy, or the access of an agent.
#[derive(Clone, Debug, Default)]
pub(super) struct CopyReport {
    /// What it is a copy of; `None` for the access.
    parent: Option<Parent>,
    /// The kind of that in objects.
    kind: String,
    /// What its work says.
    work: Option<Answered>,
    /// Whether its hub object is to be there, and what that says of it.
    wanted: Option<Option<String>>,
}

/// What a work says.
#[derive(Clone, Debug)]
struct Answered {
    entry: Synced,
    /// Since when its agent says so, or since when it is asked to remove it.
    since: Option<Timestamp>,
}

impl CopyReport {
    /// Reads a work of `controller`; `None` where it is not one of ours.
    pub(super) fn of_work(object: &HubObject, controller: &ControllerName) -> Option<Self> {
        let work = Work::new(object, controller);
        let (parent, kind) = match &work.purpose {
            Purpose::Foreign => return None,
            Purpose::Access(_) => (None, "access".to_owned()),
            Purpose::Parent(parent) => (Some((**parent).clone()), carried(object)?),
        };
        let name = parent.as_ref().map(|parent| parent.object.name.to_string()).unwrap_or_default();
        let mut entry = said(&object.metadata.namespace.as_str().into(), name, &work);
        if parent.is_none() {
            // Nothing is fed back of it.
            entry.applied = work.answer.as_ref().is_some_and(|answer| answer.applied);
            entry.message =
                work.answer.as_ref().and_then(|answer| answer.message.as_deref()).map(str::to_owned);
            entry.pending = false;
        }
        let status: ManifestWorkStatus = object.status_as();
        let applied = status.conditions.iter().find(|said| said.type_ == "Applied");
        let deleting = object.metadata.deletion_timestamp.as_ref().map(|time| time.0);
        let since = deleting.or_else(|| applied.map(|said| said.last_transition_time.0));
        Some(Self { parent, kind, work: Some(Answered { entry, since }), wanted: None })
    }

    /// What a Gateway or a policy says that is to be on `cluster`.
    pub(super) fn of_item(item: &Item, cluster: &str) -> Option<Self> {
        let (parent, kind, message) = match item {
            Item::Gateway(report) => {
                report.on(cluster)?;
                let kind = PolicyKind::gateways();
                (
                    parent(&kind.gvr.kind.to_string(), &report.namespace, &report.name),
                    kind.kind,
                    report.message(),
                )
            }
            Item::Policy(report) => {
                report.on(cluster).filter(|on| on.entry.is_some_and(|entry| !entry.deleting))?;
                let parent = parent(&report.resource, &report.namespace, &report.name);
                (parent, report.kind.clone(), report.message.clone())
            }
            Item::Copy(_) => return None,
        };
        Some(Self { parent: Some(parent?), kind, work: None, wanted: Some(message) })
    }

    /// This copy with what `other`, of the same object, adds.
    pub(super) fn and(self, other: Option<&Self>) -> Self {
        let wanted = self.wanted.or_else(|| other?.wanted.clone());
        Self { work: self.work.or_else(|| other?.work.clone()), wanted, ..self }
    }

    /// What tells it from all others: `<resource>.<group>`, namespace, name, all empty for the access.
    pub(super) fn place(&self) -> (String, String, String) {
        let parts = |parent: &Parent| {
            (parent.kind.to_string(), parent.object.namespace.to_string(), parent.object.name.to_string())
        };
        self.parent.as_ref().map(parts).unwrap_or_default()
    }

    fn is_gateway(&self) -> bool {
        self.parent.as_ref().is_some_and(Parent::is_gateway)
    }

    /// Whether it is there as it should be.
    pub(super) fn in_sync(&self) -> bool {
        let Some(Answered { entry, .. }) = &self.work else { return false };
        let programmed =
            !self.is_gateway() || self.condition("Programmed").is_some_and(|status| status == "True");
        let frozen = self.wanted.as_ref().is_some_and(Option::is_some) && !self.is_gateway();
        entry.applied && programmed && !frozen
    }

    fn condition(&self, name: &str) -> Option<&str> {
        let conditions = &self.work.as_ref()?.entry.conditions;
        conditions.iter().find(|said| said.condition_type == name).map(|said| &*said.status)
    }

    fn message(&self) -> Option<&str> {
        let of_work = self.work.as_ref().and_then(|work| work.entry.message.as_deref());
        let of_object = self.wanted.as_ref().and_then(Option::as_deref);
        let not_written = self.work.is_none().then_some(NOT_WRITTEN);
        // What a Gateway says is of all its clusters: that is told where this one says nothing itself.
        let of_object = of_object.filter(|_| self.work.is_none() || !self.is_gateway());
        of_work.or(of_object).or(not_written).or_else(|| {
            let entry = &self.work.as_ref()?.entry;
            let lacking = entry.conditions.iter().find(|said| said.status != "True")?;
            lacking.message.as_deref()
        })
    }

    /// Its row.
    pub(super) fn row(&self, wide: bool) -> Row {
        let (_, namespace, name) = self.place();
        let or_none = |text: String| if text.is_empty() { "-".to_owned() } else { text };
        let of = vec![self.kind.clone(), or_none(namespace), or_none(name)];
        let main = if self.is_gateway() { "Programmed" } else { "Enforced" };
        let mut state = match &self.work {
            Some(work) => cells(Some(&work.entry), Detail::Full, main),
            None => vec!["no".to_owned(), "-".to_owned(), "-".to_owned()],
        };
        let since = self.work.as_ref().and_then(|work| work.since);
        state.push(since.map_or_else(|| "-".to_owned(), |since| since.to_string()));
        state.push(message(self.message(), wide, true));
        Row { of, state }
    }

    /// The report for programs.
    pub(super) fn json(&self) -> Value {
        let (resource, namespace, name) = self.place();
        let entry = self.work.as_ref().map(|work| &work.entry);
        let is = |test: &dyn Fn(&Synced) -> bool| entry.is_some_and(test);
        json!({
            "namespace": namespace,
            "kind": self.kind,
            "resource": resource,
            "name": name,
            "inSync": self.in_sync(),
            "written": entry.is_some(),
            "applied": is(&|entry| entry.applied),
            "pending": is(&|entry| entry.pending),
            "deleting": is(&|entry| entry.deleting),
            "since": self.work.as_ref().and_then(|work| work.since).map(|since| since.to_string()),
            "message": self.message(),
            "conditions": entry.map(|entry| &entry.conditions[..]).unwrap_or_default(),
        })
    }
}

fn parent(kind: &str, namespace: &str, name: &str) -> Option<Parent> {
    Parent::parse(&format!("{kind}/{namespace}/{name}"))
}

/// The kind of the copy that a work carries.
fn carried(work: &HubObject) -> Option<String> {
    let spec: ManifestWorkSpec = work.spec_as();
    let copy = spec.workload.manifests.into_iter().map(|manifest| manifest.0);
    let copy = copy.into_iter().find(|copy| copy["metadata"]["annotations"][REVISION].is_string())?;
    Some(copy["kind"].as_str()?.to_owned())
}

#[cfg(test)]
mod tests;
