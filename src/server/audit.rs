//! `/audit`: what stands and breaks policies, for who may read it: whoever may `get` that path of the API server, which is asked who
//! shows the token.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::{Api, PostParams};
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::bearer;
use crate::api::text::with_causes;
use crate::aside::aside;
use crate::clock::Clock;
use crate::gatekeeper::audit::Findings;
use crate::gatekeeper::auditing::Audited;
use crate::reconcile::Leadership;

/// Where it is asked.
const PATH: &str = "/audit";
/// How many requests may wait at once for what is found.
const WAITING: usize = 16;
/// About how many the API server is asked at once.
const ASKED: usize = 8;
/// How long the API server may take.
const ANSWERED: Duration = Duration::from_secs(3);
/// How long an audit may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// For how long an answer is given again.
const FRESH: Duration = Duration::from_secs(10);

/// What the handler asks.
#[derive(Clone)]
pub struct Audit {
    audited: Audited,
    client: Client,
    leadership: Leadership,
    clock: Clock,
    asking: Arc<Semaphore>,
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
        let room = |count| Arc::new(Semaphore::new(count));
        let (asking, waiting, last) = (room(ASKED), room(WAITING), Arc::default());
        Self { audited, client, leadership, clock, asking, waiting, last }
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
            let mut report = findings.in_order().report_of(now);
            if !leads && audited.places() {
                let why = "what placement refuses: another replica leads, and knows it";
                report["leftOut"] = vec![why].into();
            }
            Ok::<_, String>(report.to_string())
        });
        let report = auditing.await.map_err(|error| {
            warn!(error = with_causes(&error), "an audit has no end");
            unknown("the audit has no end: see the log".to_owned())
        })?;
        let report = Bytes::from(report.map_err(unknown)?);
        *last = Some((Instant::now(), report.clone()));
        Ok(report)
    }

    /// What the API server makes of `review`.
    async fn reviewed<K>(&self, review: &K) -> Result<K, Refused>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize,
    {
        let unasked = |error: String| {
            warn!(error, "cannot find out who may read the audit");
            (StatusCode::SERVICE_UNAVAILABLE, "the API server does not say who may read this\n".to_owned())
        };
        let (reviews, params) = (Api::<K>::all(self.client.clone()), PostParams::default());
        match timeout(ANSWERED, reviews.create(&params, review)).await {
            Err(_) => Err(unasked(format!("no answer in {} s", ANSWERED.as_secs()))),
            Ok(Err(error)) => Err(unasked(with_causes(&error))),
            Ok(Ok(review)) => Ok(review),
        }
    }

    /// Whether who shows `token` may read it.
    async fn admit(&self, token: &str) -> Result<(), Refused> {
        let review = TokenReview {
            spec: TokenReviewSpec { token: token.to_owned(), audiences: None },
            ..TokenReview::default()
        };
        let review = self.reviewed(&review).await?.status.unwrap_or_default();
        let user = review.user.filter(|_| review.authenticated == Some(true));
        let Some(user) = user else {
            return Err((StatusCode::UNAUTHORIZED, "the API server does not know this token\n".to_owned()));
        };
        let name = user.username.clone().unwrap_or_default();
        match self.reviewed(&asks(user)).await?.status.unwrap_or_default().allowed {
            true => Ok(()),
            false => Err((StatusCode::FORBIDDEN, format!("{name} cannot get path {PATH:?}\n"))),
        }
    }

    async fn answer(&self, headers: &HeaderMap) -> Result<Bytes, Refused> {
        let Some(token) = bearer::shown(headers) else {
            return Err((StatusCode::UNAUTHORIZED, "expected a token of a user of this hub\n".to_owned()));
        };
        let turn = |room: &Arc<Semaphore>| {
            let too_many = (StatusCode::TOO_MANY_REQUESTS, "too many requests are waiting\n".to_owned());
            room.clone().try_acquire_owned().map_err(|_| too_many)
        };
        // Whoever shows what nobody knows is in no reader's way once that is let in.
        let asking = turn(&self.asking)?;
        self.admit(token).await?;
        drop(asking);
        let _waiting = turn(&self.waiting)?;
        self.report().await
    }
}

/// Whether `user` may get it.
fn asks(user: UserInfo) -> SubjectAccessReview {
    let attributes = NonResourceAttributes { path: Some(PATH.to_owned()), verb: Some("get".to_owned()) };
    let spec = SubjectAccessReviewSpec {
        non_resource_attributes: Some(attributes),
        user: user.username,
        groups: user.groups,
        uid: user.uid,
        extra: user.extra,
        ..SubjectAccessReviewSpec::default()
    };
    SubjectAccessReview { spec, ..SubjectAccessReview::default() }
}

/// `/audit`.
pub fn router(audit: Audit) -> Router {
    Router::new().route(PATH, get(answer)).with_state(audit)
}

async fn answer(State(audit): State<Audit>, method: Method, headers: HeaderMap) -> Response {
    if method != Method::GET {
        // Routes for GET are taken for HEAD as well.
        return (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, "GET")]).into_response();
    }
    match audit.answer(&headers).await {
        Ok(report) => ([(header::CONTENT_TYPE, "application/json")], report).into_response(),
        Err((StatusCode::UNAUTHORIZED, why)) => bearer::refused(why),
        Err(refused) => refused.into_response(),
    }
}
