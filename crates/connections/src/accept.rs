//! Accepts and serves the connections of all HTTP listeners: metrics, probes, webhooks and the pages of `policy-sync
//! web`.
//!
//! hyper serves each connection, but its header timeout does not distinguish idle connections from half-sent requests.
//! hyper-util, axum-server and tower-http do not limit the number of connections. They do not close idle connections to
//! make room, either. This module limits the number of connections and makes room for new connections.
//!
//! Only HTTP/1.1 is offered, because the API server calls admission webhooks with no other version (`NextProtos` in its
//! `pkg/util/webhook/client.go`, kubernetes/kubernetes issue 75791).

mod limits;
mod streams;
mod tracker;

use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;
use tracing::debug;

use self::streams::{RequestBody, ResponseBody, TrackedStream};
use self::tracker::{ConnectionTracker, Phase, TrackedConnection};
use policy_sync_api::text::with_causes;

pub use limits::{Descriptors, Limits};

/// Maximum size of a request's head, in bytes; hyper responds with 431 to a longer head.
const MAX_HEAD_BYTES: usize = 64 << 10;
/// The time limit of a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(3);
/// How often connections past their time limit are closed.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// How many evicted connections may exist beyond the limit, until their tasks close them.
const MAX_CLOSING: usize = 32;
/// How long accepting pauses when the process has no descriptor left.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(10);
/// The time limit of requests in progress once the listener stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// The connection of a request, stored as an extension of the request.
#[derive(Clone, Debug)]
pub struct ClientConnection(Arc<TrackedConnection>);

impl ClientConnection {
    /// The connection of `request`; `None` if the request did not arrive through [`serve_with`].
    #[must_use]
    pub fn of<B>(request: &Request<B>) -> Option<Self> {
        request.extensions().get::<Self>().cloned()
    }

    /// The address of the peer.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        self.0.peer()
    }

    /// Makes the connection less likely to be evicted, because its peer has sent a credential or a valid
    /// review.
    pub fn prefer(&self) {
        self.0.prefer();
    }
}

/// Serves `router` on `listener` until `stop`. `secure` turns an accepted stream into the stream of requests,
/// for example by a TLS handshake.
pub async fn serve_with<S, F>(
    listener: TcpListener,
    router: Router,
    limits: Limits,
    secure: impl Fn(TcpStream) -> F + Clone + Send + 'static,
    stop: CancellationToken,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Future<Output = io::Result<S>> + Send + 'static,
{
    let connections = TaskTracker::new();
    let mut tracker = ConnectionTracker::new(limits);
    // An evicted connection keeps its descriptor until its task has run.
    let descriptors = Arc::new(Semaphore::new(limits.total + MAX_CLOSING));
    let mut sweep = interval(SWEEP_INTERVAL);
    sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let accepting = async {
            let descriptor = descriptors.clone().acquire_owned().await;
            (descriptor, listener.accept().await)
        };
        let (descriptor, accepted) = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            _ = sweep.tick() => {
                tracker.close_expired(Instant::now());
                continue;
            }
            accepted = accepting => accepted,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                debug!(error = with_causes(&error), "cannot accept a connection");
                // ECONNABORTED concerns one connection; EMFILE, ENFILE and ENOBUFS last until a descriptor is
                // closed.
                if error.kind() != io::ErrorKind::ConnectionAborted {
                    tracker.evict(Instant::now());
                    sleep(EXHAUSTED_PAUSE).await;
                }
                continue;
            }
        };
        let Some(tracked) = tracker.track(peer.ip().to_canonical(), Instant::now()) else {
            debug!(%peer, "too many connections with an unfinished request");
            continue;
        };
        let connection =
            serve_connection(stream, secure.clone(), router.clone(), tracked.clone(), stop.clone());
        connections.spawn(async move {
            connection.await;
            tracked.close();
            drop(descriptor);
        });
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

async fn serve_connection<S, F>(
    stream: TcpStream,
    secure: impl Fn(TcpStream) -> F,
    router: Router,
    tracked: Arc<TrackedConnection>,
    stop: CancellationToken,
) where
    S: AsyncRead + AsyncWrite + Unpin,
    F: Future<Output = io::Result<S>>,
{
    // Most responses fit in one packet, so delaying them saves nothing.
    let _ = stream.set_nodelay(true);
    let stream = tokio::select! {
        () = tracked.wait_closed() => return,
        secured = timeout(HANDSHAKE_TIMEOUT, secure(stream)) => match secured {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return debug!(error = with_causes(&error), "the handshake failed"),
            Err(_) => return,
        },
    };
    let for_requests = tracked.clone();
    let service = service_fn(move |request| handle_request(router.clone(), for_requests.clone(), request));
    let connection = http1::Builder::new()
        // `TrackedConnection` enforces the time limits of heads.
        .header_read_timeout(None)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(TrackedStream::new(stream, tracked.clone())), service);
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = tracked.wait_closed() => return,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            match timeout(DRAIN_TIMEOUT, connection).await {
                Ok(ended) => ended,
                Err(_) => return,
            }
        }
    };
    if let Err(error) = ended {
        debug!(error = with_causes(&error), "a connection failed");
    }
}

async fn handle_request(
    router: Router,
    tracked: Arc<TrackedConnection>,
    mut request: Request<Incoming>,
) -> Result<Response<ResponseBody>, Infallible> {
    tracked.enter(Phase::Receiving);
    request.extensions_mut().insert(ClientConnection(tracked.clone()));
    let request = request.map(|body| Body::new(RequestBody::new(body, tracked.clone())));
    let response = router.oneshot(request).await?;
    tracked.enter(Phase::Sending);
    Ok(response.map(|body| ResponseBody::new(body, tracked)))
}

#[cfg(test)]
mod tests;
