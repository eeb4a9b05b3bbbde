//! `policy-sync status --fail-on` and `--not-enforced`: the exit code of each state.

use policy_sync_api::annotations::{POLICIES_SYNCED, POLICIES_SYNCED_SUMMARY, Summary, Synced};
use policy_sync_testenv::{Tenant, fixtures};
use serde_json::{Value, json};

use super::{annotated, rows, status_of, tenant, user_with};
use crate::explain::silence;

const LEVELS: [&str; 3] = ["out-of-sync", "not-enforced", "overridden"];

/// A policy on one cluster: its name, its state, the further JSON fields of its entry in the annotation, and the exit
/// code for each of [`LEVELS`].
type Case = (&'static str, &'static str, &'static str, [i32; 3]);

const CASES: [Case; 13] = [
    (
        "enforced",
        "Enforced",
        r#""applied":true,"conditions":[{"type":"Enforced","status":"True"}]"#,
        [0, 0, 0],
    ),
    (
        "accepted",
        "Accepted",
        r#""applied":true,"conditions":[{"type":"Accepted","status":"True"}]"#,
        [0, 0, 0],
    ),
    ("removing", "Removing", r#""deleting":true"#, [0, 0, 0]),
    // The hub places the policy on the cluster again.
    ("removing-first", "Pending", r#""deleting":true,"pending":true"#, [1, 1, 1]),
    (
        "overridden",
        "Overridden",
        r#""applied":true,"conditions":[{"type":"Enforced","status":"False","reason":"Overridden"}]"#,
        [0, 0, 1],
    ),
    ("unknown", "Unknown", r#""applied":true"#, [0, 2, 2]),
    ("unjudged", "Pending", r#""applied":true,"pending":true"#, [0, 1, 1]),
    ("pending", "Pending", r#""pending":true"#, [1, 1, 1]),
    (
        "partial",
        "PartiallyEnforced",
        r#""applied":true,"partial":true,"conditions":[{"type":"Enforced","status":"True"}]"#,
        [0, 1, 1],
    ),
    (
        "frozen",
        "Frozen",
        r#""applied":true,"frozen":"BadSelector","conditions":[{"type":"Enforced","status":"True"}]"#,
        [0, 1, 1],
    ),
    ("notapplied", "NotApplied", r#""pending":true,"message":"conflict""#, [1, 1, 1]),
    (
        "notenforced",
        "NotEnforced",
        r#""applied":true,"conditions":[{"type":"Enforced","status":"False","reason":"MissingResource"}]"#,
        [0, 1, 1],
    ),
    (
        "rejected",
        "Rejected",
        r#""applied":true,"conditions":[{"type":"Accepted","status":"False","reason":"Conflicted"}]"#,
        [0, 1, 1],
    ),
];

/// The JSON fields that are specific to the case `name`.
fn entry_of(name: &str) -> &'static str {
    CASES.iter().find(|case| case.0 == name).unwrap().2
}

/// Writes the policy `name` with this entry for `cluster`.
async fn write(tenant: &Tenant<'_>, name: &str, cluster: &str, entry: &str) {
    let entry = format!(r#"{{"cluster":"{cluster}","name":"{name}","namespace":"kuadrant-shop",{entry}}}"#);
    let entries: Vec<Synced> = vec![serde_json::from_str(&entry).unwrap()];
    let summary = Summary::new(&entries, |_| !entries[0].is_being_removed());
    let annotations = [
        (POLICIES_SYNCED, json!(entries).to_string()),
        (POLICIES_SYNCED_SUMMARY, json!(summary).to_string()),
    ];
    let policy = fixtures::rate_limit_policy(tenant.name(), name, "web");
    annotated(tenant.client(), policy, annotations.into()).await;
}

#[tokio::test]
async fn each_state_has_an_exit_code_at_each_level() {
    let tenant = tenant("status-fail-on").await;
    let admin = tenant.hub().kubeconfig();
    for (name, state, entry, codes) in CASES {
        write(&tenant, name, "eu-1", entry).await;
        let status = |arguments: &[&str]| {
            let named = ["ratelimitpolicy", name, "-n", tenant.name()];
            status_of(&tenant, admin, &[&named[..], arguments].concat())
        };
        for (level, code) in LEVELS.into_iter().zip(codes) {
            for place in [&[][..], &["--cluster", "eu-1"]] {
                let ran = status(&[&["-o", "json", "--fail-on", level][..], place].concat());
                let json: Value = serde_json::from_str(&ran.stdout).unwrap();
                assert_eq!(json["items"][0]["states"], json!({"eu-1": state}), "{name}: {json:#}");
                assert_eq!(ran.code, code, "{name} at level {level} {place:?}: {ran:?}");
            }
        }
        assert_eq!(status(&[]).code, codes[1], "not-enforced is the default: {name}");
    }

    let ran = status_of(&tenant, admin, &["policies", "-n", tenant.name(), "--not-enforced"]);
    let shown: std::collections::BTreeSet<&str> = rows(&ran)[1..].iter().map(|row| row[1]).collect();
    let expected = CASES.iter().filter(|(.., codes)| *codes != [0; 3]).map(|(name, ..)| *name).collect();
    assert_eq!((shown, ran.code), (expected, 1), "{ran:?}");
    let ran =
        status_of(&tenant, admin, &["ratelimitpolicy", "enforced", "-n", tenant.name(), "--not-enforced"]);
    assert_eq!((ran.code, &*ran.stdout, &*ran.stderr), (0, "", "everything is enforced\n"));
}

#[tokio::test]
async fn not_synced_fails_for_items_that_are_out_of_sync_and_counts_others_on_request() {
    let tenant = tenant("status-not-synced").await;
    write(&tenant, "enforced", "eu-1", entry_of("enforced")).await;
    write(&tenant, "rejected", "eu-1", entry_of("rejected")).await;
    let run = |arguments: &[&str]| {
        let not_synced = ["policies", "-n", tenant.name(), "--not-synced"];
        status_of(&tenant, tenant.hub().kubeconfig(), &[&not_synced[..], arguments].concat())
    };
    let ran = run(&[]);
    assert_eq!((ran.code, &*ran.stdout, &*ran.stderr), (0, "", "everything is in sync\n"));
    let counted = "items in sync, but not enforced: 1 (list them with --not-enforced)\n";
    let ran = run(&["--fail-on", "not-enforced"]);
    let both = format!("everything is in sync\n{counted}");
    assert_eq!((ran.code, &*ran.stdout, &*ran.stderr), (1, "", &*both));

    write(&tenant, "pending", "eu-1", r#""pending":true"#).await;
    for (arguments, says) in [(&[][..], ""), (&["--fail-on", "not-enforced"], counted)] {
        let ran = run(arguments);
        assert_eq!((ran.code, rows(&ran).len(), rows(&ran)[1][1]), (1, 2, "pending"), "{ran:?}");
        assert_eq!(ran.stderr, says);
    }
}

#[tokio::test]
async fn message_names_the_first_cluster_without_enforcement() {
    let tenant = tenant("status-message").await;
    let rejected = CASES.iter().find(|(_, state, ..)| *state == "Rejected").unwrap();
    write(&tenant, "rejected", "eu-1", rejected.2).await;
    let ran = status_of(&tenant, tenant.hub().kubeconfig(), &["policies", "-n", tenant.name()]);
    let expected =
        ["RateLimitPolicy", "rejected", "Rejected", "1/1", "0/1", "-", "eu-1:", "Rejected:", "Conflicted"];
    assert_eq!((rows(&ran)[1].as_slice(), ran.code), (&expected[..], 1), "{ran:?}");
}

#[tokio::test]
async fn policy_on_an_unavailable_cluster_is_unreachable() {
    let tenant = tenant("status-unreachable").await;
    let cluster = "status-unreachable-1";
    tenant.apply(&fixtures::managed_cluster(cluster, &Default::default())).await.unwrap();
    write(&tenant, "limits", cluster, entry_of("enforced")).await;
    write(&tenant, "frozen", cluster, r#""applied":true,"frozen":"BadSelector""#).await;
    let run = |kubeconfig: &std::path::Path, arguments: &[&str]| {
        status_of(&tenant, kubeconfig, &[&["-n", tenant.name()][..], arguments].concat())
    };
    let admin = tenant.hub().kubeconfig();
    let limits = ["ratelimitpolicy", "limits"];
    assert_eq!(run(admin, &limits).code, 0);

    silence(&tenant, cluster, "Unknown").await.unwrap();
    for place in [&[][..], &["--cluster", cluster]] {
        for (level, code) in LEVELS.into_iter().zip([0, 1, 1]) {
            let ran = run(admin, &[&limits[..], &["--fail-on", level, "-o", "json"], place].concat());
            let json: Value = serde_json::from_str(&ran.stdout).unwrap();
            assert_eq!(json["items"][0]["states"], json!({cluster: "Unreachable"}), "{json:#}");
            assert_eq!(ran.code, code, "{level} {place:?}: {ran:?}");
        }
    }
    // The hub itself freezes the policy, so this state does not depend on the agent.
    let ran = run(admin, &["ratelimitpolicy", "frozen"]);
    assert_eq!(rows(&ran)[1][2], "Frozen", "{ran:?}");
}

#[tokio::test]
async fn missing_right_to_read_clusters_exits_with_2_if_a_state_depends_on_it() {
    let tenant = tenant("status-availability").await;
    write(&tenant, "limits", "eu-1", entry_of("enforced")).await;
    write(&tenant, "frozen", "eu-1", r#""applied":true,"frozen":"BadSelector""#).await;
    write(&tenant, "rejected", "eu-1", entry_of("rejected")).await;
    annotated(tenant.client(), fixtures::rate_limit_policy(tenant.name(), "none", "web"), [].into()).await;
    let rights = [
        (None, "kuadrant.io", "*"),
        (None, "policies.example.com", "*"),
        (None, "", "configmaps"),
        (None, "gateway.networking.k8s.io", "gatewayclasses"),
    ];
    let reader = user_with(&tenant, "reads-no-clusters", &rights).await;
    let run = |name: &str, arguments: &[&str]| {
        status_of(
            &tenant,
            &reader,
            &[&["ratelimitpolicy", name, "-n", tenant.name()][..], arguments].concat(),
        )
    };
    let list = "cannot list ManagedClusters on the hub at";
    let get = "cannot read ManagedCluster eu-1 on the hub at";
    for (place, says, right) in
        [(&[][..], list, "list managedclusters"), (&["--cluster", "eu-1"], get, "get managedclusters")]
    {
        let right = format!("availability of clusters is unknown without the right to {right}");
        for (name, state, codes) in [("limits", "Enforced", [0, 2, 2]), ("rejected", "Rejected", [0, 1, 1])] {
            for (level, code) in LEVELS.into_iter().zip(codes) {
                let ran = run(name, &[&["--fail-on", level][..], place].concat());
                assert_eq!((ran.code, rows(&ran)[1][2]), (code, state), "{level} {place:?}: {ran:?}");
                let begin = if code == 0 { says.to_owned() } else { format!("policy-sync: {says}") };
                let is_one_line = ran.stderr.lines().count() == 1;
                assert!(is_one_line && ran.stderr.starts_with(&begin), "{level} {place:?}: {ran:?}");
                assert!(ran.stderr.contains(&right), "{level} {place:?}: {ran:?}");
            }
        }
        // The state Frozen does not depend on the availability of the cluster, so the missing right changes neither the
        // exit code nor standard error.
        for (level, code) in LEVELS.into_iter().zip([0, 1, 1]) {
            let ran = run("frozen", &[&["--fail-on", level][..], place].concat());
            assert_eq!(
                (ran.code, rows(&ran)[1][2], &*ran.stderr),
                (code, "Frozen", ""),
                "{place:?}: {ran:?}"
            );
        }
    }
    // The policy is on no cluster.
    let ran = run("none", &[]);
    assert_eq!((ran.code, rows(&ran)[1][2], &*ran.stderr), (0, "-", ""), "{ran:?}");
}
