//! The endpoint `/authorize`: an authorization webhook of the API server. The handler only uses loaded Rego
//! policies and sends no requests: a request to the API server would wait for its own authorization.

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

/// Maximum size of a request body, in MiB.
const BODY: usize = 1;
/// Maximum total size of large bodies in memory, in MiB.
const BODIES: usize = 32;
/// The time limit for a response; the API server waits for three seconds.
const ANSWERED: Duration = Duration::from_secs(2);

/// The state of the endpoint. Clones share it.
#[derive(Clone, Debug)]
pub struct Authorize {
    asking: Asking,
    bodies: Bodies,
    tokens: Tokens,
    namespaces: Arc<BTreeSet<String>>,
    metrics: WebhookMetrics,
}

impl Authorize {
    /// Evaluates the Rego policies of `loaded` for requests with one of `tokens`. `namespaces` have the
    /// ConfigMaps with policies.
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

/// The route `/authorize`.
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
    /// The response to a request that began at `began`, with its verdict for metrics.
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

    /// The opinion about `access`, with its verdict for metrics.
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
            // A broken Rego policy must not block its own repair.
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
