//! `/authorize`: what the API server asks before it looks at who may do what. A handler reads what is in force and asks nobody: what it
//! would ask the API server would wait for itself.

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

use super::asking::{Asking, Silence};
use super::bearer::{self, Tokens};
use super::bodies::{self, Bodies};
use super::webhooks::{AUTHORIZE, WebhookMetrics};
use crate::admission::access::{self, Judged};
use crate::rego_loading::{Loaded, RegoMetrics};
use policy_sync_api::access::{AccessReview, Opinion};
use policy_sync_rego::turns::Requester;

/// How many MiB a body may have.
const BODY: usize = 1;
/// How many MiB of large bodies may be held at once.
const BODIES: usize = 32;
/// How long an answer may take: the API server waits for three seconds.
const ANSWERED: Duration = Duration::from_secs(2);

/// What the handler asks.
#[derive(Clone, Debug)]
pub struct Authorize {
    asking: Asking,
    bodies: Bodies,
    tokens: Tokens,
    namespaces: Arc<BTreeSet<String>>,
    metrics: WebhookMetrics,
}

impl Authorize {
    /// One that asks what is `loaded`, for who shows one of `tokens`. Policies are in `namespaces`.
    #[must_use]
    pub fn new(
        (loaded, rego_metrics): (Loaded, RegoMetrics),
        tokens: Tokens,
        namespaces: BTreeSet<String>,
        metrics: WebhookMetrics,
    ) -> Self {
        let asking = Asking::new(loaded, rego_metrics, ANSWERED);
        Self { asking, bodies: Bodies::new(BODY, BODIES), tokens, namespaces: namespaces.into(), metrics }
    }
}

/// `/authorize`.
pub fn router(authorize: Authorize) -> Router {
    Router::new().route(AUTHORIZE, post(answer)).with_state(authorize)
}

async fn answer(State(authorize): State<Authorize>, request: Request<Body>) -> Response {
    let began = Instant::now();
    let (verdict, answer) = authorize.answer(request, began).await;
    authorize.metrics.answered(AUTHORIZE, verdict, began.elapsed());
    answer
}

impl Authorize {
    /// What a request that began at this moment is answered, and what metrics call that.
    async fn answer(&self, request: Request<Body>, began: Instant) -> (&'static str, Response) {
        if !self.tokens.are_shown(request.headers()) {
            let why = "expected a token of --authorize-token-file\n";
            return ("unauthorized", bearer::refused(why));
        }
        match self.bodies.read(request, began, AccessReview::read).await {
            Err(refused) => (bodies::verdict(&refused), refused.into_response()),
            Ok((access, _room)) => {
                let access = Arc::new(access);
                let (word, opinion) = self.judge(&access, began).await;
                (word, Json(access.answer(&opinion)).into_response())
            }
        }
    }

    /// What is said of what `access` asks.
    async fn judge(&self, access: &Arc<AccessReview>, began: Instant) -> (&'static str, Opinion) {
        let asked = access.clone();
        let ask = move |snapshot: &_| {
            let judged = access::review(snapshot, &asked)?;
            let fault = judged.is_fault.then_some("answer");
            Ok((judged, fault))
        };
        let (tenant, namespace) = access.requester();
        let requester = Requester { tenant, member: namespace.into(), kind: "".into() };
        match self.asking.ask("authorization", requester, began, ask).await {
            // Who mends a policy must not wait for it.
            Ok(Judged { is_fault: true, .. }) | Err(_)
                if access::is_for_mending(access, &self.namespaces) =>
            {
                ("no_opinion", Opinion::None)
            }
            Ok(Judged { is_fault: true, opinion, .. }) => ("failed", opinion),
            Ok(Judged { opinion: opinion @ Opinion::Denied(_), .. }) => ("denied", opinion),
            Ok(Judged { opinion, dry: 1.., .. }) => ("dryrun", opinion),
            Ok(Judged { opinion, .. }) => ("no_opinion", opinion),
            Err(silence @ Silence::TooMany) => ("too_many", Opinion::Denied(silence.to_string())),
            Err(silence) => ("failed", Opinion::Denied(silence.to_string())),
        }
    }
}
