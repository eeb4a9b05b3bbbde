//! Access to `/audit`. In a *review* of a token, the API server authenticates the token and authorizes its user. The
//! verdict is cached for some seconds. Reviews of tokens that were not accepted before have separate slots, so that
//! invalid tokens do not delay readers.

use std::collections::{HashMap, VecDeque};
use std::fmt::Debug;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use blake3::Hash;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::{Api, PostParams};
use kube::{Client, Resource};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};
use tracing::warn;

use super::{PATH, Rejection};
use policy_sync_api::tenant::Tenant;
use policy_sync_api::text::with_causes;
use policy_sync_rego::evaluation_slots::{EvaluationSlots, Requester};

/// The maximum number of concurrent reviews of tokens that were accepted before.
const MAX_READERS: usize = 8;
/// The maximum number of concurrent reviews of tokens that were not accepted before. Client addresses take turns for
/// these slots, and at most 256 requests wait.
const MAX_UNKNOWN_CALLERS: usize = 4;
/// How long a request waits for a slot, and how long the API server may take to respond.
const TIMEOUT: Duration = Duration::from_secs(3);
/// How long a token is accepted without another review. It equals the time for which a report is served again.
const ACCEPTED_FOR: Duration = Duration::from_secs(10);
/// How long a token is rejected without another review. The time is short because access may just have been granted.
const REJECTED_FOR: Duration = Duration::from_secs(5);
/// The maximum number of remembered accepted tokens.
const MAX_ACCEPTED: usize = 256;
/// The maximum number of remembered rejected tokens; they use about 200 KiB.
const MAX_REJECTED: usize = 1_024;

/// Authorizes readers of the audit. Clones share the slots and the cached verdicts.
#[derive(Clone)]
pub(super) struct Readers {
    client: Client,
    readers: Arc<Semaphore>,
    unknown_callers: EvaluationSlots,
    known: Arc<Mutex<TokenVerdicts>>,
}

/// Verdicts of the API server, by the hash of the token.
#[derive(Debug, Default)]
struct TokenVerdicts {
    accepted: TokenCache<()>,
    rejected: TokenCache<Rejection>,
}

/// The latest verdicts; the oldest is removed first.
#[derive(Debug)]
struct TokenCache<V> {
    verdicts: HashMap<Hash, (Instant, V)>,
    /// The tokens in the order of their first verdict.
    order: VecDeque<Hash>,
}

impl<V> Default for TokenCache<V> {
    fn default() -> Self {
        Self { verdicts: HashMap::new(), order: VecDeque::new() }
    }
}

impl<V> TokenCache<V> {
    /// Records a verdict, and keeps at most `most` verdicts.
    fn note(&mut self, token: Hash, verdict: V, most: usize) {
        if self.verdicts.insert(token, (Instant::now(), verdict)).is_some() {
            return;
        }
        self.order.push_back(token);
        if self.order.len() > most
            && let Some(oldest) = self.order.pop_front()
        {
            self.verdicts.remove(&oldest);
        }
    }

    fn forget(&mut self, token: &Hash) {
        if self.verdicts.remove(token).is_some() {
            self.order.retain(|other| other != token);
        }
    }

    /// The verdict about `token` if it is younger than `age`.
    fn fresh(&self, token: &Hash, age: Duration) -> Option<&V> {
        let (at, verdict) = self.verdicts.get(token)?;
        (at.elapsed() < age).then_some(verdict)
    }
}

impl TokenVerdicts {
    /// The cached verdict about `token`, if it is fresh.
    fn verdict(&self, token: &Hash) -> Option<Result<(), Rejection>> {
        if self.accepted.fresh(token, ACCEPTED_FOR).is_some() {
            return Some(Ok(()));
        }
        self.rejected.fresh(token, REJECTED_FOR).cloned().map(Err)
    }

