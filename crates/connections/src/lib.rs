//! Listeners of HTTP servers, with limits on the number of connections, on time and on the size of heads.
//!
//! The controller serves metrics, probes and webhooks with this crate. `policy-sync web` serves its pages with it.
//! [`listen()`] opens an address; [`serve`], [`serve_tls`] and [`serve_with`] run a [`Router`] on it. A handler gets
//! the connection of its request as [`ClientConnection`].

mod accept;
mod listen;

use std::sync::Arc;

use axum::Router;
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use policy_sync_hub::certificates::CertificateResolver;

pub use accept::{ClientConnection, Descriptors, Limits, serve_with};
pub use listen::listen;

/// Serves `router` on `listener` without TLS until `stop`, then finishes the requests in progress.
pub async fn serve(listener: TcpListener, router: Router, limits: Limits, stop: CancellationToken) {
    serve_with(listener, router, limits, async |stream| Ok(stream), stop).await;
}

/// Serves `router` on `listener` with `certificates` until `stop`, then finishes the requests in progress.
pub async fn serve_tls(
    listener: TcpListener,
    certificates: Arc<CertificateResolver>,
    router: Router,
    limits: Limits,
    stop: CancellationToken,
) {
    let mut config = ServerConfig::builder().with_no_client_auth().with_cert_resolver(certificates);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let secure = move |stream| acceptor.accept(stream);
    serve_with(listener, router, limits, secure, stop).await;
}
