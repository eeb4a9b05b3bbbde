//! Rows of works: only the fields that are compared with plans or folded into a status.
//!
//! A spoke's agent may write anything into its works. The payload is therefore kept as a hash of the actual content,
//! never as a hash from an annotation. Texts are limited to the length that a correct agent would write.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde::de::{Deserialize, Deserializer, SeqAccess, Visitor};
use serde_json::Value;

use super::Strings;
pub use super::content::{ANNOTATIONS, Content, LABELS};
use crate::feedback::{AgentReport, applied, as_revision, created};
use policy_sync_api::annotations;
use policy_sync_api::gateway;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ControllerName, Origin};
use policy_sync_api::object::HubObject;
use policy_sync_api::syntax::is_dns_subdomain;
use policy_sync_api::work::{Manifest, ManifestWorkSpec, ManifestWorkStatus};
use policy_sync_mirror::{ObjectRow, Row};

pub use super::purpose::Purpose;

/// The maximum number of Gateways in a work's annotation: a policy has at most as many targets
/// ([GEP-713](https://gateway-api.sigs.k8s.io/geps/gep-713/)).
const GATEWAYS_LIMIT: usize = 16;

/// A work on the hub.
#[derive(Clone, Debug, PartialEq)]
pub struct Work {
    /// The uid, which is unique over time.
    pub uid: Arc<str>,
    /// The generation, which changes with the spec.
    pub generation: i64,
    /// The creation time.
    pub created: Moment,
    /// When the deletion of the work was requested.
    pub deleting: Option<Moment>,
    /// Since when the cluster of a Gateway's work is no longer selected. The spoke's agent may have forged this time.
    pub unplaced: Option<Moment>,
    /// Since when the agent has applied the current content; `None` if the content is not applied. The agent may have
    /// forged this time.
    pub applied_since: Option<Moment>,
    /// The purpose of the work, derived from its name and annotations.
    pub purpose: Purpose,
    /// The hashes of the work's content.
    pub content: Content,
    /// The names of the hub Gateways in the annotation of the work. They are not verified; [`crate::View::served`]
    /// filters them.
    pub gateways: Arc<[Arc<str>]>,
    /// The revision of the copy in the work.
    pub revision: Option<Arc<str>>,
    /// The number of replicas in the copy, if its spec has this field.
    pub replicas: Option<u64>,
    /// Whether the labels mark the work as the work of a resource. This is not verified.
    pub of_resource: bool,
    /// Whether the work belongs to a Gateway and contains ReferenceGrants.
    pub grants: bool,
    /// When the copy was created on the spoke, by the spoke's clock. The agent reports this time and may have forged
    /// it.
    pub copied: Option<Moment>,
    /// The report of the spoke's agent.
    pub report: Option<Arc<AgentReport>>,
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
            // An access work is planned without annotations, and patches remove no annotations. So annotations that a
            // spoke adds do not count as a difference.
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
            gateways: served.map(|text| gateway_names(text)).unwrap_or_default(),
            revision: revision(&spec),
            replicas: copy(&spec).and_then(|copy| copy["spec"]["replicas"].as_u64()),
            of_resource: metadata.labels.get(annotations::WORK_FOR).is_some_and(|what| what == "resource"),
            applied_since: status.as_ref().and_then(|status| applied_since(object, status)),
            grants: carries_grants(&spec, &purpose),
            copied: status.as_ref().and_then(|status| created(status, &purpose)),
            report: status.map(|status| Arc::new(AgentReport::read(object, &status, &purpose, &spec))),
            purpose,
        }
    }

    /// Whether the agent has applied the current content and the work is not being deleted.
    #[must_use]
    pub fn is_applied(&self) -> bool {
        self.deleting.is_none() && self.report.as_ref().is_some_and(|report| report.applied)
    }

    /// The origin of the work, if the work's name verifies it.
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

/// The time in the annotation of a Gateway's work; `None` if the annotation is not a valid timestamp.
fn unplaced(object: &HubObject, purpose: &Purpose) -> Option<Moment> {
    let text = object.metadata.annotations.get(annotations::UNPLACED_SINCE)?;
    purpose.gateway()?;
    let time: Timestamp = text.parse().ok()?;
    Some(Moment(time.as_millisecond()))
}

/// The copy in a work: the manifest with a revision.
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

/// The names of Gateways in the JSON list `text`, an annotation of a work; empty if it is not a list of strings. A
/// spoke's agent may write as many names as an annotation holds, so only the first few are kept.
fn gateway_names(text: &str) -> Arc<[Arc<str>]> {
    serde_json::from_str(text).map(|Names(names)| names.into()).unwrap_or_default()
}

struct Names(Vec<Arc<str>>);

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(First)
    }
}

struct First;

impl<'de> Visitor<'de> for First {
    type Value = Names;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of names")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Names, A::Error> {
        let mut names: Vec<Arc<str>> = Vec::new();
        while let Some(name) = list.next_element::<String>()? {
            if names.len() < GATEWAYS_LIMIT
                && is_dns_subdomain(&name)
                && names.iter().all(|known| **known != *name)
            {
                names.push(name.into());
            }
        }
        Ok(Names(names))
    }
}

impl Row for Work {}

impl ObjectRow for Work {
    fn prune(object: &HubObject, controller: &ControllerName) -> Self {
        Self::new(object, controller)
    }
}
