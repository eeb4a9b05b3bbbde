//! Objects in memory that are audited, and policies.

use std::time::{Duration, Instant};

use anyhow::{Error, Result};
use policy_sync::admission::audit::{Existing, Findings, audit};
use policy_sync_api::names::GroupVersionResource;
use policy_sync_rego::engine::{Engine, Evaluator};
use policy_sync_rego::snapshot::Snapshot;
use regorus::Value;

use crate::documents::{self, Variety};
use crate::modules;

/// Pods.
pub(super) struct Corpus {
    gvr: GroupVersionResource,
    pods: Vec<(String, String, Value)>,
}

impl Corpus {
    /// So many.
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

    /// How long an audit of all by what `engine` has takes, and how many violations it finds. On a thread that may wait.
    pub(super) fn audit(&self, engine: &Engine) -> Result<(Duration, usize)> {
        let snapshot = Snapshot::new(engine.clone(), Default::default());
        let (mut findings, began) = (Findings::default(), Instant::now());
        for (namespace, name, object) in &self.pods {
            let judged = audit(&snapshot, Existing { gvr: &self.gvr, namespace, name, object });
            if let Some(why) = judged.unreached {
                return Err(Error::msg(why));
            }
            judged.violations.into_iter().for_each(|violation| findings.add(violation));
        }
        Ok((began.elapsed(), findings.in_order().count()))
    }
}

/// An embedded engine with so many policies that deny, and no data: they ask about one object at a time.
pub(super) fn embedded(policies: usize) -> Result<Engine> {
    Ok(Evaluator::Embedded
        .engine(&modules::bundle(&modules::denying(policies))?)?
        .with_data(Value::new_object())?)
}
