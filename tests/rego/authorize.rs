//! A real API server, configured with the published manifests, calls the controller for authorization before its other
//! authorizers.

use std::process::{Command, Output};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use http::Request;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::Client;
use kube::api::{Api, ListParams};
use policy_sync_testenv::apply::{apply, apply_all, delete};
use policy_sync_testenv::authorization::{Authorization, CONTROLLER, TOKEN};
use policy_sync_testenv::bad_input::{self, code};
use policy_sync_testenv::certificates::User;
use policy_sync_testenv::rights::everything;
use policy_sync_testenv::webhooks::Webhooks;
use policy_sync_testenv::{Controller, fixtures, wait};
use serde_json::{Value, json};

use crate::sent;
use crate::stand_in::{Fault, with_fault};
use crate::world::{LIMIT, World};

const EXEC: &str = include_str!("../../docs/examples/rego/gates/exec.rego");
/// A module that denies requests for the Secrets of a namespace.
const SECRETS: &str = r#"package authorization
import rego.v1
import data.k8s.matches
deny contains {
	"id": "secrets",
	"resource": {"kind": "secrets", "namespace": namespace, "name": name},
	"resolution": {"message": sprintf("%s keeps them to itself", [namespace])},
} if {
	matches[["secrets", namespace, name, _]]
	namespace == "shop"
}
"#;
/// A user with all rights, subject to Rego policies.
const JANE: &str = "jane";
/// The message of the published Rego policy.
const WORDS: &str = "exec: no exec in pods of kube-system";

/// A hub whose API server sends authorization reviews to the controller.
struct AuthorizationHub {
    world: World,
    webhooks: Webhooks,
    files: Authorization,
    jane: Client,
    controller: Option<Controller>,
}

