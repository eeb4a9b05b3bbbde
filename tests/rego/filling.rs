//! Fills a real OPA with modules and data, and injects a fault at each request.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, ensure};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use policy_sync_hub::json_client::{CredentialFiles, JsonClient};
use policy_sync_rego::bundle::Bundle;
use policy_sync_rego::engine::{Engine, EngineError, Evaluator};
use policy_sync_rego::module::{ModuleId, Text};
use policy_sync_rego::opa::{Opa, push};
use policy_sync_testenv::Opa as Server;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// A fault while OPA is filled.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// OPA restarts before the request, and is empty.
    Empty,
    /// The request does not arrive.
    NeverSent,
    /// The request arrives, but its response is lost.
    ResponseLost,
}

/// A proxy in front of OPA.
struct FaultyProxy {
    server: Server,
    fault: Fault,
    /// The number of requests before the fault.
    after: AtomicUsize,
}

impl FaultyProxy {
    async fn forward(
        State(between): State<Arc<Self>>,
        method: Method,
        uri: Uri,
        body: Bytes,
    ) -> Result<Response, String> {
        let is_now = between.after.fetch_sub(1, Ordering::SeqCst) == 1;
        match between.fault {
            Fault::Empty if is_now => empty(&between.server).await.map_err(|error| format!("{error:#}"))?,
            Fault::NeverSent if is_now => return Ok(StatusCode::BAD_GATEWAY.into_response()),
            _ => {}
        }
        let answer = forwarded(&between.server, &method, &uri, body).await?;
        if is_now && matches!(between.fault, Fault::ResponseLost) {
            return Ok(StatusCode::BAD_GATEWAY.into_response());
        }
        Ok(answer)
    }
}

/// The response of `server` to this request.
pub(crate) async fn forwarded(
    server: &Server,
    method: &Method,
    uri: &Uri,
    body: Bytes,
) -> Result<Response, String> {
    let at = uri.path_and_query().map_or("/", |path| path.as_str());
    let answer = server.ask(method.as_str(), at, body.to_vec()).await;
    let (status, value) = answer.map_err(|error| format!("{error:#}"))?;
    let body = if value.is_null() { String::new() } else { value.to_string() };
    Ok((status, body).into_response())
}

/// Empties `server`, as a restart would.
async fn empty(server: &Server) -> Result<()> {
    let (_, listed) = server.ask("GET", "/v1/policies", Vec::new()).await?;
    for policy in listed["result"].as_array().into_iter().flatten() {
        let path = format!("/v1/policies/{}", policy["id"].as_str().unwrap_or_default());
        server.ask("DELETE", &path, Vec::new()).await?;
    }
    server.ask("PUT", "/v1/data", b"{}".to_vec()).await?;
    Ok(())
}

/// The contents of an OPA that is marked as filled: its modules by id, and its data without the inventory.
async fn found(server: &Server) -> Result<Option<(BTreeMap<String, String>, Value)>> {
    let (_, marker) = server.ask("GET", "/v1/data/policysync/revision", Vec::new()).await?;
    if marker["result"].is_null() {
        return Ok(None);
    }
    let (_, listed) = server.ask("GET", "/v1/policies", Vec::new()).await?;
    let text = |policy: &Value, field: &str| policy[field].as_str().unwrap_or_default().to_owned();
    let policies = listed["result"].as_array().into_iter().flatten();
    let modules = policies.map(|policy| (text(policy, "id"), text(policy, "raw"))).collect();
    let mut data = json!({});
    for root in ["kubernetes", "policies"] {
        let (_, found) = server.ask("GET", &format!("/v1/data/{root}"), Vec::new()).await?;
        data[root] = found["result"].clone();
    }
    Ok(Some((modules, data)))
}

/// The intended contents of OPA.
struct DesiredContents {
    bundle: Bundle,
    engine: Engine,
    data: Value,
}

impl DesiredContents {
    fn new(opa: &Opa, texts: &[(&str, &str)], data: Value) -> Result<Self> {
        let text = |(id, text): &(&str, &str)| Text { id: ModuleId::new(id), text: (*text).into() };
        let texts: Vec<Text> = texts.iter().map(text).collect();
        let bundle = Bundle::read(&texts).map_err(|faults| anyhow::anyhow!("{faults:?}"))?;
        let engine = Evaluator::Opa(opa.clone()).engine(&bundle)?.with_data(data.clone().into())?;
        Ok(Self { bundle, engine, data })
    }

