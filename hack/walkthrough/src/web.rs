//! The steps of the web demo: the fleet of the sync demo in a browser.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use policy_sync_testenv::{http, wait, web};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::demo::Demo;
use super::report::Report;
use super::sync;

/// Time limit for the start, and for the complete page.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs all steps. The page is served as long as the returned process lives.
pub(super) async fn run_steps(demo: &Demo, report: &Report) -> Result<Child> {
    sync::overridden(demo, report).await?;
    report.step("A user opens the fleet in a browser, with their own rights");
    report.print("policy-sync web");
    let mut process = Command::new(demo.program())
        .args(["web", "--kubeconfig"])
        .arg(demo.kubeconfig())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .context("starting policy-sync web")?;
    let mut lines = BufReader::new(process.stdout.take().context("the output is not captured")?).lines();
    let address = timeout(LIMIT, lines.next_line()).await.context("no address is printed")??;
    let address = address.context("policy-sync web has ended")?;
    shows(&address).await?;
    report.print_result("the page shows which cluster enforces the policy, and which overrides it");
    report.print("Open it:");
    report.print(&format!("   {address}"));
    Ok(process)
}

/// Waits until the page at `address` shows the policy's status on both clusters.
async fn shows(address: &str) -> Result<()> {
    let (host, key) = web::parts(address)?;
    let request = http::request("GET /", &[&format!("Host: {host}"), &web::cookie(host, key)]);
    wait::until("the page shows the policy", LIMIT, || async {
        let page = http::send(host, &request).await?;
        let missing: Vec<&str> = ["shop/limits", "eu-1", "us-1", "Enforced", "Overridden"]
            .into_iter()
            .filter(|text| !page.body.contains(text))
            .collect();
        ensure!(
            page.status == 200 && missing.is_empty(),
            "the page has status {} and lacks {missing:?}",
            page.status
        );
        Ok(())
    })
    .await
}
