use std::collections::VecDeque;
use std::fs;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request as AxumRequest, State};
use axum::response::{IntoResponse, Response};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

use super::*;

/// A server with scripted responses.
#[derive(Clone, Default)]
struct FakeServer(Arc<Mutex<FakeResponses>>);

#[derive(Default)]
struct FakeResponses {
    /// Status, `Retry-After` and body of each response. The last response repeats.
    next: VecDeque<(u16, &'static str, &'static str)>,
    /// The `Authorization` header of each request.
    tokens: Vec<String>,
}

impl FakeServer {
    async fn start(responses: &[(u16, &'static str, &'static str)]) -> (Self, ServerAddress) {
        let server = Self::default();
        server.0.lock().next.extend(responses);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let router = Router::new().fallback(Self::respond).with_state(server.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        (server, address)
    }

    async fn respond(State(Self(state)): State<Self>, request: AxumRequest) -> Response {
        let mut state = state.lock();
        let token = request.headers().get(AUTHORIZATION).and_then(|token| token.to_str().ok());
        state.tokens.push(token.unwrap_or_default().to_owned());
        let next = if state.next.len() > 1 { state.next.pop_front() } else { state.next.front().copied() };
        let (status, wait, body) = next.unwrap_or((404, "", ""));
        let mut response = (StatusCode::from_u16(status).unwrap(), body).into_response();
        if !wait.is_empty() {
            response.headers_mut().insert(RETRY_AFTER, wait.parse().unwrap());
        }
        response
    }

    fn count(&self) -> usize {
        self.0.lock().tokens.len()
    }
}

fn client(address: &ServerAddress) -> JsonClient {
    // Outside of tests, the process installs the provider at its start.
    let _ = rustls::crypto::ring::default_provider().install_default();
    JsonClient::new(address.clone(), CredentialFiles::default()).unwrap()
}

async fn ask(client: &JsonClient) -> Result<HttpResponse, JsonClientError> {
    client
        .send_with_retries(Method::POST, "/v1/query", &Bytes::from_static(b"{}"), Duration::from_secs(4))
        .await
}

#[tokio::test]
async fn only_transient_errors_are_retried() {
    for status in [408, 429, 500, 502, 503, 504] {
        let (server, address) = FakeServer::start(&[(status, "", ""), (200, "", "1")]).await;
        assert_eq!(ask(&client(&address)).await.unwrap().body, "1", "{status}");
        assert_eq!(server.count(), 2);
    }
    for status in [200, 400, 401, 403, 404, 409, 501] {
        let (server, address) = FakeServer::start(&[(status, "", "no")]).await;
        assert_eq!(ask(&client(&address)).await.unwrap().status.as_u16(), status);
        assert_eq!(server.count(), 1, "{status}");
    }
    let failed = r#"{"code": "internal_error", "errors": [{"code": "eval_conflict_error", "message": "m"}]}"#;
    let (server, address) = FakeServer::start(&[(500, "", failed)]).await;
    assert_eq!(ask(&client(&address)).await.unwrap().body, failed, "an evaluation fails each time");
    assert_eq!(server.count(), 1);
    let (server, address) = FakeServer::start(&[(503, "", "hunter2")]).await;
    let error = ask(&client(&address)).await.unwrap_err();
    assert_eq!(error.to_string(), format!("{address} returned 503 Service Unavailable"));
    assert_eq!(server.count(), 5);
}

#[tokio::test]
async fn retry_waits_for_retry_after_and_fails_if_that_is_too_late() {
    let (server, address) = FakeServer::start(&[(429, "1", ""), (200, "", "1")]).await;
    let began = Instant::now();
    assert_eq!(ask(&client(&address)).await.unwrap().body, "1");
    assert!(began.elapsed() >= Duration::from_secs(1) && server.count() == 2);
    let (server, address) = FakeServer::start(&[(429, "60", "")]).await;
    let began = Instant::now();
    assert!(ask(&client(&address)).await.is_err());
    assert!(began.elapsed() < Duration::from_secs(1) && server.count() == 1);
}

#[tokio::test]
async fn silent_resetting_and_absent_servers_fail_in_time() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address: ServerAddress = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    let silent = tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            held.push(stream);
        }
    });
    let began = Instant::now();
    let error = ask(&client(&address)).await.unwrap_err();
    assert!(matches!(&error, JsonClientError::Unreachable { is_transient: true, .. }), "{error}");
    assert!(began.elapsed() < Duration::from_millis(4_200), "{:?}", began.elapsed());
    silent.abort();
    let _ = silent.await;
    assert!(
        matches!(ask(&client(&address)).await, Err(JsonClientError::Unreachable { .. })),
        "nobody listens"
    );
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address: ServerAddress = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    let resets = tokio::spawn(async move {
        for _ in 0..5 {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 16]).await;
        }
    });
    assert!(matches!(ask(&client(&address)).await, Err(JsonClientError::Unreachable { .. })));
    resets.await.unwrap();
}

