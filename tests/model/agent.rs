//! The work agents of the spokes: each applies a work some time after it was written, and finalizes deleted
//! works.

use policy_sync_api::names::ObjectKey;
use policy_sync_api::work::ManifestWork;
use policy_sync_sync::kinds::WORKS;
use policy_sync_testenv::hostile::ROGUE;
use policy_sync_testenv::tenant::WorkReport;
use serde_json::{Value, json};

use crate::hub::{Contents, Hub, selected};

/// The works that have changed since their agent last handled them. The agent of the hostile spoke never acts.
pub(crate) fn waiting(hub: &Hub) -> impl Iterator<Item = ObjectKey> + '_ {
    let works = hub.objects.iter();
    let works = works.filter(|((source, key), _)| *source == WORKS.all() && *key.namespace != *ROGUE);
    let waiting = works.filter(|(_, entry)| {
        let work = &entry.content.json;
        *entry.content.waits.get_or_init(|| selected(&WORKS.all(), work) && waits(work))
    });
    waiting.map(|((_, key), _)| key.clone())
}

fn waits(work: &Value) -> bool {
    let terminating = !work["metadata"]["deletionTimestamp"].is_null();
    terminating || work["status"]["conditions"][0]["observedGeneration"] != work["metadata"]["generation"]
}

/// The agent applies the work `key`, or removes its finalizer from the work if the work is being deleted.
pub(crate) fn run(hub: &mut Hub, contents: &mut Contents, key: &ObjectKey) {
    hub.apply_agent(contents, &WORKS.all(), key, |work| {
        if !work["metadata"]["deletionTimestamp"].is_null() {
            work["metadata"]["finalizers"] = json!([]);
            return;
        }
        work["metadata"]["finalizers"] = json!(["cluster.open-cluster-management.io/manifest-work-cleanup"]);
        let typed: ManifestWork = serde_json::from_value(work.clone()).unwrap();
        work["status"] =
            WorkReport::applied().condition("Accepted", "True", "Accepted", "").status_of(&typed);
    });
}
