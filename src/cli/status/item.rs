//! Something that is shown: a row or several of a table, or a document.

use k8s_openapi::jiff::Timestamp;

use super::copy::CopyReport;
use super::gateway::GatewayReport;
use super::report::Report;
use crate::cli::kinds::PolicyKind;

/// The table that something is shown in, in the order in which they are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Table {
    /// Gateways.
    Gateways,
    /// Policies.
    Policies,
    /// Everything on one cluster.
    Copies,
}

/// What tells an object from all others: its table, namespace, `<resource>.<group>`, name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) table: Table,
    pub(super) namespace: String,
    pub(super) resource: String,
    pub(super) name: String,
}

/// Something that is shown.
#[derive(Clone, Debug)]
pub(super) enum Item {
    /// A Gateway.
    Gateway(Box<GatewayReport>),
    /// A policy.
    Policy(Box<Report>),
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

impl From<Report> for Item {
    fn from(report: Report) -> Self {
        Self::Policy(Box::new(report))
    }
}

impl Item {
    pub(super) fn key(&self) -> Key {
        match self {
            Self::Gateway(report) => Key::gateway(&report.namespace, &report.name),
            Self::Policy(report) => Key::policy(&report.resource, &report.namespace, &report.name),
            Self::Copy(report) => Key::copy(report),
        }
    }

    /// The policy, where it is one.
    pub(super) fn policy(&self) -> Option<&Report> {
        match self {
            Self::Gateway(_) | Self::Copy(_) => None,
            Self::Policy(report) => Some(report),
        }
    }

    /// The Gateway, where it is one.
    pub(super) fn gateway(&self) -> Option<&GatewayReport> {
        match self {
            Self::Gateway(report) => Some(report),
            Self::Policy(_) | Self::Copy(_) => None,
        }
    }

    pub(super) fn created(&self) -> Option<Timestamp> {
        match self {
            Self::Gateway(report) => report.created,
            Self::Policy(report) => report.created,
            Self::Copy(_) => None,
        }
    }
}

impl Key {
    pub(super) fn copy(report: &CopyReport) -> Self {
        let (resource, namespace, name) = report.place();
        Self { table: Table::Copies, namespace, resource, name }
    }

    /// The same object, as a copy on a cluster.
    pub(super) fn on_cluster(&self) -> Self {
        Self { table: Table::Copies, ..self.clone() }
    }

    pub(super) fn gateway(namespace: &str, name: &str) -> Self {
        let resource = PolicyKind::gateways().gvr.kind.to_string();
        Self { table: Table::Gateways, resource, namespace: namespace.to_owned(), name: name.to_owned() }
    }

    pub(super) fn policy(resource: &str, namespace: &str, name: &str) -> Self {
        Self {
            table: Table::Policies,
            resource: resource.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }
}
