//! The last steps of the sync demo: effective rules on each cluster, before and after a cluster's team writes a
//! local policy.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use policy_sync_api::annotations::ENFORCED;
use policy_sync_testenv::apply::{apply, apply_all};

use super::demo::Demo;
use super::look::{self, Fold};
use super::report::Report;
use super::sync::{self, DOWNSTREAM, SHOP, SPOKES};

/// Arguments of the command: the rules for a host on all clusters.
const ARGUMENTS: [&str; 4] = ["effective", "--host", "shop.example.com", "--clusters"];

pub(super) async fn run_steps(demo: &Demo, report: &Report) -> Result<()> {
    before(demo, report).await?;
    after(demo, report).await
}

async fn before(demo: &Demo, report: &Report) -> Result<()> {
    report
        .step("The Gateway is placed on both clusters again, and the team lists the rules in force on each");
    sync::delete_theirs(demo).await?;
    sync::place(demo, &SPOKES).await?;
    apply_all(&demo.hub()?, [&sync::gateway(), &sync::differing()]).await?;
    try_join_all(
        [("eu-1", 100), ("us-1", 50)].map(|(spoke, limit)| sync::policy_arrives(demo, report, spoke, limit)),
    )
    .await?;
    enforced(demo, 2).await?;
    sync::programmed(demo).await?;
    let answer = |cluster: &str, limit: u32, differs: &str| {
        let mut lines = above(cluster, "");
        lines.extend(rules(limit));
        lines.push(format!("    RateLimitPolicy {SHOP}/limits: Enforced{differs}"));
        lines.push(String::new());
        lines
    };
    let mut expected = answer("eu-1", 100, "");
    expected.extend(answer("us-1", 50, "; overrides for this cluster change /limits/all/rates"));
    expected.extend(unknown());
    check_output(demo, report, &expected)
}

async fn after(demo: &Demo, report: &Report) -> Result<()> {
    report.step("Users of us-1 create their own policy again, and the team repeats the command");
    apply(&demo.spoke("us-1")?, &sync::theirs()).await?;
    let fold = enforced(demo, 1).await?;
    let entry = fold.entries.iter().find(|entry| &*entry.cluster.0 == "us-1").context("no entry for us-1")?;
    let enforced = entry.conditions.iter().find(|condition| condition.condition_type == ENFORCED);
    let message = enforced
        .and_then(|condition| condition.message.as_deref())
        .context("no message of Enforced for us-1")?;
    ensure!(
        message.contains(&format!("{DOWNSTREAM}/ours")),
        "the message does not name the local policy: {message}"
    );
    let mut expected = above("eu-1", "");
    expected.extend(rules(100));
    expected.extend([format!("    RateLimitPolicy {SHOP}/limits: Enforced"), String::new()]);
    expected.extend(above("us-1", " (uncertain)"));
    expected.extend([
        "    no policy of the hub is in force".to_owned(),
        format!(
            "    RateLimitPolicy {SHOP}/limits: Overridden: it is overridden by a policy that was created on the cluster: {message}"
        ),
        String::new(),
    ]);
    expected.extend(unknown());
    check_output(demo, report, &expected)
}

/// The first lines about a cluster: the path, and the number of attached routes.
fn above(cluster: &str, uncertain: &str) -> Vec<String> {
    vec![
        format!("On {cluster}{uncertain}:"),
        format!("  GatewayClass multi-cluster > Gateway {SHOP}/web > listener http"),
        "    hosts: *".to_owned(),
        "    attached routes of the cluster: 0".to_owned(),
    ]
}

fn rules(limit: u32) -> Vec<String> {
    vec![
        "    RateLimitPolicy.kuadrant.io".to_owned(),
        format!("      limits#all of RateLimitPolicy {SHOP}/limits"),
        format!("        {{\"rates\":[{{\"limit\":{limit},\"window\":\"10s\"}}]}}"),
    ]
}

fn unknown() -> Vec<String> {
    let lines = [
        "Unknown:",
        "  routes that exist only on clusters: paths end at the listener",
        "  policies that exist only on clusters, except those that a status message names",
        "  policies that target routes: they are not synced to clusters",
    ];
    lines.map(str::to_owned).to_vec()
}

/// Waits until this number of spokes enforce the policy.
async fn enforced(demo: &Demo, spokes: usize) -> Result<Fold> {
    let what = format!("{spokes} spokes enforce the policy");
    look::folded(&demo.hub()?, &what, &sync::differing(), |fold| {
        let numbers = (fold.summary.clusters, fold.summary.enforced, fold.summary.pending);
        ensure!(numbers == (SPOKES.len(), spokes, 0), "the report is {:?}", fold.summary);
        Ok(())
    })
    .await
}

/// Runs the command, prints its output, and compares it with the expected lines.
fn check_output(demo: &Demo, report: &Report, expected: &[String]) -> Result<()> {
    report.print(&format!("policy-sync {}", ARGUMENTS.join(" ")));
    let output =
        Command::new(demo.program()).args(ARGUMENTS).arg("--kubeconfig").arg(demo.kubeconfig()).output()?;
    let (answer, error) = (String::from_utf8(output.stdout)?, String::from_utf8_lossy(&output.stderr));
    ensure!(
        output.status.success() && error.is_empty(),
        "the command exited with {}: {error}{answer}",
        output.status
    );
    for line in answer.lines() {
        report.print(format!("   {line}").trim_end());
    }
    let lines: Vec<&str> = answer.lines().collect();
    for (found, expected) in lines.iter().zip(expected) {
        ensure!(found == expected, "the line is {found:?}, expected {expected:?}");
    }
    ensure!(
        lines.len() == expected.len(),
        "the output has {} lines, expected {}",
        lines.len(),
        expected.len()
    );
    report.print_result("each line has the expected text");
    Ok(())
}
