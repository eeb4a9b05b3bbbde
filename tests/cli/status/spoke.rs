//! `policy-sync status cluster`.

use anyhow::{Result, ensure};
use policy_sync_testenv::fixtures::{managed_cluster, namespace, rate_limit_policy};
use policy_sync_testenv::running::Running;
use policy_sync_testenv::tenant::{LIMIT, WorkReport};
use policy_sync_testenv::wait;
use serde_json::{Value, json};

use super::gateways::{programmed, report, until, with_clusters};
use super::{refused, rows, status_of, user_with};

#[tokio::test]
async fn status_cluster_shows_all_works_of_the_cluster() -> Result<()> {
    let tenant = with_clusters("status-spoke", &["status-spoke-1"]).await?;
    let cluster = "status-spoke-1";
    let admin = tenant.hub().kubeconfig();
    tenant.apply(&namespace(cluster)).await?;
    let managed = managed_cluster(cluster, &Default::default());
    tenant.apply(&managed).await?;
    let ran = status_of(&tenant, admin, &["cluster", cluster]);
    // The controller and the agents have written nothing yet.
    let says = format!("no object of example.com/status-spoke is on cluster {cluster}\n");
    ensure!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()) == (0, "", says.as_str()), "{ran:#?}");

    tenant.apply(&rate_limit_policy(tenant.name(), "limits", "web")).await?;
    let mut command = crate::run::command(&["status", "cluster", cluster, "--watch", "-o", "json"]);
    command.args(["--controller-name", &tenant.controller_name()]).arg("--kubeconfig").arg(admin);
    let running = Running::start(command);
    let controller = tenant.controller().await?;
    report(&tenant, cluster, "ratelimitpolicy-limits", &WorkReport::refused("conflict with \"kubectl\""))
        .await?;
    report(&tenant, cluster, "gateway-web", &programmed("192.0.2.1")).await?;
    let words = ["cluster", cluster];
    let ran = wait::until("all works have a report", LIMIT, || async {
        // The controller extends the access work while it creates other works.
        report(&tenant, cluster, "access", &WorkReport::applied()).await?;
        let ran = status_of(&tenant, admin, &words);
        ensure!(["conflict", "True"].iter().all(|text| ran.stdout.contains(text)), "{ran:#?}");
        ensure!(rows(&ran)[1][4] == "yes", "{ran:#?}");
        Ok(ran)
    })
    .await?;
    let at = "2026-01-01T00:00:00Z";
    let expected = [
        vec!["KIND", "NAMESPACE", "NAME", "STATE", "APPLIED", "ENFORCED", "REASON", "SINCE"],
        vec!["access", "-", "-", "Applied", "yes", "-", "-", at],
        vec!["Gateway", tenant.name(), "web", "Programmed", "yes", "True", "Programmed", at],
        vec![
            "RateLimitPolicy",
            tenant.name(),
            "limits",
            "NotApplied",
            "no",
            "pending",
            "-",
            at,
            "conflict",
            "with",
        ],
    ];
    ensure!(rows(&ran) == expected && ran.code == 1, "{ran:#?}");
    running.prints("the policy that was not applied", |line| line.contains("conflict with")).await;

    let enforced = WorkReport::applied().condition("Enforced", "True", "Enforced", "");
    report(&tenant, cluster, "ratelimitpolicy-limits", &enforced).await?;
    let ran = until(&tenant, admin, &words, |ran| ran.code == 0).await?;
    ensure!(ran.stderr.is_empty(), "{ran:#?}");
    let lines = running.prints("the enforced policy", |line| {
        serde_json::from_str::<Value>(line)
            .is_ok_and(|copy| copy["name"] == "limits" && copy["inSync"] == true)
    });
    ensure!(lines.await.iter().any(|line| line.contains("access")));

    // Once the agent is silent, its earlier reports of success no longer count.
    let (clusters, name) = policy_sync_testenv::apply::api_for(tenant.client(), &managed).await?;
    let silent = json!({"type": "ManagedClusterConditionAvailable", "status": "Unknown", "reason": "R", "message": "",
        "lastTransitionTime": "2026-01-02T00:00:00Z"});
    let patch = json!({"status": {"conditions": [silent]}});
    let merge = kube::api::Patch::Merge(patch);
    clusters.patch_status(&name, &Default::default(), &merge).await?;
    let ran = status_of(&tenant, admin, &["cluster", cluster, "-o", "json"]);
    let says = format!("cluster {cluster}: no contact with its agent since 2026-01-02T00:00:00Z\n");
    ensure!((ran.code, ran.stderr.as_str()) == (1, says.as_str()), "{ran:#?}");
    let json: Value = serde_json::from_str(&ran.stdout)?;
    let is_unreachable = |item: &Value| item["inSync"] == true && item["state"] == "Unreachable";
    ensure!(
        json["cluster"]
            == json!({"name": cluster, "unavailableSince": "2026-01-02T00:00:00Z", "inSync": false})
    );
    ensure!(
        json["items"].as_array().is_some_and(|items| items.len() == 3 && items.iter().all(is_unreachable)),
        "{json:#}"
    );
    controller.terminate().await?;

    // A work with a finalizer that an agent has yet to remove.
    let work = serde_json::to_value(tenant.work(cluster, "ratelimitpolicy-limits").await?)?;
    tenant.merge(&work, &json!({"metadata": {"finalizers": ["example.com/hold"]}})).await?;
    let (works, name) = policy_sync_testenv::apply::api_for(tenant.client(), &work).await?;
    works.delete(&name, &Default::default()).await?;
    let ran = status_of(&tenant, admin, &["clusters", cluster]);
    ensure!(
        rows(&ran)[3][..5] == ["RateLimitPolicy", tenant.name(), "limits", "Unreachable", "deleting"],
        "{ran:#?}"
    );
    tenant.merge(&work, &json!({"metadata": {"finalizers": []}})).await?;
    Ok(())
}

#[tokio::test]
async fn missing_or_unknown_cluster_name_is_reported() -> Result<()> {
    let tenant = with_clusters("status-spoke-none", &[]).await?;
    let admin = tenant.hub().kubeconfig();
    refused(
        &status_of(&tenant, admin, &["cluster"]),
        "the name of the cluster is missing: status cluster NAME",
    );
    refused(&status_of(&tenant, admin, &["cluster", "eu-1", "-n", "shop"]), "omit --cluster and -n");
    refused(&status_of(&tenant, admin, &["cluster", "../eu-1"]), "is not a valid Kubernetes name");
    let ran = status_of(&tenant, admin, &["cluster", "eu-9"]);
    let printed = (ran.code, ran.stdout.as_str(), ran.stderr.as_str());
    ensure!(printed == (1, "", "the hub has no ManagedCluster eu-9\n"), "{ran:#?}");
    let rights = [(None, "cluster.open-cluster-management.io", "managedclusters")];
    let reader = user_with(&tenant, "status-spoke-reader", &rights).await;
    refused(
        &status_of(&tenant, &reader, &["cluster", "eu-1"]),
        "cannot list ManifestWorks of cluster eu-1 on the hub at",
    );
    Ok(())
}
