//! `/audit`: what stands and breaks policies, for who may read it: whoever may `get` that path of the API server, which is asked who
//! shows the token.

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
use super::connections::Caller;
use crate::admission::audit::Findings;
use crate::admission::auditing::Audited;
use policy_sync_api::text::with_causes;
use policy_sync_hub::aside;
use policy_sync_hub::clock::Clock;
use policy_sync_hub::reconcile::Leadership;

/// Where it is asked.
const PATH: &str = "/audit";
/// How many requests may wait at once for what is found.
const WAITING: usize = 64;
/// How long an audit may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// For how long an answer is given again.
const FRESH: Duration = Duration::from_secs(10);

/// What the handler asks.
#[derive(Clone)]
pub struct Audit {
    audited: Audited,
    readers: Readers,
    leadership: Leadership,
    clock: Clock,
    waiting: Arc<Semaphore>,
    last: Arc<Mutex<Option<Answer>>>,
}

/// What was answered last, and when.
type Answer = (Instant, Bytes);

/// Why a request is not answered.
type Refused = (StatusCode, String);

impl Audit {
    /// One that asks `audited`, for who may read it by `client`'s API server.
    #[must_use]
    pub fn new(audited: Audited, client: Client, leadership: Leadership, clock: Clock) -> Self {
        let (waiting, last) = (Arc::new(Semaphore::new(WAITING)), Arc::default());
        Self { audited, readers: Readers::new(client), leadership, clock, waiting, last }
    }

    /// What is found now, or was a moment ago, as JSON.
    async fn report(&self) -> Result<Bytes, Refused> {
        let mut last = self.last.lock().await;
        if let Some((at, report)) = &*last
            && at.elapsed() < FRESH
        {
            return Ok(report.clone());
        }
        let unknown = |why: String| (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n"));
        let audited = self.audited.clone();
        // Who no longer waits has no audit made.
        let (asked, leads) = (CancellationToken::new(), self.leadership.leads());
        let (_asks, now) = (asked.clone().drop_guard(), self.clock.now());
        let auditing = aside("audit", move || {
            let mut findings = Findings::default();
            let began = Instant::now();
            let goes_on = || !asked.is_cancelled() && began.elapsed() < PATIENCE;
            audited.find(&mut |found| findings.note(found), goes_on)?;
            let findings = findings.in_order();
            let mut report = findings.report_of(now);
            if !leads && audited.places() {
                let why = "what placement refuses: another replica leads, and knows it";
                report.left_out = vec![why.to_owned()];
            }
            serde_json::to_string(&report).map_err(|error| error.to_string())
        });
        let report = auditing.await.map_err(|error| {
            warn!(error = with_causes(&error), "an audit failed");
            unknown("the audit has no end: see the log".to_owned())
        })?;
        let report = Bytes::from(report.map_err(unknown)?);
        *last = Some((Instant::now(), report.clone()));
        Ok(report)
    }

    async fn answer(&self, headers: &HeaderMap, caller: Option<Caller>) -> Result<Bytes, Refused> {
        let Some(token) = bearer::shown(headers) else {
            return Err((StatusCode::UNAUTHORIZED, "expected a token of a user of this hub\n".to_owned()));
        };
        self.readers.admit(token, caller.as_ref().map(Caller::address)).await?;
        if let Some(caller) = caller {
            caller.prefer();
        }
        // Only callers that may read the report take these places.
        let too_many = |_| (StatusCode::TOO_MANY_REQUESTS, "too many requests are waiting\n".to_owned());
        let _waiting = self.waiting.try_acquire().map_err(too_many)?;
        self.report().await
    }
}

/// `/audit`.
pub fn router(audit: Audit) -> Router {
    Router::new().route(PATH, get(answer)).with_state(audit)
}

async fn answer(State(audit): State<Audit>, request: Request) -> Response {
    let caller = Caller::of(&request);
    let (Parts { method, headers, .. }, _) = request.into_parts();
    if method != Method::GET {
        // Routes for GET are taken for HEAD as well.
        return (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, "GET")]).into_response();
    }
    match audit.answer(&headers, caller).await {
        Ok(report) => ([(header::CONTENT_TYPE, "application/json")], report).into_response(),
        Err((StatusCode::UNAUTHORIZED, why)) => bearer::refused(why),
        Err(refused) => refused.into_response(),
    }
}
