//! Audited objects in memory, and engines for them.

use std::time::{Duration, Instant};

use anyhow::{Error, Result};
use policy_sync_api::names::GroupVersionResource;
use policy_sync_controller::admission::audit::{ExistingObject, Findings, audit};
use policy_sync_rego::engine::{Engine, Evaluator};
use policy_sync_rego::snapshot::Snapshot;
use regorus::Value;

use crate::documents::{self, Variety};
use crate::modules;

/// Pods to audit.
pub(super) struct Corpus {
    gvr: GroupVersionResource,
    pods: Vec<(String, String, Value)>,
}

impl Corpus {
    /// Creates pods.
    pub(super) fn new(count: usize) -> Self {
        let pod = |index| {
            let pod = documents::pod(index, Variety::Different);
            let of = |field: &str| pod["metadata"][field].as_str().unwrap_or_default().to_owned();
            (of("namespace"), of("name"), pod.into())
        };
        Self { gvr: GroupVersionResource::new("", "v1", "pods"), pods: (0..count).map(pod).collect() }
    }

    pub(super) fn count(&self) -> usize {
        self.pods.len()
    }

    /// Audits all pods with `engine`. Returns the duration and the number of violations. Blocks the thread.
    pub(super) fn audit(&self, engine: &Engine) -> Result<(Duration, usize)> {
        let snapshot = Snapshot::new(engine.clone(), Default::default());
        let (mut findings, began) = (Findings::default(), Instant::now());
        for (namespace, name, object) in &self.pods {
            let judged = audit(&snapshot, ExistingObject { gvr: &self.gvr, namespace, name, object });
            if let Some(why) = judged.unreached {
                return Err(Error::msg(why));
            }
            judged.violations.into_iter().for_each(|violation| findings.add(violation));
        }
        Ok((began.elapsed(), findings.sorted().count()))
    }
}

/// An embedded engine with this number of deny policies. The engine needs no data, because an audit passes each object
/// as input.
pub(super) fn embedded(policies: usize) -> Result<Engine> {
    Ok(Evaluator::Embedded
        .engine(&modules::bundle(&modules::denying(policies))?)?
        .with_data(Value::new_object())?)
}
