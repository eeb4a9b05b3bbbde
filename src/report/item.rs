//! Something that is shown.

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
            Self::Policy(report) => {
                ItemKey::policy(&report.origin.kind().to_string(), report.origin.object())
            }
            Self::Copy(report) => ItemKey::copy(report.origin.as_ref()),
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

    /// Sets which clusters are not available, for the states of a policy.
    pub fn set_unavailable(&mut self, clusters: &Arc<BTreeSet<ClusterName>>) {
        if let Self::Policy(report) = self {
            report.unavailable = clusters.clone();
        }
    }

    /// Whether every cluster that it is for has the current revision.
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
    pub fn on<'i>(&'i self, cluster: &'i str) -> Option<ItemOnCluster<'i>> {
        match self {
            Self::Gateway(report) => report.on(cluster).map(ItemOnCluster::Gateway),
            Self::Policy(report) => report.on(cluster).map(ItemOnCluster::Policy),
            Self::Copy(report) => Some(ItemOnCluster::Copy(report)),
        }
    }

    /// The copy that is to be on `cluster`, of which its hub object says this; `None` where none is.
    pub(super) fn desired_on(&self, cluster: &str) -> Option<CopyReport> {
        match self {
            Self::Gateway(report) => {
                report.on(cluster)?;
                let origin = Origin::Gateway(report.key.clone());
                Some(CopyReport::desired(origin, "Gateway", Role::Policy, report.message(), None))
            }
            Self::Policy(report) => {
                let entry = report.on(cluster)?.entry.filter(|entry| !entry.leaves())?;
                let (origin, message) = (report.origin.clone(), report.message.clone());
                let state = report.state_of(entry);
                Some(CopyReport::desired(origin, &report.kind, report.role, message, state))
            }
            Self::Copy(_) => None,
        }
    }

    /// When the object was created.
    #[must_use]
    pub fn created(&self) -> Option<Timestamp> {
        match self {
            Self::Gateway(report) => report.row.created,
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
    /// Whether the cluster has the current revision.
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
