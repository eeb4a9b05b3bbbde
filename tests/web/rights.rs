//! Pages for users with few rights, and for a cluster that is not a hub.

use policy_sync_testenv::certificates::User;
use policy_sync_testenv::fixtures::rate_limit_policy;
use policy_sync_testenv::running::Running;
use policy_sync_testenv::{ControlPlane, ControlPlaneOptions, apply::apply};
use serde_json::{Value, json};

use crate::site::{Site, annotated, annotations, command, entry, hub, tenant};

#[tokio::test]
async fn user_with_rights_in_one_namespace_sees_it_and_a_notice() {
    let tenant = tenant("web-rights").await;
    let policy = rate_limit_policy("web-rights", "limits", "web");
    annotated(tenant.client(), &policy, annotations(&[entry("eu-1", true, &[])])).await;
    let group = "rbac.authorization.k8s.io";
    let verbs = ["get", "list", "watch"];
    let rules = json!([
        {"apiGroups": ["kuadrant.io"], "resources": ["ratelimitpolicies"], "verbs": verbs},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs},
        {"apiGroups": ["gateway.networking.k8s.io"], "resources": ["gateways", "httproutes"], "verbs": verbs},
    ]);
    let classes = json!([{"apiGroups": ["gateway.networking.k8s.io"], "resources": ["gatewayclasses"], "verbs": verbs}]);
    for (prefix, namespace, rules) in [("", Some("web-rights"), rules), ("Cluster", None, classes)] {
        let metadata = json!({"name": "web-rights-reader", "namespace": namespace});
        let role = json!({"apiVersion": format!("{group}/v1"), "kind": format!("{prefix}Role"), "metadata": metadata, "rules": rules});
        let binding = json!({
            "apiVersion": format!("{group}/v1"), "kind": format!("{prefix}RoleBinding"), "metadata": metadata,
            "roleRef": {"apiGroup": group, "kind": format!("{prefix}Role"), "name": "web-rights-reader"},
            "subjects": [{"apiGroup": group, "kind": "User", "name": "web-reader"}],
        });
        for object in [role, binding] {
            apply(tenant.client(), &object).await.unwrap();
        }
    }
    let kubeconfig = tenant.hub().kubeconfig_for(&User::new("web-reader")).unwrap();
    let controller = tenant.controller_name();

    // The user may not list policies in all namespaces. The page has a notice instead of an empty table.
    let all = Site::start(&kubeconfig, &["--controller-name", &controller]).await;
    let is_said =
        |page: &str| page.contains("Some objects cannot be read") && page.contains("RateLimitPolicy");
    let page = all.until("/", is_said).await;
    assert!(!page.contains("<table") && !page.contains("There is no policy"), "{page}");
    all.process.says("RateLimitPolicy").await;

    let one = Site::start(&kubeconfig, &["--controller-name", &controller, "-n", "web-rights"]).await;
    let is_shown = |page: &str| page.contains("web-rights/limits") && page.contains("ManagedCluster");
    let page = one.until("/", is_shown).await;
    // The user may not read ManagedClusters, so the page has a notice. The page links to the cluster that the policy's
    // annotation names.
    assert!(page.contains("/clusters/eu-1") && page.contains("AuthPolicy"), "{page}");
    let cluster = one.get("/clusters/eu-1").await;
    assert!(cluster.status == 200 && cluster.body.contains("Some objects cannot be read"), "{cluster:?}");
    assert!(!cluster.body.contains("This cluster has no synced objects"), "{cluster:?}");
    let policy = one.get("/policies/ratelimitpolicies.kuadrant.io/web-rights/limits").await;
    assert!(
        policy.body.contains("Some objects cannot be read") && policy.body.contains("ManagedCluster"),
        "{policy:?}"
    );

    // The page shows the objects in the namespace, and reports that other objects may be missing.
    let route = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": {"name": "cart", "namespace": "web-rights"}, "spec": {"parentRefs": [{"name": "web"}]},
    });
    apply(tenant.client(), &route).await.unwrap();
    let attached = |page: &str| {
        page.contains("HTTPRoute web-rights/cart") && page.contains("RateLimitPolicy web-rights/limits")
    };
    let page = one.until("/gateways/web-rights/web", attached).await;
    assert!(page.contains("Some objects cannot be read") && page.contains("HTTPRoute, AuthPolicy"), "{page}");
    assert!(page.contains(UNKNOWN) && !page.contains(FINE), "{page}");
    let none = all.get("/gateways/web-rights/web").await;
    assert!(
        none.status == 403 && none.body.contains("It is unknown whether this Gateway exists: "),
        "{none:?}"
    );
    let begin = all.get("/effective").await;
    assert!(
        begin.body.contains("Some objects cannot be read") && begin.body.contains("Gateway"),
        "{begin:?}"
    );
    let request = all.get("/effective?host=shop.example.com").await;
    assert!(request.body.contains("It is unknown whether a route matches this request"), "{request:?}");
    assert!(!request.body.contains("No route matches"), "{request:?}");
}

