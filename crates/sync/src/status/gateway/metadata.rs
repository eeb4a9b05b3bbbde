//! The metadata of a hub Gateway about its clusters: their names in an annotation, their attributes in labels.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;

use crate::View;
use crate::desired::WorksPlan;
use crate::rows::Strings;
use crate::rows::gateway::Gateway;
use crate::rows::gateway_fields::GatewayFields;
use crate::status::policy::{ANNOTATIONS_LIMIT, OWN_ANNOTATIONS_LIMIT};
use policy_sync_api::annotations::{CLUSTER_ATTRIBUTES, CLUSTER_LABELS, GATEWAY_CLUSTERS};
use policy_sync_api::json::Hash;
use policy_sync_api::names::ClusterName;
use policy_sync_api::syntax::LABEL_LIMIT;

/// The maximum size of all labels, in bytes. Without this limit, the object could exceed the API server's limit for
/// requests.
const LABELS_LIMIT: usize = 128 * 1024;

/// All labels and annotations that this controller owns on a Gateway.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metadata {
    /// The labels.
    pub labels: Strings,
    /// The annotations.
    pub annotations: Strings,
}

/// The metadata to write, if it differs from the present metadata, and descriptions of the items left out.
pub(super) fn planned(
    view: View<'_>,
    gateway: &Gateway,
    works: &WorksPlan,
) -> (Option<Metadata>, Vec<String>) {
    let found = &gateway.fields;
    let room = OWN_ANNOTATIONS_LIMIT.min(ANNOTATIONS_LIMIT.saturating_sub(found.other_bytes));
    let (annotations, unlisted) = listed(works.outcomes.keys(), room);
    let (labels, mut left_out) = labels(view, works.outcomes.keys());
    if unlisted > 0 {
        left_out.insert(0, format!("{unlisted} clusters in {GATEWAY_CLUSTERS}"));
    }
    let clusters = annotations.get(GATEWAY_CLUSTERS).map(|text| Hash::of_text(text));
    if clusters == found.clusters && labels == found.labels {
        return (None, left_out);
    }
    let mut metadata = Metadata { labels, annotations };
    metadata.take_over(found, |key| found.owners.shared.contains(key) || !found.owners.ours.contains(key));
    (Some(metadata), left_out)
}

/// The empty metadata for a Gateway of another class. `None` if this controller owns no label and no annotation of the
/// Gateway.
pub(super) fn without_ours(found: &GatewayFields) -> Option<Metadata> {
    if found.owners.ours.is_empty() {
        return None;
    }
    let mut metadata = Metadata::default();
    if found.owners.others.is_empty() {
        metadata.take_over(found, |key| found.owners.shared.contains(key) && found.owners.ours.contains(key));
    }
    Some(metadata)
}

impl Metadata {
    /// Prepares the removal of keys that another owner also owns. Omitting such a key from an apply would not remove
    /// the key. So this write changes the key's value, which makes this controller the only owner. The next write omits
    /// the key.
    fn take_over(&mut self, found: &GatewayFields, stays: impl Fn(&Arc<str>) -> bool) {
        for (key, value) in &found.labels {
            if !self.labels.contains_key(key) && stays(&key.as_str().into()) {
                let text = if value.is_empty() { "x" } else { "" };
                self.labels.insert(key.clone(), text.to_owned());
            }
        }
        if let Some(hash) = found.clusters
            && !self.annotations.contains_key(GATEWAY_CLUSTERS)
            && stays(&GATEWAY_CLUSTERS.into())
        {
            let text = if hash == Hash::of_text("") { "-" } else { "" };
            self.annotations.insert(GATEWAY_CLUSTERS.to_owned(), text.to_owned());
        }
    }
}

/// The annotation with as many clusters as fit, and the number of clusters left out.
fn listed<'c>(clusters: impl ExactSizeIterator<Item = &'c ClusterName>, room: usize) -> (Strings, usize) {
    let all = clusters.len();
    let mut bytes = GATEWAY_CLUSTERS.len() + "[]".len();
    let listed: Vec<&ClusterName> = clusters
        .take_while(|cluster| {
            // Each name is written with two quotes and a comma. Names of clusters contain no character that JSON
            // escapes.
            bytes += cluster.0.len() + 3;
            bytes <= room
        })
        .collect();
    let text =
        (room > GATEWAY_CLUSTERS.len() + 2).then(|| (GATEWAY_CLUSTERS.to_owned(), json!(listed).to_string()));
    (text.into_iter().collect(), all - listed.len())
}

/// The labels for the attributes of clusters, and the names of attributes that are not valid labels.
fn labels<'c>(view: View<'_>, clusters: impl Iterator<Item = &'c ClusterName>) -> (Strings, Vec<String>) {
    let (mut labels, mut left_out, mut bytes) = (BTreeMap::new(), Vec::new(), 0);
    for cluster in clusters {
        let Some(row) = view.cluster(cluster) else { continue };
        if row.left_out > 0 {
            left_out.push(format!("{} of {cluster}'s labels {CLUSTER_ATTRIBUTES}*", row.left_out));
        }
        for (key, value) in &row.labels {
            let Some(attribute) = key.strip_prefix(CLUSTER_ATTRIBUTES) else { continue };
            let name = format!("{cluster}_{attribute}");
            let taken = CLUSTER_LABELS.len() + name.len() + value.len();
            if name.len() > LABEL_LIMIT || bytes + taken > LABELS_LIMIT {
                left_out.push(format!("the label {name}"));
            } else {
                bytes += taken;
                labels.insert(format!("{CLUSTER_LABELS}{name}"), value.clone());
            }
        }
    }
    (labels, left_out)
}
