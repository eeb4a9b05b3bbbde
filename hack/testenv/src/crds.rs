//! The CustomResourceDefinitions of hubs and spokes.
//!
//! Gateway API's come from its Go module, Open Cluster Management's from this project's own types, and the sample
//! policies of Kuadrant's shape from `crds/`. Where `POLICY_SYNC_CRDS` names a folder, each CRD that it holds takes the
//! place of ours of the same name: a folder in it for each project (`ocm/`, `kuadrant/`, `gateway-api/`), YAML files in these.

mod gateway_api;
mod install;
mod ocm;
mod policies;
mod published;
mod reports;

use anyhow::{Context, Result};
use serde_json::Value;

pub use self::install::install;
pub use self::published::read as read_published;
pub use self::reports::reports;
use crate::binaries::Binaries;
pub use crate::published::folder as published_folder;

/// A CustomResourceDefinition as JSON: what a published one says that no type of ours knows must survive.
#[derive(Debug, Clone, PartialEq)]
pub struct Crd(Value);

impl Crd {
    /// Fails where `value` is not a CustomResourceDefinition with a name.
    pub fn new(value: Value) -> Result<Self> {
        anyhow::ensure!(
            value["kind"] == "CustomResourceDefinition",
            "not a CustomResourceDefinition: {}",
            value["kind"]
        );
        anyhow::ensure!(value["metadata"]["name"].is_string(), "a CustomResourceDefinition without a name");
        Ok(Self(value))
    }

    /// Its name, `<plural>.<group>`.
    pub fn name(&self) -> &str {
        self.0["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// The object.
    pub fn value(&self) -> &Value {
        &self.0
    }

    /// The schema of a version.
    pub fn schema(&self, version: &str) -> Option<&Value> {
        let versions = self.0["spec"]["versions"].as_array()?;
        versions.iter().find(|v| v["name"] == version).map(|v| &v["schema"]["openAPIV3Schema"])
    }
}

/// Whose CRDs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The hub's: Gateway API, works, clusters, placements, the sample policies.
    Hub,
    /// A spoke's: Gateway API, applied works, the sample policies.
    Spoke,
}

/// All CRDs of `side`, with the published ones where there are any.
pub fn for_side(side: Side, binaries: &Binaries) -> Result<Vec<Crd>> {
    let published = match published_folder() {
        Some(folder) => published::read(&folder)?,
        None => Vec::new(),
    };
    let mut crds = generated(side)?;
    crds.extend(gateway_api::read(&binaries.gateway_api)?);
    for crd in &mut crds {
        if let Some(theirs) = published.iter().find(|theirs| theirs.name() == crd.name()) {
            crd.clone_from(theirs);
        }
    }
    Ok(crds)
}

/// Those of Gateway API that not every cluster has: all kinds of routes but HTTPRoute, and ListenerSets.
pub fn more_routes(binaries: &Binaries) -> Result<Vec<Crd>> {
    gateway_api::read_more(&binaries.gateway_api)
}

/// Those that this project makes itself, without Gateway API's.
pub fn generated(side: Side) -> Result<Vec<Crd>> {
    let mut crds = match side {
        Side::Hub => ocm::hub(),
        Side::Spoke => ocm::spoke(),
    }
    .context("generating the CRDs of Open Cluster Management")?;
    crds.extend(policies::all().context("reading the sample policies' CRDs")?);
    Ok(crds)
}
