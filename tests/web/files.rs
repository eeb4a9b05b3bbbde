//! Pages from files: they need no hub, and show all faults.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use policy_sync_testenv::fixtures::{
    gateway, gateway_class, managed_cluster, params_config_map, placement, placement_decision,
    rate_limit_policy,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::site::{Site, annotations, command, entry, has_rules, route};

/// An empty kubeconfig.
const NONE: &str = "/dev/null";

/// A folder with a fleet of two clusters, an invalid route, and a document that is not an object.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let kinds = json!({"policiesToSync": [{"group": "kuadrant.io", "version": "v1", "resource": "ratelimitpolicies"}]});
    let entries = [
        entry("eu-1", false, &[]),
        entry("us-1", true, &[("Accepted", "True", "Accepted"), ("Enforced", "True", "Enforced")]),
    ];
    let mut limits = rate_limit_policy("shop", "limits", "web");
    limits["metadata"]["annotations"] = json!(annotations(&entries));
    let mut elsewhere = rate_limit_policy("other", "limits", "web");
    elsewhere["metadata"]["annotations"] = json!(annotations(&entries));
    let objects = [
        gateway_class("multi", "kuadrant.io/policy-sync", Some(("shop", "params"))),
        params_config_map("shop", "params", &kinds),
        gateway("shop", "web", "multi", Some("all")),
        placement("shop", "all", 2),
        placement_decision("shop", "all", 1, &["eu-1", "us-1"]),
        managed_cluster("eu-1", &BTreeMap::from([("region".to_owned(), "eu".to_owned())])),
        managed_cluster("us-1", &BTreeMap::new()),
        route("shop", "cart", "web"),
        route("shop", "astray", "nowhere"),
        json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": {"name": "odd", "namespace": "shop"},
            "spec": {"parentRefs": 3}}),
        limits,
        elsewhere,
    ];
    let texts: Vec<String> = objects.iter().map(Value::to_string).collect();
    fs::write(folder.path().join("fleet.yaml"), texts.join("\n---\n") + "\n---\nkind: 3\n").unwrap();
    folder
}

async fn site(folder: &Path, more: &[&str]) -> Site {
    let arguments = [&["-f", folder.to_str().unwrap()], more].concat();
    Site::start(Path::new(NONE), &arguments).await
}

#[tokio::test]
async fn files_are_shown_without_a_kubeconfig() {
    let folder = folder();
    let site = site(folder.path(), &[]).await;
    let fleet = site.get("/").await;
    assert_eq!(fleet.status, 200, "{fleet:?}");
    for text in [
        "2 policies on 2 clusters. 2 are out of sync",
        "Files, as they were",
        "fleet.yaml:25: ",
        "Pending",
        "Enforced",
    ] {
        assert!(fleet.body.contains(text), "{text}: {fleet:?}");
    }
    let of_eu = site.get("/?clusters=region%3Deu").await.body;
    assert!(of_eu.contains("/clusters/eu-1\"") && !of_eu.contains("/clusters/us-1\""), "{of_eu}");

    let policy = "/policies/ratelimitpolicy.kuadrant.io/shop/limits";
    let page = site.get(policy).await.body;
    for text in ["1 of 2 clusters", "In force on 1 path: HTTPRoute shop/cart", "href=\"/gateways/shop/web\""]
    {
        assert!(page.contains(text), "{text}: {page}");
    }
    // `explain` does not support files.
    assert!(!page.contains("Explain"), "{page}");
    assert_eq!(site.get("/policies/ratelimitpolicy.kuadrant.io/shop/none").await.status, 404);
    assert_eq!(site.get("/policies/authpolicy.kuadrant.io/shop/limits").await.status, 404);

    let page = site.get("/gateways/shop/web").await;
    assert!(page.body.contains("HTTPRoute shop/cart") && page.body.contains("<svg"), "{page:?}");
    assert_eq!(site.get("/gateways/shop/nowhere").await.status, 404);

    for page in [site.get("/").await, site.get("/gateways/shop/web").await] {
        let faults = [("fleet.yaml:19: ", "shop/odd"), ("fleet.yaml:25: ", "")];
        for (place, object) in faults {
            assert!(page.body.contains(place) && page.body.contains(object), "{place}: {page:?}");
        }
    }

    // Missing input is shown as unknown, not as absent.
    let page = site.get("/clusters/us-1").await;
    assert!(page.body.contains("no ManifestWork is given") && !page.body.contains("not written"), "{page:?}");
    assert_eq!(site.get("/clusters/ap-1").await.status, 404);
}

