//! CRDs for audit reports: Report and ClusterReport of the OpenReports API.

use anyhow::{Context, Result};
use serde_json::json;

use super::{Crd, published};

/// Both kinds of the group `openreports.io`, which few hubs have installed.
///
/// # Errors
///
/// Returns an error if the embedded file cannot be parsed.
pub fn reports() -> Result<[Crd; 2]> {
    let of_namespaces =
        published::parse(include_str!("../../crds/reports.yaml")).context("crds/reports.yaml")?;
    let mut of_cluster = of_namespaces.value().clone();
    of_cluster["metadata"]["name"] = "clusterreports.openreports.io".into();
    of_cluster["spec"]["scope"] = "Cluster".into();
    of_cluster["spec"]["names"] = json!({
        "kind": "ClusterReport", "listKind": "ClusterReportList", "plural": "clusterreports",
        "singular": "clusterreport", "shortNames": ["creps"],
    });
    Ok([of_namespaces, Crd::new(of_cluster)?])
}
