//! CRDs of the Gateway API, from its Go module.

use std::path::Path;

use anyhow::Result;

use super::{Crd, published};

/// CRDs that hubs and spokes need. The directory also contains other route kinds, and an admission policy.
const WANTED: [&str; 4] = [
    "gatewayclasses.gateway.networking.k8s.io",
    "gateways.gateway.networking.k8s.io",
    "httproutes.gateway.networking.k8s.io",
    "referencegrants.gateway.networking.k8s.io",
];

/// CRDs of further kinds that a topology contains.
const MORE: [&str; 5] = [
    "grpcroutes.gateway.networking.k8s.io",
    "listenersets.gateway.networking.k8s.io",
    "tcproutes.gateway.networking.k8s.io",
    "tlsroutes.gateway.networking.k8s.io",
    "udproutes.gateway.networking.k8s.io",
];

pub(super) fn read(folder: &Path) -> Result<Vec<Crd>> {
    of_names(folder, &WANTED)
}

/// The CRDs of ListenerSets, and of all route kinds except HTTPRoute.
pub(super) fn read_more(folder: &Path) -> Result<Vec<Crd>> {
    of_names(folder, &MORE)
}

fn of_names(folder: &Path, wanted: &[&str]) -> Result<Vec<Crd>> {
    let crds = published::read_files(folder, |file| wanted.iter().any(|name| file_of(name) == file))?;
    anyhow::ensure!(
        crds.len() == wanted.len(),
        "CRDs of the Gateway API are missing in {}",
        folder.display()
    );
    Ok(crds)
}

/// File name of a CRD: `gateways.example.com` is in `example.com_gateways.yaml`.
fn file_of(crd: &str) -> String {
    let (plural, group) = crd.split_once('.').unwrap_or((crd, ""));
    format!("{group}_{plural}.yaml")
}
