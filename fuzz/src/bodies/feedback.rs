//! Folds feedback into a policy's annotations. The input is a list with the status of the work on each cluster. The
//! list may begin with a number: the size in bytes of another annotation of the policy. If the policy kind has a status
//! for each ancestor, `true` follows. The text `REVISION` is replaced by the planned revision.
//!
//! For any feedback, the annotations are JSON within their limits and their numbers add up. A cluster counts as applied
//! only if it reports that the present copy is applied. No cluster looks better than the status of one of its
//! ancestors. The feedback of a cluster does not change the entries of other clusters.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use policy_sync_api::annotations::{
    POLICIES_SYNCED, POLICIES_SYNCED_DETAIL, POLICIES_SYNCED_SUMMARY, Summary, Synced,
};
use policy_sync_api::names::Origin;
use policy_sync_sync::status::policy::{ANNOTATIONS_LIMIT, Fold, OWN_ANNOTATIONS_LIMIT};
use serde_json::{Map, Value, json};

use super::ancestors::{self, ConditionStatus};
use super::hub::{Hub, Works};

/// The maximum number of clusters in an input.
const CLUSTERS: usize = 24;
/// The API server's limit for all annotations together, in bytes.
const API_LIMIT: u64 = 256 * 1024;

pub fn body(data: &[u8]) {
    let Ok(Value::Array(mut statuses)) = serde_json::from_slice(data) else { return };
    let mut other_bytes = 0;
    if let Some(bytes) = statuses.first().and_then(Value::as_u64) {
        other_bytes = usize::try_from(bytes.min(API_LIMIT)).unwrap_or_default();
        statuses.remove(0);
    }
    let has_ancestors = statuses.first().is_some_and(|first| *first == true);
    if has_ancestors {
        statuses.remove(0);
    }
    statuses.truncate(CLUSTERS);
    let sync_annotation = sync_annotation(&statuses, other_bytes, has_ancestors);
    // Without the status of one cluster, the entries of all other clusters stay the same.
    let without_status = data.len().checked_rem(statuses.len()).unwrap_or_default();
    if let Some(status) = statuses.get_mut(without_status) {
        *status = Value::Null;
        assert_same(
            &sync_annotation,
            &self::sync_annotation(&statuses, other_bytes, has_ancestors),
            without_status,
        );
    }
}

thread_local! {
    /// Planned works, by the number of clusters and by whether they have the rule for ancestors.
    static WORKS: RefCell<BTreeMap<(usize, bool), Works>> = const { RefCell::new(BTreeMap::new()) };
}

fn limits() -> Origin {
    Origin::named("kuadrant.io", "ratelimitpolicies", "shop", "limits")
}

fn cluster(index: usize) -> String {
    format!("cluster-{index:02}")
}

/// The level of detail, and the entries of the clusters, from the annotations.
type SyncAnnotation = Option<(String, Vec<Synced>)>;

