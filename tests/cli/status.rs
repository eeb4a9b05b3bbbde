//! `policy-sync status` on a real hub. The tests write the annotations of the controller.

mod cluster;
mod fail_on;
mod gateways;
mod not_synced;
mod resources;
mod rights;
mod spoke;
mod watch;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use kube::Client;
use kube::api::{Patch, PatchParams};
use policy_sync_api::annotations::{
    POLICIES_SYNCED, POLICIES_SYNCED_SUMMARY, POLICY_ANNOTATIONS, POLICY_SYNC_MESSAGE,
};
use policy_sync_testenv::apply::{api_for, apply};
use policy_sync_testenv::certificates::User;
use policy_sync_testenv::crds::{self, ClusterType, Crd};
use policy_sync_testenv::tenant::LIMIT;
use policy_sync_testenv::{ControlPlane, ControlPlaneOptions, Tenant, binaries, fixtures, wait};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::params::check_on;
use crate::run::{CommandOutput, command, finish, run};

/// The annotations of a policy on two clusters. On `eu-1`, the spoke's own policy overrides the copy.
pub(crate) fn annotations(applied: bool) -> BTreeMap<&'static str, String> {
    let entry = |cluster: &str, applied: bool, status: &str, reason: &str| {
        json!({"cluster": cluster, "name": "limits", "namespace": "kuadrant-shop", "applied": applied,
               "conditions": [{"type": "Enforced", "status": status, "reason": reason}]})
    };
    let entries = [entry("eu-1", true, "False", "Overridden"), entry("us-1", applied, "True", "Enforced")];
    let summary = json!({"clusters": 2, "applied": 1 + usize::from(applied), "enforced": 1, "overridden": 1,
        "pending": usize::from(!applied), "synced": applied});
    BTreeMap::from([
        (POLICIES_SYNCED, json!(entries).to_string()),
        (POLICIES_SYNCED_SUMMARY, summary.to_string()),
    ])
}

/// Writes `policy` with these annotations, and removes all other annotations of the controller. The patch is
/// JSON: server-side apply parses YAML, which rejects some characters that may come from a spoke.
pub(crate) async fn annotated(client: &Client, policy: Value, annotations: BTreeMap<&str, String>) {
    apply(client, &policy).await.unwrap();
    let all = POLICY_ANNOTATIONS.map(|key| (key, annotations.get(key)));
    let (policies, name) = api_for(client, &policy).await.unwrap();
    let patch = json!({"metadata": {"annotations": BTreeMap::from(all)}});
    policies.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

fn status(kubeconfig: &Path, arguments: &[&str]) -> CommandOutput {
    let mut command = command(&["status", "--kubeconfig", kubeconfig.to_str().unwrap()]);
    command.args(arguments);
    finish(command, "")
}

/// Creates a tenant on a hub that only the tests of `status` share. No controller runs on this hub, because it would
/// remove the annotations that the tests write.
pub(crate) async fn tenant(name: &str) -> Tenant<'static> {
    static HUB: OnceCell<ControlPlane> = OnceCell::const_new();
    let start = || async {
        let crds = crds::for_cluster_type(ClusterType::Hub, &binaries::ensure().await?)?;
        let options = ControlPlaneOptions { crds, ..ControlPlaneOptions::named("status-tenants") };
        let hub = ControlPlane::start(options).await?;
        for cluster in ["eu-1", "us-1"] {
            apply(&hub.client()?, &fixtures::managed_cluster(cluster, &BTreeMap::new())).await?;
        }
        anyhow::Ok(hub)
    };
    let hub = HUB.get_or_try_init(start).await.unwrap();
    Tenant::new(hub, Path::new(env!("CARGO_BIN_EXE_policy-sync")), name, &[]).await.unwrap()
}

/// Runs `status` for a tenant with `kubeconfig`.
pub(crate) fn status_of(tenant: &Tenant<'_>, kubeconfig: &Path, arguments: &[&str]) -> CommandOutput {
    let controller = tenant.controller_name();
    status(kubeconfig, &[&["--controller-name", &controller], arguments].concat())
}

