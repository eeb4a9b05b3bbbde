//! The webhooks that the API server asks: routes only. Each body is bounded in bytes and in time, and each review is answered, with
//! a reason, sooner than the API server gives up.

mod metrics;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Request as HttpRequest, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use futures::StreamExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};
use tracing::error;

use crate::api::admission::{Asked, Request, Verdict};
use crate::api::text::with_causes;
use crate::gatekeeper::review::{self as gatekeeper, Registration as By, Reviewed};
use crate::gatekeeper::told::Denied;
use crate::placement::refusals::Refusals;
use crate::placement::review as placement;
use crate::registration::{ADMIT, ADMIT_LAST};
use crate::rego::loading::{Loaded, RegoMetrics, Written};
use crate::rego::snapshot::{Snapshot, Unanswered};
use crate::rego::turns::Turns;

pub use metrics::WebhookMetrics;

/// The most bytes of a body: the API server takes objects of 3 MiB, and a review holds two.
const BODY: usize = 8 << 20;
/// How many KiB of bodies may be held at once.
const BODIES: usize = 32 << 10;
/// How long a body may take to arrive.
const ARRIVES: Duration = Duration::from_secs(3);
/// How long an answer may take: the API server waits for five seconds.
const ANSWERED: Duration = Duration::from_secs(4);

/// What the handlers ask.
#[derive(Clone)]
pub struct Webhooks {
    loaded: Loaded,
    turns: Turns,
    bodies: Arc<Semaphore>,
    checks: Arc<Semaphore>,
    told: Told,
    metrics: WebhookMetrics,
    rego_metrics: RegoMetrics,
}

/// Who tells of what is denied.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    /// Of where objects go.
    pub refusals: Refusals,
    /// Of what may be written.
    pub denied: Denied,
}

impl Webhooks {
    /// Webhooks that ask what is `loaded`.
    #[must_use]
    pub(crate) fn new(
        (loaded, rego_metrics): (Loaded, RegoMetrics),
        told: Told,
        metrics: WebhookMetrics,
    ) -> Self {
        let (bodies, checks) = (Arc::new(Semaphore::new(BODIES)), Arc::new(Semaphore::new(1)));
        Self { turns: Turns::new(loaded.at_once()), loaded, bodies, checks, told, metrics, rego_metrics }
    }
}

/// `/placement`, `/policies`, and both paths of `/admit`.
pub fn router(webhooks: Webhooks) -> Router {
    Router::new()
        .route("/placement", post(place))
        .route("/policies", post(policies))
        .route(ADMIT, post(admit))
        .route(ADMIT_LAST, post(admit_last))
        .with_state(webhooks)
}

async fn place(State(webhooks): State<Webhooks>, request: HttpRequest<Body>) -> Response {
    webhooks.answer("/placement", request, async |asked, until| webhooks.place(asked, until).await).await
}

async fn admit(State(webhooks): State<Webhooks>, request: HttpRequest<Body>) -> Response {
    webhooks.gate(ADMIT, By::Mutating, request).await
}

async fn admit_last(State(webhooks): State<Webhooks>, request: HttpRequest<Body>) -> Response {
    webhooks.gate(ADMIT_LAST, By::Validating, request).await
}

async fn policies(State(webhooks): State<Webhooks>, request: HttpRequest<Body>) -> Response {
    let check = async |asked: Arc<Asked>, until| webhooks.check(&asked, until).await.into();
    webhooks.answer("/policies", request, check).await
}

/// What metrics call a verdict.
fn word(Reviewed { verdict, dry }: &Reviewed) -> &'static str {
    match verdict {
        Verdict::Allowed { patch, .. } if !patch.0.is_empty() => "changed",
        Verdict::Allowed { warnings, .. } if !warnings.is_empty() => "warned",
        Verdict::Allowed { .. } if *dry > 0 => "dryrun",
        Verdict::Allowed { .. } => "allowed",
        Verdict::Denied { code: 403, .. } => "denied",
        Verdict::Denied { code: 429, .. } => "too_many",
        Verdict::Denied { .. } => "failed",
    }
}

