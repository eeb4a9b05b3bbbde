use std::fs;
use std::net::Ipv4Addr;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use tempfile::TempDir;
use tokio::net::TcpListener;

use super::*;

const OPTIONS: Options = Options { always: false, resync: Duration::from_secs(600) };

/// An engine that returns these results by path, and status 404 for all other paths. It records the requests.
async fn engine(answers: &'static [(&'static str, &'static str)]) -> (String, Arc<Mutex<Vec<String>>>) {
    type Shared = (&'static [(&'static str, &'static str)], Arc<Mutex<Vec<String>>>);
    async fn answer(
        State((answers, requests)): State<Shared>,
        headers: HeaderMap,
        uri: Uri,
        body: String,
    ) -> (StatusCode, &'static str) {
        let token = headers.get("authorization").map_or("", |token| token.to_str().unwrap());
        requests.lock().push(format!("{} {token} {body}", uri.path()));
        let answer = answers.iter().find(|(path, _)| *path == uri.path());
        answer.map_or((StatusCode::NOT_FOUND, "{}"), |(_, answer)| (StatusCode::OK, answer))
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let requests = Arc::<Mutex<Vec<String>>>::default();
    let router = Router::new().fallback(answer).with_state((answers, requests.clone()));
    tokio::spawn(async move { axum::serve(listener, router).await });
    // The process installs the provider at its start.
    let _ = rustls::crypto::ring::default_provider().install_default();
    (address, requests)
}

async fn query_value(external: &External) -> Result<Json, String> {
    let external = external.clone();
    let input = json!({"metadata": {"name": "a"}}).into();
    let result = tokio::task::spawn_blocking(move || external.query_value(&input)).await.unwrap();
    match result {
        Ok(value) => Ok(serde_json::to_value(value.unwrap()).unwrap()),
        Err(EngineError::Unreachable(why)) => Err(why),
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn response_without_a_result_is_an_error() {
    let answers = &[
        ("/v1/whole", r#"{"result": {"annotations": {"a": 1}, "errors": ["no"]}}"#),
        ("/v1/none", "{}"),
        ("/v1/null", r#"{"result": null}"#),
        ("/v1/other", "[1"),
        ("/both/annotations", r#"{"result": {"a": 1}}"#),
        ("/both/errors", r#"{"result": ["no"]}"#),
        ("/fine/annotations", r#"{"result": {}}"#),
        ("/fine/errors", "{}"),
        ("/half/annotations", r#"{"result": {}}"#),
        ("/undefined/annotations", "{}"),
    ];
    let (address, requests) = engine(answers).await;
    let at = async |path: &str| {
        let address = format!("{address}{path}").parse().unwrap();
        query_value(&External::at(address, CredentialFiles::default(), OPTIONS).unwrap()).await
    };
    assert_eq!(at("/v1/whole").await, Ok(json!({"annotations": {"a": 1}, "errors": ["no"]})));
    assert_eq!(*requests.lock(), [r#"/v1/whole  {"input":{"metadata":{"name":"a"}}}"#]);
    assert_eq!(at("/both/annotations").await, Ok(json!({"annotations": {"a": 1}, "errors": ["no"]})));
    assert_eq!(at("/fine/annotations").await, Ok(json!({"annotations": {}, "errors": []})));
    for (path, why) in [
        ("/v1/none", "/v1/none returned no result"),
        ("/v1/null", "/v1/null returned no result"),
        ("/v1/other", "/v1/other returned an invalid response: "),
        ("/v1/nowhere", "/v1/nowhere returned 404 Not Found"),
        ("/half/annotations", "/half/errors returned 404 Not Found"),
        ("/undefined/annotations", "/undefined/annotations returned no result"),
    ] {
        let error = at(path).await.unwrap_err();
        assert!(error.starts_with(&format!("{address}{why}")), "{path}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn configuration_file_is_parsed_strictly_and_reloaded() {
    let (address, requests) = engine(&[("/a", r#"{"result": {}}"#), ("/b", r#"{"result": {}}"#)]).await;
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("config.json");
    let write =
        |policy: Json| fs::write(&file, json!({"EnforceSchedulingPolicy": policy}).to_string()).unwrap();
    write(json!({"url": format!("{address}/a"), "token": "one"}));
    let external = External::from_file(file.clone(), None, OPTIONS).unwrap();
    assert!(!external.reload(), "nothing has changed");
    query_value(&external).await.unwrap();
    write(json!({"url": format!("{address}/b")}));
    assert!(external.reload() && !external.reload());
    query_value(&external).await.unwrap();
    let input = r#"{"input":{"metadata":{"name":"a"}}}"#;
    assert_eq!(*requests.lock(), [format!("/a Bearer one {input}"), format!("/b  {input}")]);

    for (policy, why) in [
        (json!({"url": "opa"}), "EnforceSchedulingPolicy.url: expected http(s)://<host>[:<port>][/<path>]"),
        (json!({"token": "secret"}), "missing field `url`"),
        (json!({"url": address, "tokens": "secret"}), "unknown field `tokens`"),
        (json!({"url": address, "token": "a\nsecret"}), "invalid token"),
        (json!([]), "invalid"),
    ] {
        write(policy);
        assert!(!external.reload());
        let fault = external.fault().unwrap();
        assert!(fault.contains(why) && !fault.contains("secret"), "{fault}");
        assert_eq!(external.address(), format!("{address}/b"), "what it said before counts");
        assert!(External::from_file(file.clone(), None, OPTIONS).is_err());
    }
    fs::remove_file(&file).unwrap();
    assert!(!external.reload() && external.fault().unwrap().starts_with("cannot read "));
    write(json!({"url": format!("{address}/b")}));
    assert!(!external.reload() && external.fault().is_none());
}
