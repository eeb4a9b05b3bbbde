//! What tells things that are shown from each other.

use policy_sync_api::names::{GroupResource, ObjectKey, Origin};

/// The table that something is shown in, in the order in which they are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Table {
    /// Gateways.
    Gateways,
    /// Policies.
    Policies,
    /// Everything on one cluster.
    Copies,
}

/// What tells an object from all others. The access of an agent is of no kind and of no name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ItemKey {
    /// Its table.
    pub table: Table,
    /// Its namespace.
    pub namespace: String,
    /// Its kind, as in `<resource>.<group>`.
    pub resource: String,
    /// Its name.
    pub name: String,
}

impl ItemKey {
    fn new(table: Table, resource: String, object: &ObjectKey) -> Self {
        Self { table, namespace: object.namespace.to_string(), resource, name: object.name.to_string() }
    }

    pub(super) fn gateway(gateway: &ObjectKey) -> Self {
        Self::new(Table::Gateways, GroupResource::gateways().to_string(), gateway)
    }

    pub(super) fn policy(resource: &str, policy: &ObjectKey) -> Self {
        Self::new(Table::Policies, resource.to_owned(), policy)
    }

    /// A copy of `origin`, on the one cluster; of none, the access of its agent.
    pub(super) fn copy(origin: Option<&Origin>) -> Self {
        let resource = origin.map(|origin| origin.kind().to_string()).unwrap_or_default();
        let access = ObjectKey::new("", "");
        Self::new(Table::Copies, resource, origin.map_or(&access, |origin| origin.object()))
    }

    /// The same object, as a copy on the one cluster.
    pub(super) fn on_cluster(self) -> Self {
        Self { table: Table::Copies, ..self }
    }

    pub(super) fn object(&self) -> ObjectKey {
        ObjectKey::new(&self.namespace, &self.name)
    }
}
