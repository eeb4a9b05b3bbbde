//! A proxy between a controller and its API server, where one thing goes wrong.
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

/// The one request, or the one event, that something happens to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// `create`, `patch`, `delete`, `get`, `list`, or `event` for an event of a watch.
    pub verb: &'static str,
    /// The plural name of the kind.
    pub resource: &'static str,
    /// The how manieth it is, from 1.
    pub nth: usize,
}

/// What happens to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A request: it does not arrive, and the connection breaks.
    NeverSent,
    /// A request: it is carried out, and the connection breaks before the answer.
    AnswerLost,
    /// A request: it is answered by this code and not carried out.
    Refused(u16),
    /// A request or an event: it is that much later.
    Late(Duration),
    /// A request: it is carried out, and never answered; [`Proxy::struck`] tells, so that a test can crash something.
    Halted,
    /// An event: the stream ends before it.
    Cut,
    /// An event: the connection breaks within it.
    CutWithin,
    /// An event: the stream says that its version has expired, and ends.
    Expired,
    /// An event: it comes twice.
    Twice,
    /// An event: there is a line that is no JSON in its place.
    Garbled,
}

struct Shared {
    upstream: Client,
    plan: Option<(Target, Fault)>,
    /// How many of the plan's requests or events have come.
    seen: Mutex<usize>,
    struck: Notify,
}

impl Shared {
    /// The fault for the next `verb` of `resource`: once, of the one that is planned.
    fn fault(&self, verb: &str, resource: &str) -> Option<Fault> {
        let (target, fault) = self.plan?;
        if (target.verb, target.resource) != (verb, resource) {
            return None;
        }
        let mut seen = self.seen.lock();
        *seen += 1;
        (*seen == target.nth).then(|| {
            self.struck.notify_one();
            fault
        })
    }
}

/// A running proxy. Dropping it stops it.
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
    /// Starts a proxy before `plane` for an administrator called `name`, with one fault or none.
    ///
    /// # Errors
    ///
    /// Where it cannot listen, or cannot reach the control plane.
    pub async fn start(plane: &ControlPlane, name: &str, plan: Option<(Target, Fault)>) -> Result<Self> {
        let user = User::new(name).in_group("system:masters");
        let upstream = plane.client_for(&user).await?;
        let shared = Arc::new(Shared { upstream, plan, seen: Mutex::default(), struck: Notify::new() });
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
            // It ends with this value, and what went wrong before, its clients see.
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self { shared, kubeconfig, user, serving: serving.abort_handle() })
    }

    /// The kubeconfig that leads through it.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// As whom the API server sees what comes through it.
    pub fn user(&self) -> &User {
        &self.user
    }

    /// Returns once the fault has happened.
    pub async fn struck(&self) {
        self.shared.struck.notified().await;
    }

    /// Whether as many requests or events came as the fault waits for.
    pub fn has_struck(&self) -> bool {
        self.shared.plan.is_none_or(|(target, _)| *self.shared.seen.lock() >= target.nth)
    }
}

async fn serve(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (verb, resource) = asked(&request);
    if verb == "watch" {
        return match forward(&shared, request).await {
            Ok(answer) if answer.status().is_success() => {
                let (head, body) = answer.into_parts();
                Response::from_parts(head, Body::from_stream(lines::disturbed(shared, resource, body)))
            }
            Ok(answer) => answer,
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

/// The verb and the resource that a request is about.
fn asked(request: &Request) -> (&'static str, String) {
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
    // Those of this hop.
    for name in ["host", "connection", "content-length", "transfer-encoding"] {
        head.headers.remove(name);
    }
    let body = axum::body::to_bytes(body, usize::MAX).await.map_err(|_| broken())?;
    let request = http::Request::from_parts(head, kube::client::Body::from(body.to_vec()));
    let answer = shared.upstream.send(request).await.map_err(|_| broken())?;
    let (mut head, body) = answer.into_parts();
    for name in ["connection", "content-length", "transfer-encoding"] {
        head.headers.remove(name);
    }
    Ok(Response::from_parts(head, Body::new(body)))
}

/// An answer in which the connection breaks.
fn broken() -> Response {
    let broken =
        futures::stream::once(async { Err::<Vec<u8>, _>(io::Error::from(io::ErrorKind::ConnectionReset)) });
    Body::from_stream(broken).into_response()
}

fn refusal(code: u16) -> Response {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "made up", "reason": "MadeUp", "code": code,
    });
    let code = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (code, [("content-type", "application/json")], status.to_string()).into_response()
}
