//! The correct contents of the spokes, computed from the hub's objects independently of the plan. The rules
//! compare the works with these contents.
//!
//! Covers only the features of the model's worlds: Gateways placed by label, policies that target Gateways by name, and
//! selectors with one label. Resources have a Placement label, and parameters are in one ConfigMap.

use std::collections::BTreeSet;
use std::time::Duration;

use policy_sync_api::annotations::{CLUSTER_SELECTOR, PARENT, PAUSED, REPLICA_PREFERENCES};
use policy_sync_api::cluster::PLACEMENT_LABEL;
use policy_sync_api::names::{ClusterName, ObjectKey, Origin};
use policy_sync_mirror::Source;
use policy_sync_sync::kinds::{
    CLASSES, CLUSTERS, CONFIG_MAPS, DECISIONS, GATEWAYS, PLACEMENTS, POLICIES, RESOURCES, WORKS,
};
use policy_sync_testenv::hostile::{HOSTILE_TENANT, ROGUE};
use serde_json::Value;

use crate::controller::CONTROLLER;
use crate::hub::Objects;

/// A Gateway, policy or resource, and a cluster.
pub(crate) type OriginOnCluster = (Origin, ClusterName);

/// Whether the rules apply to `origin` in `cluster`. The rules do not apply to objects of attackers.
pub(crate) fn rules_apply(origin: &Origin, cluster: &ClusterName) -> bool {
    *cluster.0 != *ROGUE && *origin.object().namespace != *HOSTILE_TENANT
}

fn all(
    objects: &Objects,
    is: impl Fn(&Source) -> bool,
) -> impl Iterator<Item = (&Source, &ObjectKey, &Value)> {
    let found = objects.iter().filter(move |((source, _), _)| is(source));
    found.map(|((source, key), entry)| (source, key, &entry.content.json))
}

fn alive(json: &Value) -> bool {
    json["metadata"]["deletionTimestamp"].is_null()
}

/// All Gateways, policies and resources that should have works, each with its cluster.
pub(crate) fn wanted(objects: &Objects) -> BTreeSet<OriginOnCluster> {
    let mut wanted = BTreeSet::new();
    for (_, key, gateway) in all(objects, |source| *source == GATEWAYS.all()) {
        let class = gateway["spec"]["gatewayClassName"].as_str().unwrap_or_default();
        let class = all(objects, |source| *source == CLASSES.all()).find(|(_, key, _)| *key.name == *class);
        let ours = class.is_some_and(|(.., class)| class["spec"]["controllerName"] == CONTROLLER);
        if ours && alive(gateway) {
            let placement = &gateway["metadata"]["labels"][PLACEMENT_LABEL];
            wanted.extend(
                decided(objects, &key.namespace, placement)
                    .into_iter()
                    .map(|cluster| (Origin::Gateway(key.clone()), cluster)),
            );
        }
    }
    let gateways = wanted.clone();
    for (source, key, policy) in all(objects, |source| source.is(&POLICIES)) {
        let Some(kind) = POLICIES.resource_of(source) else { continue };
        if !alive(policy) || !lists(objects, "policiesToSync", &kind.resource) {
            continue;
        }
        for target in targets(policy) {
            let gateway = Origin::Gateway(ObjectKey::new(&key.namespace, &target));
            let clusters =
                gateways.iter().filter(|(origin, _)| *origin == gateway).map(|(_, cluster)| cluster);
            for cluster in clusters.filter(|cluster| selects(objects, policy, cluster)) {
                wanted.insert((Origin::new(kind.clone(), key.clone()), cluster.clone()));
            }
        }
    }
    for (source, key, resource) in all(objects, |source| source.is(&RESOURCES)) {
        let Some(kind) = RESOURCES.resource_of(source) else { continue };
        if !alive(resource) || !lists(objects, "resourcesToSync", &kind.resource) {
            continue;
        }
        let placement = &resource["metadata"]["labels"][PLACEMENT_LABEL];
        for cluster in decided(objects, &key.namespace, placement) {
            if selects(objects, resource, &cluster) && prefers(resource, &cluster) {
                wanted.insert((Origin::new(kind.clone(), key.clone()), cluster));
            }
        }
    }
    wanted.retain(|(origin, cluster)| rules_apply(origin, cluster));
    wanted
}

/// Whether the replica preferences of a resource include `cluster`. True if the resource has no preferences.
fn prefers(resource: &Value, cluster: &ClusterName) -> bool {
    let text = resource["metadata"]["annotations"][REPLICA_PREFERENCES].as_str();
    let preferences = text.and_then(|text| serde_json::from_str::<Value>(text).ok());
    preferences.is_none_or(|preferences| {
        [&*cluster.0, "*"].iter().any(|name| preferences["clusters"].get(name).is_some())
    })
}

/// Whether the works of `origin` on `cluster` are paused, by an annotation of the object, of the class or of the
/// ManagedCluster. All worlds have one class.
pub(crate) fn is_paused(objects: &Objects, origin: &Origin, cluster: &ClusterName) -> bool {
    let is_own = |source: &Source, key: &ObjectKey| {
        let kind = POLICIES.resource_of(source).or_else(|| RESOURCES.resource_of(source));
        let is_kind = match origin.as_gateway() {
            Some(_) => *source == GATEWAYS.all(),
            None => kind == Some(origin.kind()),
        };
        is_kind && key == origin.object()
    };
    let mut pausing = all(objects, |_| true).filter(|(source, key, _)| {
        *source == &CLASSES.all()
            || *source == &CLUSTERS.all() && key.name == cluster.0
            || is_own(source, key)
    });
    pausing.any(|(.., json)| json["metadata"]["annotations"][PAUSED] == "true")
}

