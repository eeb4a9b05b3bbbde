//! Fills a mirror with the objects of manifests, in the controller's order. First come the objects of kinds that are
//! always needed, then the parameters that GatewayClasses reference, then the objects of kinds that the parameters
//! list.

use std::collections::{BTreeMap, BTreeSet};

use super::inventory::{CONFIG_MAP, Inventory, is_policy, regarding, version};
use super::kinds::{KindResolution, resolve_kind};
use policy_sync_api::names::{ControllerName, GroupVersionResource, ObjectKey, Origin};
use policy_sync_api::object::HubObject;
use policy_sync_api::params::{InvalidParams, Params, Role};
use policy_sync_hub::clock::Clock;
use policy_sync_mirror::{Source, WatchedSources};
use policy_sync_report::ServedKind;
use policy_sync_sync::desired::eligibility::not_in_role;
use policy_sync_sync::desired::watches;
use policy_sync_sync::dry_run::{Diagnostic, Regarding};
use policy_sync_sync::kinds::{self, CLASSES, CONFIG_MAPS, GATEWAYS, GRANTS, SECRETS, needed};
use policy_sync_sync::rows::schema::WorkSchema;
use policy_sync_sync::{ClassParams, OfflineMirror, View};

/// The name of the definition of ManifestWorks.
const WORKS: &str = "manifestworks.work.open-cluster-management.io";

/// A mirror with the objects of manifests.
pub(super) struct FilledMirror {
    pub(super) mirror: OfflineMirror,
    /// The Gateways and policies in the mirror.
    pub(super) origins: BTreeMap<Origin, Regarding>,
    /// The objects of each kind that the classes list.
    pub(super) policies: Vec<(ServedKind, Vec<HubObject>)>,
    pub(super) diagnostics: Vec<Diagnostic>,
}

