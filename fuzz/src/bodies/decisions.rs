//! Applies PlacementDecisions. The input is a list of steps; only steps with Placements and their decisions are used.
//!
//! At any time, a Gateway and its policy are on exactly the clusters in the decisions, and on clusters that may have
//! left the decisions only for a short time.

use std::collections::BTreeSet;

use policy_sync_api::names::{ClusterName, ObjectKey, Origin};
use serde_json::{Value, json};

use super::hub::{Hub, names};

pub fn body(data: &[u8]) {
    let Ok(Value::Array(steps)) = serde_json::from_slice(data) else { return };
    let mut hub = Hub::new();
    base().iter().for_each(|object| hub.object(object));
    let is_used = |step: &Value| {
        !step.is_object() || matches!(step["kind"].as_str(), Some("Placement" | "PlacementDecision"))
    };
    hub.steps(&steps, is_used, is_exact);
    hub.write();
    is_exact(&hub);
    hub.wait(3_600_000);
    hub.write();
    is_exact(&hub);
}

/// The Gateway `web`, placed by the Placement `all`, and its policy `limits`.
fn base() -> [Value; 4] {
    let params = json!({"policiesToSync": [
        {"group": "kuadrant.io", "version": "v1", "resource": "ratelimitpolicies"},
    ]});
    let gateway = json!({"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "web"});
    [
        json!({"kind": "ConfigMap", "metadata": {"namespace": "platform", "name": "params"},
            "data": {"params": params.to_string()}}),
        json!({"kind": "GatewayClass", "metadata": {"name": "multi"}, "spec": {
            "controllerName": "kuadrant.io/policy-sync",
            "parametersRef": {"group": "", "kind": "ConfigMap", "namespace": "platform", "name": "params"},
        }}),
        json!({"kind": "Gateway", "metadata": {"namespace": "shop", "name": "web",
            "labels": {"cluster.open-cluster-management.io/placement": "all"}},
            "spec": {"gatewayClassName": "multi", "listeners": []}}),
        json!({"apiVersion": "kuadrant.io/v1", "kind": "RateLimitPolicy",
            "metadata": {"namespace": "shop", "name": "limits"}, "spec": {"targetRef": gateway}}),
    ]
}

fn is_exact(hub: &Hub) {
    let web = Origin::Gateway(ObjectKey::new("shop", "web"));
    let limits = Origin::named("kuadrant.io", "ratelimitpolicies", "shop", "limits");
    let mut clusters = hub.placed(web.object());
    assert_eq!(planned(hub, &web), names(&clusters));
    if !hub.is_settled(&ObjectKey::new("shop", "all")) {
        clusters.extend(hub.clusters_of(&limits, |_| true));
    }
    assert_eq!(planned(hub, &limits), names(&clusters));
}

fn planned(hub: &Hub, origin: &Origin) -> BTreeSet<ClusterName> {
    hub.plan(origin).outcomes.into_keys().collect()
}
