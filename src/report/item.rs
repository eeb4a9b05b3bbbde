//! Something that is shown.

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::copy::CopyReport;
use super::gateway::{GatewayOnCluster, GatewayReport};
use super::policy::{PolicyOnCluster, PolicyReport};
use crate::api::names::{ObjectKey, Parent};

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

/// Something that is shown.
#[derive(Clone, Debug)]
pub enum Item {
    /// A Gateway.
    Gateway(Box<GatewayReport>),
    /// A policy.
    Policy(Box<PolicyReport>),
    /// Something on one cluster, or to be there.
    Copy(Box<CopyReport>),
}

impl From<CopyReport> for Item {
    fn from(report: CopyReport) -> Self {
        Self::Copy(Box::new(report))
    }
}

impl From<GatewayReport> for Item {
    fn from(report: GatewayReport) -> Self {
        Self::Gateway(Box::new(report))
    }
}

impl From<PolicyReport> for Item {
    fn from(report: PolicyReport) -> Self {
        Self::Policy(Box::new(report))
    }
}

impl Item {
    /// What tells it from all others.
    #[must_use]
    pub fn key(&self) -> ItemKey {
        match self {
            Self::Gateway(report) => ItemKey::gateway(&report.key),
            Self::Policy(report) => ItemKey::policy(&report.resource, &report.key),
            Self::Copy(report) => ItemKey::copy(report.parent.as_ref()),
        }
    }

    /// The policy, where it is one.
    #[must_use]
    pub fn policy(&self) -> Option<&PolicyReport> {
        match self {
            Self::Gateway(_) | Self::Copy(_) => None,
            Self::Policy(report) => Some(report),
        }
    }

    /// The Gateway, where it is one.
    #[must_use]
    pub fn gateway(&self) -> Option<&GatewayReport> {
        match self {
            Self::Gateway(report) => Some(report),
            Self::Policy(_) | Self::Copy(_) => None,
        }
    }

    /// Whether it is as it should be, wherever that is.
    #[must_use]
    pub fn in_sync(&self) -> bool {
        match self {
            Self::Gateway(report) => report.in_sync(),
            Self::Policy(report) => report.in_sync(),
            Self::Copy(report) => report.in_sync(),
        }
    }

    /// The report for programs.
    #[must_use]
    pub fn json(&self) -> Value {
        match self {
            Self::Gateway(report) => report.json(),
            Self::Policy(report) => report.json(),
            Self::Copy(report) => report.json(),
        }
    }

    /// The same as `cluster` has it; `None` where it is not for that cluster.
    #[must_use]
    pub fn on(&self, cluster: &str) -> Option<ItemOnCluster<'_>> {
        match self {
            Self::Gateway(report) => report.on(cluster).map(ItemOnCluster::Gateway),
            Self::Policy(report) => report.on(cluster).map(ItemOnCluster::Policy),
            Self::Copy(report) => Some(ItemOnCluster::Copy(report)),
        }
    }

    /// When the object was created.
    #[must_use]
    pub fn created(&self) -> Option<Timestamp> {
        match self {
            Self::Gateway(report) => report.said.created,
            Self::Policy(report) => report.created,
            Self::Copy(_) => None,
        }
    }
}

/// Something that is shown as one cluster has it.
#[derive(Clone, Debug)]
pub enum ItemOnCluster<'i> {
    /// A Gateway.
    Gateway(GatewayOnCluster<'i>),
    /// A policy.
    Policy(PolicyOnCluster<'i>),
    /// A copy, of whatever cluster.
    Copy(&'i CopyReport),
}

impl ItemOnCluster<'_> {
    /// Whether the cluster has it as it should be.
    #[must_use]
    pub fn in_sync(&self) -> bool {
        match self {
            Self::Gateway(on) => on.in_sync(),
            Self::Policy(on) => on.in_sync(),
            Self::Copy(report) => report.in_sync(),
        }
    }

    /// The report for programs: of the clusters, this one alone.
    #[must_use]
    pub fn json(&self) -> Value {
        match self {
            Self::Gateway(on) => on.json(),
            Self::Policy(on) => on.json(),
            Self::Copy(report) => report.json(),
        }
    }
}

impl ItemKey {
    fn new(table: Table, resource: String, object: &ObjectKey) -> Self {
        Self { table, namespace: object.namespace.to_string(), resource, name: object.name.to_string() }
    }

    pub(super) fn gateway(gateway: &ObjectKey) -> Self {
        Self::new(Table::Gateways, Parent::gateway(gateway.clone()).kind.to_string(), gateway)
    }

    pub(super) fn policy(resource: &str, policy: &ObjectKey) -> Self {
        Self::new(Table::Policies, resource.to_owned(), policy)
    }

    /// A copy of `parent`, on the one cluster; of none, the access of its agent.
    pub(super) fn copy(parent: Option<&Parent>) -> Self {
        let resource = parent.map(|parent| parent.kind.to_string()).unwrap_or_default();
        let access = ObjectKey::new("", "");
        Self::new(Table::Copies, resource, parent.map_or(&access, |parent| &parent.object))
    }

    /// The same object, as a copy on the one cluster.
    pub(super) fn on_cluster(self) -> Self {
        Self { table: Table::Copies, ..self }
    }

    pub(super) fn object(&self) -> ObjectKey {
        ObjectKey::new(&self.namespace, &self.name)
    }
}
