//! Plans the works of any objects. The input is a list of steps.
//!
//! Copies stay within their downstream namespace and the clusters of their Gateways. A copy has the policy's spec, with
//! the matching overrides and no other changes. A Gateway is copied with exactly the TLS Secrets that it may use. No
//! work exceeds its size limit, equal hubs have equal plans, and after writing, nothing is left to write.

use std::collections::{BTreeMap, BTreeSet};

use kube::core::SelectorExt;
use policy_sync_api::gateway::GROUP;
use policy_sync_api::json::normalize;
use policy_sync_api::names::{ObjectKey, Origin};
use policy_sync_api::params::{Params, Role, TlsSecrets};
use policy_sync_api::selector::parse;
use policy_sync_api::work::ManifestWorkSpec;
use policy_sync_sync::desired::work::SIZE_LIMIT;
use policy_sync_sync::desired::{Outcome, PlannedWork, WorksPlan};
use policy_sync_sync::kinds::{CLASSES, CLUSTERS, CONFIG_MAPS, GATEWAYS, POLICIES};
use serde_json::{Value, json};

use super::hub::{CONTROLLER, Hub, PREFIX};
use super::secrets::check_copied_secrets;

pub fn body(data: &[u8]) {
    let Ok(Value::Array(steps)) = serde_json::from_slice(data) else { return };
    let run = || {
        let mut hub = Hub::new();
        hub.steps(&steps, |_| true, holds);
        hub
    };
    let (mut hub, again) = (run(), run());
    assert_eq!(text(&hub), text(&again), "the same hub has two different plans");
    hub.write();
    holds(&hub);
    hub.wait(3_600_000);
    hub.write();
    holds(&hub);
}

/// All plans as text.
fn text(hub: &Hub) -> String {
    let plans = hub.plans();
    plans.iter().map(|(origin, plan)| format!("{origin}: {plan:?}\n{:?}\n", hub.fold(origin))).collect()
}

fn holds(hub: &Hub) {
    for (origin, plan) in hub.plans() {
        within_placement(hub, &origin, &plan);
        for (cluster, outcome) in &plan.outcomes {
            let Outcome::Work(work) = outcome else { continue };
            let spec = work.spec().expect("the planned work is valid");
            let (companions, copy) = is_whole(&origin, work, &spec);
            if origin.as_gateway().is_some() {
                let copies =
                    params(hub, origin.object()).is_some_and(|params| params.tls_secrets == TlsSecrets::Copy);
                check_copied_secrets(hub, origin.object(), copies, &companions);
                is_of_the_downstream_class(hub, origin.object(), copy);
            } else {
                assert!(companions.is_empty(), "the work of a policy has other manifests");
                references_are_placed(hub, &origin, &cluster.0, work, copy);
                only_matching_patches_differ(hub, &origin, &cluster.0, copy);
            }
        }
    }
}

/// Works are planned only on clusters that may have a Gateway of the policy; existing works may be kept.
fn within_placement(hub: &Hub, origin: &Origin, plan: &WorksPlan) {
    let namespace = &origin.object().namespace;
    let gateways = hub.objects.keys().filter(|(source, key)| {
        *source == GATEWAYS.all()
            && key.namespace == *namespace
            && (origin.as_gateway().is_none() || key == origin.object())
    });
    let placed: BTreeSet<String> = gateways.flat_map(|(_, key)| hub.placed(key)).collect();
    let clusters = hub.clusters_of(origin, |_| true);
    for (cluster, outcome) in &plan.outcomes {
        let kept = matches!(outcome, Outcome::Kept(_)) && clusters.contains(&*cluster.0);
        assert!(kept || placed.contains(&*cluster.0), "{origin} is not placed on {cluster}: {outcome:?}");
    }
}

/// Checks the limits of a work. Returns the manifests that accompany the copy, and the copy.
fn is_whole<'w>(
    origin: &Origin,
    work: &PlannedWork,
    spec: &'w ManifestWorkSpec,
) -> (Vec<&'w Value>, &'w Value) {
    let downstream = format!("{PREFIX}{}", &origin.object().namespace);
    assert!(
        downstream.len() <= 63 && downstream != "kuadrant-system",
        "no copy may have the namespace {downstream}"
    );
    assert!(work.name.0.len() <= 63, "{}", work.name);
    let manifests = &spec.workload.manifests;
    let [namespace, companions @ .., copy] = manifests.as_slice() else {
        panic!("{} manifests", manifests.len())
    };
    assert_eq!(namespace.0["metadata"]["name"], *downstream);
    assert_eq!(copy.0["metadata"]["namespace"], *downstream);
    assert_eq!(copy.0["metadata"]["name"], *origin.object().name);
    let keys = |value: &Value, known: &[&str]| {
        let fields = value.as_object().expect("the value is an object");
        assert!(fields.keys().all(|key| known.contains(&key.as_str())), "{fields:?}");
    };
    keys(&copy.0, &["apiVersion", "kind", "metadata", "spec"]);
    keys(&copy.0["metadata"], &["annotations", "labels", "name", "namespace"]);
    let bytes: usize = manifests.iter().map(|manifest| manifest.0.to_string().len()).sum();
    assert!(bytes <= SIZE_LIMIT, "{bytes} bytes");
    (companions.iter().map(|manifest| &manifest.0).collect(), &copy.0)
}

