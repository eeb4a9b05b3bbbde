//! The chart grants exactly the rights that the controller uses according to the hub's audit log: no right is
//! missing or unused.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use policy_sync_api::annotations::{CLUSTER_SELECTOR, POLICY_SYNC_MESSAGE};
use policy_sync_api::work::ManifestWork;
use policy_sync_testenv::apply::{api_for, apply, apply_all, apply_status, apply_with_status};
use policy_sync_testenv::audit::{Request, all_requests_of};
use policy_sync_testenv::certificates::User;
use policy_sync_testenv::ports::Port;
use policy_sync_testenv::{ControlPlane, Controller, crds, fixtures, wait};
use serde_json::{Value, json};

use crate::binary;
use crate::helm::{Helm, Release, Rendered, required};

const LIMIT: Duration = Duration::from_secs(60);

/// One verb of a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Permission {
    /// The namespace of a Role; `None` for a ClusterRole.
    namespace: Option<String>,
    group: String,
    /// The resource with its subresource: `gateways/status`.
    resource: String,
    /// The name of the only object that the permission covers; `None` if it covers all objects.
    name: Option<String>,
    verb: String,
}

impl Permission {
    /// All rights of a role.
    fn all(role: &Value) -> Result<Vec<Self>> {
        let mut rights = Vec::new();
        let namespace = role["metadata"]["namespace"].as_str().map(str::to_owned);
        for rule in role["rules"].as_array().into_iter().flatten() {
            let words = |key: &str| -> Result<Vec<String>> {
                serde_json::from_value(rule[key].clone()).with_context(|| format!("{key} of {rule}"))
            };
            let names: Vec<Option<String>> = match rule.get("resourceNames") {
                Some(_) => words("resourceNames")?.into_iter().map(Some).collect(),
                None => vec![None],
            };
            for group in words("apiGroups")? {
                for resource in words("resources")? {
                    for verb in words("verbs")? {
                        rights.extend(names.iter().map(|name| Self {
                            namespace: namespace.clone(),
                            group: group.clone(),
                            resource: resource.clone(),
                            name: name.clone(),
                            verb: verb.clone(),
                        }));
                    }
                }
            }
        }
        Ok(rights)
    }

    fn allows(&self, request: &Request) -> bool {
        let object = request.object();
        let resource = match object.subresource.as_str() {
            "" => object.resource.clone(),
            subresource => format!("{}/{subresource}", object.resource),
        };
        self.namespace.as_ref().is_none_or(|namespace| *namespace == object.namespace)
            && self.name.as_ref().is_none_or(|name| *name == object.name)
            && (&self.group, &self.resource, &self.verb) == (&object.api_group, &resource, &request.verb)
    }

    /// Whether this right includes `narrower`, and differs from it.
    fn covers(&self, narrower: &Self) -> bool {
        let is_as_wide =
            |of: &Option<String>, other: &Option<String>| of.is_none() || of.as_ref() == other.as_ref();
        self != narrower
            && (&self.group, &self.resource, &self.verb)
                == (&narrower.group, &narrower.resource, &narrower.verb)
            && is_as_wide(&self.namespace, &narrower.namespace)
            && is_as_wide(&self.name, &narrower.name)
    }

    /// Whether the controller uses the right only if another client replaces an object between the plan and its
    /// write. No test can cause this, because a ValidatingAdmissionPolicy cannot reject writes to webhook
    /// configurations.
    fn is_for_a_race(&self) -> bool {
        self.verb == "get" && self.resource.ends_with("webhookconfigurations")
    }
}

/// The roles of the chart for users (`viewer`), or for the controller.
fn roles(rendered: &Rendered, viewer: bool) -> impl Iterator<Item = &Value> {
    let roles = rendered.all("ClusterRole").chain(rendered.all("Role"));
    let is_viewer =
        |role: &Value| role["metadata"]["name"].as_str().is_some_and(|name| name.ends_with("-viewer"));
    roles.filter(move |role| is_viewer(role) == viewer)
}