/// The Gateways that the policy `origin` targets. Empty unless the policy exists, its kind is listed, and the policy
/// selects `cluster`.
pub(crate) fn targeted(objects: &Objects, origin: &Origin, cluster: &ClusterName) -> Vec<Origin> {
    let found = objects.get(&(POLICIES.resource(origin.kind().clone()), origin.object().clone()));
    let found = found.map(|entry| &entry.content.json).filter(|policy| {
        alive(policy)
            && lists(objects, "policiesToSync", &origin.kind().resource)
            && selects(objects, policy, cluster)
    });
    let names = found.map(targets).unwrap_or_default();
    names.iter().map(|name| Origin::Gateway(ObjectKey::new(&origin.object().namespace, name))).collect()
}

/// How long Gateways and their policies wait for each other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    /// The wait, counted from the last policy that was applied.
    pub(crate) time: Duration,
    /// Whether a Gateway continues to wait after this time.
    pub(crate) holds: bool,
}

/// The wait set by the parameters.
pub(crate) fn wait(objects: &Objects) -> Wait {
    let mut params = all(objects, |source| source.is(&CONFIG_MAPS))
        .filter_map(|(.., config)| serde_json::from_str::<Value>(config["data"]["params"].as_str()?).ok());
    let params = params.next().unwrap_or_default();
    let seconds = params["policyWaitSeconds"].as_u64().unwrap_or(10);
    Wait { time: Duration::from_secs(seconds), holds: params["policyWaitAction"] != "serve" }
}

/// The work of `origin` in `cluster`, including a terminating work.
pub(crate) fn work_of<'o>(objects: &'o Objects, origin: &Origin, cluster: &ClusterName) -> Option<&'o Value> {
    let works = all(objects, |source| *source == WORKS.all());
    let mut works = works.filter(|(_, key, _)| key.namespace == cluster.0).map(|(.., work)| work);
    works.find(|work| self::origin(work).as_ref() == Some(origin))
}

/// Whether the agent has applied the current generation of a work.
pub(crate) fn is_applied(work: &Value) -> bool {
    let applied = &work["status"]["conditions"][0];
    alive(work)
        && applied["status"] == "True"
        && applied["observedGeneration"] == work["metadata"]["generation"]
}

/// Whether the Gateway exists and has a Placement label.
pub(crate) fn may_be_placed(objects: &Objects, gateway: &ObjectKey) -> bool {
    let found = objects.get(&(GATEWAYS.all(), gateway.clone()));
    found.is_some_and(|entry| {
        alive(&entry.content.json) && entry.content.json["metadata"]["labels"][PLACEMENT_LABEL].is_string()
    })
}

/// Whether any Placement has fewer decisions than its status counts. In that case, a missing cluster may still be
/// selected.
pub(crate) fn incomplete(objects: &Objects) -> bool {
    all(objects, |source| *source == PLACEMENTS.all()).any(|(_, key, placement)| {
        let selected = placement["status"]["numberOfSelectedClusters"].as_u64().unwrap_or_default();
        (decided(objects, &key.namespace, &Value::from(&*key.name)).len() as u64) < selected
    })
}

/// The names of the Gateways that a policy targets.
fn targets(policy: &Value) -> Vec<String> {
    let plural = policy["spec"]["targetRefs"].as_array().into_iter().flatten();
    let references = plural.chain(policy["spec"].get("targetRef"));
    references.filter_map(|reference| reference["name"].as_str()).map(str::to_owned).collect()
}

fn decided(objects: &Objects, namespace: &str, placement: &Value) -> BTreeSet<ClusterName> {
    let slices = all(objects, |source| *source == DECISIONS.all());
    let of = slices.filter(|(_, key, slice)| {
        *key.namespace == *namespace
            && !placement.is_null()
            && slice["metadata"]["labels"][PLACEMENT_LABEL] == *placement
    });
    let decisions = of.flat_map(|(.., slice)| slice["status"]["decisions"].as_array().into_iter().flatten());
    decisions.filter_map(|decision| decision["clusterName"].as_str()).map(ClusterName::from).collect()
}

/// Whether the parameters list a kind under `key`.
fn lists(objects: &Objects, key: &str, resource: &str) -> bool {
    all(objects, |source| source.is(&CONFIG_MAPS)).any(|(.., config)| {
        let params =
            config["data"]["params"].as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
        let listed = params.and_then(|params| params[key].as_array().cloned()).unwrap_or_default();
        listed.iter().any(|kind| kind["resource"] == resource)
    })
}

fn selects(objects: &Objects, policy: &Value, cluster: &ClusterName) -> bool {
    let selector = policy["metadata"]["annotations"][CLUSTER_SELECTOR].as_str();
    selector.and_then(|selector| selector.split_once('=')).is_none_or(|(key, value)| {
        all(objects, |source| *source == CLUSTERS.all())
            .any(|(_, found, json)| found.name == cluster.0 && json["metadata"]["labels"][key] == value)
    })
}

/// The works that are not terminating, with their origin; `None` for works without an origin.
pub(crate) fn works(objects: &Objects) -> Vec<(Option<Origin>, ClusterName)> {
    let works = all(objects, |source| *source == WORKS.all()).filter(|(.., work)| alive(work));
    works.map(|(_, key, work)| (origin(work), ClusterName(key.namespace.clone()))).collect()
}

/// A label on works of another client. It marks these works even if they have forged metadata.
pub(crate) const THEIRS: &str = "example.com/theirs";

/// The origin of one of the controller's works.
pub(crate) fn origin(work: &Value) -> Option<Origin> {
    let metadata = &work["metadata"];
    let text = metadata["annotations"][PARENT].as_str().filter(|_| metadata["labels"][THEIRS].is_null());
    text.and_then(Origin::parse)
}
