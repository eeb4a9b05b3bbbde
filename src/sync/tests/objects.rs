//! Hub objects as they come off the wire, built in a sentence: `policy("limits").targets("web").label("team", "a")`.

use serde_json::{Value, json};

use crate::sync::kinds::{
    CLASSES, CLUSTERS, CONFIG_MAPS, DECISIONS, GATEWAYS, GRANTS, PLACEMENTS, POLICIES, RESOURCES, SECRETS,
};
use policy_sync_api::annotations::GRACE_TIMEOUT;
use policy_sync_api::cluster::PLACEMENT_LABEL;
use policy_sync_api::names::{GroupResource, ObjectKey, Origin};
use policy_sync_mirror::Source;

/// The namespace of everything that does not say otherwise.
pub(crate) const SHOP: &str = "shop";
/// The class of Gateways that do not say otherwise.
pub(crate) const CLASS: &str = "multi";
/// The controller that the works are of.
pub(crate) const CONTROLLER: &str = "kuadrant.io/policy-sync";

/// An object, and the source that brings it.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub(crate) source: Source,
    pub(crate) json: Value,
}

impl Object {
    fn new(source: Source, namespace: &str, name: &str) -> Self {
        let mut metadata = json!({"name": name, "uid": format!("{name}-uid"), "generation": 1});
        if !namespace.is_empty() {
            metadata["namespace"] = namespace.into();
        }
        Self { source, json: json!({"metadata": metadata}) }
    }

    pub(crate) fn key(&self) -> ObjectKey {
        let text = |field: &str| self.json["metadata"][field].as_str().unwrap_or_default();
        ObjectKey::new(text("namespace"), text("name"))
    }

    pub(crate) fn in_ns(mut self, namespace: &str) -> Self {
        self.json["metadata"]["namespace"] = namespace.into();
        self
    }

    pub(crate) fn label(mut self, key: &str, value: &str) -> Self {
        self.json["metadata"]["labels"][key] = value.into();
        self
    }

    pub(crate) fn annotation(mut self, key: &str, value: &str) -> Self {
        self.json["metadata"]["annotations"][key] = value.into();
        self
    }

    pub(crate) fn without_annotation(mut self, key: &str) -> Self {
        if let Some(annotations) = self.json["metadata"]["annotations"].as_object_mut() {
            annotations.remove(key);
        }
        self
    }

    pub(crate) fn metadata(mut self, field: &str, value: Value) -> Self {
        self.json["metadata"][field] = value;
        self
    }

    pub(crate) fn deleting(self) -> Self {
        self.metadata("deletionTimestamp", "2026-01-01T00:00:00Z".into())
    }

    pub(crate) fn spec(mut self, field: &str, value: Value) -> Self {
        self.json["spec"][field] = value;
        self
    }

    pub(crate) fn whole_spec(mut self, spec: Value) -> Self {
        self.json["spec"] = spec;
        self
    }

    pub(crate) fn status(mut self, status: Value) -> Self {
        self.json["status"] = status;
        self
    }

    /// On a Gateway: the Placement that chooses its clusters.
    pub(crate) fn placed_on(self, placement: &str) -> Self {
        self.label(PLACEMENT_LABEL, placement)
    }

    /// On a Gateway: its class.
    pub(crate) fn of_class(self, class: &str) -> Self {
        self.spec("gatewayClassName", class.into())
    }

    /// On a Gateway: one listener, `https`, with these references to certificates.
    pub(crate) fn certificates(self, references: &[Value]) -> Self {
        let tls = json!({"certificateRefs": references});
        self.spec("listeners", json!([{"name": "https", "port": 443, "protocol": "HTTPS", "tls": tls}]))
    }

    /// On a Secret: what it holds under the name `tls.key`.
    pub(crate) fn holding(mut self, key: &str) -> Self {
        self.json["data"]["tls.key"] = key.into();
        self
    }

    /// On a policy: the singular reference.
    pub(crate) fn targets(self, gateway: &str) -> Self {
        self.spec("targetRef", target(gateway))
    }

    /// On a policy: the plural references.
    pub(crate) fn targets_all(self, gateways: &[&str]) -> Self {
        let targets = gateways.iter().map(|gateway| target(gateway)).collect();
        self.spec("targetRefs", Value::Array(targets))
    }

    /// On a Placement: how many clusters its decisions name.
    pub(crate) fn selects(self, clusters: usize) -> Self {
        self.status(json!({"numberOfSelectedClusters": clusters}))
    }
}

/// A reference to a Gateway.
pub(crate) fn target(gateway: &str) -> Value {
    json!({"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": gateway})
}

/// A kind of policies, by its plural.
pub(crate) fn kind(resource: &str) -> GroupResource {
    GroupResource::new("kuadrant.io", resource)
}

/// The kind of policies of tests that need one kind only.
pub(crate) fn limits() -> GroupResource {
    kind("ratelimitpolicies")
}

