//! Objects of files, as the API server would take them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::bail;

use crate::api::object::HubObject;
use crate::cli::manifests::{self, Manifest, NoObject, Place};
use crate::topology::locator::Locator;
use crate::topology::objects::{Role, kind_of, role};
use crate::topology::show::{self, ObjectFault};
use crate::topology::{Facts, Graph, Objects};

/// What files have.
#[derive(Debug, Default)]
pub(in crate::cli) struct World {
    objects: Objects,
    /// Where each object stands, by its locator.
    places: BTreeMap<String, Place>,
    faults: Vec<ObjectFault>,
}

impl World {
    /// Reads the objects of all `filenames`; those that name no namespace and need one are in `namespace`.
    ///
    /// # Errors
    ///
    /// Where a file cannot be read, or two objects are one.
    pub(in crate::cli) fn read(filenames: &[PathBuf], namespace: &str) -> anyhow::Result<Self> {
        let mut world = Self::default();
        for read in manifests::read_each(filenames)? {
            match read {
                Ok(manifest) => world.take(manifest, namespace)?,
                Err(NoObject { place, kind, fault }) => {
                    let object = if kind.is_empty() { "no object".to_owned() } else { kind };
                    world.fault(object, &place, fault);
                }
            }
        }
        Ok(world)
    }

    /// What is known of a cluster that has these objects.
    pub(in crate::cli) fn facts(&self) -> Facts<'_> {
        self.objects.facts()
    }

    /// What is wrong with the objects.
    pub(in crate::cli) fn faults(&self, graph: &Graph<'_>) -> Vec<ObjectFault> {
        let place = |object: &str| self.places.get(object).map(ToString::to_string);
        let mut faults = self.faults.clone();
        faults.extend(show::faults(graph, &place));
        faults
    }

    /// What nothing is known of, though something refers to it.
    pub(in crate::cli) fn unknown(graph: &Graph<'_>) -> Vec<String> {
        let unknown = graph.unknown().into_iter();
        unknown
            .map(|kind| format!("no {} is given: those that are referred to stand by their names", kind.kind))
            .collect()
    }

    fn take(&mut self, manifest: Manifest, namespace: &str) -> anyhow::Result<()> {
        let Manifest { place, mut object } = manifest;
        let role = role(&object);
        let metadata = &mut object.metadata;
        match role {
            Role::None => return Ok(()),
            Role::Of(false) | Role::Definition => metadata.namespace.clear(),
            Role::Of(true) | Role::Policy if metadata.namespace.is_empty() => {
                namespace.clone_into(&mut metadata.namespace);
            }
            Role::Of(true) | Role::Policy => {}
        }
        let locator = locator(&object).to_string();
        if let Some(earlier) = self.places.get(&locator) {
            bail!("{place}: {} {} is there twice, also at {earlier}", object.kind, object.key());
        }
        if let Err(fault) = self.objects.take(&object) {
            self.fault(locator.clone(), &place, fault.to_string());
        }
        self.places.insert(locator, place);
        Ok(())
    }

    fn fault(&mut self, object: String, place: &Place, message: String) {
        self.faults.push(ObjectFault { message, object, place: Some(place.to_string()) });
    }
}

fn locator(object: &HubObject) -> Locator<'_> {
    let metadata = &object.metadata;
    Locator { kind: kind_of(object), namespace: &metadata.namespace, name: &metadata.name, section: None }
}
