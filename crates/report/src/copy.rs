//! The state of one copy on one cluster, combined from its ManifestWork and from its object on the hub.

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::key::ItemKey;
use policy_sync_api::annotations::{REVISION, Synced};
use policy_sync_api::names::{ControllerName, Origin};
use policy_sync_api::object::HubObject;
use policy_sync_api::params::Role;
use policy_sync_api::policy_state::PolicyState;
use policy_sync_api::work::{ManifestWorkSpec, ManifestWorkStatus};
use policy_sync_mirror::{ObjectRow, Row};
use policy_sync_sync::rows::work::{Purpose, Work};
use policy_sync_sync::status::policy::entry_of_work;

/// The message of a copy that has no work yet.
const NOT_WRITTEN: &str = "the controller has not created its work yet";

/// The copy of a hub object on a cluster, or the access rights of the cluster's agent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CopyReport {
    /// The hub object; `None` for the agent's access rights.
    pub origin: Option<Origin>,
    /// The hub object's `kind`.
    pub kind: String,
    /// Whether parameters list the kind of the hub object as policies or as resources.
    pub role: Role,
    /// The state of the copy, from its work; `None` if there is no work.
    pub work: Option<Synced>,
    /// When the `Applied` condition of the work last changed, or when the deletion of the work was requested.
    pub since: Option<Timestamp>,
    /// When the wait for the agent began: the deletion request, the failure to apply, or the last change of the work.
    /// `None` if the copy is applied.
    pub waiting_since: Option<Timestamp>,
    /// Whether the cluster is unavailable. Set by the caller, because works do not show the availability of clusters.
    pub unavailable: bool,
    desired: PlannedCopy,
}

/// Whether a copy is planned for the cluster, with the state that its hub object reports.
#[derive(Clone, Debug, Default, PartialEq)]
enum PlannedCopy {
    /// No copy is planned, or it is unknown whether a copy is planned.
    #[default]
    Unplanned,
    /// A copy is planned. Contains the message of its hub object, and the state on this cluster from the object's
    /// annotations.
    Planned(Option<String>, Option<PolicyState>),
}

impl PlannedCopy {
    fn message(&self) -> Option<&str> {
        match self {
            Self::Unplanned => None,
            Self::Planned(message, _) => message.as_deref(),
        }
    }

    fn state(&self) -> Option<PolicyState> {
        match self {
            Self::Unplanned => None,
            Self::Planned(_, state) => *state,
        }
    }
}

/// The copy in a work; `None` for a work of another controller.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CopyRow(pub(super) Option<CopyReport>);

impl Row for CopyRow {}

impl ObjectRow for CopyRow {
    fn prune(object: &HubObject, controller: &ControllerName) -> Self {
        Self(CopyReport::from_work(object, controller))
    }
}

impl CopyRow {
    pub(super) fn key(&self) -> Option<ItemKey> {
        Some(ItemKey::copy(self.0.as_ref()?.origin.as_ref()))
    }
}

impl CopyReport {
    pub(super) fn from_work(object: &HubObject, controller: &ControllerName) -> Option<Self> {
        let work = Work::new(object, controller);
        let (origin, kind) = match &work.purpose {
            Purpose::Foreign => return None,
            Purpose::Access(_) => (None, "access".to_owned()),
            Purpose::Copy(origin) => (Some((**origin).clone()), copy_kind(object)?),
        };
        let name = origin.as_ref().map(|origin| origin.object().name.to_string()).unwrap_or_default();
        let mut entry = entry_of_work(&object.metadata.namespace.as_str().into(), name, &work);
        if origin.is_none() {
            // A work with access rights has no status feedback.
            entry.applied = work.report.as_ref().is_some_and(|report| report.applied);
            entry.message =
                work.report.as_ref().and_then(|report| report.message.as_deref()).map(str::to_owned);
            entry.pending = false;
        }
        let status: ManifestWorkStatus = object.status_as();
        let applied = status.conditions.iter().find(|condition| condition.type_ == "Applied");
        let deleting = object.metadata.deletion_timestamp.as_ref().map(|time| time.0);
        let since = deleting.or_else(|| applied.map(|condition| condition.last_transition_time.0));
        let refused = applied.filter(|condition| condition.status != "True");
        let spec_modified = || object.metadata.spec_modified().map(|time| time.0);
        let waiting_since = if entry.applied {
            None
        } else {
            deleting.or(refused.map(|condition| condition.last_transition_time.0)).or_else(spec_modified)
        };
        let role = if work.of_resource { Role::Resource } else { Role::Policy };
        Some(Self { origin, kind, role, work: Some(entry), since, waiting_since, ..Self::default() })
    }

    /// A copy that is planned but may have no work, with the message and the state in the hub object's
    /// annotations.
    pub(super) fn desired(
        origin: Origin,
        kind: &str,
        role: Role,
        message: Option<String>,
        state: Option<PolicyState>,
    ) -> Self {
        let (origin, kind) = (Some(origin), kind.to_owned());
        Self { origin, kind, role, desired: PlannedCopy::Planned(message, state), ..Self::default() }
    }

    /// This copy, with the message and the state from the hub object of `desired`.
    pub(super) fn with(self, desired: Option<Self>) -> Self {
        Self { desired: desired.map(|desired| desired.desired).unwrap_or_default(), ..self }
    }

    /// Whether this is the copy of a Gateway.
    #[must_use]
    pub fn is_gateway(&self) -> bool {
        self.origin.as_ref().is_some_and(|origin| origin.as_gateway().is_some())
    }

