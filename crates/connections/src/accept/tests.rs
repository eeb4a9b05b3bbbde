use std::io::Write;
use std::net::{SocketAddr, TcpStream as Blocking};

use axum::routing::{get, post};
use policy_sync_testenv::certificates::{Authority, Identity};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::*;
use crate::{listen, serve, serve_tls};
use policy_sync_hub::certificates::{CertificateAndKey, CertificateResolver};

const LIMIT: Duration = Duration::from_secs(120);

fn is_open(stream: &Blocking) -> bool {
    stream.set_nonblocking(true).unwrap();
    matches!(stream.peek(&mut [0]), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}

/// Sends `request`, and returns the complete response.
async fn answer(
    stream: &mut (impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin),
    request: &str,
) -> io::Result<String> {
    stream.write_all(request.as_bytes()).await?;
    stream.flush().await?;
    let mut text = Vec::new();
    loop {
        let read = String::from_utf8_lossy(&text);
        if let Some((head, body)) = read.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                return Ok(read.into_owned());
            }
        }
        if stream.read_buf(&mut text).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn probes_work_beside_three_thousand_incomplete_requests() {
    let listener = listen(([127, 0, 0, 1], 0).into()).unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let router = Router::new().route("/healthz", get(async || "ok\n"));
    let serving = tokio::spawn(serve(
        listener,
        router,
        Limits::metrics_and_probes(Descriptors::of(1 << 20)),
        stop.clone(),
    ));
    let mut attack = Vec::new();
    for number in 0..3_000 {
        attack.push(tokio::task::block_in_place(|| {
            let mut stream = Blocking::connect(address).unwrap();
            stream.write_all(b"GET /healthz HTTP/1.1\r\nHost").unwrap();
            stream
        }));
        if number % 500 == 499 {
            let mut probe = TcpStream::connect(address).await.unwrap();
            let asking = answer(&mut probe, "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n");
            let text = tokio::time::timeout(LIMIT, asking).await.unwrap().unwrap();
            assert!(text.starts_with("HTTP/1.1 200"), "{text}");
        }
    }
    let open = || attack.iter().filter(|stream| is_open(stream)).count();
    let closed = tokio::time::timeout(LIMIT, async {
        while open() > 256 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    assert!(closed.await.is_ok(), "{} stay open", open());
    stop.cancel();
    serving.await.unwrap();
}

async fn tls(address: SocketAddr, config: &Arc<ClientConfig>) -> io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    TlsConnector::from(config.clone()).connect(ServerName::try_from("localhost").unwrap(), stream).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_connections_are_closed_for_reviews() {
    policy_sync_testenv::control_plane::install_tls_provider();
    let authority = Authority::new("webhooks").unwrap();
    let Identity { certificate, key } = authority.server("webhooks").unwrap();
    let certificates = Arc::new(CertificateResolver::default());
    let pair = CertificateAndKey {
        certificate_name: "c",
        certificate: certificate.as_bytes(),
        key_name: "k",
        key: key.as_bytes(),
    };
    certificates.serve(pair).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.certificate().as_bytes()).unwrap()).unwrap();
    let config = Arc::new(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth());
    let listener = listen(([127, 0, 0, 1], 0).into()).unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let router = Router::new().route("/review", post(async || "reviewed\n"));
    let serving = tokio::spawn(serve_tls(
        listener,
        certificates,
        router,
        Limits::webhooks(Descriptors::of(1 << 20)),
        stop.clone(),
    ));
    let mut idle = Vec::new();
    for _ in 0..2_048 {
        let mut stream = tls(address, &config).await.unwrap();
        answer(&mut stream, "GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        idle.push(stream);
    }
    let mut responses = 0;
    for _ in 0..24 {
        let review = async {
            let mut stream = tls(address, &config).await?;
            answer(&mut stream, "POST /review HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}").await
        };
        let text = tokio::time::timeout(Duration::from_secs(5), review).await;
        responses += usize::from(matches!(text, Ok(Ok(text)) if text.starts_with("HTTP/1.1 200")));
    }
    assert_eq!(responses, 24);
    stop.cancel();
    serving.await.unwrap();
}

#[tokio::test]
async fn idle_connections_make_room_and_requests_in_hand_stay() {
    let listener = listen(([127, 0, 0, 1], 0).into()).unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, handling, goes_on) =
        (CancellationToken::new(), Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (handles, waits) = (handling.clone(), goes_on.clone());
    let slow = async move || {
        handles.notify_one();
        waits.notified().await;
        "late\n"
    };
    let router = Router::new().route("/slow", get(slow)).route("/fast", get(async || "ok\n"));
    let limits = Limits { total: 2, per_peer: 2 };
    let serving = tokio::spawn(serve(listener, router, limits, stop.clone()));
    let connect = async || TcpStream::connect(address).await.unwrap();
    let is_closed = async |mut stream: TcpStream| {
        let mut rest = Vec::new();
        tokio::time::timeout(LIMIT, stream.read_to_end(&mut rest)).await.unwrap().is_err() || rest.is_empty()
    };

    let mut slow = connect().await;
    slow.write_all(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    handling.notified().await;
    let mut idle = connect().await;
    answer(&mut idle, "GET /fast HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    let half_sent = connect().await;
    assert!(is_closed(idle).await, "the idle one stays");
    let mut last = connect().await;
    assert!(is_closed(half_sent).await, "the half-sent request stays");
    assert!(answer(&mut last, "GET /fast HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap().contains("200"));
    goes_on.notify_one();
    assert!(answer(&mut slow, "").await.unwrap().contains("200"), "the request in hand was ended");
    // The connection of `slow` is idle now, but it was used more recently than the connection of `last`.
    let _third = connect().await;
    assert!(answer(&mut slow, "GET /fast HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap().contains("200"));
    stop.cancel();
    serving.await.unwrap();
}
