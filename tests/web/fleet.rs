//! The pages of the fleet, of a policy and of a cluster show the same data as the commands.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::ensure;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use policy_sync_api::annotations::{POLICIES_SYNCED, POLICIES_SYNCED_DETAIL, POLICY_SYNC_MESSAGE};
use policy_sync_api::names::ControllerName;
use policy_sync_api::policy_state::PolicyState;
use policy_sync_hub::telemetry::metrics::Metrics;
use policy_sync_hub::{HubClient, RequestTimeout, watch_client};
use policy_sync_report::fleet::{Live, Matrix, MatrixQuery};
use policy_sync_testenv::fixtures::{auth_policy, rate_limit_policy};
use policy_sync_testenv::tenant::LIMIT;
use policy_sync_testenv::{Tenant, wait};
use serde_json::Value;

use crate::site::{Site, annotated, annotations, command, entry, tenant};

const ROOM: (usize, usize) = (100, 50);

/// Writes policies in all possible states.
async fn write(tenant: &Tenant<'_>) {
    let name = tenant.name();
    let policy = |policy: &str| rate_limit_policy(name, policy, "web");
    let enforced = [("Accepted", "True", "Accepted"), ("Enforced", "True", "Enforced")];
    let overridden = [("Enforced", "False", "Overridden")];
    let without = [("Enforced", "False", "Unknown")];
    let not_taken = [("Accepted", "False", "Invalid")];
    let client = tenant.client();
    let fine = [entry("eu-1", true, &enforced), entry("us-1", true, &overridden)];
    annotated(client, &policy("fine"), annotations(&fine)).await;
    let mut pending = entry("us-1", false, &[]);
    pending.pending = true;
    annotated(client, &policy("pending"), annotations(&[entry("eu-1", true, &[]), pending])).await;
    let mut refused = entry("us-1", false, &[]);
    refused.message = Some("no room <b>".to_owned());
    annotated(client, &policy("refused"), annotations(&[entry("eu-1", true, &without), refused])).await;
    annotated(client, &policy("invalid"), annotations(&[entry("eu-1", true, &not_taken)])).await;
    let mut partial = entry("eu-1", true, &enforced);
    partial.partial = true;
    let accepted = entry("us-1", true, &[("Accepted", "True", "Accepted")]);
    annotated(client, &policy("partial"), annotations(&[partial, accepted])).await;
    let mut frozen = fine.clone();
    frozen.iter_mut().for_each(|entry| entry.frozen = Some("BadOverrides".to_owned()));
    let mut frozen = annotations(&frozen);
    frozen.insert(POLICY_SYNC_MESSAGE, "overrides cannot be read".to_owned());
    annotated(client, &policy("frozen"), frozen).await;
    let mut leaving = entry("us-1", false, &[]);
    leaving.deleting = true;
    annotated(client, &policy("leaving"), annotations(&[leaving])).await;
    let mut keys = annotations(&[entry("eu-1", false, &[])]);
    keys.insert(POLICIES_SYNCED_DETAIL, "keys".to_owned());
    annotated(client, &policy("keys"), keys).await;
    let mut first = annotations(&[entry("eu-1", false, &[]), entry("us-1", false, &[])]);
    first.insert(POLICIES_SYNCED, serde_json::json!([entry("eu-1", false, &[])]).to_string());
    first.insert(POLICIES_SYNCED_DETAIL, "first 1 of 2".to_owned());
    annotated(client, &policy("first"), first).await;
    let mut broken = annotations(&fine);
    broken.insert(POLICIES_SYNCED, "[".to_owned());
    annotated(client, &policy("broken"), broken).await;
    annotated(client, &policy("untold"), BTreeMap::new()).await;
    annotated(client, &auth_policy(name, "auth", "web"), annotations(&fine)).await;
}

/// The number of policies that [`write`] writes.
const ALL: usize = 12;

/// The watches of a hub, once they have delivered this number of policies.
async fn live(tenant: &Tenant<'_>, policies: usize) -> Arc<Live> {
    let kubeconfig = Kubeconfig::read_from(tenant.hub().kubeconfig()).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    let client = watch_client(config.clone(), &Metrics::new().unwrap(), RequestTimeout::default()).unwrap();
    let hub = HubClient::new(config, RequestTimeout::default()).unwrap();
    let controller = ControllerName::new(&tenant.controller_name());
    let live = Arc::new(Live::start(hub, client, controller, Some(tenant.name())).await.unwrap());
    wait::until("all policies and clusters are listed", LIMIT, || async {
        let matrix = matrix(&live, MatrixQuery::default());
        ensure!(matrix.policies == policies && matrix.clusters == Some(2), "{matrix:#?}");
        Ok(())
    })
    .await
    .unwrap();
    live
}

fn matrix(live: &Live, query: MatrixQuery) -> Matrix {
    Matrix::new(&live.view(), &MatrixQuery { limit: ROOM, ..query })
}

