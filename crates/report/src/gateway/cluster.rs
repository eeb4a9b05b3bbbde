//! [`GatewayOnCluster`]: the state of a Gateway on one cluster.

use serde_json::{Value, json};

use super::{AnnotationValue, GatewayCopy, GatewayReport};
use policy_sync_api::names::ClusterName;

/// A Gateway on a cluster.
#[derive(Clone, Debug)]
pub struct GatewayOnCluster<'g> {
    /// The Gateway on the hub.
    pub gateway: &'g GatewayReport,
    /// The cluster's name.
    pub cluster: ClusterName,
    /// The copy: `None` if the user may not read works, `Some(None)` if there is no copy yet.
    pub copy: Option<Option<&'g GatewayCopy>>,
}

impl GatewayReport {
    /// The Gateway on `cluster`; `None` if the Gateway is neither placed on `cluster` nor in a grace period on
    /// `cluster`.
    #[must_use]
    pub fn on(&self, cluster: &str) -> Option<GatewayOnCluster<'_>> {
        let listed = match &self.row.listed {
            AnnotationValue::Value(listed) => {
                listed.contains(cluster) || self.is_truncated() && self.copies.is_none()
            }
            AnnotationValue::Missing => false,
            AnnotationValue::Invalid => self.copies.is_none(),
        };
        let copy = self.copies.as_ref().map(|copies| copies.get(cluster));
        (listed || copy.flatten().is_some()).then(|| GatewayOnCluster {
            gateway: self,
            cluster: cluster.into(),
            copy,
        })
    }
}

impl GatewayOnCluster<'_> {
    /// Whether the cluster has programmed the current Gateway.
    #[must_use]
    pub fn in_sync(&self) -> bool {
        let gateway = self.gateway;
        let accepted = gateway.accepted().is_some_and(|condition| condition.status == "True");
        let programmed = match self.copy {
            Some(copy) => copy.is_some_and(|copy| copy.not_programmed.is_none()),
            None => gateway.in_sync(),
        };
        accepted && programmed && gateway.row.faults.is_empty()
    }

    /// The addresses that the cluster has assigned to the Gateway.
    pub fn addresses(&self) -> impl Iterator<Item = &str> {
        let prefix = format!("{}/", self.cluster);
        self.gateway.row.addresses.iter().filter_map(move |address| address.strip_prefix(&prefix))
    }

    /// The report as JSON, reduced to this cluster.
    #[must_use]
    pub fn json(&self) -> Value {
        let mut json = self.gateway.json();
        json["clusters"] = json!([self.gateway.json_of(&self.cluster)]);
        json["addresses"] = self.addresses().collect();
        let mut missing = self.gateway.missing();
        missing.iter_mut().for_each(|missing| missing.retain(|cluster| *cluster == &*self.cluster.0));
        json["missing"] = missing.into();
        json["inSync"] = self.in_sync().into();
        json
    }
}
