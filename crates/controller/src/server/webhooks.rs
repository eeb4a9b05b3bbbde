//! The admission webhooks: routes only. Bodies are limited in size and time. Each review gets a response,
//! with a reason, before the API server's timeout.

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

use super::asking::{Asking, Silence};
use super::bodies::{self, Bodies};
use crate::admission::events::Denied;
use crate::admission::review::{Registration as By, Reviewed};
use crate::placement_policy::refusals::Refusals;
use crate::rego_loading::{Loaded, RegoMetrics, Written};
use crate::webhook_config::{ADMIT, ADMIT_LAST};
use crate::{admission, placement_policy};
use policy_sync_api::admission::{Asked, Request, Verdict};
use policy_sync_api::text::with_causes;
use policy_sync_rego::snapshot::{Snapshot, Unanswered};
use policy_sync_rego::turns::Requester;

pub(super) use metrics::AUTHORIZE;
pub use metrics::WebhookMetrics;

/// Maximum size of a request body, in MiB. The API server accepts objects of 3 MiB, and a review may contain
/// two.
const BODY: usize = 8;
/// Maximum total size of large bodies in memory, in MiB.
pub const BODIES: usize = 32;
/// The time limit for a response; the API server waits for five seconds.
const ANSWERED: Duration = Duration::from_secs(4);

/// The state of the webhooks. Clones share it.
#[derive(Clone)]
pub struct Webhooks {
    asking: Asking,
    bodies: Bodies,
    checks: Arc<Semaphore>,
    reporters: Reporters,
    metrics: WebhookMetrics,
}

/// Publishers of Events about denied writes.
#[derive(Clone, Debug)]
pub struct Reporters {
    /// For placement policies.
    pub refusals: Refusals,
    /// For admission policies.
    pub denied: Denied,
}

impl Webhooks {
    /// Creates webhooks that evaluate the Rego policies of `loaded`.
    #[must_use]
    pub fn new(
        (loaded, rego_metrics): (Loaded, RegoMetrics),
        reporters: Reporters,
        metrics: WebhookMetrics,
    ) -> Self {
        let (bodies, checks) = (Bodies::new(BODY, BODIES), Arc::new(Semaphore::new(1)));
        Self { asking: Asking::new(loaded, rego_metrics, ANSWERED), bodies, checks, reporters, metrics }
    }
}

/// The routes `/placement`, `/policies`, and both paths of `/admit`.
pub fn router(webhooks: Webhooks) -> Router {
    Router::new()
        .route("/placement", post(place))
        .route("/policies", post(policies))
        .route(ADMIT, post(admit))
        .route(ADMIT_LAST, post(admit_last))
        .with_state(webhooks)
}

async fn place(State(webhooks): State<Webhooks>, request: HttpRequest<Body>) -> Response {
    webhooks.answer("/placement", request, async |asked, began| webhooks.place(asked, began).await).await
}

async fn admit(State(webhooks): State<Webhooks>, request: HttpRequest<Body>) -> Response {
    webhooks.gate(ADMIT, By::Mutating, request).await
}

async fn admit_last(State(webhooks): State<Webhooks>, request: HttpRequest<Body>) -> Response {
    webhooks.gate(ADMIT_LAST, By::Validating, request).await
}

async fn policies(State(webhooks): State<Webhooks>, request: HttpRequest<Body>) -> Response {
    let check = async |asked: Arc<Asked>, began| webhooks.check(&asked, began).await.into();
    webhooks.answer("/policies", request, check).await
}

/// The verdict for metrics.
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

impl Webhooks {
    /// Reads the body of `request`, runs `review` and encodes the response.
    async fn answer(
        &self,
        path: &'static str,
        request: HttpRequest<Body>,
        review: impl AsyncFnOnce(Arc<Asked>, Instant) -> Reviewed,
    ) -> Response {
        let began = Instant::now();
        let (verdict, answer) = match self.bodies.read(request, began, |body| Asked::read(&body)).await {
            Err(refused) => (bodies::verdict(&refused), refused.into_response()),
            Ok((asked, room)) => {
                let asked = Arc::new(asked);
                let reviewed = review(asked.clone(), began).await;
                drop(room);
                (word(&reviewed), Json(asked.answer(&reviewed.verdict)).into_response())
            }
        };
        self.metrics.answered(path, verdict, began.elapsed());
        answer
    }