/// Folds the statuses; `None` if other annotations leave no room.
fn sync_annotation(statuses: &[Value], other_bytes: usize, has_ancestors: bool) -> SyncAnnotation {
    let mut hub = Hub::new();
    hub.has_ancestors = has_ancestors;
    objects(statuses.len(), other_bytes).iter().for_each(|object| hub.object(object));
    write_works(&mut hub, statuses.len());
    let keys: Vec<_> = hub.works.keys().cloned().collect();
    let mut applied = BTreeSet::new();
    let mut reported = BTreeMap::new();
    for key in keys {
        let work = hub.works.get_mut(&key).expect("the work exists");
        if work["metadata"]["annotations"]["kuadrant.io/parent"] != *limits().to_string() {
            continue;
        }
        let index =
            (0..statuses.len()).find(|index| cluster(*index) == key.0).expect("the cluster is in the list");
        let copy = &work["spec"]["workload"]["manifests"][1];
        let revision = copy["metadata"]["annotations"]["kuadrant.io/revision"].clone();
        let mut status = statuses[index].clone();
        replace(&mut status, &revision);
        if may_be_applied(&status, &revision, &work["metadata"]["generation"]) {
            applied.insert(key.0.clone());
        }
        let of_ancestors = ancestors::write(&mut status);
        if let Some(of_ancestors) = of_ancestors.filter(|_| has_ancestors) {
            reported.insert(key.0.clone(), of_ancestors);
        }
        work["status"] = status;
        hub.show_work(&key);
    }
    let annotations = match hub.fold(&limits()).fold {
        Fold::Write { annotations, .. } => Some(annotations),
        Fold::Settled => None,
        Fold::Contested { contest, .. } => panic!("unexpected conflict: {contest:?}"),
    };
    hub.write_fold(&limits());
    assert_eq!(hub.fold(&limits()).fold, Fold::Settled, "a plan remains after writing");
    let object = hub
        .objects
        .values()
        .find(|object| object["metadata"]["name"] == "limits")
        .expect("the policy exists");
    let found = object["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
    for (key, text) in annotations.iter().flatten() {
        assert_eq!(found[*key], **text, "annotation {key} differs from the plan");
    }
    let sync_annotation = read(&found, statuses.len(), other_bytes, &applied);
    if let Some((detail, entries)) = &sync_annotation
        && detail == "full"
    {
        entries.iter().for_each(|entry| check_ancestors(entry, reported.get(&*entry.cluster.0)));
    }
    sync_annotation
}

/// Checks that no condition of a policy has a better status than the same condition of one of its ancestors.
fn check_ancestors(entry: &Synced, reported: Option<&Vec<ConditionStatus>>) {
    for (condition_type, status) in reported.into_iter().flatten().filter(|_| entry.applied && !entry.pending)
    {
        let shown = entry.conditions.iter().find(|shown| shown.condition_type == *condition_type);
        let shown = shown.unwrap_or_else(|| panic!("{condition_type} is missing: {entry:?}"));
        assert!(
            ancestors::rank(&shown.status) <= ancestors::rank(status),
            "{shown:?}, but an ancestor has {status}"
        );
    }
}

/// Writes the works for `clusters` clusters. The works are cached, because they are always the same, and
/// planning them would take most of the time.
fn write_works(hub: &mut Hub, clusters: usize) {
    WORKS.with_borrow_mut(|known| {
        let key = (clusters, hub.has_ancestors);
        let Some(works) = known.get(&key) else {
            hub.write();
            known.insert(key, hub.works.clone());
            return;
        };
        hub.works.clone_from(works);
        works.keys().for_each(|key| hub.show_work(key));
    });
}

/// Parses the annotations and checks their contents.
fn read(
    found: &Map<String, Value>,
    clusters: usize,
    other_bytes: usize,
    applied: &BTreeSet<String>,
) -> SyncAnnotation {
    let bytes = |(key, text): (&String, &Value)| key.len() + text.as_str().map_or(0, str::len);
    let ours: usize = found.iter().filter(|(key, _)| key.starts_with("kuadrant.io/polic")).map(bytes).sum();
    assert!(ours <= OWN_ANNOTATIONS_LIMIT, "{ours} bytes");
    assert!(ours == 0 || ours + other_bytes <= ANNOTATIONS_LIMIT, "{ours} and {other_bytes} bytes");
    let text = |key: &str| found.get(key)?.as_str();
    let entries: Vec<Synced> =
        serde_json::from_str(text(POLICIES_SYNCED)?).expect("the annotation is a list of entries");
    let summary: Summary =
        serde_json::from_str(text(POLICIES_SYNCED_SUMMARY)?).expect("the annotation is a summary");
    let detail = text(POLICIES_SYNCED_DETAIL)?.to_owned();
    assert_eq!(summary.clusters, clusters);
    let expected: Vec<String> = (0..entries.len()).map(cluster).collect();
    assert!(entries.iter().map(|entry| &*entry.cluster.0).eq(expected.iter()), "{entries:?}");
    assert!(entries.iter().all(|entry| entry.name == "limits" && entry.namespace == "kuadrant-shop"));
    assert!(summary.applied <= applied.len(), "{summary:?}, but only {applied:?} have applied it");
    if detail == "full" || detail == "minimal" {
        assert_eq!(entries.len(), clusters);
        check_summary(&summary, &entries, detail == "full");
        for entry in entries.iter().filter(|entry| entry.applied) {
            assert!(applied.contains(&*entry.cluster.0), "{entry:?}, but the cluster has not applied it");
        }
    } else {
        assert!(detail == "keys" || detail == format!("first {} of {clusters}", entries.len()), "{detail}");
    }
    Some((detail, entries))
}

fn check_summary(summary: &Summary, entries: &[Synced], full: bool) {
    let count = |test: &dyn Fn(&Synced) -> bool| entries.iter().filter(|entry| test(entry)).count();
    assert_eq!(summary.applied, count(&|entry| entry.applied));
    assert_eq!(summary.pending, count(&|entry| !entry.applied || entry.pending));
    assert_eq!(summary.synced, summary.applied == entries.len());
    let condition = |entry: &Synced, status: &str| {
        entry.conditions.iter().any(|found| found.condition_type == "Enforced" && found.status == status)
    };
    if full {
        assert_eq!(summary.enforced, count(&|entry| condition(entry, "True")));
    }
    assert!(summary.overridden <= count(&|entry| condition(entry, "False")));
    assert!(summary.enforced + summary.overridden <= summary.applied);
}

fn assert_same(with: &SyncAnnotation, without: &SyncAnnotation, without_status: usize) {
    // A long text may reduce the level of detail of all clusters.
    let (Some((level, with)), Some((other, without))) = (with, without) else { return };
    if level != other {
        return;
    }
    let others = |entries: &[Synced]| -> Vec<Synced> {
        entries.iter().filter(|entry| *entry.cluster.0 != *cluster(without_status)).cloned().collect()
    };
    assert_eq!(
        others(with),
        others(without),
        "the status of {} changes the entry of another cluster",
        cluster(without_status)
    );
}

/// Whether `status` contains everything that is needed to count as applied.
fn may_be_applied(status: &Value, revision: &Value, generation: &Value) -> bool {
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let is_applied = |condition: &Value| {
        condition["type"] == "Applied"
            && condition["status"] == "True"
            && condition["observedGeneration"] == *generation
    };
    let manifests = status["resourceStatus"]["manifests"].as_array().into_iter().flatten();
    let values = manifests.filter_map(|manifest| manifest["statusFeedback"]["values"].as_array()).flatten();
    let mut values = values.filter(|value| value["name"] == "_revision");
    conditions.into_iter().any(is_applied) && values.any(|value| value["fieldValue"]["string"] == *revision)
}

fn replace(value: &mut Value, revision: &Value) {
    match value {
        Value::String(text) if text == "REVISION" => *value = revision.clone(),
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, revision)),
        Value::Object(fields) => fields.values_mut().for_each(|field| replace(field, revision)),
        _ => {}
    }
}