/// The kubeconfig of a user with these rights. Each right is a namespace (`None` for all), a group, and resources.
async fn user_with(tenant: &Tenant<'_>, name: &str, rights: &[(Option<&str>, &str, &str)]) -> PathBuf {
    reader(tenant.hub(), name, rights).await
}

/// The kubeconfig of the user `name` of `hub` with these rights to read. Each right is a namespace (`None` for all), a
/// group, and resources.
pub(crate) async fn reader(hub: &ControlPlane, name: &str, rights: &[(Option<&str>, &str, &str)]) -> PathBuf {
    let group = "rbac.authorization.k8s.io";
    for (index, (namespace, api_group, resources)) in rights.iter().enumerate() {
        let prefix = if namespace.is_some() { "" } else { "Cluster" };
        let metadata = json!({"name": format!("{name}-{index}"), "namespace": namespace});
        let role = json!({
            "apiVersion": format!("{group}/v1"), "kind": format!("{prefix}Role"), "metadata": metadata,
            "rules": [{"apiGroups": [api_group], "resources": [resources], "verbs": ["get", "list"]}],
        });
        let binding = json!({
            "apiVersion": format!("{group}/v1"), "kind": format!("{prefix}RoleBinding"), "metadata": metadata,
            "roleRef": {"apiGroup": group, "kind": format!("{prefix}Role"), "name": metadata["name"]},
            "subjects": [{"apiGroup": group, "kind": "User", "name": name}],
        });
        for object in [role, binding] {
            apply(&hub.client().unwrap(), &object).await.unwrap();
        }
    }
    hub.kubeconfig_for(&User::new(name)).unwrap()
}

/// The words of each line, without the last column, which is an age.
fn rows(ran: &CommandOutput) -> Vec<Vec<&str>> {
    ran.stdout
        .lines()
        .map(|line| {
            let mut words: Vec<&str> = line.split_whitespace().collect();
            words.pop();
            words
        })
        .collect()
}

fn refused(ran: &CommandOutput, says: &str) {
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{}", ran.stderr);
    assert!(ran.stderr.contains(says) && ran.stderr.lines().count() == 1, "{}", ran.stderr);
}

#[test]
fn missing_hub_is_reported_in_one_line() {
    refused(&run(&["status"]), "no hub is configured");
    refused(&run(&["status", "--kubeconfig", "nowhere"]), "cannot read kubeconfig nowhere");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "clusters: [").unwrap();
    refused(&status(file.path(), &[]), "kubeconfig");
    assert_eq!(run(&["status", "-n", "shop", "-A"]).code, 2);
}

