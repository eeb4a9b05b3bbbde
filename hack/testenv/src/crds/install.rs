//! Installs CRDs and waits until they are served.

use std::time::Duration;

use anyhow::{Context, Result};
use futures::future::try_join_all;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::wait::{await_condition, conditions::is_crd_established};

use super::Crd;
use crate::apply::FIELD_MANAGER;

const ESTABLISHED_WITHIN: Duration = Duration::from_secs(60);

/// Applies `crds` and waits until all are Established. Uses server-side apply, because large CRDs do not fit into
/// the `last-applied` annotation of client-side apply.
pub async fn install(client: &Client, crds: &[Crd]) -> Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    try_join_all(crds.iter().map(|crd| install_one(&api, crd))).await?;
    Ok(())
}

async fn install_one(api: &Api<CustomResourceDefinition>, crd: &Crd) -> Result<()> {
    let name = crd.name();
    let parameters = PatchParams::apply(FIELD_MANAGER).force();
    api.patch_metadata(name, &parameters, &Patch::Apply(crd.value()))
        .await
        .with_context(|| format!("installing the CRD {name}"))?;
    let established = await_condition(api.clone(), name, is_crd_established());
    tokio::time::timeout(ESTABLISHED_WITHIN, established)
        .await
        .with_context(|| format!("the CRD {name} is not Established after {ESTABLISHED_WITHIN:?}"))?
        .with_context(|| format!("waiting for the CRD {name}"))?;
    Ok(())
}
