//! The endpoint `/authorize`, an authorization webhook for the API server. The handler uses only loaded Rego policies
//! and sends no requests, because a request to the API server would wait for its own authorization.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::Request;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use tokio::time::Instant;

use super::bearer::{self, Tokens};
use super::bodies::{self, Bodies};
use super::query_runner::{QueryRunner, ReviewError};
use super::webhooks::{AUTHORIZE, WebhookMetrics};
use crate::admission::access::{self, AccessReviewResult};
use crate::rego_loading::{Loaded, RegoMetrics};
use policy_sync_api::access::{AccessDecision, AccessReview};
use policy_sync_rego::evaluation_slots::Requester;

/// Maximum size of a request body, in MiB.
const MAX_BODY_MIB: usize = 1;
/// Maximum total size of large bodies in memory, in MiB.
const BODIES: usize = 32;
/// The time limit for a response; the API server waits for three seconds.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The state of the endpoint. Clones share it.
#[derive(Clone, Debug)]
pub struct AuthorizationWebhook {
    query_runner: QueryRunner,
    bodies: Bodies,
    tokens: Tokens,
    namespaces: Arc<BTreeSet<String>>,
    metrics: WebhookMetrics,
}

impl AuthorizationWebhook {
    /// Creates a webhook that evaluates the Rego policies of `loaded`. It accepts requests with one of `tokens`.
    /// `namespaces` contain the ConfigMaps with Rego policies.
    #[must_use]
    pub fn new(
        (loaded, rego_metrics): (Loaded, RegoMetrics),
        tokens: Tokens,
        namespaces: BTreeSet<String>,
        metrics: WebhookMetrics,
    ) -> Self {
        let query_runner = QueryRunner::new(loaded, rego_metrics, RESPONSE_TIMEOUT);
        Self {
            query_runner,
            bodies: Bodies::new(MAX_BODY_MIB, BODIES),
            tokens,
            namespaces: namespaces.into(),
            metrics,
        }
    }
}

/// The route `/authorize`.
pub fn router(authorize: AuthorizationWebhook) -> Router {
    Router::new().route(AUTHORIZE, post(respond)).with_state(authorize)
}

async fn respond(State(authorize): State<AuthorizationWebhook>, request: Request<Body>) -> Response {
    let began = Instant::now();
    let (verdict, response) = authorize.respond(request, began).await;
    authorize.metrics.record_response(AUTHORIZE, verdict, began.elapsed());
    response
}

impl AuthorizationWebhook {
    /// Returns the response to a request that began at `began`, and the verdict for metrics.
    async fn respond(&self, request: Request<Body>, began: Instant) -> (&'static str, Response) {
        if !self.tokens.accept(request.headers()) {
            let why = "expected a token of --authorize-token-file\n";
            return ("unauthorized", bearer::refused(why));
        }
        match self.bodies.read(request, began, AccessReview::read).await {
            Err(refused) => (bodies::verdict(&refused), refused.into_response()),
            Ok((access, _room)) => {
                let access = Arc::new(access);
                let (verdict_label, opinion) = self.review(&access, began).await;
                (verdict_label, Json(access.response(&opinion)).into_response())
            }
        }
    }

    /// Reviews `access`. Returns the verdict for metrics, and the decision for the API server.
    async fn review(&self, access: &Arc<AccessReview>, began: Instant) -> (&'static str, AccessDecision) {
        let access_review = access.clone();
        let evaluate = move |snapshot: &_| {
            let decision = access::review(snapshot, &access_review)?;
            let fault = decision.is_fault.then_some("answer");
            Ok((decision, fault))
        };
        let (tenant, namespace) = access.requester();
        let requester = Requester { tenant, member: namespace.into(), kind: "".into() };
        match self.query_runner.evaluate("authorization", requester, began, evaluate).await {
            // Requests that repair Rego policies are not denied while Rego policies are invalid or cannot be evaluated.
            Ok(AccessReviewResult { is_fault: true, .. }) | Err(_)
                if access::is_for_repair(access, &self.namespaces) =>
            {
                ("no_opinion", AccessDecision::None)
            }
            Ok(AccessReviewResult { is_fault: true, opinion, .. }) => ("failed", opinion),
            Ok(AccessReviewResult { opinion: opinion @ AccessDecision::Denied(_), .. }) => {
                ("denied", opinion)
            }
            Ok(AccessReviewResult { opinion, dryrun_denials: 1.., .. }) => ("dryrun", opinion),
            Ok(AccessReviewResult { opinion, .. }) => ("no_opinion", opinion),
            Err(error @ ReviewError::TooMany) => ("too_many", AccessDecision::Denied(error.to_string())),
            Err(error) => ("failed", AccessDecision::Denied(error.to_string())),
        }
    }
}