/// The summary on the page of a Gateway.
const FINE: &str = "Everything is attached, and every policy has an effect.";
const UNKNOWN: &str = "It is unknown whether everything is attached, and every policy has an effect";

#[tokio::test]
async fn gateway_page_is_unknown_without_the_right_to_its_routes() {
    let tenant = tenant("web-routeless").await;
    tenant.apply(&rate_limit_policy("web-routeless", "limits", "web")).await.unwrap();
    let group = "rbac.authorization.k8s.io";
    let name = "web-routeless-reader";
    let rules = json!([
        {"apiGroups": ["kuadrant.io", "policies.example.com", "cluster.open-cluster-management.io"], "resources": ["*"]},
        {"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"]},
        {"apiGroups": [""], "resources": ["configmaps", "services", "namespaces"]},
        {"apiGroups": ["gateway.networking.k8s.io"], "resources": ["gatewayclasses", "gateways", "referencegrants"]},
    ]);
    let with_verbs = |rule: &Value| {
        let mut rule = rule.clone();
        rule["verbs"] = json!(["get", "list", "watch"]);
        rule
    };
    let rules: Vec<Value> = rules.as_array().unwrap().iter().map(with_verbs).collect();
    let role = json!({
        "apiVersion": format!("{group}/v1"), "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules,
    });
    let binding = json!({
        "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": group, "kind": "User", "name": name}],
    });
    for object in [role, binding] {
        apply(tenant.client(), &object).await.unwrap();
    }
    let kubeconfig = tenant.hub().kubeconfig_for(&User::new(name)).unwrap();
    let site = Site::start(&kubeconfig, &["--controller-name", &tenant.controller_name()]).await;
    let path = "/gateways/web-routeless/web";
    let page = site.until(path, |page| page.contains("web-routeless/limits")).await;
    assert!(page.contains("Some objects cannot be read") && page.contains("<li>HTTPRoute: "), "{page}");
    assert!(page.contains(UNKNOWN) && !page.contains(FINE), "{page}");
    // All Gateways are known.
    let none = site.get("/gateways/web-routeless/nowhere").await;
    assert!(none.status == 404 && none.body.contains("There is no such Gateway."), "{none:?}");
    // With the right to list routes, the page shows that all routes are attached.
    let all = Site::of(&tenant).await;
    all.until(path, |page| page.contains(FINE) && !page.contains(UNKNOWN)).await;
}

#[tokio::test]
async fn absent_namespace_is_reported() {
    let hub = hub().await;
    let mut process = Running::start(command(hub.kubeconfig(), &["web", "--port", "0", "-n", "shpo"]));
    process.says(&format!("policy-sync: --namespace: the hub at {} has no namespace shpo", hub.url())).await;
    assert_eq!(process.ends().await, Some(1));
}

#[tokio::test]
async fn cluster_without_gateway_api_is_rejected() {
    let plain = ControlPlane::start(ControlPlaneOptions::named("web-plain")).await.unwrap();
    let mut process = Running::start(command(plain.kubeconfig(), &["web", "--port", "0"]));
    process.says("Gateway API is not installed").await;
    assert_eq!(process.ends().await, Some(2));
}
