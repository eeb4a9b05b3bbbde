//! [`Inventory`]: the objects of manifests, sorted by their purpose in a plan.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::cli::manifests::Manifest;
use policy_sync_api::names::ObjectKey;
use policy_sync_api::object::HubObject;
use policy_sync_api::{cluster, gateway};
use policy_sync_mirror::Source;
use policy_sync_sync::dry_run::{Diagnostic, Regarding};
use policy_sync_sync::kinds::{CLASSES, CLUSTERS, DECISIONS, GATEWAYS, GRANTS, PLACEMENTS, SECRETS};

/// The group and kind of ConfigMaps.
pub(super) const CONFIG_MAP: (&str, &str) = ("", "ConfigMap");

/// Objects of one kind, by namespace and name.
pub(super) type Objects = BTreeMap<ObjectKey, Manifest>;

/// The CustomResourceDefinition of a kind.
#[derive(Debug)]
pub(super) struct Definition {
    pub(super) regarding: Regarding,
    pub(super) definition: CustomResourceDefinition,
}

/// All objects of the manifests.
#[derive(Debug, Default)]
pub(super) struct Inventory {
    by_source: BTreeMap<Source, Objects>,
    pub(super) config_maps: Objects,
    /// The definitions of kinds, by `<plural>.<group>`.
    pub(super) definitions: BTreeMap<String, Definition>,
    /// The objects of all remaining kinds, by group and kind. These are policies, and objects that no plan uses.
    pub(super) others: BTreeMap<(String, String), Objects>,
    pub(super) diagnostics: Vec<Diagnostic>,
    /// The namespace of objects that specify none.
    pub(super) namespace: String,
}

enum ManifestRole {
    PlanInput(Source),
    ConfigMap,
    Definition,
    Other,
}

fn role(group: &str, kind: &str) -> ManifestRole {
    match (group, kind) {
        (gateway::GROUP, "GatewayClass") => ManifestRole::PlanInput(CLASSES.all()),
        (gateway::GROUP, "Gateway") => ManifestRole::PlanInput(GATEWAYS.all()),
        (cluster::GROUP, "ManagedCluster") => ManifestRole::PlanInput(CLUSTERS.all()),
        (cluster::GROUP, "Placement") => ManifestRole::PlanInput(PLACEMENTS.all()),
        (cluster::GROUP, "PlacementDecision") => ManifestRole::PlanInput(DECISIONS.all()),
        (gateway::GROUP, "ReferenceGrant") => ManifestRole::PlanInput(GRANTS.all()),
        ("", "Secret") => ManifestRole::PlanInput(SECRETS.all()),
        CONFIG_MAP => ManifestRole::ConfigMap,
        ("apiextensions.k8s.io", "CustomResourceDefinition") => ManifestRole::Definition,
        _ => ManifestRole::Other,
    }
}

impl Inventory {
    /// Sorts `manifests`. Namespaced objects without a namespace are put into `namespace`.
    pub(super) fn new(manifests: Vec<Manifest>, namespace: &str) -> Self {
        let mut inventory = Self { namespace: namespace.to_owned(), ..Self::default() };
        for manifest in manifests {
            inventory.add(manifest, namespace);
        }
        inventory
    }

    /// The objects of a kind on which any plan may depend, such as Gateways or Placements. `source` names the kind.
    pub(super) fn listed<'i>(
        &'i self,
        source: &Source,
    ) -> impl Iterator<Item = (&'i ObjectKey, &'i Manifest)> + use<'i> {
        self.by_source.get(source).into_iter().flatten()
    }

    /// The kinds of all objects that parameters may list, by group and kind.
    pub(super) fn kinds(&self) -> impl Iterator<Item = (&str, &str)> {
        let config_maps = (!self.config_maps.is_empty()).then_some(CONFIG_MAP);
        self.others.keys().map(|(group, kind)| (group.as_str(), kind.as_str())).chain(config_maps)
    }

    /// The objects with this group and kind, which parameters may list.
    pub(super) fn of_kind(&self, group: &str, kind: &str) -> Option<&Objects> {
        match (group, kind) {
            CONFIG_MAP => Some(&self.config_maps),
            _ => self.others.get(&(group.to_owned(), kind.to_owned())),
        }
    }

    /// The GatewayClass with this name.
    pub(super) fn class(&self, name: &str) -> Option<&Manifest> {
        self.by_source.get(&CLASSES.all())?.get(&ObjectKey::new("", name))
    }

    fn add(&mut self, mut manifest: Manifest, namespace: &str) {
        let (group, kind) = (group(&manifest.object.api_version).to_owned(), manifest.object.kind.clone());
        let role = role(&group, &kind);
        let namespaced = match role {
            ManifestRole::PlanInput(ref source) => !source.is(&CLASSES) && !source.is(&CLUSTERS),
            ManifestRole::ConfigMap => true,
            ManifestRole::Definition => false,
            // Other kinds are assumed to be cluster-scoped, unless they have a target reference.
            ManifestRole::Other => is_policy(&manifest.object),
        };
        let metadata = &mut manifest.object.metadata;
        match (&role, namespaced, metadata.namespace.is_empty()) {
            (_, true, true) => namespace.clone_into(&mut metadata.namespace),
            (ManifestRole::Other, ..) | (_, true, false) => {}
            (_, false, _) => metadata.namespace.clear(),
        }
        let objects = match role {
            ManifestRole::PlanInput(source) => self.by_source.entry(source).or_default(),
            ManifestRole::ConfigMap => &mut self.config_maps,
            ManifestRole::Other => self.others.entry((group, kind)).or_default(),
            ManifestRole::Definition => return self.define(&manifest),
        };
        let about = regarding(&manifest);
        let key = manifest.object.key();
        if let Some(earlier) = objects.insert(key, manifest) {
            self.diagnostics.push(about.warning(format!("replaces the one at {}", earlier.place)));
        }
    }

    fn define(&mut self, manifest: &Manifest) {
        let spec: Result<CustomResourceDefinitionSpec, _> =
            serde_path_to_error::deserialize(manifest.object.spec_value());
        match spec {
            Ok(spec) => {
                let name = format!("{}.{}", spec.names.plural, spec.group);
                let labels = Some(manifest.object.metadata.labels.clone());
                let metadata = ObjectMeta { labels, ..ObjectMeta::default() };
                let definition =
                    CustomResourceDefinition { spec, metadata, ..CustomResourceDefinition::default() };
                self.definitions.insert(name, Definition { regarding: regarding(manifest), definition });
            }
            Err(error) => {
                let text = format!("spec.{}: {}", error.path(), error.inner());
                self.diagnostics.push(regarding(manifest).error(text));
            }
        }
    }
}

/// The reference of `manifest` in diagnostics.
pub(super) fn regarding(manifest: &Manifest) -> Regarding {
    let Manifest { place, object } = manifest;
    let key = object.key();
    Regarding::new(format_args!("{place}: {} {key}", object.kind))
}

/// Whether `object` has a target reference.
pub(super) fn is_policy(object: &HubObject) -> bool {
    let spec = object.spec_value();
    !spec["targetRef"].is_null() || !spec["targetRefs"].is_null()
}

/// The group of an apiVersion; empty for the core group.
fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// The version of an apiVersion.
pub(super) fn version(api_version: &str) -> &str {
    api_version.rsplit_once('/').map_or(api_version, |(_, version)| version)
}
