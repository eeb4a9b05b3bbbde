//! What is known of a Gateway on one cluster.

use serde_json::{Value, json};

use super::{Copy, GatewayReport, Reading};
use crate::api::names::ClusterName;

/// A Gateway on a cluster.
#[derive(Clone, Debug)]
pub(in crate::cli::status) struct GatewayOnCluster<'g> {
    pub(super) gateway: &'g GatewayReport,
    pub(super) cluster: ClusterName,
    /// Its copy there: `None` where works may not be read, `Some(None)` where there is none yet.
    pub(super) copy: Option<Option<&'g Copy>>,
}

impl GatewayReport {
    /// The Gateway on `cluster`; `None` where it is not placed there, nor still there.
    pub(in crate::cli::status) fn on(&self, cluster: &str) -> Option<GatewayOnCluster<'_>> {
        let cluster = ClusterName::from(cluster);
        let listed = match &self.listed {
            Reading::Said(listed) => listed.contains(&cluster) || self.is_cut() && self.copies.is_none(),
            Reading::Missing => false,
            Reading::Unreadable => self.copies.is_none(),
        };
        let copy = self.copies.as_ref().map(|copies| copies.get(&cluster));
        (listed || copy.flatten().is_some()).then_some(GatewayOnCluster { gateway: self, cluster, copy })
    }
}

impl GatewayOnCluster<'_> {
    /// Whether the cluster has programmed the Gateway as it is.
    pub(in crate::cli::status) fn in_sync(&self) -> bool {
        let gateway = self.gateway;
        let accepted = gateway.accepted().is_some_and(|said| said.status == "True");
        let programmed = match self.copy {
            Some(copy) => copy.is_some_and(|copy| copy.lacks.is_none()),
            None => gateway.in_sync(),
        };
        accepted && programmed && gateway.faults.is_empty()
    }

    /// The addresses that the cluster has given it.
    pub(super) fn addresses(&self) -> impl Iterator<Item = &str> {
        let prefix = format!("{}/", self.cluster);
        self.gateway.addresses.iter().filter_map(move |address| address.strip_prefix(&prefix))
    }

    /// The report for programs: of the clusters, this one alone.
    pub(in crate::cli::status) fn json(&self) -> Value {
        let mut json = self.gateway.json();
        json["clusters"] = json!([self.gateway.json_of(&self.cluster)]);
        json["addresses"] = self.addresses().collect();
        json["inSync"] = self.in_sync().into();
        json
    }
}
