//! The endpoint `/audit`, which reports existing objects that violate Rego policies. Readers authenticate with a bearer
//! token and need the permission `get` on this path. The hub's API server checks token and permission.

mod readers;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use kube::Client;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use self::readers::Readers;
use super::bearer;
use crate::admission::audit::Findings;
use crate::admission::auditing::AuditRunner;
use policy_sync_api::text::with_causes;
use policy_sync_connections::ClientConnection;
use policy_sync_hub::clock::Clock;
use policy_sync_hub::reconcile::Leadership;
use policy_sync_hub::run_in_background;

/// The path of the endpoint, on which readers need the permission `get`.
const PATH: &str = "/audit";
/// How many authorized requests may wait for a report.
const MAX_WAITING: usize = 64;
/// The time limit of an audit.
const AUDIT_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a report is served before a new audit runs.
const CACHE_DURATION: Duration = Duration::from_secs(10);

/// The state of the endpoint. Clones share it.
#[derive(Clone)]
pub struct Audit {
    audit_runner: AuditRunner,
    readers: Readers,
    leadership: Leadership,
    clock: Clock,
    waiting: Arc<Semaphore>,
    last: Arc<Mutex<Option<CachedReport>>>,
}

/// The last report, with its time.
type CachedReport = (Instant, Bytes);

/// The response for a rejected request.
type Rejection = (StatusCode, String);

impl Audit {
    /// Serves audits of `audit_runner`. The API server of `client` authorizes readers.
    #[must_use]
    pub fn new(audit_runner: AuditRunner, client: Client, leadership: Leadership, clock: Clock) -> Self {
        let (waiting, last) = (Arc::new(Semaphore::new(MAX_WAITING)), Arc::default());
        Self { audit_runner, readers: Readers::new(client), leadership, clock, waiting, last }
    }

    /// A report as JSON: the last report if it is recent, otherwise a new one.
    async fn report(&self) -> Result<Bytes, Rejection> {
        let mut last = self.last.lock().await;
        if let Some((at, report)) = &*last
            && at.elapsed() < CACHE_DURATION
        {
            return Ok(report.clone());
        }
        let unknown = |why: String| (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n"));
        let audit_runner = self.audit_runner.clone();
        // The guard is dropped with this future, so an audit ends when its client disconnects.
        let (cancellation, leads) = (CancellationToken::new(), self.leadership.leads());
        let (_cancel_on_drop, now) = (cancellation.clone().drop_guard(), self.clock.now());
        let auditing = run_in_background("audit", move || {
            let mut findings = Findings::default();
            let began = Instant::now();
            let should_continue = || !cancellation.is_cancelled() && began.elapsed() < AUDIT_TIMEOUT;
            audit_runner.find(&mut |found| findings.note(found), should_continue)?;
            let findings = findings.sorted();
            let mut report = findings.report_at(now);
            if !leads && audit_runner.has_placement_policies() {
                let why = "objects that violate placement policies: only the leader knows them";
                report.left_out = vec![why.to_owned()];
            }
            serde_json::to_string(&report).map_err(|error| error.to_string())
        });
        let report = auditing.await.map_err(|error| {
            warn!(error = with_causes(&error), "an audit failed");
            unknown("the audit failed: see the log".to_owned())
        })?;
        let report = Bytes::from(report.map_err(unknown)?);
        *last = Some((Instant::now(), report.clone()));
        Ok(report)
    }

    async fn respond(
        &self,
        headers: &HeaderMap,
        caller: Option<ClientConnection>,
    ) -> Result<Bytes, Rejection> {
        let Some(token) = bearer::presented_token(headers) else {
            return Err((
                StatusCode::UNAUTHORIZED,
                "expected a bearer token of a user of this hub\n".to_owned(),
            ));
        };
        self.readers.admit(token, caller.as_ref().map(ClientConnection::address)).await?;
        if let Some(caller) = caller {
            caller.prefer();
        }
        // The slot is taken after authorization, so that unauthorized clients cannot use up the slots.
        let too_many = |_| (StatusCode::TOO_MANY_REQUESTS, "too many requests are waiting\n".to_owned());
        let _waiting = self.waiting.try_acquire().map_err(too_many)?;
        self.report().await
    }
}

/// The route `/audit`.
pub fn router(audit: Audit) -> Router {
    Router::new().route(PATH, get(respond)).with_state(audit)
}

async fn respond(State(audit): State<Audit>, request: Request) -> Response {
    let caller = ClientConnection::of(&request);
    let (Parts { method, headers, .. }, _) = request.into_parts();
    if method != Method::GET {
        // axum routes HEAD requests to GET handlers.
        return (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, "GET")]).into_response();
    }
    match audit.respond(&headers, caller).await {
        Ok(report) => ([(header::CONTENT_TYPE, "application/json")], report).into_response(),
        Err((StatusCode::UNAUTHORIZED, why)) => bearer::refused(why),
        Err(refused) => refused.into_response(),
    }
}
