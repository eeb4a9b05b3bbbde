//! Evaluation by a real OPA: filling OPA, and an OPA that is unreachable, empty, changed by other clients, or secured.

use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{Method, Uri};
use axum::response::{IntoResponse, Response};
use kube::ResourceExt;
use kube::api::PostParams;
use policy_sync_testenv::apply::apply;
use policy_sync_testenv::certificates::{Authority, Identity, User};
use policy_sync_testenv::{Controller, Opa, wait};
use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpListener;

use crate::filling::forwarded;
use crate::served::{DeploymentWebhooks, PREFERENCES, app, cluster, pci};
use crate::world::{LIMIT, World, denies, place};

/// The path of the data that marks OPA as filled.
const MARKER: &str = "/v1/data/policysync/revision";

impl DeploymentWebhooks {
    /// The placement preferences of an app that handles card data, from a dry run; `None` if there are none.
    async fn preferences(&self) -> Result<Option<String>> {
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        let shop = self.deployments().create(&dry, &app("shop", json!({"requires-pci": "true"}))?).await?;
        Ok(shop.annotations().get(PREFERENCES).cloned())
    }

    /// Waits until an app is placed on this cluster only.
    async fn until_placed_on(&self, cluster: &str) -> Result<()> {
        wait::until(&format!("an app is placed on {cluster}"), LIMIT, || async {
            let expected = format!(r#"{{"clusters":{{"{cluster}":{{"weight":1}}}},"rebalance":true}}"#);
            let found = self.preferences().await?;
            ensure!(found.as_deref() == Some(&expected), "{found:?}");
            Ok(())
        })
        .await
    }
}

/// The number of attempts of `controller` to fill OPA.
async fn pushes(controller: &Controller) -> Result<f64> {
    let metrics = controller.metrics().await?;
    let of = |result| metrics.value("policy_sync_opa_pushes_total", &[("result", result)]);
    Ok(of("filled")? + of("refused")? + of("failed")?)
}

/// The ids of OPA's modules.
async fn policies(opa: &Opa) -> Result<Vec<String>> {
    let (_, listed) = opa.ask("GET", "/v1/policies", Vec::new()).await?;
    let mut ids: Vec<String> = listed["result"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|policy| policy["id"].as_str().map(str::to_owned))
        .collect();
    ids.sort();
    Ok(ids)
}

/// Waits until OPA has only these modules and the generated module `policysync/installed`.
async fn until_policies(opa: &Opa, expected: &[String]) -> Result<()> {
    let expected: Vec<String> =
        ["policysync/installed".to_owned()].into_iter().chain(expected.iter().cloned()).collect();
    wait::until("OPA has the current modules and data", LIMIT, || async {
        let found = policies(opa).await?;
        ensure!(found == expected, "OPA has {found:?}");
        Ok(())
    })
    .await
}

/// Waits until OPA is marked as filled.
async fn until_filled(opa: &Opa) -> Result<()> {
    wait::until("OPA is filled", LIMIT, || async {
        let (_, marker) = opa.ask("GET", MARKER, Vec::new()).await?;
        ensure!(marker["result"].is_string(), "the marker is {marker}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn writes_fail_while_opa_is_unreachable_or_empty() -> Result<()> {
    let mut opa = Opa::start().await?;
    opa.ask("PUT", "/v1/policies/other", b"package other\np := 1".to_vec()).await?;
    opa.ask("PUT", "/v1/data/another", b"1".to_vec()).await?;
    let url = format!("--opa-url={}", opa.url());
    let served = DeploymentWebhooks::with("rego-opa", &[&url]).await?;
    served.world.write("pci", json!({"pci.rego": pci("rego-opa-eu")})).await?;
    served.world.until_ok("pci").await?;
    for (name, zone) in [("rego-opa-c1", "rego-opa-eu"), ("rego-opa-c2", "us")] {
        apply(&served.world.client, &cluster(name, zone)).await?;
    }
    served.until_placed_on("rego-opa-c1").await?;
    // OPA makes the decision: a direct query to OPA returns the same result.
    let question = json!({"input": {"metadata": {"name": "a", "annotations": {"requires-pci": "true"}}}});
    let (_, response) =
        opa.ask("POST", "/v1/data/io/k8s/federation/admission", serde_json::to_vec(&question)?).await?;
    ensure!(
        response["result"]["annotations"][PREFERENCES]["clusters"]["rego-opa-c1"]["weight"] == 1,
        "{response}"
    );
    let wish = json!({"requires-pci": "true", PREFERENCES: r#"{"clusters":{"rego-opa-c2":{"weight":1}}}"#});
    let error = served.deployments().create(&PostParams::default(), &app("other", wish)?).await;
    let error = error.err().context("the write is admitted")?.to_string();
    ensure!(error.contains("cluster rego-opa-c2 is not certified for it"), "{error}");

    // A change of the fleet reaches OPA.
    for (name, zone) in [("rego-opa-c1", "us"), ("rego-opa-c2", "rego-opa-eu")] {
        apply(&served.world.client, &cluster(name, zone)).await?;
    }
    served.until_placed_on("rego-opa-c2").await?;

    // Data and modules of other clients stay in OPA, and are reported.
    ensure!(
        policies(&opa).await? == ["other", "policysync/installed", "policysync/rego-opa/pci/pci.rego"],
        "{:?}",
        policies(&opa).await?
    );
    let (_, another) = opa.ask("GET", "/v1/data/another", Vec::new()).await?;
    ensure!(another["result"] == 1, "{another}");
    let (code, text) = served.controller.readiness().await?;
    ensure!(
        code == 200 && text.contains("[!]rego: OPA has modules of other clients: other"),
        "{code} {text}"
    );

    opa.kill();
    let error = served
        .preferences()
        .await
        .err()
        .context("the write is admitted while OPA is unreachable")?
        .to_string();
    ensure!(
        error.contains(&format!("OPA at {}: ", opa.url())) && error.contains("Connection refused"),
        "{error}"
    );
    let metrics = served.controller.metrics().await?;
    let labels = [("query", "placement"), ("reason", "engine")];
    ensure!(metrics.value("policy_sync_rego_errors_total", &labels)? >= 1.0, "the error is not counted");
    let waits = served.world.until_refused("pci").await?;
    let message = waits["error"]["message"].as_str().unwrap_or_default();
    ensure!(message.starts_with("not in force yet: waits for its upload to OPA ("), "{waits}");
    opa.start_again().await?;
    served.until_placed_on("rego-opa-c2").await?;
    served.world.until_ok("pci").await?;

    // Another client empties OPA.
    opa.ask("PUT", "/v1/data", b"{}".to_vec()).await?;
    served.until_placed_on("rego-opa-c2").await?;
    served.stop().await
}

/// Writes an app without storing it.
async fn dry_write(served: &DeploymentWebhooks, name: &str) -> Result<()> {
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    served.deployments().create(&dry, &app(name, json!({}))?).await?;
    Ok(())
}

/// Waits until writes of `bad` are denied with the message `no`, and writes of `good` pass.
async fn until_bad_writes_are_denied(served: &DeploymentWebhooks) -> Result<()> {
    wait::until("a bad write is denied", LIMIT, || async {
        let denied = dry_write(served, "bad").await.is_err_and(|error| error.to_string().contains("no"));
        ensure!(denied, "the write is admitted");
        dry_write(served, "good").await
    })
    .await
}

#[tokio::test]
async fn writes_stay_denied_while_others_delete_modules_in_opa_and_edits_are_undone() -> Result<()> {
    const POLICY: &str = "/v1/policies/policysync/rego-opa-edited/deny/deny.rego";
    const PROOF: &str = "/v1/policies/policysync/installed";
    let opa = Opa::start().await?;
    let url = format!("--opa-url={}", opa.url());
    let served = DeploymentWebhooks::with("rego-opa-edited", &[&url]).await?;
    let denies = "package io.k8s.federation.admission\nimport rego.v1\nerrors contains \"no\" if \
        input.metadata.name == data[\"rego-opa-edited\"].names.bad\n";
    served.world.write("deny", json!({"deny.rego": denies})).await?;
    let names = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"bad": "\"bad\""},
        "metadata": {"name": "names", "namespace": "rego-opa-edited", "labels": {"openpolicyagent.org/data": "opa"}},
    });
    apply(&served.world.client, &names).await?;
    served.world.until_ok("deny").await?;
    until_bad_writes_are_denied(&served).await?;
    let (_, before) = opa.ask("GET", POLICY, Vec::new()).await?;
    for round in 0..20 {
        for (method, path, text) in [
            ("DELETE", POLICY, ""),
            ("PUT", POLICY, "package io.k8s.federation.admission\n"),
            ("DELETE", PROOF, ""),
            ("DELETE", POLICY, ""),
        ] {
            opa.ask(method, path, text.as_bytes().to_vec()).await?;
            ensure!(
                dry_write(&served, "bad").await.is_err(),
                "round {round}: the write is admitted after {method} {path}"
            );
        }
    }
    wait::until("good writes are admitted again", LIMIT, || async { dry_write(&served, "good").await })
        .await?;

    // A comparison finds changes that a query cannot detect.
    let edited =
        before["result"]["raw"].as_str().context("the module has no text")?.replace("\"no\"", "\"another\"");
    for (method, path, body) in [
        ("PUT", POLICY, edited.as_str()),
        ("DELETE", "/v1/data/rego-opa-edited", ""),
        ("PUT", "/v1/data/rego-opa-edited/names/bad", "\"other\""),
    ] {
        let changed = async || served.controller.metrics().await?.value("policy_sync_opa_changed_total", &[]);
        let count = changed().await?;
        let (status, response) = opa.ask(method, path, body.as_bytes().to_vec()).await?;
        ensure!(status.is_success(), "{method} {path}: {response}");
        wait::until("the contents are restored", LIMIT, || async {
            ensure!(changed().await? > count, "the change is not detected");
            let (_, now) = opa.ask("GET", POLICY, Vec::new()).await?;
            ensure!(now["result"]["raw"] == before["result"]["raw"], "{now}");
            ensure!(
                dry_write(&served, "bad").await.is_err_and(|error| error.to_string().contains("no")),
                "the write is admitted"
            );
            Ok(())
        })
        .await?;
    }
    served.stop().await
}

/// A proxy for OPA that can replace the responses to decisions by invalid responses.
struct ManglingProxy {
    opa: Opa,
    mangles: AtomicBool,
}

impl ManglingProxy {
    async fn forward(
        State(proxy): State<Arc<Self>>,
        method: Method,
        uri: Uri,
        body: Bytes,
    ) -> Result<Response, String> {
        let is_decision = uri.path() == "/v1/query" && String::from_utf8_lossy(&body).contains("[decided |");
        if is_decision && proxy.mangles.load(Ordering::SeqCst) {
            return Ok(json!({"result": [{"decision": 1}]}).to_string().into_response());
        }
        forwarded(&proxy.opa, &method, &uri, body).await
    }
}

#[tokio::test]
async fn deleted_or_edited_modules_return_within_ten_seconds_or_at_once_after_an_unexpected_response()
-> Result<()> {
    const POLICY: &str = "/v1/policies/policysync/rego-opa-back/deny/deny.rego";
    const PROOF: &str = "/v1/policies/policysync/installed";
    /// The interval between comparisons, and a margin for a busy machine.
    const COMPARED: Duration = Duration::from_secs(10 + 5);
    /// The limit after an unexpected response, which is far below the interval of comparisons.
    const AT_ONCE: Duration = Duration::from_secs(1 + 4);
    let proxy = Arc::new(ManglingProxy { opa: Opa::start().await?, mangles: AtomicBool::new(false) });
    let opa = &proxy.opa;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let url = format!("--opa-url=http://{}", listener.local_addr()?);
    let router = Router::new().fallback(ManglingProxy::forward).with_state(proxy.clone());
    let serving = tokio::spawn(async move { axum::serve(listener, router).await });
    let served = DeploymentWebhooks::with("rego-opa-back", &[&url]).await?;
    let denies = "package io.k8s.federation.admission\nimport rego.v1\nerrors contains \"no\" if input.metadata.name == \"bad\"\n";
    served.world.write("deny", json!({"deny.rego": denies})).await?;
    served.world.until_ok("deny").await?;
    until_bad_writes_are_denied(&served).await?;
    let module = async || anyhow::Ok(opa.ask("GET", POLICY, Vec::new()).await?.1["result"]["raw"].take());
    let before = module().await?;
    let edited = before.as_str().context("the module has no text")?.replace("\"no\"", "\"another\"");
    let edit = async || {
        let (status, response) = opa.ask("PUT", POLICY, edited.clone().into_bytes()).await?;
        ensure!(status.is_success(), "{response}");
        Ok(())
    };
    let back_within = async |limit: Duration| {
        wait::until("the module is restored", limit, || async {
            let now = module().await?;
            ensure!(now == before, "{now}");
            Ok(())
        })
        .await
    };
    wait::until("the module is deleted", LIMIT, || async {
        opa.ask("DELETE", PROOF, Vec::new()).await?;
        let (status, response) = opa.ask("DELETE", POLICY, Vec::new()).await?;
        ensure!(status.is_success(), "{response}");
        Ok(())
    })
    .await?;
    back_within(COMPARED).await.context("after a deletion")?;
    edit().await?;
    back_within(COMPARED).await.context("after an edit")?;

    // A comparison has just ended, so the next comparison would come only after the interval.
    edit().await?;
    proxy.mangles.store(true, Ordering::SeqCst);
    ensure!(dry_write(&served, "good").await.is_err(), "the write is admitted after an unexpected response");
    proxy.mangles.store(false, Ordering::SeqCst);
    back_within(AT_ONCE).await.context("after an unexpected response")?;
    wait::until("good writes are admitted again", LIMIT, || async { dry_write(&served, "good").await })
        .await?;
    served.stop().await?;
    serving.abort();
    Ok(())
}

#[tokio::test]
async fn module_that_opa_rejects_is_reported_with_its_place_and_blocks_no_others() -> Result<()> {
    let opa = Opa::start().await?;
    let world = World::new("rego-opa-refused").await?;
    let controller = world.controller(&[&format!("--opa-url={}", opa.url())]).await?;
    world.write("good", json!({"a.rego": denies("a")})).await?;
    // The embedded engine has no type checker, so only OPA rejects this module.
    let odd = "package admission\nimport rego.v1\ndeny contains {\"id\": \"b\"} if {\n\tx := 1\n\tstartswith(x, \"a\")\n}\n";
    world.write("odd", json!({"b.rego": odd})).await?;
    world
        .write(
            "builtin",
            json!({"c.rego": "package admission\nimport rego.v1\ndeny contains {\"id\": x} if \
         x := crypto.sha256(input.request.name)\n"}),
        )
        .await?;
    let status = world.until_refused("odd").await?;
    ensure!(place(&status)? == ("b.rego".to_owned(), 5, 2), "{status}");
    let message = status["error"]["errors"][0]["message"].as_str().unwrap_or_default();
    ensure!(message == "OPA: startswith: invalid argument(s)", "{status}");
    for name in ["good", "builtin"] {
        world.until_ok(name).await?;
    }
    let has = |names: [&str; 2]| names.map(|name| format!("policysync/rego-opa-refused/{name}"));
    until_policies(&opa, &has(["builtin/c.rego", "good/a.rego"])).await?;
    world.write("odd", json!({"b.rego": denies("b")})).await?;
    world.until_ok("odd").await?;

    // The next process removes modules that users deleted while no process was running.
    controller.kill();
    world.delete("builtin").await?;
    let controller = world.controller(&[&format!("--opa-url={}", opa.url())]).await?;
    until_policies(&opa, &has(["good/a.rego", "odd/b.rego"])).await?;
    controller.terminate().await?;
    Ok(())
}

/// An OPA that authenticates its clients.
struct AuthenticatingOpa {
    opa: Opa,
    files: TempDir,
    arguments: Vec<String>,
}

impl AuthenticatingOpa {
    fn path(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }

    /// An OPA that requires the token `secret`, and has a certificate of an unknown authority.
    async fn by_token() -> Result<Self> {
        Self::start(&["--authentication=token", "--authorization=basic"], "input.identity == \"secret\"")
            .await
    }

    /// An OPA that requires a certificate from its own authority.
    async fn by_certificate() -> Result<Self> {
        Self::start(&["--authentication=tls", "--authorization=basic"], "input.client_certificates").await
    }

    async fn start(how: &[&str], allows: &str) -> Result<Self> {
        let (files, authority) = (TempDir::new()?, Authority::new("opa")?);
        let write = |name: &str, text: &str| {
            let path = files.path().join(name);
            fs::write(&path, text).map(|()| path.display().to_string())
        };
        let Identity { certificate, key } = authority.server("opa")?;
        let ours = authority.user(&User::new("policy-sync"))?;
        let ca = write("ca.crt", &authority.certificate())?;
        let rules =
            format!("package system.authz\nimport rego.v1\ndefault allow := false\nallow if {allows}\n");
        let mut more: Vec<String> = how.iter().map(|&argument| argument.to_owned()).collect();
        more.extend([
            format!("--tls-cert-file={}", write("tls.crt", &certificate)?),
            format!("--tls-private-key-file={}", write("tls.key", &key)?),
            format!("--tls-ca-cert-file={ca}"),
            write("authz.rego", &rules)?,
        ]);
        write("client.crt", &ours.certificate)?;
        write("client.key", &ours.key)?;
        let opa = Opa::with(&more, Some("secret")).await?;
        let arguments = vec![format!("--opa-url={}", opa.url()), format!("--opa-ca-file={ca}")];
        Ok(Self { opa, files, arguments })
    }
}

#[tokio::test]
async fn opa_token_file_is_reloaded_when_it_changes() -> Result<()> {
    let secured = AuthenticatingOpa::by_token().await?;
    fs::write(secured.path("token"), "wrong")?;
    let world = World::new("rego-opa-token").await?;
    let token = format!("--opa-token-file={}", secured.path("token").display());
    let mut arguments: Vec<&str> = secured.arguments.iter().map(String::as_str).collect();
    arguments.push(&token);
    world.write("good", json!({"a.rego": denies("a")})).await?;
    let mut controller = world.launch(User::admin(), &arguments)?;
    let status = world.until_refused("good").await?;
    ensure!(status.to_string().contains("401"), "{status}");
    let (code, text) = controller.readiness().await?;
    ensure!(
        code == 503 && text.contains("[!]rego: OPA does not have the current modules and data"),
        "{code} {text}"
    );
    ensure!(!text.contains("wrong") && !controller.log()?.contains("wrong"), "the token is printed");
    fs::write(secured.path("token"), "secret\n")?;
    controller.ready().await?;
    world.until_ok("good").await?;
    // The controller does not change modules of OPA's owner.
    ensure!(
        policies(&secured.opa).await?.iter().any(|id| id.ends_with("authz.rego")),
        "the authorization module of OPA is deleted"
    );
    controller.terminate().await?;
    Ok(())
}

#[tokio::test]
async fn opa_gets_the_client_certificate_and_an_unknown_server_certificate_is_rejected() -> Result<()> {
    let secured = AuthenticatingOpa::by_certificate().await?;
    let world = World::new("rego-opa-mtls").await?;
    world.write("good", json!({"a.rego": denies("a")})).await?;
    let identity = ["cert-file", "key-file"].map(|what| {
        let end = if what == "cert-file" { "crt" } else { "key" };
        format!("--opa-{what}={}", secured.path(&format!("client.{end}")).display())
    });
    let unknown = World::new("rego-opa-unknown").await?;
    unknown.write("good", json!({"a.rego": denies("a")})).await?;
    let controller = unknown.launch(User::admin(), &[&secured.arguments[0]])?;
    let status = unknown.until_refused("good").await?;
    ensure!(status.to_string().contains("UnknownIssuer"), "{status}");
    controller.kill();

    let arguments: Vec<&str> = secured.arguments.iter().chain(&identity).map(String::as_str).collect();
    let controller = world.controller(&arguments).await?;
    world.until_ok("good").await?;
    controller.terminate().await?;
    Ok(())
}

#[tokio::test]
async fn shared_opa_is_filled_by_the_leader() -> Result<()> {
    let mut opa = Opa::start().await?;
    let world = World::new("rego-opa-shared").await?;
    world.write("good", json!({"a.rego": denies("a")})).await?;
    // The controller does not recognize this address as an address of this machine.
    let url = format!("--opa-url={}", opa.url().replace("127.0.0.1", "127.1"));
    let leader = world.controller(&[&url]).await?;
    world.until_ok("good").await?;
    until_filled(&opa).await?;
    let mut follower = world.launch(User::admin(), &[&url])?;
    follower.ready().await?;
    ensure!(pushes(&leader).await? >= 1.0, "the leader has not filled OPA");
    ensure!(!follower.is_leader().await?, "both replicas lead");
    opa.start_again().await?;
    until_filled(&opa).await?;
    ensure!(pushes(&follower).await? == 0.0, "the follower fills OPA");
    leader.terminate().await?;
    follower.leads().await?;
    opa.start_again().await?;
    until_filled(&opa).await?;
    ensure!(pushes(&follower).await? >= 1.0, "the new leader does not fill OPA");
    world.write("more", json!({"b.rego": denies("b")})).await?;
    world.until_ok("more").await?;
    until_policies(
        &opa,
        &["good/a.rego", "more/b.rego"].map(|id| format!("policysync/rego-opa-shared/{id}")),
    )
    .await?;
    follower.terminate().await?;
    Ok(())
}