/// The user name and groups of a release's ServiceAccount.
pub(crate) fn service_account(release: Release<'_>, rendered: &Rendered) -> Result<User> {
    let account = rendered.one("ServiceAccount")?["metadata"]["name"].as_str().context("no name")?;
    Ok(User::new(format!("system:serviceaccount:{}:{account}", release.1)).in_group("system:serviceaccounts"))
}

/// Starts the controller of a release with the flags and rights of the chart, and waits until it leads.
pub(crate) async fn controller(
    hub: &ControlPlane,
    release: Release<'_>,
    rendered: &Rendered,
) -> Result<Controller> {
    let controller = replica(hub, release, rendered).await?;
    controller.leads().await?;
    Ok(controller)
}

/// Like [`controller`], but the API server calls the controller's webhooks at `port` instead of a Service.
pub(crate) async fn reviewer(
    hub: &ControlPlane,
    release: Release<'_>,
    rendered: &Rendered,
    port: &Port,
) -> Result<Controller> {
    let address = format!("127.0.0.1:{}", port.number());
    let webhooks = [format!("--webhook-bind-address={address}"), format!("--webhook-url=https://{address}")];
    let controller = start(hub, release, rendered, &webhooks).await?;
    controller.leads().await?;
    Ok(controller)
}

/// Starts the controller of a release, and waits until it is ready.
pub(crate) async fn replica(
    hub: &ControlPlane,
    release: Release<'_>,
    rendered: &Rendered,
) -> Result<Controller> {
    start(hub, release, rendered, &["--webhook-bind-address=127.0.0.1:0".to_owned()]).await
}

/// Starts the controller of a release with the arguments of the chart. With Rego, adds the arguments `webhooks`,
/// because several controllers on one machine cannot use the same port.
async fn start(
    hub: &ControlPlane,
    release: Release<'_>,
    rendered: &Rendered,
    webhooks: &[String],
) -> Result<Controller> {
    // A pod reads the namespace from the files of its ServiceAccount.
    let mut arguments = vec![format!("--leader-elect-namespace={}", release.1)];
    arguments.extend(rendered.arguments()?);
    if arguments.iter().any(|argument| argument.starts_with("--rego-namespace=")) {
        arguments.extend_from_slice(webhooks);
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let user = service_account(release, rendered)?;
    let mut controller = Controller::launch(binary(), hub, &arguments, Some(user))?;
    controller.ready().await?;
    Ok(controller)
}

/// Checks that the controller of a release was allowed all its requests, and has used all its rights.
pub(crate) fn check_used_permissions(
    hub: &ControlPlane,
    release: Release<'_>,
    rendered: &Rendered,
) -> Result<()> {
    compare(hub, &service_account(release, rendered)?, roles(rendered, false))
}

/// Checks that `roles` allowed all requests of `user`, and that `user` has used all rights in `roles`.
fn compare<'r>(hub: &ControlPlane, user: &User, roles: impl Iterator<Item = &'r Value>) -> Result<()> {
    let requests = all_requests_of(hub, &user.name)?;
    let mut rights = BTreeSet::new();
    for role in roles {
        rights.extend(Permission::all(role)?);
    }
    fit(&rights, &requests)?;
    // The check detects a missing right, and an unused right.
    for right in &rights {
        // `rbac.tlsSecrets` includes the right to the Secret of the webhooks.
        if right.is_for_a_race() || rights.iter().any(|wider| wider.covers(right)) {
            continue;
        }
        let less = rights.iter().filter(|other| *other != right).cloned().collect();
        ensure!(fit(&less, &requests).is_err(), "undetected if missing: {right:?}");
        let more =
            rights.iter().cloned().chain([Permission { verb: "deletecollection".into(), ..right.clone() }]);
        ensure!(fit(&more.collect(), &requests).is_err(), "undetected addition to {right:?}");
    }
    Ok(())
}

