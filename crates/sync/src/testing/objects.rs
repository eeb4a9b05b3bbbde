//! Builders of hub objects in their wire format: `policy("limits").targets("web").label("team", "a")`.

use serde_json::{Value, json};

use crate::kinds::{
    CLASSES, CLUSTERS, CONFIG_MAPS, DECISIONS, GATEWAYS, GRANTS, PLACEMENTS, POLICIES, RESOURCES, SECRETS,
};
use policy_sync_api::annotations::GRACE_TIMEOUT;
use policy_sync_api::cluster::PLACEMENT_LABEL;
use policy_sync_api::names::{GroupResource, ObjectKey, Origin};
use policy_sync_mirror::Source;

/// The default namespace.
pub const SHOP: &str = "shop";
/// The default class of Gateways.
pub const CLASS: &str = "multi";
/// The name of the controller under test.
pub const CONTROLLER: &str = "kuadrant.io/policy-sync";

/// An object and the source that delivers it.
#[derive(Clone, Debug)]
pub struct Object {
    pub source: Source,
    pub json: Value,
}

impl Object {
    fn new(source: Source, namespace: &str, name: &str) -> Self {
        let mut metadata = json!({"name": name, "uid": format!("{name}-uid"), "generation": 1});
        if !namespace.is_empty() {
            metadata["namespace"] = namespace.into();
        }
        Self { source, json: json!({"metadata": metadata}) }
    }

    pub fn key(&self) -> ObjectKey {
        let text = |field: &str| self.json["metadata"][field].as_str().unwrap_or_default();
        ObjectKey::new(text("namespace"), text("name"))
    }

    pub fn in_ns(mut self, namespace: &str) -> Self {
        self.json["metadata"]["namespace"] = namespace.into();
        self
    }

    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.json["metadata"]["labels"][key] = value.into();
        self
    }

    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.json["metadata"]["annotations"][key] = value.into();
        self
    }

    pub fn without_annotation(mut self, key: &str) -> Self {
        if let Some(annotations) = self.json["metadata"]["annotations"].as_object_mut() {
            annotations.remove(key);
        }
        self
    }

    pub fn metadata(mut self, field: &str, value: Value) -> Self {
        self.json["metadata"][field] = value;
        self
    }

    pub fn deleting(self) -> Self {
        self.metadata("deletionTimestamp", "2026-01-01T00:00:00Z".into())
    }

    pub fn spec(mut self, field: &str, value: Value) -> Self {
        self.json["spec"][field] = value;
        self
    }

    pub fn whole_spec(mut self, spec: Value) -> Self {
        self.json["spec"] = spec;
        self
    }

    pub fn status(mut self, status: Value) -> Self {
        self.json["status"] = status;
        self
    }

    /// Sets the Placement of a Gateway.
    pub fn placed_on(self, placement: &str) -> Self {
        self.label(PLACEMENT_LABEL, placement)
    }

    /// Sets the class of a Gateway.
    pub fn of_class(self, class: &str) -> Self {
        self.spec("gatewayClassName", class.into())
    }

    /// Sets one listener `https` of a Gateway, with these certificate references.
    pub fn certificates(self, references: &[Value]) -> Self {
        let tls = json!({"certificateRefs": references});
        self.spec("listeners", json!([{"name": "https", "port": 443, "protocol": "HTTPS", "tls": tls}]))
    }

    /// Sets the value of `tls.key` in a Secret.
    pub fn holding(mut self, key: &str) -> Self {
        self.json["data"]["tls.key"] = key.into();
        self
    }

    /// Sets the singular target reference of a policy.
    pub fn targets(self, gateway: &str) -> Self {
        self.spec("targetRef", target(gateway))
    }

    /// Sets the plural target references of a policy.
    pub fn targets_all(self, gateways: &[&str]) -> Self {
        let targets = gateways.iter().map(|gateway| target(gateway)).collect();
        self.spec("targetRefs", Value::Array(targets))
    }

    /// Sets the number of clusters that a Placement has selected.
    pub fn selects(self, clusters: usize) -> Self {
        self.status(json!({"numberOfSelectedClusters": clusters}))
    }
}

/// A reference to a Gateway.
pub fn target(gateway: &str) -> Value {
    json!({"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": gateway})
}

/// A Kuadrant policy kind, by its plural name.
pub fn kind(resource: &str) -> GroupResource {
    GroupResource::new("kuadrant.io", resource)
}

/// The policy kind of tests that need only one kind.
pub fn limits() -> GroupResource {
    kind("ratelimitpolicies")
}

