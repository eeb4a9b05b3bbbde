//! Reads the objects of files for a topology: sets missing namespaces, and rejects duplicates.

use std::collections::BTreeMap;

use anyhow::bail;

use crate::cli::manifests::{InvalidManifest, Manifest, SourceLocation};
use policy_sync_api::names::{ControllerName, ObjectKey};
use policy_sync_api::object::HubObject;
use policy_sync_hub::clock::Clock;
use policy_sync_report::ClusterObjects;
use policy_sync_sync::desired::watches;
use policy_sync_sync::kinds::CLASSES;
use policy_sync_sync::{ClassParams, OfflineMirror};
use policy_sync_topology::locator::{GATEWAY_CLASS, KindRef, Locator};
use policy_sync_topology::objects::{ObjectRole, kind_of, role};
use policy_sync_topology::rules::MergeConfig;
use policy_sync_topology::show::ObjectFault;

/// ConfigMaps, which contain parameters.
const CONFIG_MAP: KindRef<'static> = KindRef { group: "", kind: "ConfigMap" };

/// The objects of files.
#[derive(Debug, Default)]
struct FileObjectReader {
    found: ClusterObjects,
    /// The file and line of each object, by the object's locator.
    locations: BTreeMap<String, SourceLocation>,
}

/// The objects in files that may contain parameters (ConfigMaps) or refer to parameters (GatewayClasses).
#[derive(Default)]
struct Parameters {
    classes: Vec<HubObject>,
    config_maps: BTreeMap<ObjectKey, Manifest>,
}

/// The objects of `read`. Namespaced objects without a namespace are put into `namespace`.
///
/// # Errors
///
/// If two objects have the same kind and name.
pub(in crate::cli) fn objects_of(
    read: Vec<Result<Manifest, InvalidManifest>>,
    namespace: &str,
    controller: ControllerName,
    downstream_prefix: String,
) -> anyhow::Result<ClusterObjects> {
    let mut reader = FileObjectReader::default();
    let mut parameters = Parameters::default();
    reader.found.objects.downstream_prefix = downstream_prefix;
    controller.as_str().clone_into(&mut reader.found.objects.controller);
    for read in read {
        match read {
            Ok(manifest) => {
                parameters.take(&manifest, namespace)?;
                reader.take(manifest, namespace)?;
            }
            Err(InvalidManifest { place, kind, fault }) => {
                let object = if kind.is_empty() { "no object".to_owned() } else { kind };
                reader.fault(object, &place, fault);
            }
        }
    }
    reader.configure(&parameters, controller);
    let locations =
        reader.locations.into_iter().map(|(locator, place)| (locator, place.to_string())).collect();
    Ok(ClusterObjects { locations, ..reader.found })
}

impl FileObjectReader {
    /// Applies the merges that the parameters of the classes of `controller` configure, and records faults.
    fn configure(&mut self, parameters: &Parameters, controller: ControllerName) {
        let mirror = OfflineMirror::new(controller);
        mirror.list(&CLASSES.all(), &parameters.classes, Clock::start().now());
        let wanted = watches::plan(mirror.read().view(OfflineMirror::settled(Clock::start().now())));
        for source in wanted.keys() {
            if let Some(manifest) = source.object().and_then(|key| parameters.config_maps.get(key)) {
                mirror.list(source, [&manifest.object], Clock::start().now());
            }
        }
        let guard = mirror.read();
        let view = guard.view(OfflineMirror::settled(Clock::start().now()));
        for (resource, merge) in view.merges() {
            self.found.objects.configure(resource, MergeConfig::from(&merge));
        }
        for (class, row) in view.our_classes() {
            let given = row.config_map().ok().flatten().and_then(|key| parameters.config_maps.get(&key));
            if let (Some(manifest), Some(ClassParams::Invalid { fault, .. })) =
                (given, view.class_params(&class.name))
            {
                let object = format!("gatewayclass.gateway.networking.k8s.io:{class}");
                self.fault(object, &manifest.place, fault.to_string());
            }
        }
    }

    fn take(&mut self, manifest: Manifest, namespace: &str) -> anyhow::Result<()> {
        let Manifest { place, mut object } = manifest;
        let role = role(&object);
        let metadata = &mut object.metadata;
        match role {
            ObjectRole::None => return Ok(()),
            ObjectRole::GraphObject(false) | ObjectRole::Definition => metadata.namespace.clear(),
            ObjectRole::GraphObject(true) | ObjectRole::Policy if metadata.namespace.is_empty() => {
                namespace.clone_into(&mut metadata.namespace);
            }
            ObjectRole::GraphObject(true) | ObjectRole::Policy => {}
        }
        let locator = locator(&object).to_string();
        if let Some(earlier) = self.locations.get(&locator) {
            bail!("{place}: duplicate {} {}, also at {earlier}", object.kind, object.key());
        }
        if let Err(fault) = self.found.objects.take(&object) {
            self.fault(locator.clone(), &place, fault.to_string());
        }
        self.locations.insert(locator, place);
        Ok(())
    }

    fn fault(&mut self, object: String, place: &SourceLocation, message: String) {
        self.found.faults.push(ObjectFault { message, object, place: Some(place.to_string()) });
    }
}

impl Parameters {
    fn take(&mut self, Manifest { place, object }: &Manifest, namespace: &str) -> anyhow::Result<()> {
        match kind_of(object) {
            GATEWAY_CLASS => self.classes.push(object.clone()),
            CONFIG_MAP => {
                let mut object = object.clone();
                if object.metadata.namespace.is_empty() {
                    namespace.clone_into(&mut object.metadata.namespace);
                }
                let key = object.key();
                if let Some(earlier) = self.config_maps.get(&key) {
                    bail!("{place}: duplicate ConfigMap {key}, also at {}", earlier.place);
                }
                self.config_maps.insert(key, Manifest { place: place.clone(), object });
            }
            _ => {}
        }
        Ok(())
    }
}

fn locator(object: &HubObject) -> Locator<'_> {
    let metadata = &object.metadata;
    Locator { kind: kind_of(object), namespace: &metadata.namespace, name: &metadata.name, section: None }
}
