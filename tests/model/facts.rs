//! What should be on the spokes, read off the hub's objects by other means than the plan's: what rules compare with.
//!
//! It knows what the worlds of these tests have: Gateways placed by label, policies that target them by name, selectors
//! of one label, resources that name their Placement, parameters in one ConfigMap.

use std::collections::BTreeSet;
use std::time::Duration;

use policy_sync_api::annotations::{CLUSTER_SELECTOR, PARENT, REPLICA_PREFERENCES};
use policy_sync_api::cluster::PLACEMENT_LABEL;
use policy_sync_api::names::{ClusterName, ObjectKey, Origin};
use policy_sync_mirror::Source;
use policy_sync_sync::kinds::{
    CLASSES, CLUSTERS, CONFIG_MAPS, DECISIONS, GATEWAYS, PLACEMENTS, POLICIES, RESOURCES, WORKS,
};
use policy_sync_testenv::hostile::{MOB, ROGUE};
use serde_json::Value;

use crate::controller::CONTROLLER;
use crate::hub::Objects;

/// A Gateway or a policy, and a cluster.
pub(crate) type Place = (Origin, ClusterName);

/// Whether it matters what becomes of `origin` in `cluster`: not of what attackers have.
pub(crate) fn is_judged(origin: &Origin, cluster: &ClusterName) -> bool {
    *cluster.0 != *ROGUE && *origin.object().namespace != *MOB
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

/// Where each Gateway, each policy and each resource should be.
pub(crate) fn wanted(objects: &Objects) -> BTreeSet<Place> {
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
    wanted.retain(|(origin, cluster)| is_judged(origin, cluster));
    wanted
}

/// Whether the preferences of a resource name `cluster`, where it has some.
fn prefers(resource: &Value, cluster: &ClusterName) -> bool {
    let text = resource["metadata"]["annotations"][REPLICA_PREFERENCES].as_str();
    let preferences = text.and_then(|text| serde_json::from_str::<Value>(text).ok());
    preferences.is_none_or(|preferences| {
        [&*cluster.0, "*"].iter().any(|name| preferences["clusters"].get(name).is_some())
    })
}

/// The Gateways that the policy `origin` targets, where it is there, of a listed kind, and wants to be in `cluster`.
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

/// How Gateways and their policies wait for each other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    /// For so long, unless something more is applied.
    pub(crate) time: Duration,
    /// Whether a Gateway goes on waiting then.
    pub(crate) holds: bool,
}

/// How the parameters have Gateways and policies wait.
pub(crate) fn wait(objects: &Objects) -> Wait {
    let mut params = all(objects, |source| source.is(&CONFIG_MAPS))
        .filter_map(|(.., config)| serde_json::from_str::<Value>(config["data"]["params"].as_str()?).ok());
    let params = params.next().unwrap_or_default();
    let seconds = params["policyWaitSeconds"].as_u64().unwrap_or(10);
    Wait { time: Duration::from_secs(seconds), holds: params["policyWaitAction"] != "serve" }
}

/// The work of `origin` in `cluster`, one that was asked to go included.
pub(crate) fn work_of<'o>(objects: &'o Objects, origin: &Origin, cluster: &ClusterName) -> Option<&'o Value> {
    let works = all(objects, |source| *source == WORKS.all());
    let mut works = works.filter(|(_, key, _)| key.namespace == cluster.0).map(|(.., work)| work);
    works.find(|work| self::origin(work).as_ref() == Some(origin))
}

/// Whether the agent of a work has applied what it holds now.
pub(crate) fn is_applied(work: &Value) -> bool {
    let applied = &work["status"]["conditions"][0];
    alive(work)
        && applied["status"] == "True"
        && applied["observedGeneration"] == work["metadata"]["generation"]
}

/// Whether a Gateway is there that some Placement may place.
pub(crate) fn may_be_placed(objects: &Objects, gateway: &ObjectKey) -> bool {
    let found = objects.get(&(GATEWAYS.all(), gateway.clone()));
    found.is_some_and(|entry| {
        alive(&entry.content.json) && entry.content.json["metadata"]["labels"][PLACEMENT_LABEL].is_string()
    })
}

/// Whether a Placement's decisions are fewer than it says: then a cluster that is missing may not have left.
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

/// The works that were not asked to go: what they are for, `None` for those that are for no object.
pub(crate) fn works(objects: &Objects) -> Vec<(Option<Origin>, ClusterName)> {
    let works = all(objects, |source| *source == WORKS.all()).filter(|(.., work)| alive(work));
    works.map(|(_, key, work)| (origin(work), ClusterName(key.namespace.clone()))).collect()
}

/// On a work that someone else made, whatever else it says.
pub(crate) const THEIRS: &str = "example.com/theirs";

/// What a work of ours is for.
pub(crate) fn origin(work: &Value) -> Option<Origin> {
    let metadata = &work["metadata"];
    let text = metadata["annotations"][PARENT].as_str().filter(|_| metadata["labels"][THEIRS].is_null());
    text.and_then(Origin::parse)
}