pub(crate) fn policy_of(resource: &str, name: &str) -> Object {
    Object::new(POLICIES.resource(kind(resource)), SHOP, name)
}

pub(crate) fn policy(name: &str) -> Object {
    policy_of("ratelimitpolicies", name)
}

impl Object {
    /// A policy of a kind of any group.
    pub(crate) fn policy(group: &str, resource: &str, name: &str) -> Self {
        Self::new(POLICIES.resource(GroupResource::new(group, resource)), SHOP, name)
    }

    /// An object of a kind of resources.
    pub(crate) fn resource(group: &str, resource: &str, name: &str) -> Self {
        Self::new(RESOURCES.resource(GroupResource::new(group, resource)), SHOP, name)
    }
}

/// A Deployment of four replicas.
pub(crate) fn deployment(name: &str) -> Object {
    Object::resource("apps", "deployments", name).spec("replicas", 4.into())
}

pub(crate) fn deployment_origin(name: &str) -> Origin {
    Origin::named("apps", "deployments", SHOP, name)
}

/// A ConfigMap that is a resource.
pub(crate) fn config_map_resource(name: &str, data: &Value) -> Object {
    let mut object = Object::resource("", "configmaps", name);
    object.json["data"] = data.clone();
    object
}

/// Parameters that list Deployments and ConfigMaps as resources, placed by `placement` where they say nothing.
pub(crate) fn resource_listing(placement: Option<&str>) -> Value {
    let kind = |(group, resource)| json!({"group": group, "version": "v1", "resource": resource, "placement": placement});
    let kinds = [("apps", "deployments"), ("", "configmaps")].map(kind);
    json!({"resourcesToSync": kinds})
}

/// A Gateway that goes at once where it is no longer placed.
pub(crate) fn gateway(name: &str) -> Object {
    let listeners = json!([{"name": "http", "port": 80, "protocol": "HTTP"}]);
    let gateway = Object::new(GATEWAYS.all(), SHOP, name).annotation(GRACE_TIMEOUT, "0");
    gateway.of_class(CLASS).spec("listeners", listeners)
}

pub(crate) fn placement(name: &str) -> Object {
    Object::new(PLACEMENTS.all(), SHOP, name)
}

/// One slice of a Placement's decisions.
pub(crate) fn decision(placement: &str, name: &str, clusters: &[&str]) -> Object {
    let decisions: Vec<Value> =
        clusters.iter().map(|name| json!({"clusterName": name, "reason": ""})).collect();
    Object::new(DECISIONS.all(), SHOP, name)
        .label(PLACEMENT_LABEL, placement)
        .status(json!({"decisions": decisions}))
}

pub(crate) fn cluster(name: &str) -> Object {
    Object::new(CLUSTERS.all(), "", name)
}

/// A GatewayClass of ours whose parameters are in the ConfigMap `params/<name>`.
pub(crate) fn class(name: &str) -> Object {
    Object::new(CLASSES.all(), "", name)
        .spec("controllerName", CONTROLLER.into())
        .spec("parametersRef", json!({"group": "", "kind": "ConfigMap", "namespace": "params", "name": name}))
}

/// The ConfigMap with the parameters of the class `name`.
pub(crate) fn config_map(name: &str, params: &str) -> Object {
    let mut object = Object::new(CONFIG_MAPS.object(ObjectKey::new("params", name)), "params", name);
    object.json["data"] = json!({"params": params});
    object
}

/// Parameters that list these kinds in version `v1`, and let no Gateway wait for its policies to be applied.
pub(crate) fn listing(resources: &[&str]) -> Value {
    let kinds: Vec<Value> = resources
        .iter()
        .map(|resource| json!({"group": "kuadrant.io", "version": "v1", "resource": resource}))
        .collect();
    json!({"policiesToSync": kinds, "policyWaitSeconds": 0, "policyWaitAction": "serve"})
}

/// A Secret with a certificate.
pub(crate) fn secret(name: &str) -> Object {
    let mut object = Object::new(SECRETS.all(), SHOP, name);
    object.json["type"] = "kubernetes.io/tls".into();
    object.json["data"] = json!({"tls.crt": "Y2VydA==", "tls.key": "a2V5"});
    object
}

/// A ReferenceGrant of `tls` that lets Gateways of `shop` name all Secrets there.
pub(crate) fn grant(name: &str) -> Object {
    Object::new(GRANTS.all(), "tls", name)
        .spec("from", json!([{"group": "gateway.networking.k8s.io", "kind": "Gateway", "namespace": SHOP}]))
        .spec("to", json!([{"group": "", "kind": "Secret"}]))
}

pub(crate) fn policy_origin(name: &str) -> Origin {
    Origin::new(limits(), ObjectKey::new(SHOP, name))
}

pub(crate) fn gateway_origin(name: &str) -> Origin {
    Origin::Gateway(ObjectKey::new(SHOP, name))
}
