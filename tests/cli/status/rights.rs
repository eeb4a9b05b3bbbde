//! `policy-sync status` for users with few rights.

use policy_sync_testenv::{Tenant, fixtures};
use serde_json::Value;

use super::{annotated, annotations, refused, rows, status_of, tenant, user_with};

const CLASSES: (Option<&str>, &str, &str) = (None, "gateway.networking.k8s.io", "gatewayclasses");
const PARAMETERS: (Option<&str>, &str, &str) = (None, "", "configmaps");

/// Checks that standard error is one line about the missing right to list ManagedClusters.
fn check_clusters_warning(stderr: &str) {
    let says = "policy-sync: cannot list ManagedClusters on the hub at";
    assert!(stderr.starts_with(says) && stderr.lines().count() == 1, "{stderr}");
}

async fn with_a_policy(name: &str) -> Tenant<'static> {
    let tenant = tenant(name).await;
    annotated(tenant.client(), fixtures::rate_limit_policy(name, "limits", "web"), annotations(true)).await;
    tenant
}

#[tokio::test]
async fn missing_rights_are_reported_in_one_line() {
    let tenant = with_a_policy("status-rights").await;
    let reader = user_with(&tenant, "no-classes", &[]).await;
    let says = "cannot list GatewayClasses on the hub at";
    refused(&status_of(&tenant, &reader, &[]), says);

    let reader = user_with(&tenant, "no-parameters", &[CLASSES]).await;
    let ran = status_of(&tenant, &reader, &["-A"]);
    refused(&ran, "cannot read ConfigMap status-rights/params on the hub at");
    assert!(ran.stderr.contains("configmaps \"params\" is forbidden"), "{}", ran.stderr);

    let reader = user_with(&tenant, "no-policies", &[CLASSES, PARAMETERS]).await;
    let ran = status_of(&tenant, &reader, &["-n", tenant.name()]);
    refused(&ran, "cannot list AuthPolicy, RateLimitPolicy, TimeoutPolicy on the hub at");
    assert!(ran.stderr.contains("is forbidden") && !ran.stderr.contains(" -n"), "{}", ran.stderr);
}

#[tokio::test]
async fn rights_in_one_namespace_are_sufficient_with_the_flag() {
    let tenant = with_a_policy("status-namespace").await;
    let here = Some(tenant.name());
    let rights =
        [CLASSES, PARAMETERS, (here, "kuadrant.io", "*"), (here, "policies.example.com", "timeoutpolicies")];
    let reader = user_with(&tenant, "one-namespace", &rights).await;
    // The context has another namespace.
    for arguments in [&["-A"][..], &[]] {
        let ran = status_of(&tenant, &reader, arguments);
        refused(&ran, "cannot list AuthPolicy, RateLimitPolicy, TimeoutPolicy on the hub at");
        assert!(ran.stderr.trim_end().ends_with(": use -n with a namespace that you may read"), "{ran:?}");
    }
    let ran = status_of(&tenant, &reader, &["policies", "-n", tenant.name()]);
    assert_eq!((ran.code, rows(&ran).len()), (2, 2), "{ran:?}");
    check_clusters_warning(&ran.stderr);
    // Whether clusters have the current revision does not depend on their availability.
    let ran = status_of(&tenant, &reader, &["policies", "-n", tenant.name(), "--fail-on", "out-of-sync"]);
    assert_eq!((ran.code, rows(&ran).len()), (0, 2), "{ran:?}");
}

#[tokio::test]
async fn partial_rights_show_part_of_the_status_and_exit_with_2() {
    let tenant = with_a_policy("status-part").await;
    let here = Some(tenant.name());
    let rights = [CLASSES, PARAMETERS, (here, "kuadrant.io", "ratelimitpolicies")];
    let reader = user_with(&tenant, "one-kind", &rights).await;
    let ran = status_of(&tenant, &reader, &["-n", tenant.name()]);
    assert_eq!((ran.code, rows(&ran)[1..].len()), (2, 1), "{ran:?}");
    let policies = "policy-sync: cannot list AuthPolicy, TimeoutPolicy on the hub at";
    let clusters = "; cannot list ManagedClusters on the hub at";
    let says = |stderr: &str| {
        stderr.starts_with(policies) && stderr.contains(clusters) && stderr.lines().count() == 1
    };
    assert!(says(&ran.stderr), "{}", ran.stderr);

    // A policy that is out of sync still determines the exit code.
    let policy = fixtures::rate_limit_policy(tenant.name(), "limits", "web");
    annotated(tenant.client(), policy, annotations(false)).await;
    let ran = status_of(&tenant, &reader, &["-n", tenant.name(), "-o", "json"]);
    let json: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((ran.code, json["items"].as_array().unwrap().len()), (1, 1));
    assert!(says(&ran.stderr), "{}", ran.stderr);
    let ran = status_of(&tenant, &reader, &["ratelimitpolicy", "-n", tenant.name()]);
    assert_eq!(ran.code, 1, "{ran:?}");
    check_clusters_warning(&ran.stderr);
}
