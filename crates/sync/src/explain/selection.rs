//! Explains why the annotations of an object exclude a cluster.

use super::{CLUSTER_PLACEHOLDER, Explainer, Reason};
use crate::View;
use crate::rows::Strings;
use policy_sync_api::annotations::{PLACED_BY_POLICY, SELECTOR_ANNOTATIONS};
use policy_sync_api::names::{ClusterName, ObjectKey, Origin};
use policy_sync_api::placed_by_policy::PlacedByPolicy;
use policy_sync_api::selector::ClusterSelector;

impl Explainer<'_> {
    /// The reasons in the object's own annotations to exclude `cluster`.
    pub(super) fn not_selected(&self, cluster: &ClusterName) -> Vec<Reason> {
        not_selected(self.view, self.origin, ("its", &self.regarding), cluster)
    }

    /// The reasons in the annotations of the Gateway `key` to exclude `cluster`.
    pub(super) fn not_selected_for(&self, key: &ObjectKey, cluster: &ClusterName) -> Vec<Reason> {
        if *self.origin == Origin::Gateway(key.clone()) {
            return self.not_selected(cluster);
        }
        let gateway = format!("Gateway {key}");
        let whose = format!("{gateway}'s");
        not_selected(self.view, &Origin::Gateway(key.clone()), (&whose, &gateway), cluster)
    }
}

fn not_selected(
    view: View<'_>,
    origin: &Origin,
    (whose, regarding): (&str, &str),
    cluster: &ClusterName,
) -> Vec<Reason> {
    let Some(annotations) = view.annotations(origin) else { return Vec::new() };
    let reason = |key: &'static str| {
        let text = annotations.get(key)?;
        let alone = ClusterSelector::read(&[(key.to_owned(), text.clone())].into()).ok()??;
        if view.selects(&alone, origin, cluster) {
            return None;
        }
        let by_policy = by_policy(annotations, key, text);
        let text =
            format!("{whose} annotation {key}, {text:?}, does not select the cluster's labels{by_policy}");
        let reason = Reason::new("NotSelected", text).change(format!("{regarding} annotation {key}"));
        Some(reason.change(format!("ManagedCluster {CLUSTER_PLACEHOLDER} labels")))
    };
    SELECTOR_ANNOTATIONS.into_iter().filter_map(reason).collect()
}

/// A part of a sentence: it states that a Rego policy set the annotation `key` to `text`. Empty if no Rego policy set
/// the annotation.
pub(super) fn by_policy(annotations: &Strings, key: &str, text: &str) -> String {
    let placed =
        annotations.get(PLACED_BY_POLICY).map(|text| PlacedByPolicy::parse(text)).unwrap_or_default();
    match placed.before(key, text) {
        None => String::new(),
        Some(None) => "; set by a Rego policy".to_owned(),
        Some(Some(original)) => format!("; set by a Rego policy instead of its owner's value {original:?}"),
    }
}
