//! Parses the target references of a policy: `spec.targetRef`, `spec.targetRefs`, or both
//! ([GEP-713](https://gateway-api.sigs.k8s.io/geps/gep-713/)).

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::Problem;
use policy_sync_api::gateway::{GROUP, TargetReference};
use policy_sync_api::json::type_of;
use policy_sync_api::names::ObjectKey;

/// The Gateways that a policy targets.
#[derive(Debug, Default)]
pub(super) struct Targets {
    /// The Gateway of `spec.targetRef`.
    singular: Option<ObjectKey>,
    /// The Gateway of each item of `spec.targetRefs`; `None` for other targets.
    plural: Vec<Option<ObjectKey>>,
    namespace: String,
}

/// Reads the references to Gateways in the spec of a policy in `namespace`.
pub(super) fn targets(spec: &Value, namespace: &str) -> Result<Targets, Problem> {
    let mut targets = Targets { namespace: namespace.to_owned(), ..Targets::default() };
    match &spec["targetRef"] {
        Value::Null => {}
        reference => targets.singular = gateway(reference, namespace, || "targetRef".to_owned())?,
    }
    match &spec["targetRefs"] {
        Value::Null => {}
        Value::Array(references) => {
            for (index, reference) in references.iter().enumerate() {
                targets.plural.push(gateway(reference, namespace, || format!("targetRefs[{index}]"))?);
            }
        }
        other => {
            return Err(bad("targetRefs".to_owned(), format!("expected a list, found {}", type_of(other))));
        }
    }
    Ok(targets)
}

fn gateway(
    reference: &Value,
    namespace: &str,
    place: impl Fn() -> String,
) -> Result<Option<ObjectKey>, Problem> {
    if !reference.is_object() {
        return Err(bad(place(), format!("expected an object, found {}", type_of(reference))));
    }
    let target: TargetReference =
        serde_json::from_value(reference.clone()).map_err(|error| bad(place(), error.to_string()))?;
    let is_gateway = target.group == GROUP && target.kind == "Gateway";
    if is_gateway && target.name.is_empty() {
        return Err(bad(format!("{}.name", place()), "a Gateway's name is required".to_owned()));
    }
    let namespace =
        target.namespace.as_deref().filter(|namespace| !namespace.is_empty()).unwrap_or(namespace);
    Ok(is_gateway.then(|| ObjectKey::new(namespace, &target.name)))
}

fn bad(place: String, fault: String) -> Problem {
    Problem::BadReference { place, fault }
}

impl Targets {
    /// The Gateways in the policy's own namespace.
    pub(super) fn gateways(&self) -> impl Iterator<Item = &ObjectKey> {
        self.distinct(true).into_iter()
    }

    /// The Gateways in other namespaces.
    pub(super) fn in_other_namespaces(&self) -> impl Iterator<Item = &ObjectKey> {
        self.distinct(false).into_iter()
    }

    fn distinct(&self, here: bool) -> BTreeSet<&ObjectKey> {
        let all = self.singular.iter().chain(self.plural.iter().flatten());
        all.filter(|key| (*key.namespace == *self.namespace) == here).collect()
    }

    /// Removes all references from the spec except the references to `gateways`. Changes the namespace of these
    /// references to the namespace on the spoke.
    pub(super) fn narrowed(
        &self,
        mut spec: Value,
        gateways: &[ObjectKey],
        downstream_namespace: &str,
    ) -> Value {
        let stays = |target: &Option<ObjectKey>| target.as_ref().is_some_and(|key| gateways.contains(key));
        let Some(fields) = spec.as_object_mut() else { return spec };
        if stays(&self.singular) {
            fields.entry("targetRef").and_modify(|reference| rewrite(reference, downstream_namespace));
        } else {
            fields.remove("targetRef");
        }
        let mut stay = self.plural.iter().map(stays);
        if let Some(Value::Array(references)) = fields.get_mut("targetRefs") {
            references.retain(|_| stay.next().unwrap_or_default());
            references.iter_mut().for_each(|reference| rewrite(reference, downstream_namespace));
            // A policy with an empty list would be invalid, so the list is removed. The singular reference remains.
            if references.is_empty() {
                fields.remove("targetRefs");
            }
        }
        spec
    }
}

fn rewrite(reference: &mut Value, downstream_namespace: &str) {
    if let Some(namespace) = reference.get_mut("namespace").filter(|namespace| !namespace.is_null()) {
        *namespace = json!(downstream_namespace);
    }
}
