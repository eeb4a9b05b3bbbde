//! The Secrets that the listeners of a Gateway refer to.

use serde_json::Value;

use crate::names::ObjectKey;

/// A Secret to which a listener refers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerSecret {
    /// The listener's name, or its index if it has none: `listeners[2]`.
    pub listener: String,
    /// The Secret to which the listener refers.
    pub secret: ObjectKey,
}

/// The Secrets in the `certificateRefs` of the listeners in a Gateway's spec, in order. Listeners with TLS mode
/// `Passthrough` do not use certificates and are skipped, as are references to other kinds.
pub fn listener_secrets<'s>(
    spec: &'s Value,
    namespace: &'s str,
) -> impl Iterator<Item = ListenerSecret> + 's {
    let listeners = spec["listeners"].as_array().into_iter().flatten().enumerate();
    let terminating = listeners.filter(|(_, listener)| listener["tls"]["mode"] != "Passthrough");
    terminating.flat_map(move |(index, listener)| {
        let name = listener["name"].as_str();
        let name = name.map_or_else(|| format!("listeners[{index}]"), str::to_owned);
        let references = listener["tls"]["certificateRefs"].as_array().into_iter().flatten();
        references.filter_map(move |reference| {
            Some(ListenerSecret { listener: name.clone(), secret: secret(reference, namespace)? })
        })
    })
}

/// The Secret that `reference` names; `namespace` is the default namespace, that of the Gateway.
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
