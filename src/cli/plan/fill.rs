//! Fills a mirror with the objects given, in the controller's order: the needed kinds, then the parameters that these
//! name, then the kinds that those list.

use std::collections::{BTreeMap, BTreeSet};

use super::inventory::{Inventory, is_policy, regarding, version};
use super::kinds::{Definition, tell};
use crate::api::names::{ControllerName, GroupVersionResource, ObjectKey, Origin};
use crate::api::params::{Params, ParamsFault};
use crate::cli::manifests::Manifest;
use crate::hub::Wanted;
use crate::sync::desired::watches;
use crate::sync::dry_run::{Diagnostic, Regarding};
use crate::sync::kinds::{CLASSES, CONFIG_MAPS, GATEWAYS, GRANTS, POLICIES, SECRETS, needed};
use crate::sync::rows::schema::WorkSchema;
use crate::sync::{ClassParams, OfflineMirror, View};

/// The definition of works.
const WORKS: &str = "manifestworks.work.open-cluster-management.io";

/// A mirror of the objects given.
pub(super) struct Filled {
    pub(super) mirror: OfflineMirror,
    /// The Gateways and the policies that it holds.
    pub(super) origins: BTreeMap<Origin, Regarding>,
    pub(super) diagnostics: Vec<Diagnostic>,
}

/// Fills a mirror with `inventory`.
pub(super) fn fill(inventory: &Inventory, controller: &ControllerName) -> Filled {
    let mut filled = Filled {
        mirror: OfflineMirror::new(controller.clone()),
        origins: BTreeMap::new(),
        diagnostics: inventory.diagnostics.clone(),
    };
    for source in needed() {
        filled.mirror.list(&source, inventory.listed(&source).map(|(_, manifest)| &manifest.object));
    }
    for (key, manifest) in inventory.listed(&GATEWAYS.all()) {
        filled.origins.insert(Origin::Gateway(key.clone()), regarding(manifest));
    }
    filled.classes(inventory, controller);
    filled.parameters(inventory);
    filled.secrets(inventory);
    filled.policies(inventory);
    filled.works(inventory);
    filled
}

/// Which kinds the classes list, and each class's parameters with where they stand.
#[derive(Default)]
struct Listed {
    by: Vec<(GroupVersionResource, Regarding)>,
}

