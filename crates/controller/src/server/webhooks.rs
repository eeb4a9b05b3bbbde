//! Serves the admission webhooks: decodes requests, runs reviews and encodes responses. Bodies are limited in size and
//! time. Each review gets a response with a reason before the API server's timeout.

mod denial_events;
mod metrics;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::Request as HttpRequest;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use super::bodies::{self, Bodies};
use super::query_runner::{QueryRunner, ReviewError};
use crate::admission::review::{AdmissionPhase, ReviewResult};
use crate::rego_loading::{CarrierCheck, Loaded, RegoMetrics};
use crate::webhook_config::{ADMIT, ADMIT_VALIDATING};
use crate::{admission, placement_policy};
use policy_sync_api::admission::{AdmissionDecision, AdmissionRequest, AdmissionReview};
use policy_sync_api::text::with_causes;
use policy_sync_rego::evaluation_slots::Requester;
use policy_sync_rego::snapshot::{RegoQueryError, Snapshot};

pub use denial_events::DenialEvents;
pub(super) use metrics::AUTHORIZE;
pub use metrics::WebhookMetrics;

/// Maximum size of a request body, in MiB. The API server accepts objects of up to 3 MiB, and a review may contain two
/// objects.
const MAX_BODY_MIB: usize = 8;
/// Maximum total size of large bodies in memory, in MiB.
pub const BODIES: usize = 32;
/// The time limit for a response; the API server waits for five seconds.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(4);

/// The state of the webhooks. Clones share it.
#[derive(Clone)]
pub struct AdmissionWebhooks {
    query_runner: QueryRunner,
    bodies: Bodies,
    checks: Arc<Semaphore>,
    reporters: Reporters,
    metrics: WebhookMetrics,
}

/// Publishers of Events about denied writes.
#[derive(Clone, Debug)]
pub struct Reporters {
    /// Publishes Events about writes that placement policies reject.
    pub rejection_events: DenialEvents,
    /// Publishes Events about writes that admission policies deny.
    pub denial_events: DenialEvents,
}

impl AdmissionWebhooks {
    /// Creates webhooks that evaluate the Rego policies of `loaded`.
    #[must_use]
    pub fn new(
        (loaded, rego_metrics): (Loaded, RegoMetrics),
        reporters: Reporters,
        metrics: WebhookMetrics,
    ) -> Self {
        let (bodies, checks) = (Bodies::new(MAX_BODY_MIB, BODIES), Arc::new(Semaphore::new(1)));
        Self {
            query_runner: QueryRunner::new(loaded, rego_metrics, RESPONSE_TIMEOUT),
            bodies,
            checks,
            reporters,
            metrics,
        }
    }
}

/// The routes `/placement`, `/policies`, and both paths of `/admit`.
pub fn router(webhooks: AdmissionWebhooks) -> Router {
    Router::new()
        .route("/placement", post(place))
        .route("/policies", post(policies))
        .route(ADMIT, post(admit))
        .route(ADMIT_VALIDATING, post(admit_validating))
        .with_state(webhooks)
}

async fn place(State(webhooks): State<AdmissionWebhooks>, request: HttpRequest<Body>) -> Response {
    webhooks
        .respond("/placement", request, async |admission_review, began| {
            webhooks.place(admission_review, began).await
        })
        .await
}

async fn admit(State(webhooks): State<AdmissionWebhooks>, request: HttpRequest<Body>) -> Response {
    webhooks.gate(ADMIT, AdmissionPhase::Mutating, request).await
}

async fn admit_validating(State(webhooks): State<AdmissionWebhooks>, request: HttpRequest<Body>) -> Response {
    webhooks.gate(ADMIT_VALIDATING, AdmissionPhase::Validating, request).await
}

async fn policies(State(webhooks): State<AdmissionWebhooks>, request: HttpRequest<Body>) -> Response {
    let check = async |admission_review: Arc<AdmissionReview>, began| {
        webhooks.check(&admission_review, began).await.into()
    };
    webhooks.respond("/policies", request, check).await
}

/// The label value of the verdict, for metrics.
fn verdict_label(ReviewResult { verdict, dryrun_denials }: &ReviewResult) -> &'static str {
    match verdict {
        AdmissionDecision::Allowed { patch, .. } if !patch.0.is_empty() => "changed",
        AdmissionDecision::Allowed { warnings, .. } if !warnings.is_empty() => "warned",
        AdmissionDecision::Allowed { .. } if *dryrun_denials > 0 => "dryrun",
        AdmissionDecision::Allowed { .. } => "allowed",
        AdmissionDecision::Denied { code: 403, .. } => "denied",
        AdmissionDecision::Denied { code: 429, .. } => "too_many",
        AdmissionDecision::Denied { .. } => "failed",
    }
}

