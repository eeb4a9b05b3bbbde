//! Small worlds: the objects on the hub, the changes of each actor, and the possible faults.

use std::collections::BTreeMap;

use policy_sync_api::annotations::{PAUSED, REPLICA_PREFERENCES};
use policy_sync_api::cluster::PLACEMENT_LABEL;
use policy_sync_api::names::{ControllerName, GroupResource, ObjectKey, Origin, WorkName};
use policy_sync_mirror::Source;
use policy_sync_sync::kinds::{
    CLASSES, CLUSTERS, CONFIG_MAPS, DECISIONS, GATEWAYS, PLACEMENTS, POLICIES, RESOURCES,
};
use policy_sync_testenv::fixtures::{
    deployment, gateway, gateway_class, managed_cluster, params_config_map, placement, placement_decision,
    rate_limit_policy, resources,
};
use policy_sync_testenv::hostile::ROGUE;
use policy_sync_testenv::tenant::rate_limit_policies;
use serde_json::{Value, json};

use crate::controller::CONTROLLER;
use crate::hub::{Contents, Hub};
use crate::rules::Rule;
use crate::step::Step;

/// The namespace of all users' objects, and the name of the class.
pub(crate) const SHOP: &str = "shop";

type Make = Box<dyn Fn(&mut Hub, &mut Contents)>;

/// A change by an actor.
pub(crate) struct Change {
    name: String,
    make: Make,
}

impl Change {
    pub(crate) fn make(&self, hub: &mut Hub, contents: &mut Contents) {
        (self.make)(hub, contents);
    }
}

pub(crate) struct World {
    pub(crate) name: &'static str,
    pub(crate) objects: Vec<(Source, Value)>,
    /// The changes of each actor, in order. An actor may make its next change at any time.
    pub(crate) actors: Vec<Vec<Change>>,
    /// The kinds of policies and resources by plural name.
    pub(crate) kinds: BTreeMap<&'static str, &'static str>,
    /// Whether agents apply works; otherwise no work is ever applied.
    pub(crate) agents: bool,
    /// Whether policies are annotated.
    pub(crate) annotates: bool,
    /// Whether Gateways get statuses and labels.
    pub(crate) gateway_statuses: bool,
    /// How often the controller crashes.
    pub(crate) crashes: u8,
    /// How many requests or watches fail.
    pub(crate) faults: u8,
    /// Rules that apply in addition to the rules of every world.
    pub(crate) rules: Vec<Rule>,
}

impl World {
    /// Two clusters, a Gateway `web` on both, and its policies `limits` and `quota`.
    pub(crate) fn new(name: &'static str) -> Self {
        let parameters = json!({"policiesToSync": [rate_limit_policies()]});
        let region = |region: &str| BTreeMap::from([("region".to_owned(), region.to_owned())]);
        let objects = vec![
            (CLASSES.all(), gateway_class(SHOP, CONTROLLER, Some((SHOP, "params")))),
            (params(), params_config_map(SHOP, "params", &parameters)),
            (CLUSTERS.all(), managed_cluster("eu", &region("eu"))),
            (CLUSTERS.all(), managed_cluster("us", &region("us"))),
            (PLACEMENTS.all(), placement(SHOP, "all", 2)),
            (DECISIONS.all(), placement_decision(SHOP, "all", 1, &["eu", "us"])),
            (GATEWAYS.all(), gateway(SHOP, "web", SHOP, Some("all"))),
            (limits(), policy("limits", "web")),
            (limits(), policy("quota", "web")),
        ];
        Self {
            name,
            objects,
            actors: Vec::new(),
            kinds: BTreeMap::from([
                ("authpolicies", "AuthPolicy"),
                ("deployments", "Deployment"),
                ("ratelimitpolicies", "RateLimitPolicy"),
            ]),
            agents: false,
            annotates: false,
            gateway_statuses: false,
            crashes: 0,
            faults: 0,
            rules: Vec::new(),
        }
    }

    /// Two clusters, and a Deployment `app` on both.
    pub(crate) fn with_a_resource(name: &'static str) -> Self {
        let parameters = json!({"resourcesToSync": [resources("apps", "deployments")]});
        let gone = ["web", "limits", "quota", "params"];
        let world = gone.iter().fold(Self::new(name), |world, name| world.without(name));
        world
            .with(params(), params_config_map(SHOP, "params", &parameters))
            .with(deployments(), deployment(SHOP, "app"))
    }

    /// A normal cluster and a hostile cluster.
    pub(crate) fn beside_rogue(name: &'static str) -> Self {
        Self::new(name)
            .without("us")
            .without("all")
            .without("all-decision-1")
            .with(CLUSTERS.all(), managed_cluster(ROGUE, &BTreeMap::new()))
            .with(PLACEMENTS.all(), placement(SHOP, "all", 2))
            .with(DECISIONS.all(), placement_decision(SHOP, "all", 1, &["eu", ROGUE]))
    }

    pub(crate) fn with(mut self, source: Source, json: Value) -> Self {
        self.objects.push((source, json));
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.objects.retain(|(_, json)| json["metadata"]["name"] != name);
        self
    }

    pub(crate) fn actor(mut self, changes: impl IntoIterator<Item = Change>) -> Self {
        self.actors.push(changes.into_iter().collect());
        self
    }

    /// The class holds Gateways until their policies are applied, and policies wait up to a minute until their Gateway
    /// is deleted.
    pub(crate) fn holds(self) -> Self {
        self.waits("hold").agents()
    }

    /// The class holds Gateways for up to a minute, and then creates them without their policies.
    pub(crate) fn serves(self) -> Self {
        self.waits("serve")
    }

