use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, PostParams};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::time::{Instant, timeout};

use super::*;

/// A server on a local port, and a client for it.
async fn hub() -> (TcpListener, Client) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (config, metrics) = (Config::new(address.parse().unwrap()), Metrics::new().unwrap());
    (listener, watch_client(config, &metrics, RequestTimeout::Unset).unwrap())
}

#[tokio::test(start_paused = true)]
async fn request_on_a_silent_connection_ends() {
    // The operating system accepts connections; the test never does.
    let (_listener, client) = hub().await;
    let start = Instant::now();
    let result = timeout(IDLE_TIMEOUT * 3, client.list_api_groups()).await;
    result.expect("the request ends by itself").expect_err("the server never responds");
    assert!(start.elapsed() >= IDLE_TIMEOUT);
}

#[tokio::test(start_paused = true)]
async fn command_requests_have_a_default_limit_that_users_can_change() {
    let (listener, _) = hub().await;
    let url = format!("http://{}", listener.local_addr().unwrap());
    let ends = |limit: RequestTimeout| {
        let client = command_client(Config::new(url.parse().unwrap()), limit).unwrap();
        async move {
            let start = Instant::now();
            let ended = timeout(FIRST_BYTE_TIMEOUT * 100, client.list_api_groups()).await;
            ended.ok().map(|_| start.elapsed())
        }
    };
    let by_itself = ends(RequestTimeout::Unset).await.expect("it ends by itself");
    assert!((FIRST_BYTE_TIMEOUT..FIRST_BYTE_TIMEOUT * 2).contains(&by_itself), "{by_itself:?}");
    let limit = FIRST_BYTE_TIMEOUT * 3;
    assert_eq!(ends(RequestTimeout::After(limit)).await, Some(limit));
    assert_eq!(ends(RequestTimeout::Never).await, None);
}

#[tokio::test]
async fn request_rejected_with_503_is_not_retried() {
    let (listener, client) = hub().await;
    let serving = tokio::spawn(async move {
        let mut requests = 0;
        // A retry would use the same connection.
        let (mut connection, _) = listener.accept().await.unwrap();
        let (read, mut write) = connection.split();
        let mut lines = BufReader::new(read).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            // The next request begins on the same line as the previous body.
            if line.contains("POST ") {
                requests += 1;
                let busy = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: keep-alive\r\n\r\n";
                write.write_all(busy).await.unwrap();
            }
        }
        requests
    });
    let namespaces: Api<Namespace> = Api::all(client);
    let (how, what) = (PostParams::default(), Namespace::default());
    let refused =
        timeout(Duration::from_secs(10), namespaces.create(&how, &what)).await.expect("no response");
    assert!(matches!(&refused, Err(kube::Error::Api(status)) if status.code == 503), "{refused:?}");
    drop(namespaces);
    assert_eq!(serving.await.unwrap(), 1);
}
