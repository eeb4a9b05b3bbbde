//! Content of the pages: policies with annotations about clusters, written without a controller.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use kube::api::{Patch, PatchParams};
use kube::core::request::Request as Requests;
use policy_sync_api::annotations::{POLICIES_SYNCED, POLICIES_SYNCED_SUMMARY, Summary, Synced};
use policy_sync_testenv::http::Response;
use policy_sync_testenv::wait;
use policy_sync_testenv::web::Pages;
use serde_json::{Value, json};

use crate::hub::{LIMIT, MeasuredHub};
use crate::raw::{self, PreparedRequest};
use crate::scene::AT_ONCE;

/// A namespace that each hub has, and in which the benchmark creates nothing.
pub(super) const EMPTY: &str = "default";
/// One in this many policies is faulty on one cluster.
const FAULTY: usize = 10;

/// Starts `policy-sync web` for one namespace of the hub, or for all namespaces.
pub(super) async fn pages(hub: &MeasuredHub, namespace: Option<&str>) -> Pages {
    let mut command = Command::new(hub.binary());
    command.args(["web", "--kubeconfig"]).arg(hub.hub().kubeconfig());
    command.args(namespace.into_iter().flat_map(|namespace| ["-n", namespace]));
    Pages::start(command).await
}

/// Waits until a page contains the text `says`.
pub(super) async fn until(pages: &Pages, path: &str, says: &str) -> Result<Response> {
    wait::until("the page contains the text", LIMIT, || async {
        let page = pages.get(path).await?;
        ensure!(page.body.contains(says), "{} without {says:?}", page.status);
        Ok(page)
    })
    .await
}

/// Requests a page. Returns the elapsed time and the page.
pub(super) async fn time(pages: &Pages, path: &str) -> Result<(Duration, Response)> {
    let began = Instant::now();
    let page = pages.get(path).await?;
    let took = began.elapsed();
    ensure!(page.status == 200, "{path}: {}", page.status);
    Ok((took, page))
}

/// The entries of the policy `number` for these clusters. The cluster at index `refusing` rejects the policy.
fn entries(clusters: &[String], number: usize, refusing: Option<usize>) -> Result<Vec<Synced>> {
    let condition = |name: &str| json!({"type": name, "status": "True", "reason": name, "message": ""});
    let entries = clusters.iter().enumerate().map(|(place, cluster)| {
        let refused = refusing == Some(place);
        let entry = json!({
            "cluster": cluster, "name": format!("limits-{number:04}"), "namespace": "kuadrant-shop", "applied": !refused,
            "message": refused.then_some("the cluster has no such kind"),
            "conditions": if refused { Value::Array(Vec::new()) } else { json!([condition("Accepted"), condition("Enforced")]) },
        });
        serde_json::from_value(entry).context("building an entry")
    });
    entries.collect()
}

/// The request that annotates the policy `number` for these clusters. The cluster at index `refusing` rejects the
/// policy.
pub(super) fn annotation_request(
    hub: &MeasuredHub,
    clusters: &[String],
    number: usize,
    refusing: Option<usize>,
) -> Result<PreparedRequest> {
    let entries = entries(clusters, number, refusing)?;
    let annotations = json!({
        POLICIES_SYNCED: serde_json::to_string(&entries).context("serializing entries")?,
        POLICIES_SYNCED_SUMMARY: json!(Summary::new(&entries, |_| true)).to_string(),
    });
    let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
    let name = crate::scene::policy(number);
    let request = Requests::new(hub.scene.path()).patch(&name, &PatchParams::default(), &patch);
    Ok(raw::with_metadata_response(request.context("building a patch request")?))
}

/// Annotates all policies for these clusters.
pub(super) async fn annotate_all(hub: &MeasuredHub, clusters: &[String]) -> Result<()> {
    let all = (0..hub.policies).map(|number| {
        let refusing = number.is_multiple_of(FAULTY).then_some(number / FAULTY % clusters.len());
        annotation_request(hub, clusters, number, refusing)
    });
    let all = all.collect::<Result<_>>()?;
    raw::send(&hub.client, all, AT_ONCE).await.map(drop).context("annotating policies")
}
