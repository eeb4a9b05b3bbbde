//! Listeners with TLS.

use std::sync::Arc;

use axum::Router;
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::{Limits, serve_with};
use policy_sync_hub::certificates::CertificateResolver;

/// Serves `router` on `listener` with `certificates` until `stop`, then finishes the requests in progress.
pub async fn serve(
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