/// Checks that `rights` allow all `requests`, and that `requests` use each right.
fn fit(rights: &BTreeSet<Permission>, requests: &[Request]) -> Result<()> {
    let refused: Vec<_> = requests.iter().filter(|request| matches!(request.code(), 401 | 403)).collect();
    ensure!(refused.is_empty(), "rejected: {refused:#?}");
    let beyond: Vec<_> =
        requests.iter().filter(|request| !rights.iter().any(|right| right.allows(request))).collect();
    ensure!(beyond.is_empty(), "not allowed by the chart: {beyond:#?}");
    let is_used = |right: &Permission| requests.iter().any(|request| right.allows(request));
    let unused: Vec<_> = rights.iter().filter(|right| !is_used(right) && !right.is_for_a_race()).collect();
    ensure!(unused.is_empty(), "unused: {unused:#?}");
    Ok(())
}

/// A CustomResourceDefinition of another project, whose objects may have any fields.
fn definition(group: &str, kind: &str, plural: &str) -> Value {
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.{group}") },
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": { "kind": kind, "plural": plural },
            "versions": [{ "name": "v1alpha1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } }],
        },
    })
}

/// Creates kinds of routes and backends that not every hub has, and a route whose topology uses all rights. The backend
/// of the route is in another namespace, and the listener of the route selects namespaces by labels.
pub(crate) async fn route_across_namespaces(hub: &ControlPlane) -> Result<()> {
    let client = hub.client()?;
    crds::install(&client, &crds::more_routes(hub.binaries())?).await?;
    let of_others = [
        ("gateway.networking.x-k8s.io", "XListenerSet", "xlistenersets"),
        ("multicluster.x-k8s.io", "ServiceImport", "serviceimports"),
        ("gateway.envoyproxy.io", "Backend", "backends"),
    ]
    .map(|(group, kind, plural)| definition(group, kind, plural));
    let of_others = of_others.into_iter().map(crds::Crd::new).collect::<Result<Vec<_>>>()?;
    crds::install(&client, &of_others).await?;
    let metadata = json!({ "name": "inner", "namespace": "routes" });
    let api = "gateway.networking.k8s.io/v1";
    let selector = json!({ "matchLabels": { "team": "shop" } });
    let listener = json!({ "name": "http", "port": 80, "protocol": "HTTP",
        "allowedRoutes": { "namespaces": { "from": "Selector", "selector": selector } } });
    let gateway = json!({ "apiVersion": api, "kind": "Gateway", "metadata": metadata,
        "spec": { "gatewayClassName": "of-nobody", "listeners": [listener] } });
    let backend = json!({ "name": "api", "namespace": "shop", "port": 80 });
    let import =
        json!({ "group": "multicluster.x-k8s.io", "kind": "ServiceImport", "name": "api", "port": 80 });
    let external = json!({ "group": "gateway.envoyproxy.io", "kind": "Backend", "name": "api" });
    let route = json!({ "apiVersion": api, "kind": "HTTPRoute", "metadata": metadata,
        "spec": { "parentRefs": [{ "name": "inner" }], "rules": [{ "backendRefs": [backend, import, external] }] } });
    apply_all(&client, [&fixtures::namespace("routes"), &gateway, &route]).await?;
    // One route of each kind refers to the controller's Gateway. The status of each route reports that the route
    // does not attach.
    for kind in ["GRPCRoute", "HTTPRoute", "TCPRoute", "TLSRoute", "UDPRoute"] {
        let rules = json!([{ "backendRefs": [backend] }]);
        let mut spec = json!({ "parentRefs": [{ "name": "web", "namespace": "shop" }], "rules": rules });
        if kind == "TLSRoute" {
            spec["hostnames"] = json!(["tls.example.com"]);
        }
        apply(&client, &fixtures::topology::object(kind, ("routes", "outer"), spec)).await?;
    }
    Ok(())
}