/// The JSON output of a command.
fn printed(tenant: &Tenant<'_>, arguments: &[&str]) -> Value {
    let controller = tenant.controller_name();
    let arguments = [arguments, &["--controller-name", &controller, "-o", "json"]].concat();
    let ran = command(tenant.hub().kubeconfig(), &arguments).output().unwrap();
    serde_json::from_slice(&ran.stdout).unwrap()
}

#[tokio::test]
async fn matrix_cells_match_the_status_command() {
    let tenant = tenant("web-matrix").await;
    write(&tenant).await;
    let live = live(&tenant, ALL).await;
    let shown = matrix(&live, MatrixQuery::default());
    let mut states = std::collections::BTreeSet::new();
    for (place, column) in shown.columns.iter().enumerate() {
        let items =
            printed(&tenant, &["status", "policies", "-n", "web-matrix", "--cluster", &column.cluster.0]);
        let items: BTreeMap<(String, String), Value> = items["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| {
                let text = |key: &str| item[key].as_str().unwrap().to_owned();
                ((text("kind"), text("name")), item.clone())
            })
            .collect();
        for row in &shown.rows {
            let item = items.get(&(row.kind.clone(), row.key.name.to_string()));
            match (&row.cells[place], item) {
                (Some(cell), Some(item)) => {
                    assert_eq!(cell.in_sync, item["inSync"], "{row:?} on {}: {item}", column.cluster);
                    // If the annotations do not show the state, `status` has null.
                    let state = item["states"][&*column.cluster.0].as_str().unwrap_or("Unknown");
                    assert_eq!(cell.state.as_str(), state, "{row:?} on {}: {item}", column.cluster);
                    states.insert(cell.state);
                }
                (None, None) => {}
                (cell, item) => panic!("{cell:?}, {item:?}: {row:?} on {}", column.cluster),
            }
        }
    }
    // The test writes no policy in the state Applied, and all clusters are available.
    let other = [PolicyState::Applied, PolicyState::Unreachable];
    let expected = PolicyState::ALL.into_iter().filter(|state| !other.contains(state)).collect();
    assert_eq!(states, expected, "not every state is covered");
    let all = printed(&tenant, &["status", "policies", "-n", "web-matrix"]);
    let all = all["items"].as_array().unwrap();
    assert_eq!(shown.policies, all.len());
    assert_eq!(shown.not_synced, all.iter().filter(|item| item["inSync"] == false).count());
}

#[tokio::test]
async fn worst_states_come_first_and_filters_apply() {
    let tenant = tenant("web-filters").await;
    write(&tenant).await;
    let live = live(&tenant, ALL).await;
    let names =
        |matrix: &Matrix| -> Vec<String> { matrix.rows.iter().map(|row| row.key.name.to_string()).collect() };
    let all = matrix(&live, MatrixQuery::default());
    let out_of_sync: Vec<usize> = all.columns.iter().map(|column| column.out_of_sync).collect();
    assert!(out_of_sync.is_sorted_by(|a, b| a >= b), "{out_of_sync:?}");
    let order = names(&all);
    let place = |name: &str| order.iter().position(|other| other == name).unwrap();
    assert!(place("refused") < place("frozen") && place("frozen") < place("pending"), "{order:?}");
    assert!(place("pending") < place("fine"), "{order:?}");

    let of = |query: MatrixQuery| matrix(&live, query);
    let auth = of(MatrixQuery { kind: Some("AuthPolicy".to_owned()), ..MatrixQuery::default() });
    assert_eq!(names(&auth), ["auth"]);
    let elsewhere = of(MatrixQuery { namespace: Some("elsewhere".to_owned()), ..MatrixQuery::default() });
    assert_eq!((elsewhere.rows.len(), elsewhere.of.0, elsewhere.policies), (0, 0, ALL));
    let clusters = policy_sync_api::selector::parse("region=us").unwrap();
    let us = of(MatrixQuery { clusters, ..MatrixQuery::default() });
    assert_eq!(us.columns.iter().map(|column| &*column.cluster.0).collect::<Vec<_>>(), ["us-1"]);
    assert!(!names(&us).contains(&"invalid".to_owned()), "the policy selects only eu-1");
    let out_of_sync = of(MatrixQuery { not_synced: true, ..MatrixQuery::default() });
    assert_eq!(out_of_sync.rows.len(), all.not_synced);
    assert!(out_of_sync.rows.iter().all(|row| !row.in_sync));
    let second =
        Matrix::new(&live.view(), &MatrixQuery { skip: (1, 1), limit: (2, 1), ..MatrixQuery::default() });
    assert_eq!(names(&second), order[1..3]);
    assert_eq!((second.of, second.columns.len()), ((ALL, 2), 1));
    assert_eq!(second.columns[0].cluster, all.columns[1].cluster);
}

