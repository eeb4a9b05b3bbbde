//! CustomResourceDefinitions of hubs and spokes.
//!
//! The CRDs of the Gateway API come from its Go module, and the CRDs of OCM from this project's types. `crds/`
//! has sample policy kinds that resemble Kuadrant's. `POLICY_SYNC_CRDS` can name a directory with one
//! subdirectory for each project (`ocm/`, `kuadrant/`, `gateway-api/`). The CRDs in this directory replace CRDs
//! of the same name.

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

/// A CustomResourceDefinition as JSON, so that published definitions keep fields unknown to this project.
#[derive(Debug, Clone, PartialEq)]
pub struct Crd(Value);

impl Crd {
    /// Returns an error if `value` is not a CustomResourceDefinition with a name.
    pub fn new(value: Value) -> Result<Self> {
        anyhow::ensure!(
            value["kind"] == "CustomResourceDefinition",
            "not a CustomResourceDefinition: {}",
            value["kind"]
        );
        anyhow::ensure!(value["metadata"]["name"].is_string(), "a CustomResourceDefinition without a name");
        Ok(Self(value))
    }

    /// The CRD's name, `<plural>.<group>`.
    pub fn name(&self) -> &str {
        self.0["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// The CRD as JSON.
    pub fn value(&self) -> &Value {
        &self.0
    }

    /// The schema of a version.
    pub fn schema(&self, version: &str) -> Option<&Value> {
        let versions = self.0["spec"]["versions"].as_array()?;
        versions.iter().find(|v| v["name"] == version).map(|v| &v["schema"]["openAPIV3Schema"])
    }
}

/// The type of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClusterType {
    /// The hub: Gateway API, works, clusters, placements, the sample policies.
    Hub,
    /// A spoke: Gateway API, applied works, the sample policies.
    Spoke,
}

/// All CRDs of `side`. Published CRDs replace generated CRDs.
pub fn for_cluster_type(side: ClusterType, binaries: &Binaries) -> Result<Vec<Crd>> {
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

/// Optional CRDs of the Gateway API: ListenerSets and all route kinds except HTTPRoute.
pub fn more_routes(binaries: &Binaries) -> Result<Vec<Crd>> {
    gateway_api::read_more(&binaries.gateway_api)
}

/// The CRDs that this project provides, without the Gateway API.
pub fn generated(side: ClusterType) -> Result<Vec<Crd>> {
    let mut crds = match side {
        ClusterType::Hub => ocm::hub(),
        ClusterType::Spoke => ocm::spoke(),
    }
    .context("generating the CRDs of OCM")?;
    crds.extend(policies::all().context("reading the sample policies' CRDs")?);
    Ok(crds)
}
