//! The keys that identify the rows of a report.

use policy_sync_api::names::{GroupResource, ObjectKey, Origin};

/// The table that shows an item. The tables are in print order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Table {
    /// The Gateways of the hub.
    Gateways,
    /// The policies and resources of the hub.
    Policies,
    /// The copies on one cluster.
    Copies,
}

/// The key of an item. For the access rights of an agent, `resource` and `name` are empty.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ItemKey {
    /// The table that shows the item.
    pub table: Table,
    /// The namespace; empty for access rights.
    pub namespace: String,
    /// The kind as `<resource>.<group>`.
    pub resource: String,
    /// The name; empty for access rights.
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

    /// The key of the copy of `origin` on the selected cluster. Without an origin, the key of the access rights of the
    /// cluster's agent.
    pub(super) fn copy(origin: Option<&Origin>) -> Self {
        let resource = origin.map(|origin| origin.kind().to_string()).unwrap_or_default();
        let access = ObjectKey::new("", "");
        Self::new(Table::Copies, resource, origin.map_or(&access, |origin| origin.object()))
    }

    /// The key of the copy on the selected cluster, for the object of this key.
    pub(super) fn on_cluster(self) -> Self {
        Self { table: Table::Copies, ..self }
    }

    pub(super) fn object(&self) -> ObjectKey {
        ObjectKey::new(&self.namespace, &self.name)
    }
}
