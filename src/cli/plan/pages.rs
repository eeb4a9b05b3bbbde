//! The objects of manifests for the pages of `policy-sync web`.

use std::collections::BTreeMap;

use super::fill::{self, FilledMirror};
use super::inventory::Inventory;
use crate::cli::manifests::Manifest;
use policy_sync_api::names::ControllerName;
use policy_sync_api::work;
use policy_sync_mirror::Source;
use policy_sync_report::fleet::FileObjects;
use policy_sync_sync::dry_run::Severity;
use policy_sync_sync::kinds::{CLUSTERS, GATEWAYS};

/// The objects of `manifests`. Objects without a namespace are put into `namespace`.
pub(in crate::cli) fn file_objects(
    manifests: Vec<Manifest>,
    namespace: &str,
    controller: &ControllerName,
) -> FileObjects {
    let inventory = Inventory::new(manifests, namespace);
    let FilledMirror { mirror, policies, diagnostics, .. } = fill::fill(&inventory, controller);
    let listed = |source: &Source| inventory.listed(source).map(|(_, given)| given.object.clone()).collect();
    let works = inventory.of_kind(work::GROUP, "ManifestWork").into_iter().flat_map(BTreeMap::values);
    let errors = diagnostics.iter().filter(|diagnostic| diagnostic.severity == Severity::Error);
    FileObjects {
        mirror,
        policies,
        gateways: listed(&GATEWAYS.all()),
        clusters: listed(&CLUSTERS.all()),
        works: works.map(|given| given.object.clone()).collect(),
        faults: errors.map(ToString::to_string).collect(),
    }
}
