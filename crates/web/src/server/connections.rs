//! The listener of `policy-sync web`.

use axum::Router;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::security_headers::WithSecurityHeaders;
use policy_sync_connections::{Limits, serve_with};

/// Serves `router` on `listener` until `stop`.
pub async fn serve(listener: TcpListener, router: Router, stop: CancellationToken) {
    let wrap = async |stream| Ok(WithSecurityHeaders::new(stream));
    serve_with(listener, router, Limits::pages(), wrap, stop).await;
}
