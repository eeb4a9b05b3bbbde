//! Where policies differ from cluster to cluster: their overrides, held against the labels that the clusters have now.
//!
//! It is what the controller plans; whether a cluster has applied it, its row says.

use std::collections::BTreeMap;

use super::hub::Hub;
use super::item::Item;
use super::report::Report;
use super::view::{Rows, View};
use crate::api::annotations::CLUSTER_OVERRIDES;
use crate::cli::output::say;
use crate::cli::text::printable;
use crate::sync::rows::Strings;

/// The labels of clusters, `None` where they may not be read.
#[derive(Clone, Debug)]
pub(super) struct Differences(Option<BTreeMap<String, Strings>>);

impl Differences {
    /// Reads what it takes to tell where `items` differ; `None` where `view` does not show that, or none differs.
    ///
    /// # Errors
    ///
    /// Where the hub cannot be reached. That labels may not be read is only said.
    pub(super) async fn read(hub: &Hub, view: &View, items: &[Item]) -> anyhow::Result<Option<Self>> {
        if !view.wide
            || view.rows == Rows::Policies
            || items.iter().filter_map(Item::policy).all(|report| report.overrides.is_none())
        {
            return Ok(None);
        }
        let (what, labels) = match &view.rows {
            Rows::OnCluster(cluster) => {
                let labels = hub.labels(cluster).await;
                let labels = labels.map(|labels| labels.map(|labels| (cluster.clone(), labels)));
                (format!("read ManagedCluster {cluster}"), labels.map(|labels| labels.into_iter().collect()))
            }
            Rows::Policies | Rows::Clusters => ("list ManagedClusters".to_owned(), hub.all_labels().await),
        };
        match labels {
            Ok(labels) => Ok(Some(Self(Some(labels)))),
            Err(error @ kube::Error::Api(_)) => {
                say(printable(&hub.failure(&what, &error).to_string()));
                Ok(Some(Self(None)))
            }
            Err(error) => Err(hub.failure(&what, &error)),
        }
    }

    /// What is different on `cluster`: the places in the spec that overrides change there; `-` where there is none, and
    /// `?` where that is not known.
    pub(super) fn of(&self, report: &Report, cluster: &str) -> String {
        let Some(overrides) = &report.overrides else { return "-".to_owned() };
        // Overrides that are refused are not what the cluster has.
        let refused = report.message.as_ref().is_some_and(|message| message.contains(CLUSTER_OVERRIDES));
        // A list that is cut ends with a row of no cluster.
        let named = report.on(cluster).is_some_and(|on| on.entry.is_some());
        let (Some(overrides), Some(labels), true) = (overrides, &self.0, named && !refused) else {
            return "?".to_owned();
        };
        let places =
            overrides.places(&overrides.choice().chosen(labels.get(cluster).unwrap_or(&Strings::new())));
        if places.is_empty() { "-".to_owned() } else { places.into_iter().collect::<Vec<_>>().join(",") }
    }
}

#[cfg(test)]
mod tests;