type Refused = (StatusCode, String);

impl Webhooks {
    /// What `review` answers by a moment to what a request asks.
    async fn answer(
        &self,
        path: &'static str,
        request: HttpRequest<Body>,
        review: impl AsyncFnOnce(Arc<Asked>, Instant) -> Reviewed,
    ) -> Response {
        let began = Instant::now();
        let (verdict, answer) = match self.asked(request, began).await {
            Err((code, text)) => ("invalid", (code, text).into_response()),
            Ok((asked, room)) => {
                let asked = Arc::new(asked);
                let reviewed = review(asked.clone(), began + ANSWERED).await;
                drop(room);
                (word(&reviewed), Json(asked.answer(&reviewed.verdict)).into_response())
            }
        };
        self.metrics.answered(path, verdict, began.elapsed());
        answer
    }

    /// Checks policies as they are written, one at a time. Whatever keeps that from being done keeps nobody from mending one: it is
    /// checked when it is loaded.
    async fn check(&self, asked: &Asked, until: Instant) -> Verdict {
        let unchecked = |why: &str| Verdict::warned(vec![format!("this policy is not checked yet: {why}")]);
        let (object, before) = match asked.objects() {
            Ok(objects) => objects,
            Err(fault) => return unchecked(&fault),
        };
        if object.metadata.deletion_timestamp.is_some() {
            return Verdict::allowed();
        }
        let checking = async {
            let _turn = self.checks.acquire().await;
            self.loaded.check(&object, before.as_ref()).await
        };
        match timeout_at(until, checking).await {
            Err(_) => unchecked(&format!("no answer within {} s", ANSWERED.as_secs())),
            Ok(Err(error)) => unchecked(&with_causes(&error)),
            Ok(Ok(Written { faults, warnings })) if faults.is_empty() => {
                Verdict::warned(warnings.iter().map(ToString::to_string).collect())
            }
            Ok(Ok(Written { faults, .. })) => Verdict::denied(faults.to_string().trim_end()),
        }
    }

