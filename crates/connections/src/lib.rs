//! Listeners of HTTP servers, with limits on the number of connections, on time and on the size of heads.
//!
//! The controller serves metrics, probes and webhooks with it, `policy-sync web` its pages. [`listen()`] opens an
//! address; [`serve`], [`tls::serve`] and [`serve_with`] run a [`Router`] on it. Handlers get the
//! connection of a request as [`ClientConnection`].

mod accept;
mod listen;
pub mod tls;

use axum::Router;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub use accept::{ClientConnection, Descriptors, Limits, serve_with};
pub use listen::listen;

/// Serves `router` on `listener` without TLS until `stop`, then finishes the requests in progress.
pub async fn serve(listener: TcpListener, router: Router, limits: Limits, stop: CancellationToken) {
    serve_with(listener, router, limits, async |stream| Ok(stream), stop).await;
}