pub fn policy_of(resource: &str, name: &str) -> Object {
    Object::new(POLICIES.resource(kind(resource)), SHOP, name)
}

pub fn policy(name: &str) -> Object {
    policy_of("ratelimitpolicies", name)
}

impl Object {
    /// A policy of a kind of any group.
    pub fn policy(group: &str, resource: &str, name: &str) -> Self {
        Self::new(POLICIES.resource(GroupResource::new(group, resource)), SHOP, name)
    }

    /// An object of a kind of resources.
    pub fn resource(group: &str, resource: &str, name: &str) -> Self {
        Self::new(RESOURCES.resource(GroupResource::new(group, resource)), SHOP, name)
    }
}

/// A Deployment of four replicas.
pub fn deployment(name: &str) -> Object {
    Object::resource("apps", "deployments", name).spec("replicas", 4.into())
}

pub fn deployment_origin(name: &str) -> Origin {
    Origin::named("apps", "deployments", SHOP, name)
}

/// A ConfigMap that is a resource.
pub fn config_map_resource(name: &str, data: &Value) -> Object {
    let mut object = Object::resource("", "configmaps", name);
    object.json["data"] = data.clone();
    object
}

/// Parameters that list Deployments and ConfigMaps as resources, with the default Placement `placement`.
pub fn resource_listing(placement: Option<&str>) -> Value {
    let kind = |(group, resource)| json!({"group": group, "version": "v1", "resource": resource, "placement": placement});
    let kinds = [("apps", "deployments"), ("", "configmaps")].map(kind);
    json!({"resourcesToSync": kinds})
}

/// A Gateway without grace period.
pub fn gateway(name: &str) -> Object {
    let listeners = json!([{"name": "http", "port": 80, "protocol": "HTTP"}]);
    let gateway = Object::new(GATEWAYS.all(), SHOP, name).annotation(GRACE_TIMEOUT, "0");
    gateway.of_class(CLASS).spec("listeners", listeners)
}

pub fn placement(name: &str) -> Object {
    Object::new(PLACEMENTS.all(), SHOP, name)
}

/// One PlacementDecision of a Placement.
pub fn decision(placement: &str, name: &str, clusters: &[&str]) -> Object {
    let decisions: Vec<Value> =
        clusters.iter().map(|name| json!({"clusterName": name, "reason": ""})).collect();
    Object::new(DECISIONS.all(), SHOP, name)
        .label(PLACEMENT_LABEL, placement)
        .status(json!({"decisions": decisions}))
}

pub fn cluster(name: &str) -> Object {
    Object::new(CLUSTERS.all(), "", name)
}

/// A GatewayClass of this controller with its parameters in the ConfigMap `params/<name>`.
pub fn class(name: &str) -> Object {
    Object::new(CLASSES.all(), "", name)
        .spec("controllerName", CONTROLLER.into())
        .spec("parametersRef", json!({"group": "", "kind": "ConfigMap", "namespace": "params", "name": name}))
}

/// The ConfigMap with the parameters of the class `name`.
pub fn config_map(name: &str, params: &str) -> Object {
    let mut object = Object::new(CONFIG_MAPS.object(ObjectKey::new("params", name)), "params", name);
    object.json["data"] = json!({"params": params});
    object
}

/// Parameters that list these kinds in version `v1`. Gateways do not wait for their policies.
pub fn listing(resources: &[&str]) -> Value {
    let kinds: Vec<Value> = resources
        .iter()
        .map(|resource| json!({"group": "kuadrant.io", "version": "v1", "resource": resource}))
        .collect();
    json!({"policiesToSync": kinds, "policyWaitSeconds": 0, "policyWaitAction": "serve"})
}

/// A Secret with a certificate.
pub fn secret(name: &str) -> Object {
    let mut object = Object::new(SECRETS.all(), SHOP, name);
    object.json["type"] = "kubernetes.io/tls".into();
    object.json["data"] = json!({"tls.crt": "Y2VydA==", "tls.key": "a2V5"});
    object
}

/// A ReferenceGrant in `tls` that allows Gateways of `shop` to refer to all Secrets in `tls`.
pub fn grant(name: &str) -> Object {
    Object::new(GRANTS.all(), "tls", name)
        .spec("from", json!([{"group": "gateway.networking.k8s.io", "kind": "Gateway", "namespace": SHOP}]))
        .spec("to", json!([{"group": "", "kind": "Secret"}]))
}

pub fn policy_origin(name: &str) -> Origin {
    Origin::new(limits(), ObjectKey::new(SHOP, name))
}

pub fn gateway_origin(name: &str) -> Origin {
    Origin::Gateway(ObjectKey::new(SHOP, name))
}