impl AdmissionWebhooks {
    /// Reads the body of `request`, runs `review` and encodes the response.
    async fn respond(
        &self,
        path: &'static str,
        request: HttpRequest<Body>,
        review: impl AsyncFnOnce(Arc<AdmissionReview>, Instant) -> ReviewResult,
    ) -> Response {
        let began = Instant::now();
        let (verdict, response) = match self
            .bodies
            .read(request, began, |body| AdmissionReview::read(&body))
            .await
        {
            Err(refused) => (bodies::verdict(&refused), refused.into_response()),
            Ok((admission_review, memory)) => {
                let admission_review = Arc::new(admission_review);
                let reviewed = review(admission_review.clone(), began).await;
                drop(memory);
                (verdict_label(&reviewed), Json(admission_review.response(&reviewed.verdict)).into_response())
            }
        };
        self.metrics.record_response(path, verdict, began.elapsed());
        response
    }

    /// Checks Rego policies while they are written, one object at a time. If the check itself fails, the write is
    /// allowed with a warning, so that Rego policies can still be repaired. The loader checks all Rego policies again.
    async fn check(&self, admission_review: &AdmissionReview, began: Instant) -> AdmissionDecision {
        let unchecked = |why: &str| {
            AdmissionDecision::warned(vec![format!("this Rego policy is not checked yet: {why}")])
        };
        match admission_review.request() {
            Ok(request) if request.is_release() => return AdmissionDecision::allowed(),
            Ok(_) => {}
            Err(fault) => return unchecked(&fault),
        }
        let (object, before) = match admission_review.objects() {
            Ok(objects) => objects,
            Err(fault) => return unchecked(&fault),
        };
        let checking = async {
            let _turn = self.checks.acquire().await;
            self.query_runner.loaded().check(&object, before.as_ref()).await
        };
        match timeout_at(began + RESPONSE_TIMEOUT, checking).await {
            Err(_) => unchecked(&format!("no response within {} s", RESPONSE_TIMEOUT.as_secs())),
            Ok(Err(error)) => unchecked(&with_causes(&error)),
            Ok(Ok(CarrierCheck { faults, warnings })) if faults.is_empty() => {
                AdmissionDecision::warned(warnings.iter().map(ToString::to_string).collect())
            }
            Ok(Ok(CarrierCheck { faults, .. })) => AdmissionDecision::denied(faults.to_string().trim_end()),
        }
    }

    /// Evaluates placement policies for the request.
    async fn place(&self, admission_review: Arc<AdmissionReview>, began: Instant) -> ReviewResult {
        let events = self.reporters.rejection_events.clone();
        let review = |snapshot: &Snapshot, request: &AdmissionRequest, _: &AdmissionReview| {
            Ok(placement_policy::review::review(snapshot, request)?.into())
        };
        self.review("placement", admission_review, began, review, events).await
    }

    /// Evaluates admission policies for the request.
    async fn gate(&self, path: &'static str, phase: AdmissionPhase, request: HttpRequest<Body>) -> Response {
        let gate = async |admission_review: Arc<AdmissionReview>, began| {
            let events = self.reporters.denial_events.clone();
            let review =
                move |snapshot: &Snapshot, request: &AdmissionRequest, admission_review: &AdmissionReview| {
                    admission::review::review(snapshot, request, admission_review, phase)
                };
            self.review("admission", admission_review, began, review, events).await
        };
        self.respond(path, request, gate).await
    }

    /// Runs `review` once a slot is free. Reports denials through `events`.
    async fn review(
        &self,
        query: &'static str,
        admission_review: Arc<AdmissionReview>,
        began: Instant,
        review: impl FnOnce(
            &Snapshot,
            &AdmissionRequest,
            &AdmissionReview,
        ) -> Result<ReviewResult, RegoQueryError>
        + Send
        + 'static,
        events: DenialEvents,
    ) -> ReviewResult {
        let (tenant, user) = admission_review.requester();
        let requester = Requester { tenant, member: user.into(), kind: admission_review.resource().into() };
        let evaluate = move |snapshot: &Snapshot| {
            let request = match admission_review.request() {
                Ok(request) => request,
                Err(fault) => return Ok((AdmissionDecision::failed(fault).into(), None)),
            };
            let reviewed: Result<ReviewResult, RegoQueryError> =
                review(snapshot, &request, &admission_review);
            match &reviewed {
                Ok(ReviewResult { verdict, .. }) => events.publish(&request, verdict),
                Err(error) => events.publish(&request, &AdmissionDecision::failed(error.to_string())),
            }
            let reviewed = reviewed?;
            let is_fault = matches!(reviewed.verdict, AdmissionDecision::Denied { code: 500, .. });
            Ok((reviewed, is_fault.then_some("answer")))
        };
        match self.query_runner.evaluate(query, requester, began, evaluate).await {
            Ok(reviewed) => reviewed,
            Err(ReviewError::TooMany) => AdmissionDecision::too_many().into(),
            Err(error) => AdmissionDecision::failed(error.to_string()).into(),
        }
    }
}
