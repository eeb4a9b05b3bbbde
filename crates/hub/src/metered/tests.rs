use std::convert::Infallible;
use std::time::Duration;

use tower::{ServiceExt, service_fn};

use super::*;

const PATH: &str = "/apis/kuadrant.io/v1/namespaces/shop/ratelimitpolicies/limits";

fn counted(metrics: &Metrics, method: &str, code: &str) -> bool {
    let labels =
        format!(r#"{{code="{code}",host="hub:6443",method="{method}",resource="ratelimitpolicies"}} 1"#);
    metrics.gather(|| {}).contains(&format!("rest_client_requests_total{labels}"))
}

fn request(method: &str) -> Request<Body> {
    Request::builder().method(method).uri(PATH).body(Body::empty()).unwrap()
}

#[tokio::test]
async fn requests_are_counted_by_response_code() {
    let metrics = Metrics::new().unwrap();
    let service = service_fn(async |request: Request<Body>| {
        let code = if request.method() == "POST" { StatusCode::CREATED } else { StatusCode::CONFLICT };
        Ok::<_, Infallible>(Response::builder().status(code).body(()).unwrap())
    });
    let metered = MetricsLayer::new(metrics.clone(), "hub:6443").layer(service);
    for method in ["POST", "PATCH"] {
        metered.clone().oneshot(request(method)).await.unwrap();
    }
    assert!(
        counted(&metrics, "POST", "201") && counted(&metrics, "PATCH", "409"),
        "{}",
        metrics.gather(|| {})
    );
}

#[tokio::test(start_paused = true)]
async fn failed_and_cancelled_requests_count_as_errors() {
    let metrics = Metrics::new().unwrap();
    let silent = service_fn(async |request: Request<Body>| match request.method().as_str() {
        "GET" => Err(std::io::Error::other("the connection was lost")),
        _ => std::future::pending::<Result<Response<()>, _>>().await,
    });
    let metered = MetricsLayer::new(metrics.clone(), "hub:6443").layer(silent);
    assert!(metered.clone().oneshot(request("GET")).await.is_err());
    let given_up = tokio::time::timeout(Duration::from_secs(7), metered.oneshot(request("PATCH"))).await;
    assert!(given_up.is_err());
    assert!(
        counted(&metrics, "GET", "<error>") && counted(&metrics, "PATCH", "<error>"),
        "{}",
        metrics.gather(|| {})
    );
    let took = r#"rest_client_request_duration_seconds_sum{verb="PATCH"} 7"#;
    assert!(metrics.gather(|| {}).contains(took), "{}", metrics.gather(|| {}));
}

#[test]
fn resource_is_read_from_the_path() {
    for (path, expected) in [
        (PATH, "ratelimitpolicies"),
        ("/apis/kuadrant.io/v1/ratelimitpolicies", "ratelimitpolicies"),
        ("/api/v1/namespaces/shop/configmaps/params", "configmaps"),
        ("/api/v1/configmaps", "configmaps"),
        ("/api/v1/namespaces/shop", "namespaces"),
        ("/apis/gateway.networking.k8s.io/v1/gatewayclasses/multi/status", "gatewayclasses"),
        ("/apis", ""),
        ("/version", ""),
        ("/", ""),
        ("", ""),
    ] {
        assert_eq!(resource(path), expected, "{path}");
    }
}