    fn expected(&self) -> Result<(BTreeMap<String, String>, Value)> {
        let policies = self.engine.opa_engine().context("no OPA")?.contents().policies();
        ensure!(policies.len() == self.bundle.modules().count() + 1, "{policies:?}");
        Ok((policies.into_iter().map(|(id, text)| (id, text.to_string())).collect(), self.data.clone()))
    }

    /// Whether `found` has the expected contents, apart from the text of the module `policysync/installed`.
    fn is_unproven(&self, found: &(BTreeMap<String, String>, Value)) -> Result<bool> {
        let (mut found, mut expected) = (found.clone(), self.expected()?);
        let proofs = [&mut found, &mut expected].map(|(modules, _)| modules.remove("policysync/installed"));
        Ok(found == expected && proofs.iter().all(Option::is_some))
    }

    async fn push(&self, opa: &Opa, before: Option<&Self>) -> Result<bool> {
        let contents =
            |wanted: &Self| wanted.engine.opa_engine().map(|opa_engine| opa_engine.contents().clone());
        let (now, before) = (contents(self).context("no OPA")?, before.and_then(contents));
        Ok(push(opa, &self.bundle, before.as_deref(), &now).await.is_ok())
    }
}

const LIBRARY: (&str, &str) = ("ns/lib/l.rego", "package lib\nlimit := data.policies.limits.a\n");
const USER: (&str, &str) = ("ns/use/u.rego", "package use\nimport data.lib\nok { lib.limit > 1 }\n");
const OTHER: (&str, &str) = ("ns/use/u.rego", "package use\nimport data.lib\nok { lib.limit > 2 }\n");
/// The module of [`USER`] in another package.
const MOVED: (&str, &str) = ("ns/use/u.rego", "package moved\nimport data.lib\nok { lib.limit > 1 }\n");
const MORE: (&str, &str) = ("ns/more/m.rego", "package more\np := 1\n");

/// Contents of OPA before and after each push. The pushes fill an empty OPA, and change many parts, one module, or one
/// object. Other pushes add or remove a module, or move a module to another package.
fn steps(opa: &Opa) -> Result<[(DesiredContents, DesiredContents); 7]> {
    let data =
        |pods: Value, limit: u32| json!({"kubernetes": {"pods": pods}, "policies": {"limits": {"a": limit}}});
    let first = || DesiredContents::new(opa, &[LIBRARY, USER], data(json!({"a": {"b": {}}}), 1));
    Ok([
        (DesiredContents::new(opa, &[MORE], data(json!({}), 2))?, first()?),
        (first()?, DesiredContents::new(opa, &[OTHER, LIBRARY, MORE], data(json!({"a": {"c": {}}}), 2))?),
        (first()?, DesiredContents::new(opa, &[LIBRARY, OTHER], first()?.data)?),
        (first()?, DesiredContents::new(opa, &[LIBRARY, USER], data(json!({"a": {"b": {}, "c": {}}}), 1))?),
        (first()?, DesiredContents::new(opa, &[LIBRARY, USER, MORE], first()?.data)?),
        (first()?, DesiredContents::new(opa, &[LIBRARY], first()?.data)?),
        (first()?, DesiredContents::new(opa, &[LIBRARY, MOVED], first()?.data)?),
    ])
}

#[tokio::test]
async fn opa_is_never_marked_as_filled_with_partial_contents() -> Result<()> {
    for fault in [Fault::Empty, Fault::NeverSent, Fault::ResponseLost] {
        let server = Server::start().await?;
        let between = Arc::new(FaultyProxy { server, fault, after: AtomicUsize::new(0) });
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = format!("http://{}", listener.local_addr()?).parse()?;
        let router = Router::new().fallback(FaultyProxy::forward).with_state(between.clone());
        let serving = tokio::spawn(async move { axum::serve(listener, router).await });
        let opa = Opa::new(JsonClient::new(address, CredentialFiles::default())?, true, None);
        for (nth, (before, after)) in steps(&opa)?.iter().enumerate() {
            let mut when = 0;
            loop {
                when += 1;
                let at = format!("step {nth}, {fault:?} at request {when}");
                between.after.store(0, Ordering::SeqCst);
                empty(&between.server).await?;
                ensure!(before.push(&opa, None).await?, "{at}: the first push fails");
                between.after.store(when, Ordering::SeqCst);
                // In the first step, the contents of OPA are unknown.
                let known = (nth > 0).then_some(before);
                let is_filled = after.push(&opa, known).await?;
                let is_over = between.after.load(Ordering::SeqCst) as isize > 0;
                if let Some(found) = found(&between.server).await? {
                    let is_whole = found == after.expected()?
                        || (!is_filled && (before.is_unproven(&found)? || after.is_unproven(&found)?));
                    ensure!(is_whole, "{at}: OPA is marked as filled, but has {found:?}");
                } else if !matches!(fault, Fault::Empty) {
                    // A query detects a restart after OPA was filled completely.
                    ensure!(!is_filled, "{at}: the push succeeds, but OPA is not marked as filled");
                }
                between.after.store(0, Ordering::SeqCst);
                ensure!(after.push(&opa, None).await?, "{at}: the last push fails");
                ensure!(
                    found(&between.server).await? == Some(after.expected()?),
                    "{at}: the contents are different after the last push"
                );
                if is_over {
                    ensure!(when > 1, "{at}: the push sends no request");
                    break;
                }
            }
        }
        serving.abort();
    }
    Ok(())
}

