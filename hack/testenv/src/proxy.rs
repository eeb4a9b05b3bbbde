//! A proxy between a controller and its API server that injects a single fault.
//!
//! ```text
//! controller ──plain HTTP──▶ proxy ──TLS, as the controller's user──▶ kube-apiserver
//! ```

mod lines;

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

use anyhow::{Context, Result};
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use kube::Client;
use parking_lot::Mutex;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::ControlPlane;
use crate::certificates::User;

/// The request or event at which the fault occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The verb of the request: `create`, `patch`, `delete`, `get` or `list`. `event` for an event of a watch.
    pub verb: &'static str,
    /// The plural name of the kind.
    pub resource: &'static str,
    /// Ordinal among the matching requests or events, from 1.
    pub nth: usize,
}

/// The fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A request is not forwarded, and its connection breaks.
    NeverSent,
    /// A request is processed, but the connection breaks before the response.
    ResponseLost,
    /// A request is rejected with this status code, and not forwarded.
    Refused(u16),
    /// A request or an event is delayed.
    Late(Duration),
    /// A request is processed, but the response never arrives. With [`Proxy::injected`], a test can then crash a
    /// process.
    Halted,
    /// The stream ends before an event.
    Cut,
    /// The connection breaks within an event.
    CutWithin,
    /// The stream reports an expired version instead of an event, and ends.
    Expired,
    /// An event is sent twice.
    Twice,
    /// An event is replaced by a line of invalid JSON.
    Garbled,
}

struct Shared {
    upstream: Client,
    plan: Option<(Target, Fault)>,
    /// Number of matching requests or events so far.
    seen: Mutex<usize>,
    injected: Notify,
}

impl Shared {
    /// Counts a request or event, and returns the fault if it is planned for this request or event.
    fn fault(&self, verb: &str, resource: &str) -> Option<Fault> {
        let (target, fault) = self.plan?;
        if (target.verb, target.resource) != (verb, resource) {
            return None;
        }
        let mut seen = self.seen.lock();
        *seen += 1;
        (*seen == target.nth).then(|| {
            self.injected.notify_one();
            fault
        })
    }
}

/// A running proxy. Dropping the value stops the proxy.
pub struct Proxy {
    shared: Arc<Shared>,
    kubeconfig: PathBuf,
    user: User,
    serving: AbortHandle,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Proxy {
    /// Starts a proxy in front of `plane` for an administrator called `name`, with at most one fault.
    ///
    /// # Errors
    ///
    /// Returns an error if the proxy cannot listen or reach the control plane.
    pub async fn start(plane: &ControlPlane, name: &str, plan: Option<(Target, Fault)>) -> Result<Self> {
        let user = User::new(name).in_group("system:masters");
        let upstream = plane.client_for(&user).await?;
        let shared = Arc::new(Shared { upstream, plan, seen: Mutex::default(), injected: Notify::new() });
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("listening")?;
        let url = format!("http://{}", listener.local_addr().context("listening")?);
        let kubeconfig = plane.directory().join(format!("{name}.proxy.kubeconfig"));
        let access = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "proxy",
            "clusters": [{"name": "proxy", "cluster": {"server": url}}],
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "anybody"}}],
            "users": [{"name": "anybody", "user": {}}],
        });
        fs::write(&kubeconfig, access.to_string()).context("writing a kubeconfig")?;
        let router = Router::new().fallback(serve).with_state(shared.clone());
        let serving = tokio::spawn(async move {
            // The server runs until the proxy is dropped. If it fails earlier, requests of clients fail, too.
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self { shared, kubeconfig, user, serving: serving.abort_handle() })
    }

    /// Path of the kubeconfig for connections through the proxy.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The user of forwarded requests.
    pub fn user(&self) -> &User {
        &self.user
    }

    /// Waits until the fault has occurred.
    pub async fn injected(&self) {
        self.shared.injected.notified().await;
    }

    /// Whether the planned request or event has occurred.
    pub fn is_injected(&self) -> bool {
        self.shared.plan.is_none_or(|(target, _)| *self.shared.seen.lock() >= target.nth)
    }
}

async fn serve(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (verb, resource) = verb_and_resource(&request);
    if verb == "watch" {
        return match forward(&shared, request).await {
            Ok(response) if response.status().is_success() => {
                let (head, body) = response.into_parts();
                Response::from_parts(head, Body::from_stream(lines::disturbed(shared, resource, body)))
            }
            Ok(response) => response,
            Err(broken) => broken,
        };
    }
    match shared.fault(verb, &resource) {
        None => forward(&shared, request).await.unwrap_or_else(|broken| broken),
        Some(Fault::NeverSent) => broken(),
        Some(Fault::Refused(code)) => refusal(code),
        Some(Fault::Late(late)) => {
            tokio::time::sleep(late).await;
            forward(&shared, request).await.unwrap_or_else(|broken| broken)
        }
        Some(Fault::Halted) => {
            let _ = forward(&shared, request).await;
            std::future::pending().await
        }
        Some(_) => {
            let _ = forward(&shared, request).await;
            broken()
        }
    }
}

/// The verb and the resource of a request.
fn verb_and_resource(request: &Request) -> (&'static str, String) {
    let mut steps: Vec<&str> = request.uri().path().trim_matches('/').split('/').collect();
    steps.drain(..steps.len().min(if steps.first() == Some(&"api") { 2 } else { 3 }));
    if steps.first() == Some(&"namespaces") && steps.len() > 2 {
        steps.drain(..2);
    }
    let query = request.uri().query().unwrap_or_default();
    let verb = match *request.method() {
        Method::GET if query.contains("watch=") => "watch",
        Method::GET if steps.len() == 1 => "list",
        Method::POST => "create",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "get",
    };
    (verb, steps.first().copied().unwrap_or_default().to_owned())
}

async fn forward(shared: &Shared, request: Request) -> Result<Response, Response> {
    let (mut head, body) = request.into_parts();
    // Removes hop-by-hop headers.
    for name in ["host", "connection", "content-length", "transfer-encoding"] {
        head.headers.remove(name);
    }
    let body = axum::body::to_bytes(body, usize::MAX).await.map_err(|_| broken())?;
    let request = http::Request::from_parts(head, kube::client::Body::from(body.to_vec()));
    let response = shared.upstream.send(request).await.map_err(|_| broken())?;
    let (mut head, body) = response.into_parts();
    for name in ["connection", "content-length", "transfer-encoding"] {
        head.headers.remove(name);
    }
    Ok(Response::from_parts(head, Body::new(body)))
}

/// A response that breaks the connection.
fn broken() -> Response {
    let broken =
        futures::stream::once(async { Err::<Vec<u8>, _>(io::Error::from(io::ErrorKind::ConnectionReset)) });
    Body::from_stream(broken).into_response()
}

fn refusal(code: u16) -> Response {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "injected fault", "reason": "MadeUp", "code": code,
    });
    let code = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (code, [("content-type", "application/json")], status.to_string()).into_response()
}