/// Makes the controller do rare operations. `policy` does not exist yet, and `other` is on both clusters.
pub(crate) async fn exercise_rare_operations(
    hub: &ControlPlane,
    policy: &Value,
    other: &Value,
) -> Result<()> {
    let client = hub.client()?;
    let key = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let works: Api<ManifestWork> = Api::namespaced(client.clone(), "us-1");
    let name = async |policy: &str| -> Result<Option<String>> {
        let names =
            works.list_metadata(&ListParams::default()).await?.into_iter().map(|work| work.name_any());
        Ok(names.into_iter().find(|name| name.contains(policy)))
    };
    // If another client's work has the planned name, the controller reads that work.
    apply(&client, policy).await?;
    let in_the_way =
        wait::until("a work exists", LIMIT, || async { name(&key(policy)).await?.context("no work") })
            .await?;
    let (policies, policy_name) = api_for(&client, policy).await?;
    policies.delete(&policy_name, &DeleteParams::default()).await?;
    let foreign = json!({
        "apiVersion": "work.open-cluster-management.io/v1",
        "kind": "ManifestWork",
        "metadata": { "name": in_the_way, "namespace": "us-1" },
        "spec": { "workload": { "manifests": [] } },
    });
    wait::until("the work is deleted", LIMIT, || async {
        ensure!(works.get_opt(&in_the_way).await?.is_none(), "the work exists");
        Ok(())
    })
    .await?;
    apply(&client, &foreign).await?;
    apply(&client, policy).await?;
    let events: Api<Event> = Api::namespaced(client.clone(), "shop");
    wait::until("an Event reports the foreign work", LIMIT, || async {
        let found = events.list(&ListParams::default().fields("reason=ForeignWork")).await?.items;
        ensure!(
            found.iter().any(|event| event.note.as_ref().is_some_and(|note| note.contains(&in_the_way))),
            "{found:?}"
        );
        Ok(())
    })
    .await?;
    works.delete(&in_the_way, &DeleteParams::default()).await?;

    // With the same selector again, the controller updates an existing Event.
    for selector in ["region in (", "", "region in ("] {
        let selector = (!selector.is_empty()).then_some(selector);
        let patch = json!({ "metadata": { "annotations": { CLUSTER_SELECTOR: selector } } });
        policies.patch(&policy_name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        until_message(&policies, &policy_name, selector.map(|_| "not a label key")).await?;
    }

    // Before it deletes works, the controller reads the objects that cause the deletes: a deleted policy of another
    // kind, and a deleted cluster.
    let (others, other_name) = api_for(&client, other).await?;
    others.delete(&other_name, &DeleteParams::default()).await?;
    wait::until("the work of the deleted policy is deleted", LIMIT, || async {
        ensure!(name(&other_name).await?.is_none(), "the work exists");
        Ok(())
    })
    .await?;
    apply_with_status(&client, &fixtures::placement_decision("shop", "everywhere", 1, &["eu-1"])).await?;
    apply_status(&client, &fixtures::placement("shop", "everywhere", 1)).await?;
    let (clusters, us) = api_for(&client, &fixtures::managed_cluster("us-1", &BTreeMap::new())).await?;
    clusters.delete(&us, &DeleteParams::default()).await?;
    wait::until("all works of the cluster are deleted", LIMIT, || async {
        let left = works.list_metadata(&ListParams::default()).await?.items.len();
        ensure!(left == 0, "{left} works exist");
        Ok(())
    })
    .await
}

/// Waits until the message of a policy contains a text, or until there is no message.
async fn until_message(policies: &Api<DynamicObject>, name: &str, text: Option<&str>) -> Result<()> {
    wait::until(&format!("the message of {name} is {text:?}"), LIMIT, || async {
        let found = policies.get(name).await?;
        let message = found.annotations().get(POLICY_SYNC_MESSAGE);
        ensure!(message.is_some() == text.is_some(), "the message is {message:?}");
        ensure!(
            text.is_none_or(|text| message.is_some_and(|message| message.contains(text))),
            "the message is {message:?}"
        );
        Ok(())
    })
    .await
}

/// Runs the commands that read a hub as a user with the viewer role. The commands must succeed, and use all rights of
/// the role.
pub(crate) async fn check_viewer_permissions(hub: &ControlPlane, rendered: &Rendered) -> Result<()> {
    let role = roles(rendered, true).next().context("no role for users")?;
    let viewer = User::new("viewer");
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": { "name": "viewer" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role["metadata"]["name"] },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": viewer.name }],
    });
    apply(&hub.client()?, &binding).await?;
    let kubeconfig = hub.kubeconfig_for(&viewer)?;
    let command = |arguments: &str| {
        let mut command = tokio::process::Command::new(binary());
        command.arg("--kubeconfig").arg(&kubeconfig).args(arguments.split(' ')).kill_on_drop(true);
        command
    };
    for arguments in [
        "status -A",
        "status -A -o wide",
        "status cluster eu-1",
        "explain ratelimitpolicy limits -n shop",
        "explain authpolicy everyone -n shop",
        "explain gateway web -n shop",
        "plan --diff",
        "topology",
        "effective",
        "effective --clusters",
        "effective --cluster eu-1",
    ] {
        let output = command(arguments).output().await?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        // Exit code 1 means that not everything is in sync yet.
        ensure!(matches!(output.status.code(), Some(0 | 1)) && stderr.is_empty(), "{arguments}: {stderr}");
    }
    let _watches = ["status -A --watch", "status cluster eu-1 --watch"]
        .map(|arguments| command(arguments).stdout(Stdio::null()).spawn());
    wait::until("each permission is used", LIMIT, || async { compare(hub, &viewer, [role].into_iter()) })
        .await
}