/// Fills a mirror with `inventory`.
pub(super) fn fill(inventory: &Inventory, controller: &ControllerName) -> FilledMirror {
    let mut filled = FilledMirror {
        mirror: OfflineMirror::new(controller.clone()),
        origins: BTreeMap::new(),
        policies: Vec::new(),
        diagnostics: inventory.diagnostics.clone(),
    };
    for source in needed() {
        filled.list(&source, inventory.listed(&source).map(|(_, manifest)| &manifest.object));
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

/// The kinds that parameters list, each with the manifest that lists it.
#[derive(Default)]
struct ListedKinds {
    by: Vec<(Role, GroupVersionResource, Regarding)>,
}

impl FilledMirror {
    fn with_view<T>(&self, at: impl FnOnce(View<'_>) -> T) -> T {
        at(self.mirror.read().view(OfflineMirror::settled(Clock::start().now())))
    }

    fn list<'o>(&self, source: &Source, objects: impl IntoIterator<Item = &'o HubObject>) {
        self.mirror.list(source, objects, Clock::start().now());
    }

    fn wanted(&self) -> WatchedSources {
        self.with_view(watches::plan)
    }

    /// Configures which optional fields works have. If the manifests contain the definition of ManifestWorks, works
    /// have the fields in this definition. Otherwise they have all optional fields.
    fn works(&mut self, inventory: &Inventory) {
        let Some(given) = inventory.definitions.get(WORKS) else { return };
        let schema = WorkSchema::new(&given.definition);
        self.mirror.work_schema(schema);
        if let Some(fault) = schema.fault() {
            self.diagnostics.push(given.regarding.error(fault));
            // The controller would not start with this definition.
            self.origins.clear();
        }
    }

    fn classes(&mut self, inventory: &Inventory, controller: &ControllerName) {
        let ours: BTreeSet<ObjectKey> =
            self.with_view(|view| view.our_classes().into_keys().cloned().collect());
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
                self.list(source, inventory.config_maps.get(key).map(|manifest| &manifest.object));
            }
        }
    }

    /// Adds Secrets and their ReferenceGrants, if a class copies them.
    fn secrets(&mut self, inventory: &Inventory) {
        let wanted = self.wanted();
        for source in [SECRETS.all(), GRANTS.all()] {
            let given = inventory.listed(&source).map(|(_, manifest)| manifest);
            if wanted.contains_key(&source) {
                self.list(&source, given.map(|manifest| &manifest.object));
            } else {
                self.diagnostics.extend(given.map(|manifest| {
                    regarding(manifest)
                        .note("not used: no GatewayClass of this controller has tlsSecrets \"copy\"")
                }));
            }
        }
    }

    fn policies(&mut self, inventory: &Inventory) {
        let listed = self.listed(inventory);
        let mut definitions: BTreeMap<(Role, GroupVersionResource), KindResolution> = BTreeMap::new();
        for (role, gvr, regarding) in &listed.by {
            if let Some(fault) = self.with_view(|view| not_in_role(view, *role, &gvr.kind)) {
                self.diagnostics.push(regarding.error(format!("{gvr}: {fault}")));
                continue;
            }
            let definition = definitions
                .entry((*role, gvr.clone()))
                .or_insert_with(|| resolve_kind(inventory, *role, gvr));
            self.diagnostics.extend(diagnostic(*role, gvr, definition, regarding));
        }
        for ((_, gvr), definition) in &definitions {
            self.mirror.resolve(gvr, definition.resolution());
        }
        let mut used: BTreeSet<(&str, &str)> = BTreeSet::new();
        for (source, gvr) in self.wanted() {
            let Some((role, _)) = kinds::role_of(&source) else { continue };
            let Some(definition) = definitions.get(&(role, gvr.clone())) else { continue };
            let name = definition.kind().unwrap_or_default();
            let mut taken: Vec<HubObject> = Vec::new();
            if let Some(kind) = inventory.kinds().find(|kind| *kind == (&*gvr.kind.group, name)) {
                used.insert(kind);
                for manifest in inventory.of_kind(kind.0, kind.1).into_iter().flat_map(BTreeMap::values) {
                    let (regarding, mut object) = (regarding(manifest), manifest.object.clone());
                    // Before this step, it is not known whether the kind is namespaced.
                    if object.metadata.namespace.is_empty() {
                        object.metadata.namespace.clone_from(&inventory.namespace);
                    }
                    if *version(&object.api_version) == *gvr.version {
                        self.origins.insert(Origin::new(gvr.kind.clone(), object.key()), regarding);
                        taken.push(object);
                    } else {
                        self.diagnostics.push(regarding.error(format!(
                            "parameters list {gvr}, but only a hub can convert it to that version"
                        )));
                    }
                }
            }
            self.list(&source, &taken);
            // Without an object, only the name in the parameters is known.
            let name = if name.is_empty() { gvr.kind.resource.to_string() } else { name.to_owned() };
            self.policies.push((ServedKind::of_object(role, gvr, &name), taken));
        }
        self.unused(inventory, &used);
    }

    /// The kinds that the classes list. Errors in parameters become diagnostics.
    fn listed(&mut self, inventory: &Inventory) -> ListedKinds {
        let mut listed = ListedKinds::default();
        let classes: Vec<(ObjectKey, Option<ObjectKey>, Option<ClassParams>)> = self.with_view(|view| {
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
                Some(ClassParams::Invalid { fault: InvalidParams { error, .. }, .. })
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
        if !used.contains(&CONFIG_MAP) {
            let wanted = self.wanted();
            let config_maps = inventory.config_maps.iter();
            let unused =
                config_maps.filter(|(key, _)| !wanted.contains_key(&CONFIG_MAPS.object((*key).clone())));
            let note = |(_, manifest)| {
                regarding(manifest)
                    .note("not used: no GatewayClass of this controller uses it for parameters")
            };
            self.diagnostics.extend(unused.map(note));
        }
        let unused = |(group, kind): &(String, String)| !used.contains(&(group.as_str(), kind.as_str()));
        let objects = inventory.others.iter().filter(|(kind, _)| unused(kind));
        for manifest in objects.flat_map(|(_, objects)| objects.values()) {
            self.diagnostics.push(regarding(manifest).note(if is_policy(&manifest.object) {
                "not used: the parameters of this controller's GatewayClasses do not list its kind"
            } else {
                "not used: no plan depends on its kind"
            }));
        }
    }
}

impl ListedKinds {
    fn take(&mut self, params: &Params, regarding: &Regarding) {
        self.by.extend(params.all_listed().map(|(role, gvr)| (role, gvr, regarding.clone())));
    }
}

fn diagnostic(
    role: Role,
    gvr: &GroupVersionResource,
    definition: &KindResolution,
    regarding: &Regarding,
) -> Option<Diagnostic> {
    let objects = match role {
        Role::Policy => "policies",
        Role::Resource => "objects",
    };
    match definition {
        // Built-in kinds have no CustomResourceDefinition.
        KindResolution::Inferred(_) if role == Role::Resource => None,
        KindResolution::Defined(_, resolution) => (!resolution.fault().is_empty())
            .then(|| regarding.error(format!("{gvr}: {}", resolution.fault()))),
        KindResolution::Inferred(kind) => Some(regarding.note(format!(
            "{gvr}: no CustomResourceDefinition is given: the kind {kind} of the given {objects} is assumed"
        ))),
        KindResolution::Absent => Some(regarding.note(format!(
            "{gvr}: neither a CustomResourceDefinition nor {} of this kind is given",
            if role == Role::Policy { "a policy" } else { "an object" }
        ))),
    }
}