impl AuthorizationHub {
    /// Starts a hub with the controller and the configuration files of the manifests.
    async fn start(namespace: &str) -> Result<Self> {
        let world = World::alone(namespace).await?;
        for user in [JANE, CONTROLLER] {
            apply(&world.client, &everything(user)).await?;
        }
        let pod = |namespace: &str| {
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "dns", "namespace": namespace},
                "spec": {"containers": [{"name": "dns", "image": "registry.example/dns:1"}]}})
        };
        // `policy-sync` is the namespace of the controller, with its Lease.
        let namespaces = ["shop", "policy-sync"].map(fixtures::namespace);
        apply_all(&world.client, &namespaces).await?;
        apply_all(&world.client, &[pod("kube-system"), pod("shop")]).await?;
        let webhooks = Webhooks::with_files(namespace)?;
        webhooks.install(&world.client).await?;
        let files = Authorization::new(&webhooks)?;
        let jane = world.hub().client_for(&User::new(JANE)).await?;
        let mut authorized = Self { world, webhooks, files, jane, controller: None };
        authorized.run().await?;
        authorized.world.hub().authorize_by(&authorized.files.configuration()).await?;
        Ok(authorized)
    }

    async fn run(&mut self) -> Result<()> {
        let mut arguments = self.webhooks.arguments();
        arguments.push(self.files.argument());
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut controller = self.world.launch(User::new(CONTROLLER), &arguments)?;
        controller.ready().await?;
        controller.leads().await?;
        self.controller = Some(controller);
        Ok(())
    }

    async fn stop(&mut self) -> Result<()> {
        self.controller.take().context("no controller runs")?.terminate().await.map(drop)
    }

    /// The output of `kubectl` run by `user`, and whether it succeeds.
    fn kubectl(&self, user: &str, arguments: &[&str]) -> Result<(bool, String)> {
        let kubeconfig = self.world.hub().kubeconfig_for(&User::new(user))?;
        let Output { status, stdout, stderr } = Command::new(&self.world.hub().binaries().kubectl)
            .args(arguments)
            .env("KUBECONFIG", kubeconfig)
            .env("KUBECACHEDIR", self.files.path("cache"))
            .output()
            .context("running kubectl")?;
        Ok((
            status.success(),
            [stdout, stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat(),
        ))
    }

    /// The response of the API server to an exec request in `namespace`, with the verb of the client's
    /// protocol.
    async fn exec(&self, namespace: &str, verb: Verb) -> Result<String> {
        let path = format!("/api/v1/namespaces/{namespace}/pods/dns/exec?command=ls&stdout=true");
        let request = match verb {
            Verb::Get => Request::get(path)
                .header("Connection", "Upgrade")
                .header("Upgrade", "websocket")
                .header("Sec-WebSocket-Version", "13")
                .header("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
                .header("Sec-WebSocket-Protocol", "v5.channel.k8s.io"),
            Verb::Create => Request::post(path),
        };
        match self.jane.request_text(request.body(Vec::new())?).await {
            Ok(text) => bail!("the command runs: {text}"),
            Err(error) => Ok(error.to_string()),
        }
    }

    /// Waits until the API server denies exec requests, or allows them.
    async fn until_denied(&self, is_denied: bool) -> Result<()> {
        wait::until("the API server denies or allows exec", LIMIT, || async {
            let output = self.exec("kube-system", Verb::Get).await?;
            ensure!(output.contains(WORDS) == is_denied, "{output}");
            Ok(())
        })
        .await
    }

    async fn read_maps(&self, client: &Client) -> Result<()> {
        Api::<ConfigMap>::namespaced(client.clone(), "shop").list(&ListParams::default()).await?;
        Ok(())
    }
}

#[derive(Clone, Copy, Debug)]
enum Verb {
    Get,
    Create,
}

fn message(error: &anyhow::Error) -> String {
    format!("{error:#}")
}

#[tokio::test]
async fn published_rego_policy_denies_exec_in_its_namespaces_only() -> Result<()> {
    let mut hub = AuthorizationHub::start("rego-authorize").await?;
    // Without a Rego policy, the controller has no opinion.
    hub.until_denied(false).await?;
    hub.world.write("exec", json!({"exec.rego": EXEC})).await?;
    hub.until_denied(true).await?;
    hub.world.until_ok("exec").await?;
    for verb in [Verb::Get, Verb::Create] {
        let denied = hub.exec("kube-system", verb).await?;
        ensure!(denied.contains(WORDS), "{verb:?}: {denied}");
        let elsewhere = hub.exec("shop", verb).await?;
        // There are no nodes to run the command.
        let is_let_in =
            elsewhere.contains("does not have a host assigned") || elsewhere.contains("bad request");
        ensure!(is_let_in && !elsewhere.contains("exec:"), "{verb:?}: {elsewhere}");
    }
    let target = hub.files.path("hosts").display().to_string();
    for (arguments, words) in [
        (&["exec", "-n", "kube-system", "dns", "--", "ls"][..], WORDS),
        (&["cp", "kube-system/dns:/etc/hosts", &target], WORDS),
        (&["attach", "-n", "kube-system", "dns"], "exec: no attach in pods of kube-system"),
        (&["exec", "-n", "shop", "dns", "--", "ls"], "does not have a host assigned"),
    ] {
        let (succeeds, output) = hub.kubectl(JANE, arguments)?;
        ensure!(!succeeds && output.contains(words), "{arguments:?}: {output}");
    }
    for door in ["attach", "portforward", "proxy"] {
        let path = format!("/api/v1/namespaces/kube-system/pods/dns/{door}");
        let error = hub.jane.request_text(Request::get(path).body(Vec::new())?).await.err().context(door)?;
        ensure!(error.to_string().contains(&format!("exec: no {door} in pods of kube-system")), "{error}");
    }
    let kubelet = Request::get("/api/v1/nodes/n/proxy/run/kube-system/dns/dns?cmd=ls").body(Vec::new())?;
    let error = hub
        .jane
        .request_text(kubelet)
        .await
        .err()
        .context("the request to the kubelet is allowed")?
        .to_string();
    ensure!(error.contains("exec: no way to the kubelet"), "{error}");
    // The configuration exempts members of this group.
    let admin: Api<Pod> = Api::namespaced(hub.world.client.clone(), "kube-system");
    admin.get("dns").await?;

    // The review contains only the names of Secrets, and the controller reads no Secrets.
    hub.world.write("secrets", json!({"a.rego": SECRETS})).await?;
    hub.world.until_ok("secrets").await?;
    let secrets: Api<Secret> = Api::namespaced(hub.jane.clone(), "shop");
    let error =
        secrets.list(&ListParams::default()).await.err().context("jane can list Secrets")?.to_string();
    ensure!(error.contains("secrets: shop keeps them to itself"), "{error}");
    hub.read_maps(&hub.jane).await?;

    let began = Instant::now();
    hub.world.delete("exec").await?;
    hub.until_denied(false).await?;
    println!("commands run {:?} after the deletion of the Rego policy", began.elapsed());

    let metrics = hub.controller.as_ref().context("no controller runs")?.metrics().await?;
    for verdict in ["denied", "no_opinion"] {
        let labels = [("path", "/authorize"), ("verdict", verdict)];
        ensure!(
            metrics.value("policy_sync_webhook_requests_total", &labels)? > 0.0,
            "no request has the verdict {verdict}"
        );
    }
    // While no replica responds, the API server denies requests of users that the configuration includes, and allows
    // all other requests.
    hub.stop().await?;
    let jane = hub.jane.clone();
    wait::until("requests of jane are denied", LIMIT, || async {
        let error = hub.read_maps(&jane).await.err().context("the request is allowed")?;
        ensure!(!message(&error).contains(WORDS), "{error:#}");
        Ok(())
    })
    .await?;
    let kube = "system:serviceaccount:kube-system:some-controller";
    apply(&hub.world.client, &everything(kube)).await?;
    let kube = hub.world.hub().client_for(&User::new(kube)).await?;
    wait::until("the rights are in force", LIMIT, || hub.read_maps(&kube)).await?;
    hub.read_maps(&hub.world.client).await?;
    // The controller can still start, because the configuration exempts the controller's own requests.
    hub.run().await?;
    wait::until("requests of jane are allowed", LIMIT, || hub.read_maps(&jane)).await
}

#[tokio::test]
async fn failure_policy_decides_while_the_authorizer_fails() -> Result<()> {
    let mut hub = AuthorizationHub::start("rego-authorize-closed").await?;
    let jane = hub.jane.clone();
    let kube = "system:serviceaccount:kube-system:some-controller";
    apply(&hub.world.client, &everything(kube)).await?;
    let kube = hub.world.hub().client_for(&User::new(kube)).await?;
    wait::until("the rights are in force", LIMIT, || async {
        hub.read_maps(&kube).await?;
        hub.read_maps(&jane).await
    })
    .await?;
    hub.stop().await?;
    let written = std::fs::read_to_string(hub.files.configuration())?;
    for policy in ["Deny", "NoOpinion"] {
        let configured = written.replace("failurePolicy: Deny", &format!("failurePolicy: {policy}"));
        ensure!(configured.contains(&format!("failurePolicy: {policy}")), "{configured}");
        hub.files.write("authorization.yaml", &configured)?;
        hub.world.hub().authorize_by(&hub.files.configuration()).await?;
        for fault in Fault::ALL {
            with_fault(fault, &hub.webhooks, async || {
                let read = hub.read_maps(&jane).await;
                ensure!(read.is_ok() == (policy == "NoOpinion"), "{policy}: {read:?}");
                // Requests of exempt users are not delayed.
                hub.read_maps(&kube).await?;
                hub.read_maps(&hub.world.client).await
            })
            .await?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn invalid_rego_policy_can_be_fixed_by_exempt_users() -> Result<()> {
    let hub = AuthorizationHub::start("rego-locked").await?;
    let jane = hub.jane.clone();
    wait::until("the rights are in force", LIMIT, || hub.read_maps(&jane)).await?;
    let everything =
        "package authorization\nimport rego.v1\ndeny contains \"nobody does anything\" if true\n";
    // An invalid module denies all requests that the module could decide.
    let broken = everything.replace(" if true", " if {");
    hub.world.write("all", json!({"a.rego": broken})).await?;
    let denied = async |words: &str| {
        wait::until("requests of jane are denied", LIMIT, || async {
            let error = hub.read_maps(&jane).await.err().context("the request is allowed")?;
            ensure!(message(&error).contains(words), "{error:#}");
            Ok(())
        })
        .await
    };
    denied("rego-locked/all/a.rego").await?;
    let mended = hub.world.config_map("all", &json!({"a.rego": everything}));
    hub.files.write("mended.yaml", &mended.to_string())?;
    let file = hub.files.path("mended.yaml").display().to_string();
    let apply = ["apply", "--server-side", "--force-conflicts", "-f", &file];
    let (succeeds, said_) = hub.kubectl(JANE, &apply)?;
    ensure!(succeeds, "{said_}");
    // The module now denies all users that the configuration includes. Only exempt users can fix the module.
    denied("nobody does anything").await?;
    let carriers: Api<ConfigMap> = Api::namespaced(jane.clone(), &hub.world.namespace);
    let error = carriers.get("all").await.err().context("jane can read the Rego policy")?.to_string();
    ensure!(error.contains("nobody does anything"), "{error}");
    delete(&hub.world.client, &mended).await?;
    wait::until("requests of jane are allowed", LIMIT, || hub.read_maps(&jane)).await
}

/// A description of a request, its head and body, and the code of the response.
fn requests() -> Vec<(&'static str, String, String, u16)> {
    let with = |text: &str| {
        (format!("\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json"), text.to_owned())
    };
    let review = |version: &str, spec: &str| {
        with(&format!(
            r#"{{"apiVersion":"authorization.k8s.io/{version}","kind":"SubjectAccessReview","spec":{spec}}}"#
        ))
    };
    let resource = |name: &str| {
        format!(
            r#"{{"verb":"get","resource":"pods","namespace":"kube-system","name":"{name}","subresource":"exec"}}"#
        )
    };
    let of = |more: &str| format!(r#"{{"user":"jane","resourceAttributes":{}{more}}}"#, resource("dns"));
    let groups: Vec<String> = (0..10_000).map(|number| format!("\"group-{number}\"")).collect();
    let deep = format!(r#","extra":{{"deep":{}{}}}"#, "[".repeat(200), "]".repeat(200));
    let odd = r#"a\"] as 1 with input as {\"x\\"#;
    let no_type = format!("\r\nAuthorization: Bearer {TOKEN}");
    let wrong = |shown: &str| {
        (format!("\r\nAuthorization: {shown}\r\nContent-Type: application/json"), String::new())
    };
    let rows = [
        ("no token", ("\r\nContent-Type: application/json".to_owned(), String::new()), 401),
        ("another token", wrong("Bearer another-token-of-some-length"), 401),
        ("the token with a suffix", wrong(&format!("Bearer {TOKEN}x")), 401),
        ("the token with another scheme", wrong(&format!("Basic {TOKEN}")), 401),
        ("no content type", (no_type, "{}".to_owned()), 415),
        ("no body", with(""), 400),
        ("not JSON", with("{"), 400),
        (
            "another kind of review",
            with(r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}"#),
            400,
        ),
        ("an unknown version of the review", review("v2", "{}"), 400),
        ("a number as the user", review("v1", r#"{"user":7}"#), 400),
        ("a review without attributes", review("v1", r#"{"user":"jane"}"#), 200),
        (
            "a review of both a resource and a path",
            review("v1", &of(r#","nonResourceAttributes":{"path":"/","verb":"get"}"#)),
            200,
        ),
        ("a review nested 200 levels deep", review("v1", &of(&deep)), 200),
        (
            "a review of `v1beta1`, whose groups are in `group`",
            review("v1beta1", &of(r#","group":["dev"]"#)),
            200,
        ),
        ("10,000 groups", review("v1", &of(&format!(r#","groups":[{}]"#, groups.join(",")))), 200),
        (
            "quotes and backslashes in every field",
            review(
                "v1",
                &format!(
                    r#"{{"user":"{odd}","groups":["{odd}"],"resourceAttributes":{{"resource":"{odd}","name":"{odd}",
                "namespace":"{odd}","verb":"{odd}","group":"{odd}","subresource":"{odd}"}}}}"#
                ),
            ),
            200,
        ),
        (
            "a non-resource path",
            review("v1", r#"{"user":"jane","nonResourceAttributes":{"path":"/logs","verb":"get"}}"#),
            200,
        ),
    ];
    rows.into_iter().map(|(what, (head, body), code)| (what, head, body, code)).collect()
}

#[tokio::test]
async fn requests_without_the_token_and_other_kinds_of_objects_are_rejected() -> Result<()> {
    let (world, webhooks) = (World::new("rego-access").await?, Webhooks::with_files("rego-access")?);
    let files = Authorization::new(&webhooks)?;
    let arguments = [webhooks.arguments(), vec![files.argument()]].concat();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let controller = world.controller(&arguments).await?;
    world.write("exec", json!({"exec.rego": EXEC})).await?;
    world.until_status("exec", |status| status["status"] == "ok").await?;
    let mut rows = "| request | response | message |\n|---|---|---|\n".to_owned();
    for (what, head, body, expected) in requests() {
        let head = format!("POST /authorize HTTP/1.1{head}\r\nContent-Length: {}", body.len());
        let (found, text) = sent::ask(&webhooks, &head, body.as_bytes()).await.context(what)?;
        ensure!(found == expected, "{what}: {found} {text}");
        let (outcome, text) = match found {
            200 => {
                let answer: Value = serde_json::from_str(&text).context(what)?;
                ensure!(answer["status"]["allowed"] == false, "{what}: {text}");
                let outcome = if answer["status"]["denied"] == true { "denied" } else { "no opinion" };
                (
                    format!("{found}, {outcome}"),
                    answer["status"]["reason"].as_str().unwrap_or_default().to_owned(),
                )
            }
            _ => (found.to_string(), text),
        };
        rows += &format!("| {what} | {outcome} | {} |\n", code(text.trim()));
    }
    let shown = format!(
        "POST /authorize HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json"
    );
    let (found, text) = sent::ask(&webhooks, &format!("{shown}\r\nContent-Length: 2097152"), b"{").await?;
    ensure!(found == 413, "{found} {text}");
    rows += &format!("| a content length of 2 MiB | {found} | {} |\n", code(text.trim()));
    let (found, text) = sent::drip(&webhooks, &shown).await?;
    ensure!(found == 408, "{found} {text}");
    rows += &format!("| a body at two bytes a second | {found} | {} |\n", code(text.trim()));
    let (found, text) = sent::ask(&webhooks, &shown.replace("POST", "GET"), b"").await?;
    ensure!(found == 405, "{found} {text}");
    rows += &format!("| another method | {found} | {} |\n", code(text.trim()));
    bad_input::holds("access reviews", &rows)?;

    // While a token is rotated, the old and the new token are both valid.
    let asks = async |token: &str| {
        let head = format!("POST /authorize HTTP/1.1\r\nAuthorization: Bearer {token}\r\nContent-Length: 0");
        Ok::<_, anyhow::Error>(sent::ask(&webhooks, &head, b"").await?.0 != 401)
    };
    let next = "another-token-that-nobody-guesses";
    files.write("token", &format!("{TOKEN}\n{next}\n"))?;
    wait::until("both tokens are accepted", LIMIT, || async {
        ensure!(asks(TOKEN).await?, "the first token is rejected");
        ensure!(asks(next).await?, "the next token is rejected");
        Ok(())
    })
    .await?;
    files.write("token", "\n")?;
    files.write("token", next)?;
    wait::until("only the next token is accepted", LIMIT, || async {
        ensure!(asks(next).await?, "the next token is rejected");
        ensure!(!asks(TOKEN).await?, "the first token is accepted");
        Ok(())
    })
    .await?;
    controller.terminate().await.map(drop)
}