#[tokio::test]
async fn status_shows_the_objects_of_a_hub() {
    let hub = ControlPlane::start(ControlPlaneOptions::named("status")).await.unwrap();
    let client = hub.client().unwrap();
    let kubeconfig = hub.kubeconfig();

    without(kubeconfig, "GatewayClasses: Gateway API is not installed");
    let (gateway_api, others): (Vec<Crd>, Vec<Crd>) =
        crds::for_cluster_type(ClusterType::Hub, &binaries::ensure().await.unwrap())
            .unwrap()
            .into_iter()
            .partition(|crd| crd.name().ends_with(".gateway.networking.k8s.io"));
    crds::install(&client, &gateway_api).await.unwrap();
    has_api(&client, "gateway.networking.k8s.io").await;
    without(kubeconfig, "ManifestWorks: Open Cluster Management is not installed");
    crds::install(&client, &others).await.unwrap();
    has_api(&client, "work.open-cluster-management.io").await;
    let ran = status(kubeconfig, &[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{}", ran.stderr);
    assert!(ran.stderr.contains("no GatewayClass of the hub has the controllerName"), "{}", ran.stderr);

    let gvr = |group: &str, version: &str, resource: &str| json!({"group": group, "version": version, "resource": resource});
    let listed = json!({"policiesToSync": [
        gvr("kuadrant.io", "v1", "ratelimitpolicies"),
        gvr("policies.example.com", "v1alpha1", "timeoutpolicies"),
    ]});
    for object in [
        fixtures::namespace("shop"),
        fixtures::namespace("other"),
        fixtures::params_config_map("shop", "params", &listed),
        fixtures::gateway_class("synced", "kuadrant.io/policy-sync", Some(("shop", "params"))),
    ] {
        apply(&client, &object).await.unwrap();
    }
    let ran = status(kubeconfig, &["-A"]);
    assert_eq!(
        (ran.code, ran.stdout.as_str(), ran.stderr.as_str()),
        (0, "", "no Gateway and no policy found\n")
    );

    check_healthy(&client, kubeconfig).await;
    check_unhealthy(&client, kubeconfig).await;
    wrong_parameters(&client, kubeconfig).await;

    let nobody = hub.kubeconfig_for(&User::new("nobody")).unwrap();
    refused(&status(&nobody, &[]), "cannot list GatewayClasses on the hub at");
    hub.stop_api_server();
    refused(&status(kubeconfig, &[]), "cannot reach the hub at");
    refused(&check_on(kubeconfig, &json!({})), "cannot reach the hub at");
}

/// Waits until API discovery lists `group`, which happens a little later than the hub serves the group.
async fn has_api(client: &Client, group: &str) {
    wait::until(&format!("the hub serves {group}"), LIMIT, || async {
        let groups = client.list_api_groups().await?.groups;
        anyhow::ensure!(groups.iter().any(|served| served.name == group), "the API group is not served yet");
        Ok(())
    })
    .await
    .unwrap();
}

/// Checks the message of commands for a hub without these kinds.
fn without(kubeconfig: &Path, kinds: &str) {
    for ran in [status(kubeconfig, &[]), check_on(kubeconfig, &json!({}))] {
        refused(&ran, &format!("has no {kinds}"));
    }
}

async fn check_healthy(client: &Client, kubeconfig: &Path) {
    annotated(client, fixtures::rate_limit_policy("shop", "limits", "web"), annotations(true)).await;
    annotated(client, fixtures::timeout_policy("other", "timeouts", &["web"]), BTreeMap::new()).await;

    let ran = status(kubeconfig, &["-A"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    assert_eq!(
        rows(&ran),
        [
            vec!["NAMESPACE", "KIND", "NAME", "STATE", "CLUSTERS", "ENFORCED", "OVERRIDDEN", "MESSAGE"],
            vec!["other", "TimeoutPolicy", "timeouts", "-", "-", "-", "-", "-"],
            vec![
                "shop",
                "RateLimitPolicy",
                "limits",
                "Overridden",
                "2/2",
                "1/2",
                "eu-1",
                "eu-1:",
                "Overridden"
            ],
        ]
    );
    // The context sets no namespace.
    assert_eq!(status(kubeconfig, &[]).stderr, "no Gateway and no policy found in namespace default\n");
    assert_eq!(status(kubeconfig, &["policies"]).stderr, "no policy found in namespace default\n");
    assert_eq!(status(kubeconfig, &["gateways"]).stderr, "no Gateway found in namespace default\n");
    for word in ["ratelimitpolicies", "RateLimitPolicy", "ratelimitpolicy", "ratelimitpolicies.kuadrant.io"] {
        let ran = status(kubeconfig, &[word, "limits", "-n", "shop"]);
        let row =
            vec!["RateLimitPolicy", "limits", "Overridden", "2/2", "1/2", "eu-1", "eu-1:", "Overridden"];
        assert_eq!(rows(&ran)[1..], [row]);
    }
    let ran = status(kubeconfig, &["ratelimitpolicy", "limits", "-n", "shop", "-o", "wide"]);
    assert_eq!(
        ran.stdout,
        "CLUSTER   STATE        APPLIED   ENFORCED   REASON       MESSAGE\n\
         eu-1      Overridden   yes       False      Overridden   -\n\
         us-1      Enforced     yes       True       Enforced     -\n"
    );
    let json: Value = serde_json::from_str(&status(kubeconfig, &["-A", "-o", "json"]).stdout).unwrap();
    assert_eq!(json["items"][1]["summary"]["enforced"], 1);
    assert_eq!(json["items"][1]["clusters"][0]["conditions"][0]["reason"], "Overridden");
    assert_eq!(json["items"][1]["states"], json!({"eu-1": "Overridden", "us-1": "Enforced"}));
    assert_eq!(json["items"][0]["clusters"], Value::Null);
    let yaml: Value = serde_saphyr::from_str(&status(kubeconfig, &["-A", "-o", "yaml"]).stdout).unwrap();
    assert_eq!(yaml, json);

    refused(
        &status(kubeconfig, &["authpolicy"]),
        "\"authpolicy\" is not a synced kind: the parameters of the controller's GatewayClasses list \
         RateLimitPolicy, TimeoutPolicy, but not authpolicies.kuadrant.io",
    );
    refused(
        &status(kubeconfig, &["anything"]),
        "\"anything\" is not a synced kind: the parameters of the controller's GatewayClasses list RateLimit",
    );
    refused(&status(kubeconfig, &["-n", "../.."]), "is not a valid Kubernetes name");
    let ran = status(kubeconfig, &["ratelimitpolicy", "nothing", "-n", "shop"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (1, "no policy nothing found in namespace shop\n"));
    let ran = status(kubeconfig, &["policies", "-n", "shpo"]);
    assert!(ran.code == 1 && ran.stderr.contains(" has no namespace shpo\n"), "{}", ran.stderr);
}

async fn check_unhealthy(client: &Client, kubeconfig: &Path) {
    annotated(client, fixtures::rate_limit_policy("shop", "limits", "web"), annotations(false)).await;
    let ran = status(kubeconfig, &["-n", "shop"]);
    assert_eq!(
        (ran.code, &rows(&ran)[1][..]),
        (1, &["RateLimitPolicy", "limits", "Pending", "1/2", "1/2", "eu-1", "us-1:", "Pending"][..])
    );

    let evil = "frozen\n\u{1b}[31mred\u{9b} \u{202e}der";
    let mut frozen = annotations(true);
    frozen.insert(POLICY_SYNC_MESSAGE, evil.to_owned());
    annotated(client, fixtures::rate_limit_policy("shop", "limits", "web"), frozen).await;
    let ran = status(kubeconfig, &["-n", "shop"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stdout.contains("frozen\\n\\u{1b}[31mred\\u{9b} \\u{202e}der"), "{}", ran.stdout);
    for output in ["json", "yaml"] {
        let text = status(kubeconfig, &["-n", "shop", "-o", output]).stdout;
        assert!(!text.chars().any(|c| (c.is_control() && c != '\n') || c == '\u{202e}'), "{text:?}");
        let value: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(value["items"][0]["message"], evil);
    }

    let broken =
        BTreeMap::from([(POLICIES_SYNCED, "[".to_owned()), (POLICIES_SYNCED_SUMMARY, "{}".to_owned())]);
    annotated(client, fixtures::rate_limit_policy("shop", "limits", "web"), broken).await;
    let ran = status(kubeconfig, &["-n", "shop"]);
    assert_eq!(
        (ran.code, &rows(&ran)[1][..]),
        (1, &["RateLimitPolicy", "limits", "?", "?", "?", "?", "-"][..])
    );
    assert!(
        ran.stderr.contains("shop/limits: annotation kuadrant.io/policies-synced: EOF"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("policies-synced-summary: missing field"), "{}", ran.stderr);
}

async fn wrong_parameters(client: &Client, kubeconfig: &Path) {
    let listed =
        json!({"policiesToSync": [{"group": "example.com", "version": "v1", "resource": "nonepolicies"}]});
    apply(client, &fixtures::params_config_map("shop", "params", &listed)).await.unwrap();
    let ran = status(kubeconfig, &["-A"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""));
    assert!(
        ran.stderr.contains("error: example.com/v1 nonepolicies: the hub has no such custom resource"),
        "{}",
        ran.stderr
    );

    let invalid = json!({"policiesToSync": 1});
    apply(client, &fixtures::params_config_map("shop", "params", &invalid)).await.unwrap();
    let ran = status(kubeconfig, &["-A"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""));
    assert!(
        ran.stderr.contains(
            "error: GatewayClass synced: parameters shop/params: policiesToSync: expected a list, found 1"
        ),
        "{}",
        ran.stderr
    );
}
