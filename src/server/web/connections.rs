//! The listener of `policy-sync web`.

use axum::Router;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::headed::Headed;
use crate::server::connections::{self, Limits};

/// Serves `router` on `listener` until `stop`.
pub async fn serve(listener: TcpListener, router: Router, stop: CancellationToken) {
    let headed = async |stream| Ok(Headed::new(stream));
    connections::serve(listener, router, Limits::pages(), headed, stop).await;
}
