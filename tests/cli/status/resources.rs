//! `policy-sync status` for resources: the command shows placed resources, with their ready replicas.

use super::*;

/// The annotations of a Deployment on two clusters. Only one cluster reports ready replicas.
fn status_annotations() -> BTreeMap<&'static str, String> {
    let entry = |cluster: &str| json!({"cluster": cluster, "name": "web", "namespace": "kuadrant-shop", "applied": true});
    let mut ready = entry("eu-1");
    ready["fields"] = json!({"readyReplicas": 3});
    let summary =
        json!({"clusters": 2, "applied": 2, "enforced": 0, "overridden": 0, "pending": 0, "synced": true});
    BTreeMap::from([
        (POLICIES_SYNCED, json!([ready, entry("us-1")]).to_string()),
        (POLICIES_SYNCED_SUMMARY, summary.to_string()),
    ])
}

#[tokio::test]
async fn placed_resources_show_ready_replicas() {
    let tenant = tenant("status-resources").await;
    let kinds = [fixtures::resources("apps", "deployments"), fixtures::resources("", "configmaps")];
    let parameters = json!({"policiesToSync": [], "resourcesToSync": kinds});
    tenant.parameters(&parameters).await.unwrap();
    annotated(tenant.client(), fixtures::deployment(tenant.name(), "web"), status_annotations()).await;
    // Resources without a placement are not shown.
    apply(tenant.client(), &fixtures::deployment(tenant.name(), "elsewhere")).await.unwrap();
    let hub = tenant.hub().kubeconfig();
    let of = |arguments: &[&str]| status_of(&tenant, hub, &[&["-n", tenant.name()], arguments].concat());
    for words in [
        &[][..],
        &["resources"],
        &["deployments"],
        &["deploy"],
        &["Deployment"],
        &["deployments.apps", "web"],
    ] {
        let ran = of(words);
        assert!(ran.stdout.contains("web") && !ran.stdout.contains("elsewhere"), "{words:?}: {ran:?}");
    }
    let ran = of(&["resources"]);
    assert_eq!(
        rows(&ran)[..2],
        [
            vec!["KIND", "NAME", "STATE", "CLUSTERS", "ENFORCED", "OVERRIDDEN", "MESSAGE"],
            vec!["Deployment", "web", "Applied", "2/2", "-", "-", "-"],
        ]
    );
    assert_eq!(ran.code, 0, "resources have no enforcement: {ran:?}");
    let one = of(&["deployments", "web", "-o", "wide"]);
    assert!(one.stdout.contains("3 replicas are ready"), "{one:?}");
    let ran = of(&["policies"]);
    assert!(!ran.stdout.contains("web"), "{ran:?}");
    let json: Value = serde_json::from_str(&of(&["deployments", "-o", "json"]).stdout).unwrap();
    assert_eq!(json["items"][0]["clusters"][0]["fields"]["readyReplicas"], 3, "{json}");
}