/// The valid parameters of the class of the Gateway `key`. `None` if the parameters are missing or invalid, or if the
/// class belongs to another controller.
fn params(hub: &Hub, key: &ObjectKey) -> Option<Params> {
    let class = hub.objects.get(&(GATEWAYS.all(), key.clone()))?["spec"]["gatewayClassName"].as_str()?;
    let spec = &hub.objects.get(&(CLASSES.all(), ObjectKey::new("", class)))?["spec"];
    if spec["controllerName"] != CONTROLLER {
        return None;
    }
    let reference = &spec["parametersRef"];
    if reference.is_null() {
        return Some(Params::default());
    }
    let key = ObjectKey::new(reference["namespace"].as_str()?, reference["name"].as_str()?);
    let config_map = hub.objects.get(&(CONFIG_MAPS.object(key.clone()), key))?;
    Params::parse(config_map["data"]["params"].as_str()?).ok()
}

fn is_of_the_downstream_class(hub: &Hub, key: &ObjectKey, copy: &Value) {
    let params = params(hub, key).expect("a copied Gateway has a class of the controller");
    assert_eq!(copy["spec"]["gatewayClassName"], params.downstream_class);
    assert_eq!(copy["metadata"]["labels"]["kuadrant.io/managed"], "true");
}

/// The copy has at least one target, and all its targets are Gateways that are placed on its cluster.
fn references_are_placed(hub: &Hub, origin: &Origin, cluster: &str, work: &PlannedWork, copy: &Value) {
    let namespace = &*origin.object().namespace;
    let singular = Some(&copy["spec"]["targetRef"]).filter(|reference| !reference.is_null());
    let plural = copy["spec"]["targetRefs"].as_array().into_iter().flatten();
    let mut names = BTreeSet::new();
    for reference in singular.into_iter().chain(plural) {
        assert_eq!((&reference["group"], &reference["kind"]), (&GROUP.into(), &"Gateway".into()));
        if !reference["namespace"].is_null() {
            assert_eq!(reference["namespace"], format!("{PREFIX}{namespace}"));
        }
        let name = reference["name"].as_str().expect("a reference has a name");
        let key = ObjectKey::new(namespace, name);
        assert!(hub.placed(&key).contains(cluster), "{reference} is not placed on {cluster}");
        let params = params(hub, &key).expect("a target has a class of the controller");
        let lists = params.lists(Role::Policy, origin.kind());
        assert!(lists, "the class does not list {}", origin.kind());
        names.insert(name);
    }
    assert!(!names.is_empty(), "the copy has no target");
    let target_gateways: BTreeSet<&str> = serde_json::from_str(&work.annotations["kuadrant.io/gateways"])
        .expect("the annotation is a list of names");
    assert_eq!(target_gateways, names);
}

/// Apart from targets, the copy has the policy's spec with the matching overrides applied in order.
fn only_matching_patches_differ(hub: &Hub, origin: &Origin, cluster: &str, copy: &Value) {
    let policy = &hub.objects[&(POLICIES.resource(origin.kind().clone()), origin.object().clone())];
    let labels = hub.objects.get(&(CLUSTERS.all(), ObjectKey::new("", cluster)));
    let labels: BTreeMap<String, String> = labels
        .and_then(|cluster| serde_json::from_value(cluster["metadata"]["labels"].clone()).ok())
        .unwrap_or_default();
    let overrides =
        policy["metadata"]["annotations"]["kuadrant.io/cluster-overrides"].as_str().unwrap_or("[]");
    let overrides: Value = serde_json::from_str(overrides).expect("applied overrides are JSON");
    let mut wanted = policy["spec"].clone();
    for item in overrides.as_array().expect("applied overrides are a list") {
        let selector = item["clusterSelector"].as_str().expect("a selector is a string");
        if parse(selector).expect("the selector of an applied override is valid").matches(&labels) {
            let patch = &item["patch"];
            assert!(patch.get("targetRef").is_none() && patch.get("targetRefs").is_none(), "{patch}");
            merge(&mut wanted, patch);
        }
    }
    normalize(&mut wanted);
    let mut found = copy["spec"].clone();
    normalize(&mut found);
    for spec in [&mut wanted, &mut found] {
        let fields = spec.as_object_mut().expect("a copied spec is an object");
        ["targetRef", "targetRefs"].iter().for_each(|key| drop(fields.remove(*key)));
    }
    assert_eq!(found, wanted);
}

/// Applies a merge patch (RFC 7396, section 2).
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in patch {
        let fields = target.as_object_mut().expect("the target is an object");
        if value.is_null() {
            fields.remove(key);
        } else {
            merge(fields.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}