#[tokio::test]
async fn effective_policies_of_files_match_the_command() {
    let folder = folder();
    let site = site(folder.path(), &[]).await;
    let files =
        ["effective", "-f", folder.path().to_str().unwrap(), "-o", "json", "--host", "shop.example.com"];
    for (path, more) in [("&path=/cart", &["--path", "/cart"][..]), ("&cluster=*", &["--clusters"])] {
        let printed = command(Path::new(NONE), &[&files[..], more].concat()).output().unwrap();
        let page = site.get(&format!("/effective?host=shop.example.com{path}")).await.body;
        assert!(has_rules(&page, &printed.stdout) > 0, "{page}");
    }
    assert_eq!(site.get("/effective?host=a.io&cluster=ap-1").await.status, 404);
}

#[tokio::test]
async fn saved_manifestworks_show_the_objects_of_a_cluster() {
    let folder = folder();
    let arguments = ["plan", "-f", folder.path().to_str().unwrap()];
    let whole = fs::read_to_string(folder.path().join("fleet.yaml")).unwrap();
    let objects = whole.split("\n---\n").filter(|text| !text.starts_with("kind: 3"));
    fs::write(folder.path().join("fleet.yaml"), objects.collect::<Vec<_>>().join("\n---\n")).unwrap();
    let works = command(Path::new(NONE), &arguments).output().unwrap().stdout;
    assert!(String::from_utf8_lossy(&works).contains("kind: ManifestWork"), "{works:?}");
    fs::write(folder.path().join("works.yaml"), works).unwrap();
    let site = site(folder.path(), &[]).await;
    let page = site.get("/clusters/us-1").await.body;
    assert!(page.contains("shop/limits") && page.contains("Pending"), "{page}");
    assert!(!page.contains("no ManifestWork is given"), "{page}");
}

#[tokio::test]
async fn namespace_flag_hides_other_namespaces() {
    let folder = folder();
    let site = site(folder.path(), &["-n", "shop"]).await;
    let fleet = site.get("/").await.body;
    assert!(fleet.contains("1 policy in namespace shop on 2 clusters"), "{fleet}");
    assert!(!fleet.contains("other/limits"), "{fleet}");
}

#[test]
fn unreadable_files_are_reported() {
    let run = |file: &str| command(Path::new(NONE), &["web", "-f", file]).output().unwrap();
    let missing = run("/nonexistent/fleet.yaml");
    assert_eq!(missing.status.code(), Some(2), "{missing:?}");
    assert!(
        String::from_utf8_lossy(&missing.stderr).contains("cannot read /nonexistent/fleet.yaml"),
        "{missing:?}"
    );
    let empty = tempfile::tempdir().unwrap();
    let none = run(empty.path().to_str().unwrap());
    assert!(String::from_utf8_lossy(&none.stderr).contains("has no .yaml, .yml or .json file"), "{none:?}");
}

#[tokio::test]
async fn pages_show_no_contents_of_secrets() {
    const KEY: &str = "aHVudGVyMg==";
    let folder = folder();
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "web", "namespace": "shop"},
        "type": "kubernetes.io/tls", "data": {"tls.crt": KEY, "tls.key": KEY}});
    let work = json!({"apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
        "metadata": {"name": "gateway-web", "namespace": "us-1"}, "spec": {"workload": {"manifests": [secret]}}});
    let mut listens = gateway("shop", "secure", "multi", Some("all"));
    listens["spec"]["listeners"] = json!([{"name": "https", "port": 443, "protocol": "HTTPS",
        "tls": {"certificateRefs": [{"name": "web"}]}}]);
    let texts = [secret, work, listens].map(|object| object.to_string()).join("\n---\n");
    fs::write(folder.path().join("secrets.yaml"), texts).unwrap();
    let site = site(folder.path(), &[]).await;
    for path in [
        "/",
        "/clusters/us-1",
        "/gateways/shop/web",
        "/gateways/shop/secure",
        "/effective?namespace=shop&cluster=*",
    ] {
        let page = site.get(path).await;
        assert_eq!(page.status, 200, "{path}");
        assert!(!page.body.contains("aHVudGVyMg") && !page.body.contains("hunter2"), "{path}: {}", page.body);
    }
}
