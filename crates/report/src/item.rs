//! [`Item`]: a row of the report, which is a Gateway, a policy, or a copy on one cluster.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::copy::CopyReport;
use super::gateway::{GatewayOnCluster, GatewayReport};
use super::key::ItemKey;
use super::policy::{PolicyOnCluster, PolicyReport};
use policy_sync_api::names::{ClusterName, Origin};
use policy_sync_api::params::Role;

/// A row of the report.
#[derive(Clone, Debug)]
pub enum Item {
    /// A Gateway of the hub.
    Gateway(Box<GatewayReport>),
    /// A policy or a resource of the hub.
    Policy(Box<PolicyReport>),
    /// A copy that is on one cluster, or planned for it.
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
    /// The key that identifies the item.
    #[must_use]
    pub fn key(&self) -> ItemKey {
        match self {
            Self::Gateway(report) => ItemKey::gateway(&report.key),
            Self::Policy(report) => {
                ItemKey::policy(&report.origin.kind().to_string(), report.origin.object())
            }
            Self::Copy(report) => ItemKey::copy(report.origin.as_ref()),
        }
    }

    /// The report of a policy; `None` for other items.
    #[must_use]
    pub fn policy(&self) -> Option<&PolicyReport> {
        match self {
            Self::Gateway(_) | Self::Copy(_) => None,
            Self::Policy(report) => Some(report),
        }
    }

    /// The report of a Gateway; `None` for other items.
    #[must_use]
    pub fn gateway(&self) -> Option<&GatewayReport> {
        match self {
            Self::Gateway(report) => Some(report),
            Self::Policy(_) | Self::Copy(_) => None,
        }
    }

    /// Sets the unavailable clusters, which affect the states of a policy. Other items ignore them.
    pub fn set_unavailable(&mut self, clusters: &Arc<BTreeSet<ClusterName>>) {
        if let Self::Policy(report) = self {
            report.unavailable = clusters.clone();
        }
    }

    /// Whether all clusters that the item is planned for have the current revision.
    #[must_use]
    pub fn in_sync(&self) -> bool {
        match self {
            Self::Gateway(report) => report.in_sync(),
            Self::Policy(report) => report.in_sync(),
            Self::Copy(report) => report.in_sync(),
        }
    }

    /// The report as JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        match self {
            Self::Gateway(report) => report.json(),
            Self::Policy(report) => report.json(),
            Self::Copy(report) => report.json(),
        }
    }

    /// The item on `cluster`; `None` if it is not planned for that cluster.
    #[must_use]
    pub fn on<'i>(&'i self, cluster: &'i str) -> Option<ItemOnCluster<'i>> {
        match self {
            Self::Gateway(report) => report.on(cluster).map(ItemOnCluster::Gateway),
            Self::Policy(report) => report.on(cluster).map(ItemOnCluster::Policy),
            Self::Copy(report) => Some(ItemOnCluster::Copy(report)),
        }
    }

    /// The copy that is planned for `cluster`, with the hub object's message; `None` if no copy is planned.
    pub(super) fn desired_on(&self, cluster: &str) -> Option<CopyReport> {
        match self {
            Self::Gateway(report) => {
                report.on(cluster)?;
                let origin = Origin::Gateway(report.key.clone());
                Some(CopyReport::desired(origin, "Gateway", Role::Policy, report.message(), None))
            }
            Self::Policy(report) => {
                let entry = report.on(cluster)?.entry.filter(|entry| !entry.is_being_removed())?;
                let (origin, message) = (report.origin.clone(), report.message.clone());
                let state = report.state_of(entry);
                Some(CopyReport::desired(origin, &report.kind, report.role, message, state))
            }
            Self::Copy(_) => None,
        }
    }

    /// When the hub object was created; `None` for a copy.
    #[must_use]
    pub fn created(&self) -> Option<Timestamp> {
        match self {
            Self::Gateway(report) => report.row.created,
            Self::Policy(report) => report.created,
            Self::Copy(_) => None,
        }
    }
}

/// An item on one cluster.
#[derive(Clone, Debug)]
pub enum ItemOnCluster<'i> {
    /// A Gateway of the hub.
    Gateway(GatewayOnCluster<'i>),
    /// A policy or a resource of the hub.
    Policy(PolicyOnCluster<'i>),
    /// A copy, which is on one cluster already.
    Copy(&'i CopyReport),
}

impl ItemOnCluster<'_> {
    /// Whether the cluster has the current revision.
    #[must_use]
    pub fn in_sync(&self) -> bool {
        match self {
            Self::Gateway(on) => on.in_sync(),
            Self::Policy(on) => on.in_sync(),
            Self::Copy(report) => report.in_sync(),
        }
    }

    /// The report as JSON, reduced to this cluster.
    #[must_use]
    pub fn json(&self) -> Value {
        match self {
            Self::Gateway(on) => on.json(),
            Self::Policy(on) => on.json(),
            Self::Copy(report) => report.json(),
        }
    }
}