/// The result of `data.use.ok` from `engine`.
async fn evaluate(engine: &Engine) -> Result<Result<Option<regorus::Value>, EngineError>> {
    let engine = engine.clone();
    Ok(tokio::task::spawn_blocking(move || engine.query_value("data.use.ok", &regorus::Value::Undefined))
        .await?)
}

#[tokio::test(flavor = "multi_thread")]
async fn opa_that_is_not_filled_makes_no_decisions() -> Result<()> {
    let server = Server::start().await?;
    let opa = |is_own| {
        anyhow::Ok(Opa::new(
            JsonClient::new(server.url().parse()?, CredentialFiles::default())?,
            is_own,
            None,
        ))
    };
    let data = json!({"kubernetes": {}, "policies": {"limits": {"a": 2}}});
    let wanted = |is_own| DesiredContents::new(&opa(is_own)?, &[LIBRARY, USER], data.clone());
    let (shared, own) = (wanted(false)?, wanted(true)?);
    let denied = async |engine: &Engine| match evaluate(engine).await? {
        Err(EngineError::Unreachable(why)) => {
            ensure!(why == format!("OPA at {} is out of date", server.url()), "{why}");
            Ok(())
        }
        other => anyhow::bail!("the query returns {other:?}"),
    };
    denied(&shared.engine).await.context("OPA is empty")?;
    ensure!(shared.push(&opa(false)?, None).await?, "the push fails");
    ensure!(evaluate(&shared.engine).await? == Ok(Some(true.into())), "the query is not true after the push");
    // Only a process that has filled a private OPA may query it, because an earlier process may have left other
    // data.
    denied(&own.engine).await.context("another process has filled OPA")?;
    server.ask("DELETE", "/v1/data/policysync/revision", Vec::new()).await?;
    denied(&shared.engine).await.context("OPA is not marked as filled")
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_evaluations_in_opa_quote_no_values() -> Result<()> {
    let server = Server::start().await?;
    let opa = Opa::new(JsonClient::new(server.url().parse()?, CredentialFiles::default())?, false, None);
    let held = "data.kubernetes.secrets.shop.db.data[_]";
    for rules in [
        format!("ok = {{k: v | v := {held}; k := 1}}"),
        format!("ok = x {{ x := {held} }}"),
        format!("ok {{ f(1) }}\nf(_) = x {{ x := {held} }}"),
    ] {
        let text = format!("package use\n{rules}\n");
        let data = json!({"kubernetes": {"secrets": {"shop": {"db": {"data": {"a": "aHVudGVyMg==", "b": "aHVudGVyMzM="}}}}}});
        let wanted = DesiredContents::new(&opa, &[("ns/use/u.rego", &text)], data)?;
        ensure!(wanted.push(&opa, None).await?, "the push fails");
        let Err(EngineError::Failed(failure)) = evaluate(&wanted.engine).await? else {
            anyhow::bail!("{rules}: the query does not fail")
        };
        let error = failure.to_string();
        ensure!(error.starts_with("ns/use/u.rego:") && !error.contains("aHVudGVy"), "{rules}: {error}");
        let kind = "OPA: conflicting values of a rule or a function";
        ensure!(error.ends_with(kind), "{rules}: {error}");
    }
    Ok(())
}

/// A filled server and its contents, in which `data.use.ok` is true.
async fn filled() -> Result<(Server, Opa, DesiredContents)> {
    let server = Server::start().await?;
    let opa = Opa::new(JsonClient::new(server.url().parse()?, CredentialFiles::default())?, false, None);
    let data = json!({"kubernetes": {"pods": {"a": {"b": {"x": [1, 1.5, 1e21, "<é>"]}}}}, "policies": {"limits": {"a": 2}}});
    let wanted = DesiredContents::new(&opa, &[LIBRARY, USER], data)?;
    ensure!(wanted.push(&opa, None).await?, "the push fails");
    ensure!(evaluate(&wanted.engine).await? == Ok(Some(true.into())), "the query is not true after the push");
    Ok((server, opa, wanted))
}

#[tokio::test(flavor = "multi_thread")]
async fn query_fails_if_its_modules_were_deleted_or_replaced() -> Result<()> {
    const POLICY: &str = "/v1/policies/policysync/ns/use/u.rego";
    const PROOF: &str = "/v1/policies/policysync/installed";
    type Step = (&'static str, &'static str, &'static str);
    let steps: [&[Step]; 5] = [
        &[("DELETE", POLICY, "")],
        &[("PUT", POLICY, "package use\n")],
        &[("DELETE", PROOF, ""), ("DELETE", POLICY, "")],
        &[("PUT", PROOF, "package policysync.installed\n"), ("DELETE", POLICY, "")],
        &[("PUT", PROOF, "package other\n"), ("PUT", POLICY, "package use\n")],
    ];
    for steps in steps {
        let (server, opa, wanted) = filled().await?;
        let mut is_changed = false;
        for (method, path, text) in steps {
            let (status, _) = server.ask(method, path, text.as_bytes().to_vec()).await?;
            is_changed |= status.is_success();
            match evaluate(&wanted.engine).await? {
                Ok(Some(value)) if value == true.into() && !is_changed => {}
                Err(EngineError::Unreachable(_)) if is_changed => {}
                other => {
                    anyhow::bail!("after {method} {path} (changed: {is_changed}) the query returns {other:?}")
                }
            }
        }
        let contents = wanted.engine.opa_engine().context("no OPA")?.contents();
        ensure!(
            opa.find_drift(contents, &mut 0).await?.is_some() == is_changed,
            "{steps:?}: expected drift: {is_changed}"
        );
        ensure!(wanted.push(&opa, None).await?, "{steps:?}: the push fails");
        ensure!(
            evaluate(&wanted.engine).await? == Ok(Some(true.into())),
            "{steps:?}: the query is not true after the push"
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_by_others_are_detected_and_repaired() -> Result<()> {
    let (server, opa, wanted) = filled().await?;
    let contents = wanted.engine.opa_engine().context("no OPA")?.contents();
    let id = "policysync/ns/use/u.rego";
    let edited = contents.policies().remove(id).context("no module")?.replace("> 1", "> 100");
    let policy = format!("/v1/policies/{id}");
    ensure!(opa.find_drift(contents, &mut 0).await?.is_none(), "unchanged contents have drift");
    server.ask("PUT", "/v1/policies/other", b"package other".to_vec()).await?;
    server.ask("PUT", "/v1/data/other", b"1".to_vec()).await?;
    ensure!(opa.find_drift(contents, &mut 0).await?.is_none(), "contents of other clients are drift");
    for (method, path, body, expected) in [
        ("PUT", policy.as_str(), edited.as_str(), "the text of module policysync/ns/use/u.rego differs"),
        ("PUT", "/v1/policies/policysync/more", "package more", "module policysync/more was added"),
        ("DELETE", "/v1/policies/policysync/installed", "", "module policysync/installed is missing"),
        ("DELETE", "/v1/data/kubernetes", "", "data.kubernetes.pods differs"),
        ("PUT", "/v1/data/kubernetes/pods/a/c", "{}", "data.kubernetes.pods differs"),
        ("PUT", "/v1/data/policies/limits/a", "3", "data.policies.limits differs"),
    ] {
        let (status, response) = server.ask(method, path, body.as_bytes().to_vec()).await?;
        ensure!(status.is_success(), "{method} {path}: {status} {response}");
        let found = opa.find_drift(contents, &mut 0).await?;
        ensure!(found.as_deref() == Some(expected), "{method} {path}: {found:?}");
        ensure!(wanted.push(&opa, None).await?, "{method} {path}: the push fails");
        ensure!(
            opa.find_drift(contents, &mut 0).await?.is_none(),
            "{method} {path}: the drift is not repaired"
        );
    }
    Ok(())
}
