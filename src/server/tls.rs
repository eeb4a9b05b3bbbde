//! Connections with TLS: bounded in number and in the time that a handshake and a request's head may take.

mod files;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::debug;

use crate::api::text::with_causes;
use crate::certificates::Certificates;

pub use files::{FileError, Files};

/// How many connections may be open at once: an API server has one for each review that it waits for, 600 at most by default.
pub(super) const CONNECTIONS: usize = 2_048;
/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(3);
/// How long the first request may take to come: who connects and says nothing keeps no place.
const FIRST: Duration = Duration::from_secs(10);
/// How long a connection may be idle: longer than the API server keeps one that it does not use (90 s), so that none is closed just
/// as it asks something.
const IDLE: Duration = Duration::from_secs(100);

/// Serves `router` on `listener` with `certificates` until `stop`, and then what was asked before.
pub async fn serve(
    listener: TcpListener,
    certificates: Arc<Certificates>,
    router: Router,
    stop: CancellationToken,
) {
    let mut config = ServerConfig::builder().with_no_client_auth().with_cert_resolver(certificates);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let (places, connections) = (Arc::new(Semaphore::new(CONNECTIONS)), TaskTracker::new());
    loop {
        let place = tokio::select! {
            () = stop.cancelled() => break,
            place = places.clone().acquire_owned() => place,
        };
        let stream = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let stream = match stream {
            Ok((stream, _)) => stream,
            Err(error) => {
                debug!(error = with_causes(&error), "a connection was not taken");
                // Without descriptors the next one is not taken either.
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            }
        };
        let (acceptor, router, stop) = (acceptor.clone(), router.clone(), stop.clone());
        connections.spawn(async move {
            connection(stream, acceptor, router, stop).await;
            drop(place);
        });
    }
    connections.close();
    connections.wait().await;
}

async fn connection(stream: TcpStream, acceptor: TlsAcceptor, router: Router, stop: CancellationToken) {
    // Answers are small.
    let _ = stream.set_nodelay(true);
    let stream = match timeout(HANDSHAKE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return debug!(error = with_causes(&error), "no handshake"),
        Err(_) => return,
    };
    let asked = Arc::new(Notify::new());
    let noticed = asked.clone();
    let router = router.layer(axum::middleware::map_request(move |request: Request| {
        noticed.notify_one();
        std::future::ready(request)
    }));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut connection = std::pin::pin!(connection);
    let silent = async {
        if timeout(FIRST, asked.notified()).await.is_ok() {
            std::future::pending::<()>().await;
        }
    };
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = silent => return,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        debug!(error = with_causes(&error), "a connection ended");
    }
}