    fn waits(mut self, action: &str) -> Self {
        let parameters = json!({
            "policiesToSync": [rate_limit_policies()], "policyWaitSeconds": 60, "policyWaitAction": action,
        });
        self.objects.retain(|(source, _)| *source != params());
        self.with(params(), params_config_map(SHOP, "params", &parameters))
    }

    pub(crate) fn agents(self) -> Self {
        Self { agents: true, ..self }
    }

    pub(crate) fn annotates(self) -> Self {
        Self { annotates: true, ..self }
    }

    pub(crate) fn gateway_statuses(self) -> Self {
        Self { gateway_statuses: true, ..self }
    }

    pub(crate) fn crashes(self, crashes: u8) -> Self {
        Self { crashes, ..self }
    }

    pub(crate) fn faults(self, faults: u8) -> Self {
        Self { faults, ..self }
    }

    pub(crate) fn rule(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }

    /// A description of a step for error messages.
    pub(crate) fn describe(&self, step: &Step) -> String {
        match step {
            Step::User(actor) => self.describe_user(*actor),
            other => format!("{other:?}"),
        }
    }

    /// A description of an actor's step for error messages.
    pub(crate) fn describe_user(&self, actor: usize) -> String {
        let changes: Vec<&str> = self.actors[actor].iter().map(|change| change.name.as_str()).collect();
        format!("user {actor} makes the next change of: {}", changes.join(", "))
    }
}

/// The source of RateLimitPolicies.
pub(crate) fn limits() -> Source {
    POLICIES.resource(GroupResource::new("kuadrant.io", "ratelimitpolicies"))
}

/// The source of Deployments.
pub(crate) fn deployments() -> Source {
    RESOURCES.resource(GroupResource::new("apps", "deployments"))
}

/// A user sets the replica preferences of `app`.
pub(crate) fn split(preferences: &'static str) -> Change {
    edit(deployments(), "app", move |json| {
        json["metadata"]["annotations"][REPLICA_PREFERENCES] = json!(preferences);
    })
}

/// The source of the ConfigMap with the parameters.
pub(crate) fn params() -> Source {
    CONFIG_MAPS.object(ObjectKey::new(SHOP, "params"))
}

/// The name of the works of the policy `name`.
pub(crate) fn work_name(name: &str) -> String {
    let origin = Origin::named("kuadrant.io", "ratelimitpolicies", SHOP, name);
    WorkName::planned(&ControllerName::new(CONTROLLER), "RateLimitPolicy", &origin).to_string()
}

pub(crate) fn policy(name: &str, gateway: &str) -> Value {
    rate_limit_policy(SHOP, name, gateway)
}

pub(crate) fn create(source: Source, json: Value) -> Change {
    let name = format!("create {}", json["metadata"]["name"]);
    let make = move |hub: &mut Hub, contents: &mut Contents| {
        hub.create(contents, &source, json.clone());
    };
    Change { name, make: Box::new(make) }
}

/// Edits an object in the shop's namespace, or a ManagedCluster.
pub(crate) fn edit(source: Source, name: &str, edit: impl Fn(&mut Value) + 'static) -> Change {
    edit_in(if source == CLUSTERS.all() { "" } else { SHOP }, source, name, edit)
}

pub(crate) fn edit_in(
    namespace: &str,
    source: Source,
    name: &str,
    edit: impl Fn(&mut Value) + 'static,
) -> Change {
    let key = ObjectKey::new(namespace, name);
    let make = move |hub: &mut Hub, contents: &mut Contents| {
        hub.edit(contents, &source, &key, |json| edit(json));
    };
    Change { name: format!("edit {name}"), make: Box::new(make) }
}

/// Deletes an object in the shop's namespace.
pub(crate) fn delete(source: Source, name: &str) -> Change {
    delete_in(SHOP, source, name)
}

pub(crate) fn delete_in(namespace: &str, source: Source, name: &str) -> Change {
    let key = ObjectKey::new(namespace, name);
    let make = move |hub: &mut Hub, contents: &mut Contents| {
        hub.delete(contents, &source, &key);
    };
    Change { name: format!("delete {name}"), make: Box::new(make) }
}

/// A user changes the limit of the policy `name`.
pub(crate) fn tighten(name: &str, limit: u64) -> Change {
    edit(limits(), name, move |json| json["spec"]["limits"]["all"]["rates"][0]["limit"] = json!(limit))
}

/// A user pauses an object, or resumes it.
pub(crate) fn pause(source: Source, name: &str, value: bool) -> Change {
    let namespace = if [CLASSES.all(), CLUSTERS.all()].contains(&source) { "" } else { SHOP };
    edit_in(namespace, source, name, move |json| {
        json["metadata"]["annotations"][PAUSED] = json!(value.to_string())
    })
}

/// A user changes the target of the policy `name`.
pub(crate) fn retarget(name: &str, gateway: &'static str) -> Change {
    edit(limits(), name, move |json| json["spec"]["targetRef"]["name"] = json!(gateway))
}

/// The Placement's controller selects other clusters: it writes its decisions first, then its status.
pub(crate) fn place(placement: &'static str, clusters: &'static [&'static str]) -> [Change; 2] {
    let decided: Vec<Value> =
        clusters.iter().map(|name| json!({"clusterName": name, "reason": ""})).collect();
    let slice = format!("{placement}-decision-1");
    [
        edit(DECISIONS.all(), &slice, move |json| json["status"]["decisions"] = json!(decided)),
        edit(PLACEMENTS.all(), placement, move |json| {
            json["status"]["numberOfSelectedClusters"] = json!(clusters.len());
        }),
    ]
}

/// A user assigns the Gateway `name` to another Placement.
pub(crate) fn place_by(name: &str, placement: &'static str) -> Change {
    edit(GATEWAYS.all(), name, move |json| json["metadata"]["labels"][PLACEMENT_LABEL] = json!(placement))
}
