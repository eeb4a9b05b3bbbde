//! A settled hub in the mirror: policies that all target one Gateway, which is placed on all clusters.

use std::sync::Arc;

use policy_sync_api::annotations::REVISION;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ClusterName, ControllerName, GroupVersionResource, ObjectKey, Origin};
use policy_sync_api::object::HubObject;
use policy_sync_mirror::{Source, SourceEvent};
use policy_sync_sync::desired::{PlannedWork, plan_works};
use policy_sync_sync::kinds::{
    CLASSES, CLUSTERS, CONFIG_MAPS, DECISIONS, GATEWAYS, PLACEMENTS, POLICIES, WORKS,
};
use policy_sync_sync::rows::kind::{KindInfo, Resolution};
use policy_sync_sync::rows::schema::WorkSchema;
use policy_sync_sync::{Mirror, Settings, View, found};
use policy_sync_testenv::fixtures::{
    gateway, gateway_class, managed_cluster, params_config_map, placement, placement_decision,
    rate_limit_policy,
};
use policy_sync_testenv::tenant::rate_limit_policies;
use serde_json::{Value, json};

const CONTROLLER: &str = "kuadrant.io/policy-sync";
/// The time at which plans are computed: long after the initial lists.
const NOW: Moment = Moment(2_000_000_000_000);

pub(crate) struct Hub {
    pub(crate) mirror: Mirror,
    pub(crate) settings: Settings,
    controller: ControllerName,
    policies: Source,
    /// The works as JSON, with the spokes' statuses.
    pub(crate) works: Vec<String>,
}

impl Hub {
    /// Creates a hub where all works are written and have a status.
    pub(crate) fn new(policies: usize, clusters: usize) -> Self {
        let controller = ControllerName::new(CONTROLLER);
        let gvr = GroupVersionResource::new("kuadrant.io", "v1", "ratelimitpolicies");
        let source = POLICIES.resource(gvr.kind.clone());
        let mirror = Mirror::new(controller.clone());
        mirror.change(found::work_schema(WorkSchema::FULL), Moment(0));
        let info = KindInfo::named("RateLimitPolicy");
        mirror.change(found::resolved(&gvr, Resolution::Resolved(info)), Moment(0));
        let mut hub =
            Self { mirror, settings: Settings::default(), controller, policies: source, works: Vec::new() };

        let names: Vec<String> = (0..clusters).map(|index| format!("cluster-{index:04}")).collect();
        let chosen: Vec<&str> = names.iter().map(String::as_str).collect();
        let params = ObjectKey::new("shop", "params");
        let kinds = json!({"policiesToSync": [rate_limit_policies()]});
        hub.list(&CLASSES.all(), [gateway_class("multi", CONTROLLER, Some(("shop", "params")))]);
        hub.list(&CONFIG_MAPS.object(params), [params_config_map("shop", "params", &kinds)]);
        hub.list(&GATEWAYS.all(), [gateway("shop", "web", "multi", Some("all"))]);
        hub.list(&CLUSTERS.all(), names.iter().map(|name| managed_cluster(name, &Default::default())));
        hub.list(&PLACEMENTS.all(), [placement("shop", "all", clusters)]);
        hub.list(&DECISIONS.all(), [placement_decision("shop", "all", 1, &chosen)]);
        hub.list(&WORKS.all(), []);
        let source = hub.policies.clone();
        hub.list(&source, (0..policies).map(|index| rate_limit_policy("shop", &name(index), "web")));

        for index in 0..policies {
            let plan = hub.see(|view| plan_works(view, &hub.settings, &origin(index)));
            for (cluster, outcome) in plan.outcomes {
                let work = outcome.work().expect("it is planned");
                hub.works.push(json_with_status(work, &cluster));
            }
        }
        hub.list_works();
        hub
    }

    fn list(&self, source: &Source, objects: impl IntoIterator<Item = Value>) {
        self.mirror.begin_resync(source);
        objects.into_iter().for_each(|object| self.show(source, &object.to_string()));
        self.mirror.end_resync(source, 1, Moment(0));
    }

    /// Lists all works again, as at a start.
    pub(crate) fn list_works(&self) {
        self.mirror.begin_resync(&WORKS.all());
        self.works.iter().for_each(|work| self.show(&WORKS.all(), work));
        self.mirror.end_resync(&WORKS.all(), 1, Moment(0));
    }

    /// Processes an object as a watch delivers it.
    pub(crate) fn show(&self, source: &Source, text: &str) {
        let object: HubObject = serde_json::from_str(text).unwrap();
        let row = source.prune(&object, &self.controller).unwrap();
        let key = ObjectKey::new(&object.metadata.namespace, &object.metadata.name);
        self.mirror.change(SourceEvent::Applied { source: source.clone(), key, version: 1, row }, NOW);
    }

    pub(crate) fn see<T>(&self, read: impl FnOnce(View<'_>) -> T) -> T {
        read(self.mirror.read().view(NOW))
    }
}

fn name(index: usize) -> String {
    format!("limits-{index:04}")
}

/// The origin of a policy, by its index.
pub(crate) fn origin(index: usize) -> Origin {
    Origin::parse(&format!("ratelimitpolicies.kuadrant.io/shop/{}", name(index))).unwrap()
}

/// The JSON of `work` with a complete status. The condition `Enforced` has a message of 64 bytes.
fn json_with_status(work: &Arc<PlannedWork>, cluster: &ClusterName) -> String {
    let mut object = work.object(&cluster.0).unwrap();
    let copy = &object["spec"]["workload"]["manifests"][1];
    let text =
        |name: &str, value: &Value| json!({"name": name, "fieldValue": {"type": "String", "string": value}});
    let integer = |name: &str| json!({"name": name, "fieldValue": {"type": "Integer", "integer": 1}});
    let applied = json!({"type": "Applied", "status": "True", "reason": "A", "message": "", "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let values = json!([
        text("_revision", &copy["metadata"]["annotations"][REVISION]),
        integer("_generation"),
        integer("_observedGeneration"),
        text("_Enforced_status", &json!("True")),
        text("_Enforced_reason", &json!("Enforced")),
        text("_Enforced_message", &json!("m".repeat(64))),
    ]);
    let meta = json!({"ordinal": 1, "group": "kuadrant.io", "version": "v1", "kind": "RateLimitPolicy", "resource": "ratelimitpolicies", "namespace": "kuadrant-shop", "name": copy["metadata"]["name"]});
    object["status"] = json!({
        "conditions": [applied],
        "resourceStatus": {"manifests": [
            {"resourceMeta": {"ordinal": 0}, "conditions": [applied]},
            {"resourceMeta": meta, "conditions": [applied], "statusFeedback": {"values": values}},
        ]},
    });
    object["metadata"]["uid"] = format!("{}-{cluster}", work.name).into();
    object["metadata"]["generation"] = 1.into();
    object["metadata"]["resourceVersion"] = "1".into();
    object.to_string()
}
