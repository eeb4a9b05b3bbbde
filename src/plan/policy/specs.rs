//! What overrides make of a policy's spec: once for all the clusters that get the same ones.

use std::collections::BTreeMap;

use serde_json::Value;

use super::NO_LABELS;
use crate::api::annotations::CLUSTER_OVERRIDES;
use crate::api::names::ClusterName;
use crate::api::schema::Schema;
use crate::mirror::View;
use crate::mirror::rows::policy::Policy;
use crate::plan::Problem;
use crate::plan::overrides::{Chosen, Overrides};

/// The specs that a policy's clusters get instead of its own.
#[derive(Default)]
pub(super) struct Specs {
    /// Which overrides a cluster gets, where it gets any.
    chosen: BTreeMap<ClusterName, Chosen>,
    /// What each choice of them makes of the spec.
    patched: BTreeMap<Chosen, Value>,
}

impl Specs {
    /// What `clusters` get instead of the `spec` of `policy`.
    ///
    /// # Errors
    ///
    /// [`Problem::BadOverrides`].
    pub(super) fn new<'c>(
        view: View<'_>,
        policy: &Policy,
        spec: &Value,
        schema: Option<&Schema>,
        clusters: impl Iterator<Item = &'c ClusterName>,
    ) -> Result<Self, Problem> {
        let mut specs = Self::default();
        let Some(text) = policy.annotations.get(CLUSTER_OVERRIDES) else { return Ok(specs) };
        let overrides = Overrides::parse(text)?;
        for cluster in clusters {
            let chosen = overrides.chosen(view.labels(cluster).unwrap_or(&NO_LABELS));
            if chosen.is_empty() {
                continue;
            }
            if !specs.patched.contains_key(&chosen) {
                let patched = overrides.patched(spec, &chosen, schema)?;
                specs.patched.insert(chosen.clone(), patched);
            }
            specs.chosen.insert(cluster.clone(), chosen);
        }
        Ok(specs)
    }

    /// The overrides that `cluster` gets.
    pub(super) fn chosen(&self, cluster: &ClusterName) -> &[usize] {
        self.chosen.get(cluster).map_or(&[], Vec::as_slice)
    }

    /// What the overrides `chosen` make of the spec, `None` where there are none.
    pub(super) fn patched(&self, chosen: &[usize]) -> Option<&Value> {
        self.patched.get(chosen)
    }
}
