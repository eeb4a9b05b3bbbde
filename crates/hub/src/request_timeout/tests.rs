use std::convert::Infallible;

use futures::future::pending;
use futures::stream;
use http::StatusCode;
use tokio::time::Instant;

use super::*;
use crate::root_cause;

/// A hub with this response.
fn hub<F: Future<Output = Response<Body>> + Send + 'static>(
    respond: impl Fn() -> F + Send + Sync + 'static,
) -> Client {
    let service = service_fn(move |_: Request<Body>| {
        let response = respond();
        async { Ok::<_, Infallible>(response.await) }
    });
    Client::new(service, "shop")
}

fn get(path: &str) -> Request<Body> {
    Request::get(path).body(Body::empty()).unwrap()
}

const LIMIT: Duration = Duration::from_secs(2);

#[tokio::test(start_paused = true)]
async fn request_without_response_ends_at_the_limit() {
    let client = RequestTimeout::new(LIMIT).limit(hub(pending));
    let start = Instant::now();
    let error = client.send(get("/api")).await.unwrap_err();
    assert_eq!(start.elapsed(), LIMIT);
    assert_eq!(root_cause(&error).to_string(), "no response within 2s");
    assert_eq!(client.default_namespace(), "shop");
}

#[tokio::test]
async fn response_within_the_limit_is_complete() {
    let conflict = || async {
        Response::builder().status(StatusCode::CONFLICT).body(Body::from(b"taken".to_vec())).unwrap()
    };
    let response = RequestTimeout::new(LIMIT).limit(hub(conflict)).send(get("/api")).await.unwrap();
    assert_eq!(response.status(), StatusCode::CONFLICT);
    assert_eq!(response.into_body().collect_bytes().await.unwrap(), "taken");
}

#[tokio::test(start_paused = true)]
async fn watch_is_limited_only_until_it_begins() {
    let endless = service_fn(async |_: Request<Body>| {
        let body = axum::body::Body::from_stream(stream::pending::<Result<Vec<u8>, Infallible>>());
        Ok::<_, Infallible>(Response::new(body))
    });
    let client = RequestTimeout::new(LIMIT).limit(Client::new(endless, "shop"));
    client.send(get("/api/v1/pods?limit=1&watch=true")).await.unwrap();
    client.send(get("/api/v1/pods?fieldSelector=a%3Dwatch")).await.expect_err("a list has to end");
    let silent = RequestTimeout::new(LIMIT).limit(hub(pending));
    silent.send(get("/api/v1/pods?watch=true")).await.expect_err("it does not begin");
}

#[tokio::test(start_paused = true)]
async fn request_without_limit_does_not_end() {
    assert_eq!(RequestTimeout::new(Duration::ZERO), RequestTimeout::Never);
    for unlimited in [RequestTimeout::Never, RequestTimeout::Unset] {
        let client = unlimited.limit(hub(pending));
        timeout(LIMIT * 1000, client.send(get("/api"))).await.expect_err("it goes on");
    }
}