/// A policy on `clusters` clusters, with an annotation by its owner that has `other_bytes` bytes.
fn objects(clusters: usize, other_bytes: usize) -> Vec<Value> {
    let fields = ["generation", "text", "flag", "list"];
    let fields = fields.map(|name| json!({"name": name, "path": format!(".status.{name}")}));
    let params = json!({"policiesToSync": [{
        "group": "kuadrant.io", "version": "v1", "resource": "ratelimitpolicies", "statusFields": fields,
    }]});
    let gateway = json!({"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "web"});
    let placement = json!({"cluster.open-cluster-management.io/placement": "all"});
    let decisions: Vec<Value> =
        (0..clusters).map(|index| json!({"clusterName": cluster(index), "reason": ""})).collect();
    let note = "kubectl.kubernetes.io/last-applied-configuration";
    let annotations = if other_bytes < note.len() {
        json!({})
    } else {
        json!({note: "x".repeat(other_bytes - note.len())})
    };
    vec![
        json!({"kind": "ConfigMap", "metadata": {"namespace": "platform", "name": "params"},
            "data": {"params": params.to_string()}}),
        json!({"kind": "GatewayClass", "metadata": {"name": "multi"}, "spec": {
            "controllerName": "kuadrant.io/policy-sync",
            "parametersRef": {"group": "", "kind": "ConfigMap", "namespace": "platform", "name": "params"},
        }}),
        json!({"kind": "PlacementDecision", "metadata": {"namespace": "shop", "name": "all-1", "labels": placement},
            "status": {"decisions": decisions}}),
        json!({"kind": "Gateway", "metadata": {"namespace": "shop", "name": "web", "labels": placement},
            "spec": {"gatewayClassName": "multi", "listeners": []}}),
        json!({"apiVersion": "kuadrant.io/v1", "kind": "RateLimitPolicy",
            "metadata": {"namespace": "shop", "name": "limits", "annotations": annotations},
            "spec": {"targetRef": gateway}}),
    ]
}