/// The roles must not contain rights with which an attacker in the controller could get more rights, or read unrelated
/// objects.
#[tokio::test]
async fn roles_allow_no_privilege_escalation() -> Result<()> {
    let helm = Helm::alone().await?;
    let rendered = helm.template(Release("policy-sync", "policy-sync"), &required())?;
    let spoke: Value = serde_saphyr::from_str(&std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("ocm-manifests/spoke/work-agent.yaml"),
    )?)?;
    let roles = roles(&rendered, false).chain(roles(&rendered, true)).chain([&spoke]);
    let mut rights = 0;
    for role in roles {
        for right in Permission::all(role)? {
            rights += 1;
            let place = (right.namespace.as_deref(), right.name.as_deref());
            let is_of_its_own_secret = place == (Some("policy-sync"), Some("policy-sync-webhook"));
            let is_forbidden = |word: &str| match word {
                "secrets" => !is_of_its_own_secret,
                word => ["*", "escalate", "bind", "impersonate", "deletecollection"].contains(&word),
            };
            let words = [&right.group, &right.resource, &right.verb];
            ensure!(!words.iter().any(|word| is_forbidden(word)), "{right:?}");
            // The right to write any webhook configuration would reveal all writes to the hub.
            let is_its_own = right.name.as_deref() == Some("policy-sync");
            ensure!(!right.resource.ends_with("webhookconfigurations") || is_its_own, "{right:?}");
        }
    }
    ensure!(rights > 30, "{rights} permissions");
    Ok(())
}

#[tokio::test]
async fn every_role_has_a_row_in_the_documentation() -> Result<()> {
    let mut values = required();
    values["rbac"] = json!({
        "policyKinds": [{ "group": "kuadrant.io", "resources": ["authpolicies"] }],
        "tlsSecrets": true,
    });
    let rendered = Helm::alone().await?.template(Release("policy-sync", "policy-sync"), &values)?;
    let names = roles(&rendered, false).chain(roles(&rendered, true)).map(|role| {
        let name = role["metadata"]["name"].as_str().unwrap_or_default();
        format!("{} `{name}`", role["kind"].as_str().unwrap_or_default())
    });
    let names: BTreeSet<String> = names.collect();
    let page = include_str!("../../docs/reference/rights.md");
    let (_, section) = page.split_once("\n## Roles\n").context("no heading Roles")?;
    let rows = section.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
    let documented = rows.map_while(|line| line.strip_prefix("| ")?.split(" | ").next());
    let documented: BTreeSet<String> = documented.map(str::to_owned).collect();
    ensure!(documented == names, "documented: {documented:?}, rendered: {names:?}");
    Ok(())
}
