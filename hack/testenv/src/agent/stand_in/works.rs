//! Watches the works of the cluster and queues them for applying and observing.

use std::collections::BTreeMap;

use futures::StreamExt;
use kube::ResourceExt;
use kube::runtime::reflector::store::Writer;
use kube::runtime::{WatchStreamExt, watcher};
use policy_sync_api::work::{ManifestWork, ManifestWorkSpec};
use tokio::sync::mpsc::UnboundedSender;

use super::hub;
use super::state::Agent;

/// The parts of a work whose change requires applying the work again.
#[derive(Clone, PartialEq)]
struct ApplyInputs {
    uid: Option<String>,
    deleted: bool,
    has_finalizer: bool,
    spec: ManifestWorkSpec,
    labels: Option<BTreeMap<String, String>>,
}

impl ApplyInputs {
    fn new(work: &ManifestWork) -> Self {
        Self {
            uid: work.metadata.uid.clone(),
            deleted: work.metadata.deletion_timestamp.is_some(),
            has_finalizer: hub::has_finalizer(work),
            spec: work.spec.clone(),
            labels: work.metadata.labels.clone(),
        }
    }
}

/// Watches the cluster's works. Sends the name of every changed work to `observe`, and to `apply` if the spec or the
/// labels changed.
pub(super) async fn follow(
    agent: &Agent,
    writer: Writer<ManifestWork>,
    apply: UnboundedSender<String>,
    observe: UnboundedSender<String>,
) {
    let events = watcher(agent.works.clone(), watcher::Config::default()).default_backoff().reflect(writer);
    let mut events = std::pin::pin!(events);
    let mut seen: BTreeMap<String, ApplyInputs> = BTreeMap::new();
    let mut listed: BTreeMap<String, ApplyInputs> = BTreeMap::new();
    while let Some(event) = events.next().await {
        let due: Vec<String> = match event {
            Ok(watcher::Event::Init) => {
                listed.clear();
                continue;
            }
            Ok(watcher::Event::InitApply(work)) => {
                // The store contains the objects of a list only after the list is complete.
                listed.insert(work.name_any(), ApplyInputs::new(&work));
                continue;
            }
            Ok(watcher::Event::InitDone) => {
                let before = std::mem::replace(&mut seen, std::mem::take(&mut listed));
                for name in before.keys().filter(|name| !seen.contains_key(*name)) {
                    agent.forget(name);
                }
                let changed = seen.iter().filter(|(name, now)| before.get(*name) != Some(now));
                let changed: Vec<_> = changed.map(|(name, _)| name.clone()).collect();
                let _ = seen.keys().try_for_each(|name| observe.send(name.clone()));
                changed
            }
            Ok(watcher::Event::Apply(work)) => {
                let (name, now) = (work.name_any(), ApplyInputs::new(&work));
                // The receiver is dropped only when the agent stops.
                let _ = observe.send(name.clone());
                if seen.get(&name) == Some(&now) {
                    continue;
                }
                seen.insert(name.clone(), now);
                vec![name]
            }
            Ok(watcher::Event::Delete(work)) => {
                seen.remove(&work.name_any());
                agent.forget(&work.name_any());
                continue;
            }
            Err(error) => {
                tracing::warn!(cluster = agent.cluster, %error, "watching works failed");
                continue;
            }
        };
        for name in due {
            agent.changed(&name);
            if apply.send(name).is_err() {
                return;
            }
        }
    }
}
