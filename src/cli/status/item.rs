//! Something that is shown: a row or several of a table, or a document.

use k8s_openapi::jiff::Timestamp;

use super::gateway::GatewayReport;
use super::kinds::PolicyKind;
use super::report::Report;

/// The table that something is shown in, in the order in which they are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Table {
    /// Gateways.
    Gateways,
    /// Policies.
    Policies,
}

/// What tells an object from all others: its table, namespace, `<resource>.<group>`, name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) table: Table,
    pub(super) namespace: String,
    pub(super) resource: String,
    pub(super) name: String,
}

/// A Gateway or a policy.
#[derive(Clone, Debug)]
pub(super) enum Item {
    /// A Gateway.
    Gateway(Box<GatewayReport>),
    /// A policy.
    Policy(Box<Report>),
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
        }
    }

    /// The policy, where it is one.
    pub(super) fn policy(&self) -> Option<&Report> {
        match self {
            Self::Gateway(_) => None,
            Self::Policy(report) => Some(report),
        }
    }

    /// The Gateway, where it is one.
    pub(super) fn gateway(&self) -> Option<&GatewayReport> {
        match self {
            Self::Gateway(report) => Some(report),
            Self::Policy(_) => None,
        }
    }

    pub(super) fn created(&self) -> Option<Timestamp> {
        match self {
            Self::Gateway(report) => report.created,
            Self::Policy(report) => report.created,
        }
    }
}

impl Key {
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
