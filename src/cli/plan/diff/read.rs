//! Reads of a hub what the controller watches: the needed kinds, then the parameters that these name, then the kinds
//! that those list, and TLS Secrets where they are copied.
//!
//! The reader's rights are not the controller's: that the controller has those that it needs is taken for granted, and
//! what the reader may not read is an error, never nothing.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{anyhow, bail};
use futures::future::join_all;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::ListParams;

use crate::api::annotations::OF_POLICY;
use crate::api::moment::Moment;
use crate::api::names::{ClusterName, ControllerName, GroupVersionResource, ObjectKey, Parent, WorkName};
use crate::api::object::HubObject;
use crate::api::work;
use crate::cli::live::Live;
use crate::cli::scratch::Scratch;
use crate::cli::silence::silent_since;
use crate::hub::Source;
use crate::hub::Wanted;
use crate::plan::explain::Silent;
use crate::plan::watches;
use crate::sync::definitions::defined;
use crate::sync::kinds::{CLUSTERS, GATEWAYS, POLICIES, WORKS, needed};
use crate::sync::rows::Strings;
use crate::sync::rows::kind::Resolution;
use crate::sync::rows::schema::WorkSchema;
use crate::sync::rows::told::Told;

/// A hub as it was read.
pub(in crate::cli) struct Found {
    /// What plans are made of.
    pub(in crate::cli) scratch: Scratch,
    /// The works of the controller, of which the mirror keeps no more than hashes.
    pub(super) works: BTreeMap<(ClusterName, WorkName), HubObject>,
    /// The annotations of ours on policies and Gateways, of which it keeps as little.
    pub(super) annotations: BTreeMap<Parent, Strings>,
    /// Since when agents are silent.
    pub(in crate::cli) silent: Silent,
}

/// Reads the hub for `controller`.
///
/// # Errors
///
/// Where something cannot be read, naming it, or where the controller could not begin on this hub.
pub(in crate::cli) async fn read(live: &Live, controller: &ControllerName) -> anyhow::Result<Found> {
    live.is_hub().await?;
    let mut found = Found {
        scratch: Scratch::new(controller.clone()),
        works: BTreeMap::new(),
        annotations: BTreeMap::new(),
        silent: Silent::new(),
    };
    let fixed = needed().filter_map(|source| source.gvr().map(|gvr| (source, gvr)));
    let listed = join_all(fixed.map(|(source, gvr)| async move {
        let params = ListParams { label_selector: source.labels(controller), ..ListParams::default() };
        live.list(&gvr, params).await.map(|objects| (source, objects))
    }));
    // All at once, but of several failures always the same one is told.
    for listed in listed.await {
        let (source, objects) = listed?;
        found.scratch.list(&source, &objects);
        if source.is(&WORKS) {
            found.works = objects.into_iter().map(|work| (place(&work), work)).collect();
        } else if source.is(&CLUSTERS) {
            let silent = objects.iter().filter_map(|cluster| {
                let since = Moment(silent_since(cluster)?.as_millisecond());
                Some((ClusterName::from(cluster.metadata.name.as_str()), since))
            });
            found.silent = silent.collect();
        } else if source.is(&GATEWAYS) {
            for gateway in objects {
                found.annotated(Parent::gateway(gateway.key()), gateway, Told::is_ours);
            }
        }
    }
    found.work_schema(live).await?;
    for (source, gvr) in found.wanted() {
        if let Some(key) = source.object() {
            let config_map: Option<HubObject> = live.get(&gvr, "ConfigMap", key).await?;
            found.scratch.list(&source, &config_map);
        }
    }
    for gvr in found.versions() {
        found.resolve(live, &gvr).await?;
    }
    for (source, gvr) in found.wanted() {
        if source.is(&POLICIES) {
            found.policies(live, &source, &gvr).await?;
        } else if source.object().is_none() {
            let params = ListParams { field_selector: source.fields(), ..ListParams::default() };
            found.scratch.list(&source, &live.list(&gvr, params).await?);
        }
    }
    Ok(found)
}

/// The cluster and the name of a work.
fn place(work: &HubObject) -> (ClusterName, WorkName) {
    let metadata = &work.metadata;
    (metadata.namespace.as_str().into(), WorkName(metadata.name.as_str().into()))
}

async fn definition(live: &Live, name: &str) -> anyhow::Result<Option<CustomResourceDefinition>> {
    let gvr = GroupVersionResource::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    live.get(&gvr, "CustomResourceDefinition", &ObjectKey::new("", name)).await
}

impl Found {
    /// Keeps those annotations of `object` that are ours.
    fn annotated(&mut self, parent: Parent, object: HubObject, is_ours: impl Fn(&str) -> bool) {
        let ours = object.metadata.annotations.into_iter().filter(|(key, _)| is_ours(key));
        self.annotations.insert(parent, ours.collect());
    }

    fn wanted(&self) -> Wanted {
        watches::plan(self.scratch.read().view(Scratch::settled()))
    }

    /// The versions in which classes list kinds of policies.
    fn versions(&self) -> BTreeSet<GroupVersionResource> {
        let others = watches::others(self.scratch.read().view(Scratch::settled()));
        let wanted = self.wanted().into_iter();
        let watched = wanted.filter(|(source, _)| source.is(&POLICIES)).map(|(_, gvr)| gvr);
        watched.chain(others).collect()
    }

    async fn work_schema(&mut self, live: &Live) -> anyhow::Result<()> {
        let name = format!("manifestworks.{}", work::GROUP);
        let definition = definition(live, &name).await?;
        let definition =
            definition.ok_or_else(|| anyhow!("the hub at {} has no definition of {name}", live.url))?;
        let schema = WorkSchema::of(&definition);
        if let Some(fault) = schema.fault() {
            bail!("the controller would not begin on the hub at {}: {fault}", live.url);
        }
        self.scratch.work_schema(schema);
        Ok(())
    }

    async fn resolve(&self, live: &Live, gvr: &GroupVersionResource) -> anyhow::Result<()> {
        let resolution = match definition(live, &gvr.kind.to_string()).await? {
            None => Resolution::Gone,
            Some(definition) => defined(&definition, gvr).map_or_else(|fault| fault, Resolution::Resolved),
        };
        self.scratch.resolve(gvr, resolution);
        Ok(())
    }

    async fn policies(
        &mut self,
        live: &Live,
        source: &Source,
        gvr: &GroupVersionResource,
    ) -> anyhow::Result<()> {
        let resolved = {
            let guard = self.scratch.read();
            let state = guard.view(Scratch::settled()).kind(gvr);
            state.is_some_and(|state| matches!(state.resolution, Resolution::Resolved(_)))
        };
        if resolved {
            let policies = live.list(gvr, ListParams::default()).await?;
            self.scratch.list(source, &policies);
            for policy in policies {
                let parent = Parent { kind: gvr.kind.clone(), object: policy.key() };
                self.annotated(parent, policy, |key| OF_POLICY.contains(&key));
            }
        }
        Ok(())
    }
}