    /// The state of a policy or a resource; `None` for a Gateway and for access rights.
    #[must_use]
    pub fn state(&self) -> Option<PolicyState> {
        self.origin.as_ref().filter(|_| !self.is_gateway())?;
        let of_work =
            self.work.as_ref().map_or(PolicyState::Pending, |entry| PolicyState::of_kind(self.role, entry));
        let state = match (self.desired.state(), of_work) {
            // Works do not show that a policy is frozen.
            (Some(PolicyState::Frozen), _) => PolicyState::Frozen,
            // The copy is being removed and will be created again.
            (Some(PolicyState::Pending), PolicyState::Removing) => PolicyState::Pending,
            _ => of_work,
        };
        Some(if self.unavailable { state.on_unavailable_cluster() } else { state })
    }

    /// The displayed state. For a policy or a resource, its [state](Self::state). For access rights and for a Gateway,
    /// whether the agent has applied the work. `None` for an applied Gateway, because its condition `Programmed` is
    /// displayed instead.
    #[must_use]
    pub fn shown_state(&self) -> Option<PolicyState> {
        self.state().or_else(|| match &self.work {
            _ if self.unavailable => Some(PolicyState::Unreachable),
            None => Some(PolicyState::Pending),
            Some(entry) if !entry.applied || entry.deleting || entry.pending => Some(PolicyState::of(entry)),
            Some(_) => (!self.is_gateway()).then_some(PolicyState::Applied),
        })
    }

    /// The name of the shown state; `Programmed` or `NotProgrammed` for an applied Gateway.
    #[must_use]
    pub fn state_name(&self) -> &'static str {
        let programmed = if self.in_sync() { "Programmed" } else { "NotProgrammed" };
        self.shown_state().map_or(programmed, PolicyState::as_str)
    }

    /// Whether the cluster has the current revision. For the copy of a Gateway, whether the copy is programmed.
    #[must_use]
    pub fn in_sync(&self) -> bool {
        let Some(entry) = &self.work else { return false };
        let programmed =
            !self.is_gateway() || self.condition("Programmed").is_some_and(|status| status == "True");
        let frozen = self.desired.message().is_some() && !self.is_gateway();
        entry.applied && programmed && !frozen
    }

    fn condition(&self, name: &str) -> Option<&str> {
        let conditions = &self.work.as_ref()?.conditions;
        conditions
            .iter()
            .find(|condition| condition.condition_type == name)
            .map(|condition| &*condition.status)
    }

    /// The message of the work, else the message of the hub object. If both are missing: a note that there is no work
    /// yet, or the message of a condition in the work whose status is not `True`.
    #[must_use]
    pub fn message(&self) -> Option<&str> {
        let of_work = self.work.as_ref().and_then(|entry| entry.message.as_deref());
        let of_object = self.desired.message();
        let not_written = self.work.is_none().then_some(NOT_WRITTEN);
        // The message of a hub Gateway covers all clusters. That message is used only if this cluster has no work.
        let of_object = of_object.filter(|_| self.work.is_none() || !self.is_gateway());
        of_work.or(of_object).or(not_written).or_else(|| {
            let lacking =
                self.work.as_ref()?.conditions.iter().find(|condition| condition.status != "True")?;
            lacking.message.as_deref()
        })
    }

    /// The report as JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        let ItemKey { resource, namespace, name, .. } = ItemKey::copy(self.origin.as_ref());
        let entry = self.work.as_ref();
        let is = |test: &dyn Fn(&Synced) -> bool| entry.is_some_and(test);
        let mut json = json!({
            "namespace": namespace,
            "kind": self.kind,
            "resource": resource,
            "name": name,
            "inSync": self.in_sync(),
            "state": self.state_name(),
            "written": entry.is_some(),
            "applied": is(&|entry| entry.applied),
            "pending": is(&|entry| entry.pending),
            "deleting": is(&|entry| entry.deleting),
            "since": self.since.map(|since| since.to_string()),
            "message": self.message(),
            "conditions": entry.map(|entry| &entry.conditions[..]).unwrap_or_default(),
        });
        if let Some(entry) = entry.filter(|entry| !entry.fields.is_empty()) {
            json["fields"] = entry.fields.clone().into();
        }
        json
    }
}

/// The kind of the copy in a work.
fn copy_kind(work: &HubObject) -> Option<String> {
    let spec: ManifestWorkSpec = work.spec_as();
    let copy = spec.workload.manifests.into_iter().map(|manifest| manifest.0);
    let copy = copy.into_iter().find(|copy| copy["metadata"]["annotations"][REVISION].is_string())?;
    Some(copy["kind"].as_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy_sync_sync::testing::objects::policy_origin;

    #[test]
    fn removed_copy_that_is_planned_again_has_the_state_of_the_annotations() {
        let entry = r#"{"cluster":"eu-1","name":"limits","namespace":"n","deleting":true}"#;
        let (origin, kind) = (policy_origin("limits"), "RateLimitPolicy");
        let removed = CopyReport {
            origin: Some(origin.clone()),
            work: serde_json::from_str(entry).unwrap(),
            ..CopyReport::default()
        };
        assert_eq!(removed.clone().with(None).state(), Some(PolicyState::Removing));
        let state = Some(PolicyState::Pending);
        let desired = CopyReport::desired(origin, kind, Role::Policy, None, state);
        assert_eq!(removed.with(Some(desired)).state(), state);
    }
}
