//! Works: of each only what comparing it with the plan, and folding its answer, needs.
//!
//! The spoke's agent may write anything into its works. So the payload is kept as a hash of what the work really
//! holds, never as one that it says it holds, and of all texts in it only so much as an honest one has.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

pub use super::content::{ANNOTATIONS, Content, LABELS};
use super::{Strings, served};
use crate::feedback::{Answer, applied, as_revision, created};
use policy_sync_api::annotations;
use policy_sync_api::gateway;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ControllerName, Origin};
use policy_sync_api::object::HubObject;
use policy_sync_api::work::{Manifest, ManifestWorkSpec, ManifestWorkStatus};
use policy_sync_mirror::{Pruned, Row};

pub use super::purpose::Purpose;

/// A work on the hub.
#[derive(Clone, Debug, PartialEq)]
pub struct Work {
    /// Unique over time.
    pub uid: Arc<str>,
    /// Changes with the spec.
    pub generation: i64,
    /// When it was made.
    pub created: Moment,
    /// When it was asked to go.
    pub deleting: Option<Moment>,
    /// Since when the cluster of a Gateway's work is no longer chosen. The spoke's agent may have written it.
    pub unplaced: Option<Moment>,
    /// Since when its agent has applied what it holds; `None` where it has not. The agent may have written any moment.
    pub applied_since: Option<Moment>,
    /// What it is for.
    pub purpose: Purpose,
    /// What it holds.
    pub content: Content,
    /// The names of the hub Gateways that it serves, by its own word: whether there is anything to it,
    /// [`crate::View::served`] says.
    pub gateways: Arc<[Arc<str>]>,
    /// The revision of the copy that it holds.
    pub revision: Option<Arc<str>>,
    /// How many replicas the copy that it holds is to have, where it says so.
    pub replicas: Option<u64>,
    /// Whether it carries a resource, by its own word.
    pub of_resource: bool,
    /// Whether it is a Gateway's and carries ReferenceGrants.
    pub grants: bool,
    /// When the copy that it holds was created on the spoke, as the agent reports by the clock of the spoke. The agent may have
    /// written any moment.
    pub copied: Option<Moment>,
    /// What the spoke's agent says.
    pub answer: Option<Arc<Answer>>,
}

impl Work {
    /// The row of `object`, for the works of `controller`.
    #[must_use]
    pub fn new(object: &HubObject, controller: &ControllerName) -> Self {
        let metadata = &object.metadata;
        let spec: ManifestWorkSpec = object.spec_as();
        let purpose = Purpose::read(object, &spec, controller);
        let status: Option<ManifestWorkStatus> = object.status.is_some().then(|| object.status_as());
        let served = metadata.annotations.get(annotations::GATEWAYS);
        let none = Strings::default();
        let compared = match purpose {
            // It is planned without annotations, and a patch takes none away: what its spoke puts there is no difference.
            Purpose::Access(_) => &none,
            _ => &metadata.annotations,
        };
        Self {
            uid: metadata.uid.as_str().into(),
            generation: metadata.generation,
            created: moment(metadata.creation_timestamp.as_ref()).unwrap_or_default(),
            deleting: moment(metadata.deletion_timestamp.as_ref()),
            unplaced: unplaced(object, &purpose),
            content: Content::new(&spec, &metadata.labels, compared),
            gateways: served.map(|text| served::named(text)).unwrap_or_default(),
            revision: revision(&spec),
            replicas: copy(&spec).and_then(|copy| copy["spec"]["replicas"].as_u64()),
            of_resource: metadata.labels.get(annotations::WORK_FOR).is_some_and(|what| what == "resource"),
            applied_since: status.as_ref().and_then(|status| applied_since(object, status)),
            grants: carries_grants(&spec, &purpose),
            copied: status.as_ref().and_then(|status| created(status, &purpose)),
            answer: status.map(|status| Arc::new(Answer::read(object, &status, &purpose, &spec))),
            purpose,
        }
    }

    /// Whether its agent has applied what it holds now, and is not asked to let go of it.
    #[must_use]
    pub fn is_applied(&self) -> bool {
        self.deleting.is_none() && self.answer.as_ref().is_some_and(|answer| answer.applied)
    }

    /// Its origin, where it is proven to have one.
    #[must_use]
    pub fn origin(&self) -> Option<&Arc<Origin>> {
        match &self.purpose {
            Purpose::Copy(origin) => Some(origin),
            Purpose::Access(_) | Purpose::Foreign => None,
        }
    }
}

fn moment(time: Option<&Time>) -> Option<Moment> {
    time.map(|time| Moment(time.0.as_millisecond()))
}

/// What is no moment is none.
fn unplaced(object: &HubObject, purpose: &Purpose) -> Option<Moment> {
    let text = object.metadata.annotations.get(annotations::DISPLACED_SINCE)?;
    purpose.gateway()?;
    let time: Timestamp = text.parse().ok()?;
    Some(Moment(time.as_millisecond()))
}

/// The copy in it: what has a revision.
fn copy(spec: &ManifestWorkSpec) -> Option<&Value> {
    let mut manifests = spec.workload.manifests.iter().map(|manifest| &manifest.0);
    manifests.find(|manifest| manifest["metadata"]["annotations"][annotations::REVISION].is_string())
}

fn revision(spec: &ManifestWorkSpec) -> Option<Arc<str>> {
    let revision = copy(spec)?["metadata"]["annotations"][annotations::REVISION].as_str();
    revision.and_then(as_revision).map(Into::into)
}

fn carries_grants(spec: &ManifestWorkSpec, purpose: &Purpose) -> bool {
    let is_grant = |manifest: &Manifest| {
        let group = manifest.0["apiVersion"].as_str().and_then(|version| version.split_once('/'));
        manifest.0["kind"] == "ReferenceGrant" && group.is_some_and(|(group, _)| group == gateway::GROUP)
    };
    purpose.gateway().is_some() && spec.workload.manifests.iter().any(is_grant)
}

fn applied_since(object: &HubObject, status: &ManifestWorkStatus) -> Option<Moment> {
    let applied = applied(object, status).filter(|applied| applied.status == "True")?;
    moment(Some(&applied.last_transition_time))
}

impl Row for Work {}

impl Pruned for Work {
    fn prune(object: &HubObject, controller: &ControllerName) -> Self {
        Self::new(object, controller)
    }
}
