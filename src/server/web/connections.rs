//! Connections: bounded in number, and in the time that a request's head may take. Others of this machine may open as many as they like;
//! who has not shown the key makes room for the next.

use std::collections::VecDeque;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::guard::Known;
use super::headed::Headed;

/// How many connections may be open at once.
const CONNECTIONS: usize = 256;
/// How long a head may take to come, and how long a connection may be idle.
const HEAD: Duration = Duration::from_secs(10);
/// How many bytes a head may have: what is longer is answered with 431.
const HEAD_BYTES: usize = 64 << 10;

/// A connection that is open.
struct Open {
    is_known: Arc<AtomicBool>,
    ends: CancellationToken,
}

/// Serves `router` on `listener` until `stop`.
///
/// # Errors
///
/// Where the listener fails.
pub async fn serve(listener: TcpListener, router: Router, stop: CancellationToken) -> io::Result<()> {
    let connections = TaskTracker::new();
    let mut open: VecDeque<Open> = VecDeque::new();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else {
            // Without descriptors the next one is not taken either.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        open.retain(|one| !one.ends.is_cancelled());
        if open.len() >= CONNECTIONS {
            let stranger = open.iter().position(|one| !one.is_known.load(Ordering::Relaxed));
            if let Some(oldest) = open.remove(stranger.unwrap_or_default()) {
                oldest.ends.cancel();
            }
        }
        let (is_known, ends) = (Arc::new(AtomicBool::new(false)), stop.child_token());
        open.push_back(Open { is_known: is_known.clone(), ends: ends.clone() });
        let router = router.clone().layer(Extension(Known(is_known)));
        connections.spawn(async move {
            connection(stream, router, &ends).await;
            ends.cancel();
        });
    }
    connections.close();
    connections.wait().await;
    Ok(())
}

async fn connection(stream: TcpStream, router: Router, ends: &CancellationToken) {
    let _ = stream.set_nodelay(true);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(Headed::new(stream)), TowerToHyperService::new(router));
    let mut connection = pin!(connection);
    // Lines of events go on for ever: whoever ends is not waited for.
    tokio::select! {
        _ = connection.as_mut() => {}
        () = ends.cancelled() => {}
    }
}