    /// Checks Rego policies that are being written, one object at a time. If the check fails to run, the
    /// write is allowed with a warning: the loader checks the policies again, and a failure must not block
    /// their repair.
    async fn check(&self, asked: &Asked, began: Instant) -> Verdict {
        let unchecked = |why: &str| Verdict::warned(vec![format!("this policy is not checked yet: {why}")]);
        match asked.request() {
            Ok(request) if request.is_release() => return Verdict::allowed(),
            Ok(_) => {}
            Err(fault) => return unchecked(&fault),
        }
        let (object, before) = match asked.objects() {
            Ok(objects) => objects,
            Err(fault) => return unchecked(&fault),
        };
        let checking = async {
            let _turn = self.checks.acquire().await;
            self.asking.loaded().check(&object, before.as_ref()).await
        };
        match timeout_at(began + ANSWERED, checking).await {
            Err(_) => unchecked(&format!("no response within {} s", ANSWERED.as_secs())),
            Ok(Err(error)) => unchecked(&with_causes(&error)),
            Ok(Ok(Written { faults, warnings })) if faults.is_empty() => {
                Verdict::warned(warnings.iter().map(ToString::to_string).collect())
            }
            Ok(Ok(Written { faults, .. })) => Verdict::denied(faults.to_string().trim_end()),
        }
    }

    /// Evaluates placement policies for the request.
    async fn place(&self, asked: Arc<Asked>, began: Instant) -> Reviewed {
        let refusals = self.reporters.refusals.clone();
        let tell = move |request: &Request, verdict: &Verdict| refusals.tell(request, verdict);
        let review = |snapshot: &Snapshot, request: &Request, _: &Asked| {
            Ok(placement_policy::review::review(snapshot, request)?.into())
        };
        self.review("placement", asked, began, review, tell).await
    }

    /// Evaluates admission policies for the request.
    async fn gate(&self, path: &'static str, by: By, request: HttpRequest<Body>) -> Response {
        let gate = async |asked: Arc<Asked>, began| {
            let denied = self.reporters.denied.clone();
            let tell = move |request: &Request, verdict: &Verdict| denied.tell(request, verdict);
            let review = move |snapshot: &Snapshot, request: &Request, asked: &Asked| {
                admission::review::review(snapshot, request, asked, by)
            };
            self.review("admission", asked, began, review, tell).await
        };
        self.answer(path, request, gate).await
    }

    /// Runs `review` once a slot is free, and passes each result to `tell`, which reports denials.
    async fn review(
        &self,
        query: &'static str,
        asked: Arc<Asked>,
        began: Instant,
        review: impl FnOnce(&Snapshot, &Request, &Asked) -> Result<Reviewed, Unanswered> + Send + 'static,
        tell: impl FnOnce(&Request, &Verdict) + Send + 'static,
    ) -> Reviewed {
        let (tenant, user) = asked.requester();
        let requester = Requester { tenant, member: user.into(), kind: asked.resource().into() };
        let ask = move |snapshot: &Snapshot| {
            let request = match asked.request() {
                Ok(request) => request,
                Err(fault) => return Ok((Verdict::failed(fault).into(), None)),
            };
            let reviewed: Result<Reviewed, Unanswered> = review(snapshot, &request, &asked);
            match &reviewed {
                Ok(Reviewed { verdict, .. }) => tell(&request, verdict),
                Err(error) => tell(&request, &Verdict::failed(error.to_string())),
            }
            let reviewed = reviewed?;
            let is_fault = matches!(reviewed.verdict, Verdict::Denied { code: 500, .. });
            Ok((reviewed, is_fault.then_some("answer")))
        };
        match self.asking.ask(query, requester, began, ask).await {
            Ok(reviewed) => reviewed,
            Err(Silence::TooMany) => Verdict::too_many().into(),
            Err(silence) => Verdict::failed(silence.to_string()).into(),
        }
    }
}
