//! G6: many violations. Measures the sizes of reports and of `/audit`, and the number of writes of reports.

use anyhow::{Context, Result, ensure};
use kube::api::ListParams;
use kube::core::request::Request as Requests;
use policy_sync_testenv::{Controller, crds, wait};
use serde_json::Value;

use super::auditing::AuditReader;
use crate::Options;
use crate::counts::Counts;
use crate::documents::{self, PODS, Variety};
use crate::hub::{LIMIT, MeasuredHub};
use crate::modules::{self, DENYING};
use crate::rego_policies::{self, Reviewer};
use crate::report::{Measure, progress};
use crate::sample;

/// The namespace of the ServiceAccount that reads the audit.
const NAMESPACE: &str = "reported";
/// Number of violations for each document.
const VIOLATIONS: usize = 10;
/// Goal for the number of results in a report.
const RESULTS_GOAL: f64 = 100.0;
/// Goal for the size of a response in bytes.
const BYTES_GOAL: f64 = 1_048_576.0;

/// Measures sizes and writes.
pub(crate) async fn measure(hub: &MeasuredHub, options: &Options) -> Result<Vec<Measure>> {
    let of_pod = modules::owners(DENYING).count() + 1;
    let pods = (VIOLATIONS * options.documents).div_ceil(of_pod);
    crds::install(&hub.client, &crds::reports()?).await?;
    rego_policies::set(hub).await?;
    documents::fill(&hub.client, pods, Variety::Different).await?;
    let before = Counts::now(&hub.client).await?;
    let reviewer = Reviewer::start(hub, NAMESPACE, pods, &["--audit-interval=10s".to_owned()]).await?;
    let violations = sample::count(pods * of_pod);
    progress(&format!("{violations} violations"));
    until_audited(&reviewer.controller, 0.0, violations).await?;
    let reports = until_reported(hub, violations).await?;
    let first = Counts::now(&hub.client).await?;
    // All writes of one audit are complete when the second audit after it ends.
    let mut last = 0.0;
    for _ in 0..3 {
        last = until_audited(&reviewer.controller, last, violations).await?;
    }
    let later = Counts::now(&hub.client).await?.since(&first);
    let answer = AuditReader::new(hub, &reviewer, NAMESPACE).await?.read().await?;
    ensure!(answer["message"] == format!("total violations:{violations}"), "{}", answer["message"]);
    reviewer.stop(hub).await?;
    documents::clear(&hub.client, PODS, documents::namespaces()).await?;
    let results = |report: &Value| report["results"].as_array().map_or(0, Vec::len);
    let most = reports.iter().map(results).max().unwrap_or_default();
    let written = first.since(&before).writes_of("reports");
    let what = format!("{violations} violations");
    let row =
        |of: &str, value, unit, goal| Measure::at_most("G6", format!("{what}, {of}"), value, unit, goal);
    Ok(vec![
        row("results of a report", sample::count(most), "results", RESULTS_GOAL),
        row("a report", written / sample::count(reports.len()), "writes", 1.0)
            .detail(format!("{} reports", reports.len())),
        row("audits that find the same", later.writes_of("reports"), "writes", 0.0),
        row("/audit", sample::count(answer.to_string().len()), "bytes", BYTES_GOAL),
    ])
}

/// Waits for the end of an audit after `last` (a timestamp in seconds) that finds this number of violations.
/// Returns its timestamp.
async fn until_audited(controller: &Controller, last: f64, violations: f64) -> Result<f64> {
    wait::until("an audit succeeds", LIMIT, || async {
        let metrics = controller.metrics().await?;
        let ended = metrics.value("policy_sync_audit_last_success_timestamp_seconds", &[])?;
        ensure!(ended > last, "no audit has succeeded");
        let found = metrics.value("policy_sync_violations", &[("enforcement", "deny")])?;
        ensure!(found == violations, "{found} violations");
        Ok(ended)
    })
    .await
}

/// Waits until the reports contain this number of violations, and returns them.
async fn until_reported(hub: &MeasuredHub, violations: f64) -> Result<Vec<Value>> {
    wait::until("the reports contain all violations", LIMIT, || async {
        let list = Requests::new("/apis/openreports.io/v1alpha1/reports").list(&ListParams::default());
        let list: Value =
            hub.client.request(list.context("building a list request")?).await.context("listing reports")?;
        let reports = list["items"].as_array().cloned().unwrap_or_default();
        let failed: f64 = reports.iter().filter_map(|report| report["summary"]["fail"].as_f64()).sum();
        ensure!(failed == violations, "{failed} violations");
        Ok(reports)
    })
    .await
}
