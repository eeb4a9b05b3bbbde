//! Rows of [ReferenceGrants](https://gateway-api.sigs.k8s.io/api-types/referencegrant/).

use std::sync::Arc;

use serde::Deserialize;

use super::wire::{self, GroupName, KindName, Limited, Name, or_default};
use crate::fault::Fault;
use crate::locator::{Kind, KindRef};
use policy_sync_api::object::HubObject;

/// The maximum number of items in each list of a ReferenceGrant.
const LIMIT: usize = 16;

/// A ReferenceGrant: it permits objects of other namespaces to refer to objects in its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    /// The kinds and namespaces of referring objects.
    from: Box<[(Kind, Arc<str>)]>,
    /// The kinds of referenced objects. With a name, only the object of this name; without a name, all objects of the
    /// kind.
    to: Box<[(Kind, Option<Arc<str>>)]>,
}

impl Grant {
    /// Reads the row from `object`.
    ///
    /// # Errors
    ///
    /// If the API server would reject the object.
    pub fn read(object: &HubObject) -> Result<Self, Fault> {
        let spec: Spec = wire::spec(wire::text(object))?;
        let kind = |group: GroupName, kind: KindName| Kind { group: group.0, kind: kind.0 };
        let from = spec.from.0.into_iter().map(|from| (kind(from.group, from.kind), from.namespace.0));
        let to = spec.to.0.into_iter().map(|to| (kind(to.group, to.kind), to.name.map(|name| name.0)));
        Ok(Self { from: from.collect(), to: to.collect() })
    }

    /// Whether objects of the kind `from` in `namespace` may refer to the object `name` of the kind `to`.
    #[must_use]
    pub fn allows(&self, from: KindRef<'_>, namespace: &str, to: KindRef<'_>, name: &str) -> bool {
        self.from.iter().any(|(kind, in_namespace)| kind.as_ref() == from && **in_namespace == *namespace)
            && self
                .to
                .iter()
                .any(|(kind, only)| kind.as_ref() == to && only.as_ref().is_none_or(|only| **only == *name))
    }
}

#[derive(Deserialize)]
struct Spec {
    #[serde(default, deserialize_with = "or_default")]
    from: Limited<From, LIMIT>,
    #[serde(default, deserialize_with = "or_default")]
    to: Limited<To, LIMIT>,
}

#[derive(Deserialize)]
struct From {
    group: GroupName,
    kind: KindName,
    namespace: wire::Namespace,
}

#[derive(Deserialize)]
struct To {
    group: GroupName,
    kind: KindName,
    name: Option<Name>,
}
