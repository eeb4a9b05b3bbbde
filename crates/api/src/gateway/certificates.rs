//! Which Secrets the listeners of a Gateway name.

use serde_json::Value;

use crate::names::ObjectKey;

/// A Secret that a listener names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedSecret {
    /// The listener, by its name; one without a name by its place, as in `listeners[2]`.
    pub listener: String,
    /// The Secret.
    pub secret: ObjectKey,
}

/// The Secrets in the `certificateRefs` of the listeners that a Gateway of `namespace` with this spec has, in their
/// order. A listener that passes TLS on has no use for its own, and a reference to another kind is to no Secret.
pub fn named_secrets<'s>(spec: &'s Value, namespace: &'s str) -> impl Iterator<Item = NamedSecret> + 's {
    let listeners = spec["listeners"].as_array().into_iter().flatten().enumerate();
    let terminating = listeners.filter(|(_, listener)| listener["tls"]["mode"] != "Passthrough");
    terminating.flat_map(move |(index, listener)| {
        let name = listener["name"].as_str();
        let name = name.map_or_else(|| format!("listeners[{index}]"), str::to_owned);
        let references = listener["tls"]["certificateRefs"].as_array().into_iter().flatten();
        references.filter_map(move |reference| {
            Some(NamedSecret { listener: name.clone(), secret: secret(reference, namespace)? })
        })
    })
}

/// The Secret that a reference of an object of `namespace` is to.
fn secret(reference: &Value, namespace: &str) -> Option<ObjectKey> {
    let is = |field: &str, default: &str| match &reference[field] {
        Value::Null => true,
        found => found == default,
    };
    if !is("group", "") || !is("kind", "Secret") {
        return None;
    }
    let namespace = match &reference["namespace"] {
        Value::Null => namespace,
        found => found.as_str()?,
    };
    Some(ObjectKey::new(namespace, reference["name"].as_str()?))
}

#[cfg(test)]
mod tests;
