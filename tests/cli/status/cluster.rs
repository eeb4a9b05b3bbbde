//! `policy-sync status --cluster`.

use std::collections::BTreeMap;

use policy_sync_api::annotations::{POLICIES_SYNCED, POLICIES_SYNCED_DETAIL, POLICIES_SYNCED_SUMMARY};
use policy_sync_testenv::{Tenant, fixtures};
use serde_json::{Value, json};

use super::{annotated, annotations, refused, rows, status_of, tenant, user_with};

/// `both` is on both clusters, and `one` only on `us-1`. The list of clusters of `cut` is truncated before
/// `us-1`.
async fn three_policies(tenant: &Tenant<'_>) {
    let (client, ns) = (tenant.client(), tenant.name());
    annotated(client, fixtures::rate_limit_policy(ns, "both", "web"), annotations(false)).await;
    let entry = |cluster: &str| json!({"cluster": cluster, "name": "one", "namespace": "n", "applied": true});
    let summary = |clusters: usize| {
        json!({"clusters": clusters, "applied": clusters, "enforced": 0, "overridden": 0, "pending": 0,
               "synced": true})
    };
    let one = BTreeMap::from([
        (POLICIES_SYNCED, json!([entry("us-1")]).to_string()),
        (POLICIES_SYNCED_SUMMARY, summary(1).to_string()),
    ]);
    annotated(client, fixtures::rate_limit_policy(ns, "one", "web"), one).await;
    let cut = BTreeMap::from([
        (POLICIES_SYNCED, r#"[{"cluster":"eu-1","name":"cut","namespace":"n"}]"#.to_owned()),
        (POLICIES_SYNCED_SUMMARY, summary(900).to_string()),
        (POLICIES_SYNCED_DETAIL, "first 1 of 900".to_owned()),
    ]);
    annotated(client, fixtures::rate_limit_policy(ns, "cut", "web"), cut).await;
    annotated(client, fixtures::rate_limit_policy(ns, "none", "web"), BTreeMap::new()).await;
}

#[tokio::test]
async fn cluster_flag_shows_one_cluster() {
    let tenant = tenant("status-cluster").await;
    three_policies(&tenant).await;
    let run = |arguments: &[&str]| {
        status_of(&tenant, tenant.hub().kubeconfig(), &[&["-n", "status-cluster"], arguments].concat())
    };

    let ran = run(&["--cluster", "eu-1"]);
    assert_eq!(
        rows(&ran),
        [
            vec!["KIND", "NAME", "STATE", "APPLIED", "ENFORCED", "REASON", "MESSAGE"],
            vec!["RateLimitPolicy", "both", "Overridden", "yes", "False", "Overridden", "-"],
            vec!["RateLimitPolicy", "cut", "?", "?", "?", "?", "?"],
        ]
    );
    let left_out = "RateLimitPolicy status-cluster/cut: only the names of 1 of 900 clusters are listed: the full list was too large\n";
    assert_eq!((ran.code, ran.stderr.as_str()), (0, left_out));

    // On `us-1`, `both` is out of sync. The output includes `cut`, whose truncated list of clusters may omit `us-1`.
    let ran = run(&["--cluster", "us-1", "-o", "json"]);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    let json: Value = serde_json::from_str(&ran.stdout).unwrap();
    let printed: Vec<_> = (0..3)
        .map(|index| {
            let item = &json["items"][index];
            (item["name"].as_str().unwrap(), item["inSync"].as_bool().unwrap(), item["clusters"].clone())
        })
        .collect();
    assert_eq!((printed[0].0, printed[0].1, &printed[0].2[0]["cluster"]), ("both", false, &json!("us-1")));
    assert_eq!(printed[1], ("cut", true, Value::Null));
    assert_eq!((printed[2].0, printed[2].1, printed[2].2.as_array().unwrap().len()), ("one", true, 1));

    let ran = run(&["ratelimitpolicy", "one", "--cluster", "eu-1"]);
    assert_eq!(
        (ran.code, ran.stdout.as_str(), ran.stderr.as_str()),
        (1, "", "no policy one found in namespace status-cluster on cluster eu-1\n")
    );
}

#[tokio::test]
async fn overridden_fields_are_shown_for_each_cluster() {
    let tenant = tenant("status-differs").await;
    let mut limits = fixtures::rate_limit_policy(tenant.name(), "limits", "web");
    let overrides =
        json!([{"clusterSelector": "status-differs", "patch": {"limits": {"all": {"rates": []}}}}]);
    limits["metadata"]["annotations"]["kuadrant.io/cluster-overrides"] = overrides.to_string().into();
    annotated(tenant.client(), limits, annotations(true)).await;
    let us = fixtures::managed_cluster("us-1", &BTreeMap::new());
    tenant.merge(&us, &json!({"metadata": {"labels": {"status-differs": "yes"}}})).await.unwrap();

    let run = |kubeconfig: &std::path::Path, arguments: &[&str]| {
        let arguments = [&["ratelimitpolicy", "limits", "-n", tenant.name()], arguments].concat();
        status_of(&tenant, kubeconfig, &arguments)
    };
    let admin = tenant.hub().kubeconfig();
    let ran = run(admin, &["-o", "wide"]);
    assert_eq!(
        (ran.stdout.as_str(), ran.stderr.as_str(), ran.code),
        (
            "CLUSTER   STATE        APPLIED   ENFORCED   REASON       MESSAGE   DIFFERS\n\
             eu-1      Overridden   yes       False      Overridden   -         -\n\
             us-1      Enforced     yes       True       Enforced     -         limits.all.rates\n",
            "",
            0
        )
    );
    let ran = run(admin, &["-o", "wide", "--cluster", "us-1"]);
    assert!(ran.stdout.contains("   limits.all.rates   "), "{}", ran.stdout);
    assert!(!run(admin, &["--cluster", "us-1"]).stdout.contains("DIFFERS"));

    // Without the right to list ManagedClusters, all rows are printed, with `?` in the column DIFFERS. A message on
    // standard error explains that states are shown as last reported.
    let rights = [
        (None, "kuadrant.io", "*"),
        (None, "policies.example.com", "*"),
        (None, "", "configmaps"),
        (None, "gateway.networking.k8s.io", "gatewayclasses"),
    ];
    let reader = user_with(&tenant, "reads-no-labels", &rights).await;
    let ran = run(&reader, &["-o", "wide"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stdout.lines().skip(1).all(|row| row.ends_with("   ?")), "{}", ran.stdout);
    assert!(ran.stderr.contains("cannot list ManagedClusters on the hub at"), "{}", ran.stderr);
    assert_eq!(ran.stderr.lines().count(), 2, "{}", ran.stderr);
}

#[tokio::test]
async fn unknown_cluster_is_reported() {
    let tenant = tenant("status-no-cluster").await;
    annotated(tenant.client(), fixtures::rate_limit_policy(tenant.name(), "both", "web"), annotations(true))
        .await;
    let admin = tenant.hub().kubeconfig();
    let ran = status_of(&tenant, admin, &["-n", tenant.name(), "--cluster", "eu-9"]);
    let printed = (ran.code, ran.stdout.as_str(), ran.stderr.as_str());
    assert_eq!(printed, (1, "", "the hub has no ManagedCluster eu-9\n"));
    refused(&status_of(&tenant, admin, &["-A", "--cluster", "../eu-1"]), "is not a valid Kubernetes name");

    // Without the right to read clusters, a policy that names the cluster proves that the cluster exists.
    let rights = [
        (None, "kuadrant.io", "*"),
        (None, "policies.example.com", "*"),
        (None, "", "configmaps"),
        (None, "gateway.networking.k8s.io", "*"),
    ];
    let reader = user_with(&tenant, "reads-policies", &rights).await;
    refused(
        &status_of(&tenant, &reader, &["-n", tenant.name(), "--cluster", "eu-9"]),
        "cannot read ManagedCluster eu-9 on the hub at",
    );
    let ran = status_of(&tenant, &reader, &["-n", tenant.name(), "--cluster", "eu-1"]);
    assert_eq!((ran.code, rows(&ran).len()), (2, 2), "{}", ran.stderr);
}