    fn note(&mut self, token: Hash, verdict: &Result<(), Rejection>) {
        match verdict {
            Ok(()) => {
                self.rejected.forget(&token);
                self.accepted.note(token, (), MAX_ACCEPTED);
            }
            Err(refused @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, _)) => {
                self.accepted.forget(&token);
                self.rejected.note(token, refused.clone(), MAX_REJECTED);
            }
            // Without a verdict of the API server, nothing is cached.
            Err(_) => {}
        }
    }
}

impl Readers {
    /// Sends reviews with `client`.
    pub(super) fn new(client: Client) -> Self {
        let readers = Arc::new(Semaphore::new(MAX_READERS));
        Self {
            client,
            readers,
            unknown_callers: EvaluationSlots::new(MAX_UNKNOWN_CALLERS),
            known: Arc::default(),
        }
    }

    /// Checks whether a caller at `address` with `token` may read the audit.
    pub(super) async fn admit(&self, token: &str, address: Option<IpAddr>) -> Result<(), Rejection> {
        let hash = blake3::hash(token.as_bytes());
        let is_reader = {
            let known = self.known.lock();
            if let Some(verdict) = known.verdict(&hash) {
                return verdict;
            }
            known.accepted.verdicts.contains_key(&hash)
        };
        let too_many = || (StatusCode::TOO_MANY_REQUESTS, "too many requests are waiting\n".to_owned());
        let verdict = if is_reader {
            let slot = timeout(TIMEOUT, self.readers.acquire()).await;
            let _slot = slot.ok().and_then(Result::ok).ok_or_else(too_many)?;
            self.review(token).await
        } else {
            let address = address.map(|address| address.to_string()).unwrap_or_default();
            let tenant = Tenant::object("addresses", &address);
            let requester = Requester { tenant, member: "".into(), kind: "".into() };
            let turn = timeout(TIMEOUT, self.unknown_callers.acquire(requester)).await;
            let _turn = turn.ok().flatten().ok_or_else(too_many)?;
            // Another request may have reviewed the same token in the meantime.
            let known = self.known.lock().verdict(&hash);
            match known {
                Some(verdict) => verdict,
                None => self.review(token).await,
            }
        };
        self.known.lock().note(hash, &verdict);
        verdict
    }

    /// Authenticates `token` and authorizes its user with the API server.
    async fn review(&self, token: &str) -> Result<(), Rejection> {
        let review = TokenReview {
            spec: TokenReviewSpec { token: token.to_owned(), audiences: None },
            ..TokenReview::default()
        };
        let review = self.create(&review).await?.status.unwrap_or_default();
        let user = review.user.filter(|_| review.authenticated == Some(true));
        let Some(user) = user else {
            return Err((StatusCode::UNAUTHORIZED, "the API server does not accept this token\n".to_owned()));
        };
        let name = user.username.clone().unwrap_or_default();
        match self.create(&access_of(user)).await?.status.unwrap_or_default().allowed {
            true => Ok(()),
            false => Err((StatusCode::FORBIDDEN, format!("{name} cannot get path {PATH:?}\n"))),
        }
    }

    /// Creates `review` on the API server, and returns it with its status.
    async fn create<K>(&self, review: &K) -> Result<K, Rejection>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize,
    {
        let failed = |error: String| {
            warn!(error, "cannot check who may read the audit");
            (StatusCode::SERVICE_UNAVAILABLE, "cannot check authorization with the API server\n".to_owned())
        };
        let (reviews, params) = (Api::<K>::all(self.client.clone()), PostParams::default());
        match timeout(TIMEOUT, reviews.create(&params, review)).await {
            Err(_) => Err(failed(format!("no response within {} s", TIMEOUT.as_secs()))),
            Ok(Err(error)) => Err(failed(with_causes(&error))),
            Ok(Ok(review)) => Ok(review),
        }
    }
}

/// The SubjectAccessReview that checks whether `user` may `get` the path of the audit.
fn access_of(user: UserInfo) -> SubjectAccessReview {
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

#[cfg(test)]
mod tests;