    /// The review that a request has, and the room that it takes.
    async fn asked(
        &self,
        request: HttpRequest<Body>,
        began: Instant,
    ) -> Result<(Asked, OwnedSemaphorePermit), Refused> {
        let refused = |code: StatusCode, text: &str| (code, format!("{text}\n"));
        if !is_json(request.headers()) {
            return Err(refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, "expected application/json"));
        }
        let length = request.headers().get(header::CONTENT_LENGTH);
        let length: Option<usize> = length.and_then(|length| length.to_str().ok()?.parse().ok());
        if length.is_some_and(|length| length > BODY) {
            return Err(refused(StatusCode::PAYLOAD_TOO_LARGE, "a review has at most 8 MiB"));
        }
        let (body, room) = match timeout_at(began + ARRIVES, self.body(request.into_body())).await {
            Err(_) => return Err(refused(StatusCode::REQUEST_TIMEOUT, "the body took more than 3 s")),
            Ok(Err((code, text))) => return Err(refused(code, &text)),
            Ok(Ok(body)) => body,
        };
        if body.is_empty() {
            return Err(refused(StatusCode::BAD_REQUEST, "the body is empty"));
        }
        let asked = Asked::read(&body).map_err(|fault| refused(StatusCode::BAD_REQUEST, &fault))?;
        Ok((asked, room))
    }

    /// A body, and the room that it takes: what has not arrived takes none.
    async fn body(&self, body: Body) -> Result<(Vec<u8>, OwnedSemaphorePermit), Refused> {
        let broken = |error: String| (StatusCode::BAD_REQUEST, error);
        let more = |kib: usize| {
            let kib = u32::try_from(kib).unwrap_or(u32::MAX);
            let room = self.bodies.clone().acquire_many_owned(kib);
            async { room.await.map_err(|error| broken(error.to_string())) }
        };
        let (mut chunks, mut read, mut room) = (body.into_data_stream(), Vec::new(), more(1).await?);
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|error| broken(error.to_string()))?;
            let length = read.len() + chunk.len();
            if length > BODY {
                return Err((StatusCode::PAYLOAD_TOO_LARGE, "a review has at most 8 MiB".to_owned()));
            }
            let missing = length.div_ceil(1 << 10).saturating_sub(room.num_permits());
            if missing > 0 {
                room.merge(more(missing).await?);
            }
            read.extend_from_slice(&chunk);
        }
        Ok((read, room))
    }

    /// Asks policies where what is written goes.
    async fn place(&self, asked: Arc<Asked>, until: Instant) -> Reviewed {
        let refusals = self.told.refusals.clone();
        let tell = move |request: &Request, verdict: &Verdict| refusals.tell(request, verdict);
        let review = |snapshot: &Snapshot, request: &Request, _: &Asked| {
            Ok(placement::review(snapshot, request)?.into())
        };
        self.review("placement", asked, until, review, tell).await
    }

    /// Asks policies whether that may be written which `request` has reviewed.
    async fn gate(&self, path: &'static str, by: By, request: HttpRequest<Body>) -> Response {
        let gate = async |asked: Arc<Asked>, until| {
            let denied = self.told.denied.clone();
            let tell = move |request: &Request, verdict: &Verdict| denied.tell(request, verdict);
            let review = move |snapshot: &Snapshot, request: &Request, asked: &Asked| {
                gatekeeper::review(snapshot, request, asked, by)
            };
            self.review("admission", asked, until, review, tell).await
        };
        self.answer(path, request, gate).await
    }

    /// What `review` makes of what is asked, in its turn; what it denies, `tell` tells.
    async fn review(
        &self,
        query: &'static str,
        asked: Arc<Asked>,
        until: Instant,
        review: impl FnOnce(&Snapshot, &Request, &Asked) -> Result<Reviewed, Unanswered> + Send + 'static,
        tell: impl FnOnce(&Request, &Verdict) + Send + 'static,
    ) -> Reviewed {
        let resource = asked.resource();
        let reviewing = async {
            let Some(turn) = self.turns.take(&resource).await else { return Verdict::too_many().into() };
            let (snapshot, kind) = (self.loaded.snapshot(), resource.clone());
            let rego_metrics = self.rego_metrics.clone();
            let reviewed = tokio::task::spawn_blocking(move || {
                let request = match asked.request() {
                    Ok(request) => request,
                    Err(fault) => return Verdict::failed(fault).into(),
                };
                let began = Instant::now();
                let reviewed = review(&snapshot, &request, &asked);
                let reason = match &reviewed {
                    Ok(Reviewed { verdict: Verdict::Denied { code: 500, .. }, .. }) => Some("answer"),
                    Ok(_) => None,
                    Err(error) => Some(error.reason()),
                };
                rego_metrics.asked(query, began.elapsed(), reason);
                turn.ended(&kind, reviewed.as_ref().is_err_and(Unanswered::is_too_long));
                let reviewed = reviewed.unwrap_or_else(|error| Verdict::failed(error.to_string()).into());
                tell(&request, &reviewed.verdict);
                reviewed
            });
            reviewed.await.unwrap_or_else(|panic| {
                error!(%panic, resource, "a review panicked");
                Verdict::failed("the review panicked: see the log").into()
            })
        };
        let late = |_| Verdict::failed(format!("no answer within {} s", ANSWERED.as_secs())).into();
        timeout_at(until, reviewing).await.unwrap_or_else(late)
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let media = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    media.split(';').next().is_some_and(|media| media.trim().eq_ignore_ascii_case("application/json"))
}