#[tokio::test]
async fn changed_token_file_is_reloaded() {
    let (server, address) = FakeServer::start(&[(200, "", "1")]).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    let files = CredentialFiles { token: Some(Token::File(path.clone())), ..CredentialFiles::default() };
    let _ = rustls::crypto::ring::default_provider().install_default();
    for (text, expected) in [
        (None, "cannot read "),
        (Some(""), "has no token"),
        (Some("\n"), "has no token"),
        (Some("a\nb"), "has no token"),
    ] {
        if let Some(text) = text {
            fs::write(&path, text).unwrap();
        }
        let error = JsonClient::new(address.clone(), files.clone()).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains(&path.display().to_string()), "{error}");
    }
    fs::write(&path, "one\n").unwrap();
    let client = JsonClient::new(address, files).unwrap();
    ask(&client).await.unwrap();
    let long_ago = |client: &JsonClient| {
        client.0.current.lock().checked_at = Instant::now().checked_sub(RELOAD_INTERVAL).unwrap();
    };
    fs::write(&path, "two\n").unwrap();
    ask(&client).await.unwrap();
    long_ago(&client);
    ask(&client).await.unwrap();
    fs::remove_file(&path).unwrap();
    long_ago(&client);
    ask(&client).await.unwrap();
    assert_eq!(server.0.lock().tokens, ["Bearer one", "Bearer one", "Bearer two", "Bearer two"]);
}

#[test]
fn invalid_certificate_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("ca.crt"), "none").unwrap();
    let _ = rustls::crypto::ring::default_provider().install_default();
    let address: ServerAddress = "https://127.0.0.1:1".parse().unwrap();
    let files = CredentialFiles { authority: Some(path("ca.crt")), ..CredentialFiles::default() };
    let error = JsonClient::new(address.clone(), files).unwrap_err();
    assert_eq!(error.to_string(), format!("{} has no certificate", path("ca.crt").display()));
    let files =
        CredentialFiles { identity: Some((path("ca.crt"), path("ca.crt"))), ..CredentialFiles::default() };
    let error = JsonClient::new(address, files).unwrap_err();
    assert_eq!(error.to_string(), format!("{} has no certificate", path("ca.crt").display()));
}

#[tokio::test]
async fn errors_do_not_quote_the_body() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let address: ServerAddress = "http://127.0.0.1:1".parse().unwrap();
    let client = client(&address);
    let refused = |body: &'static str| {
        let body = Bytes::from_static(body.as_bytes());
        client
            .status_error(&HttpResponse { status: StatusCode::UNAUTHORIZED, body, retry_after: None })
            .to_string()
    };
    assert_eq!(refused("hunter2"), format!("{address} returned 401 Unauthorized"));
    assert_eq!(refused(r#"{"code": "hunter2"}"#), format!("{address} returned 401 Unauthorized"));
    let error = refused(r#"{"code": "unauthorized", "message": "hunter2"}"#);
    assert_eq!(error, format!("{address} returned 401 Unauthorized (unauthorized)"));

    for (body, why) in [
        (r#""hunter2""#, "unexpected structure at line 1 column 9"),
        ("hunter2", "invalid JSON at line 1 column 1"),
        ("[", "unexpected end at line 1 column 1"),
    ] {
        let error = serde_json::from_str::<Vec<u8>>(body).unwrap_err();
        let expected = format!("{address} returned an invalid response: {why}");
        assert_eq!(client.parse_error(&error).to_string(), expected);
    }
}