impl Filled {
    fn look<T>(&self, at: impl FnOnce(View<'_>) -> T) -> T {
        at(self.mirror.read().view(OfflineMirror::settled()))
    }

    fn wanted(&self) -> Wanted {
        self.look(watches::plan)
    }

    /// What works can say: what their definition does where it is given, otherwise everything.
    fn works(&mut self, inventory: &Inventory) {
        let Some(given) = inventory.definitions.get(WORKS) else { return };
        let schema = WorkSchema::new(&given.definition);
        self.mirror.work_schema(schema);
        if let Some(fault) = schema.fault() {
            self.diagnostics.push(given.regarding.error(fault));
            // The controller would not begin.
            self.origins.clear();
        }
    }

    fn classes(&mut self, inventory: &Inventory, controller: &ControllerName) {
        let ours: BTreeSet<ObjectKey> = self.look(|view| view.our_classes().into_keys().cloned().collect());
        let others = inventory.listed(&CLASSES.all()).filter(|(key, _)| !ours.contains(*key));
        for (_, manifest) in others {
            let text = format!("not used: spec.controllerName is not {}", controller.as_str());
            self.diagnostics.push(regarding(manifest).note(text));
        }
    }

    fn parameters(&mut self, inventory: &Inventory) {
        let wanted = self.wanted();
        for source in wanted.keys() {
            if let Some(key) = source.object() {
                self.mirror.list(source, inventory.config_maps.get(key).map(|manifest| &manifest.object));
            }
        }
        let unused = inventory
            .config_maps
            .iter()
            .filter(|(key, _)| !wanted.contains_key(&CONFIG_MAPS.object((*key).clone())));
        let notes = unused.map(|(_, manifest)| {
            regarding(manifest).note("not used: it holds the parameters of no GatewayClass of ours")
        });
        self.diagnostics.extend(notes);
    }

    /// Secrets, and the grants for them, where a class copies them.
    fn secrets(&mut self, inventory: &Inventory) {
        let wanted = self.wanted();
        for source in [SECRETS.all(), GRANTS.all()] {
            let given = inventory.listed(&source).map(|(_, manifest)| manifest);
            if wanted.contains_key(&source) {
                self.mirror.list(&source, given.map(|manifest| &manifest.object));
            } else {
                self.diagnostics.extend(given.map(|manifest| {
                    regarding(manifest).note("not used: no GatewayClass of ours has tlsSecrets \"copy\"")
                }));
            }
        }
    }

    fn policies(&mut self, inventory: &Inventory) {
        let listed = self.listed(inventory);
        let mut definitions: BTreeMap<GroupVersionResource, Definition> = BTreeMap::new();
        for (gvr, regarding) in &listed.by {
            let definition = definitions.entry(gvr.clone()).or_insert_with(|| tell(inventory, gvr));
            self.diagnostics.extend(diagnostic(gvr, definition, regarding));
        }
        definitions.iter().for_each(|(gvr, definition)| self.mirror.resolve(gvr, definition.resolution()));
        let mut used: BTreeSet<(&str, &str)> = BTreeSet::new();
        for (source, gvr) in self.wanted() {
            let Some(definition) = definitions.get(&gvr).filter(|_| source.is(&POLICIES)) else { continue };
            let name = definition.kind().unwrap_or_default();
            let objects =
                inventory.others.iter().find(|((group, kind), _)| **group == *gvr.kind.group && kind == name);
            let mut taken: Vec<&Manifest> = Vec::new();
            if let Some(((group, kind), objects)) = objects {
                used.insert((group, kind));
                for (key, manifest) in objects {
                    let regarding = regarding(manifest);
                    if *version(&manifest.object.api_version) == *gvr.version {
                        let origin = Origin::new(gvr.kind.clone(), key.clone());
                        self.origins.insert(origin, regarding);
                        taken.push(manifest);
                    } else {
                        self.diagnostics.push(regarding.error(format!(
                            "parameters list {gvr}, and only a hub can convert it to that version"
                        )));
                    }
                }
            }
            self.mirror.list(&source, taken.into_iter().map(|manifest| &manifest.object));
        }
        self.unused(inventory, &used);
    }

    /// What the classes list; what is wrong with their parameters goes into the diagnostics.
    fn listed(&mut self, inventory: &Inventory) -> Listed {
        let mut listed = Listed::default();
        let classes: Vec<(ObjectKey, Option<ObjectKey>, Option<ClassParams>)> = self.look(|view| {
            let classes = view.our_classes().into_iter();
            classes
                .map(|(key, class)| {
                    (key.clone(), class.config_map().ok().flatten(), view.class_params(&key.name))
                })
                .collect()
        });
        for (class, config_map, params) in classes {
            let config_map = config_map.and_then(|key| inventory.config_maps.get(&key));
            let Some(manifest) = config_map.or_else(|| inventory.class(&class.name)) else { continue };
            let regarding = regarding(manifest);
            match params {
                Some(ClassParams::Valid(params)) => listed.take(&params, &regarding),
                Some(ClassParams::Invalid { fault: ParamsFault { error, .. }, .. })
                    if config_map.is_some() =>
                {
                    self.diagnostics
                        .push(regarding.error(format!("parameters of GatewayClass {class}: {error}")));
                }
                Some(ClassParams::Invalid { fault, .. }) => {
                    self.diagnostics.push(regarding.error(fault));
                }
                Some(ClassParams::Unread { .. }) | None => {}
            }
        }
        listed
    }

    fn unused(&mut self, inventory: &Inventory, used: &BTreeSet<(&str, &str)>) {
        let unused = |(group, kind): &(String, String)| !used.contains(&(group.as_str(), kind.as_str()));
        let objects = inventory.others.iter().filter(|(kind, _)| unused(kind));
        for manifest in objects.flat_map(|(_, objects)| objects.values()) {
            self.diagnostics.push(regarding(manifest).note(if is_policy(&manifest.object) {
                "not used: the parameters of no GatewayClass of ours list its kind"
            } else {
                "not used: no plan depends on its kind"
            }));
        }
    }
}

impl Listed {
    fn take(&mut self, params: &Params, regarding: &Regarding) {
        for policy in &params.policies_to_sync {
            self.by.push((policy.gvr(), regarding.clone()));
        }
    }
}

fn diagnostic(
    gvr: &GroupVersionResource,
    definition: &Definition,
    regarding: &Regarding,
) -> Option<Diagnostic> {
    match definition {
        Definition::Defined(_, resolution) => {
            (!resolution.fault().is_empty()).then(|| regarding.error(format!("{gvr}: {}", resolution.fault())))
        }
        Definition::Inferred(kind) => Some(regarding.note(format!(
            "{gvr}: no CustomResourceDefinition is given, so this is taken to be the kind {kind} of the policies given"
        ))),
        Definition::Absent => Some(regarding.note(format!(
            "{gvr}: neither a CustomResourceDefinition nor a policy of this kind is given"
        ))),
    }
}