#[tokio::test]
async fn pages_show_the_state_and_follow_changes() {
    let tenant = tenant("web-pages").await;
    write(&tenant).await;
    let site = Site::of(&tenant).await;
    let fleet =
        site.until("/", |page| page.contains("12 policies in namespace web-pages on 2 clusters")).await;
    assert!(fleet.contains(r#"title="no room &lt;b&gt;""#), "{fleet}");
    assert!(fleet.contains(r#"href="/policies/ratelimitpolicy.kuadrant.io/web-pages/refused""#), "{fleet}");
    assert!(fleet.contains(r#"href="/clusters/us-1""#), "{fleet}");
    let refused = site.get("/policies/ratelimitpolicy.kuadrant.io/web-pages/refused").await;
    assert_eq!(refused.status, 200);
    assert!(refused.body.contains("no room &lt;b&gt;") && refused.body.contains("1 of 2"), "{refused:?}");
    let cluster = site.get("/clusters/us-1").await;
    assert_eq!(cluster.status, 200);
    // The work does not exist, so the state is pending, as in `status cluster`.
    assert!(cluster.body.contains("Pending") && cluster.body.contains("web-pages/refused"), "{cluster:?}");
    let bad = site.get("/?clusters=a%20in%20b").await;
    assert!(bad.body.contains(r#"role="alert""#), "{bad:?}");
    let none = site.get("/?kind=gateway").await;
    assert!(none.body.contains("No policy matches"), "{none:?}");

    let policy = rate_limit_policy("web-pages", "refused", "web");
    annotated(tenant.client(), &policy, annotations(&[entry("us-1", true, &[])])).await;
    site.until("/", |page| !page.contains("no room")).await;
    tenant.delete(&policy).await.unwrap();
    site.until("/", |page| page.contains("11 policies") && !page.contains("web-pages/refused")).await;
}

#[tokio::test]
async fn explanation_matches_the_explain_command() {
    let tenant = tenant("web-why").await;
    write(&tenant).await;
    let site = Site::of(&tenant).await;
    let address = "/policies/ratelimitpolicy.kuadrant.io/web-why/refused";
    let page = site.get(address).await.body;
    let link = format!("href=\"{address}?why=us-1#why\"");
    assert!(page.contains(&link) && page.contains("Explain"), "{page}");

    let page = site.get(&format!("{address}?why=us-1")).await.body;
    let controller = tenant.controller_name();
    let arguments = ["explain", "ratelimitpolicy", "refused", "-n", "web-why", "--cluster", "us-1"];
    let arguments = [&arguments[..], &["--controller-name", &*controller]].concat();
    let printed = command(tenant.hub().kubeconfig(), &arguments).output().unwrap();
    let printed = String::from_utf8(printed.stdout).unwrap();
    // The state on the hub itself is shown above, with the graph.
    let of_clusters = printed.lines().filter(|line| !line.contains("force"));
    let sentences: Vec<&str> = of_clusters.filter_map(|line| line.strip_prefix("- ")).collect();
    assert!(sentences.len() > 1, "{printed}");
    for sentence in sentences {
        let text = sentence.replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
        assert!(page.contains(&text), "{text}: {page}");
    }

    // The page does not reload after changes, because each reload would read all objects of the hub.
    assert!(page.contains("data-once") && !page.contains("http-equiv"), "{page}");

    for (cluster, fault) in
        [("nowhere", "ManagedCluster nowhere"), ("Not_A_Name", "is not a valid cluster name")]
    {
        let page = site.get(&format!("{address}?why={cluster}")).await;
        assert!(page.status == 200 && page.body.contains(fault), "{cluster}: {page:?}");
        assert!(page.body.contains(r#"role="alert""#), "{page:?}");
    }
}

#[tokio::test]
async fn hub_without_a_class_or_policies_has_a_message() {
    let tenant = tenant("web-empty").await;
    let none = Site::start(tenant.hub().kubeconfig(), &["--controller-name", "example.com/none"]).await;
    let page = none.until("/", |page| page.contains("No GatewayClass has")).await;
    assert!(page.contains("example.com/none") && !page.contains("<table"), "{page}");
    let empty = Site::of(&tenant).await;
    let page = empty.until("/", |page| page.contains("There is no policy of the kinds")).await;
    assert!(page.contains("in namespace web-empty") && !page.contains("<table"), "{page}");
}

#[tokio::test]
async fn kinds_added_to_the_parameters_are_shown() {
    let tenant = tenant("web-kinds").await;
    tenant
        .parameters(&serde_json::json!({"policiesToSync": [policy_sync_testenv::tenant::auth_policies()]}))
        .await
        .unwrap();
    annotated(tenant.client(), &rate_limit_policy("web-kinds", "limits", "web"), BTreeMap::new()).await;
    let site = Site::of(&tenant).await;
    site.until("/", |page| page.contains("There is no policy of the kinds AuthPolicy")).await;
    tenant.parameters(&policy_sync_testenv::tenant::all_kinds()).await.unwrap();
    let page = site.until("/", |page| page.contains("web-kinds/limits")).await;
    assert!(page.contains("not yet reported by the controller"), "{page}");
}
