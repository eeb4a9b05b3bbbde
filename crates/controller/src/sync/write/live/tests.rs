//! Tests which reads are sent, and when, to a fake server with one Gateway and any number of policies.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use futures::future::join_all;
use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::json;

use super::*;
use policy_sync_hub::reconcile::{Leadership, ReconcileError};
use policy_sync_hub::telemetry::metrics::Metrics;
use policy_sync_sync::kinds::POLICIES;

/// The delay of each response.
const TAKES: Duration = Duration::from_millis(10);

#[derive(Clone, Default)]
struct Server {
    requested: Arc<Mutex<Vec<String>>>,
    /// The generation of all objects.
    generation: Arc<AtomicI64>,
    /// The resource version. It differs in each response, so checks must ignore it.
    resource_version: Arc<AtomicI64>,
    /// The response to a list of policies.
    listed: Arc<serde_json::Value>,
}

impl Server {
    /// Serves a first page of policies with these names, and `more` as the continue token.
    fn listing(names: [&str; 2], more: &str) -> Self {
        let items = names.map(|name| json!({"metadata": {"name": name}}));
        let listed = json!({"metadata": {"resourceVersion": "1", "continue": more}, "items": items});
        Self { listed: Arc::new(listed), ..Self::default() }
    }

    fn causes(&self) -> LiveReads {
        let server = self.clone();
        let client = Client::new(
            tower::service_fn(move |request: Request<Body>| {
                server.clone().answer(request.uri().path().to_owned())
            }),
            "default",
        );
        let metrics = Metrics::new().unwrap();
        let tasks = Tasks::new(metrics.clone());
        let requests = Requests::new(client, Leadership::always());
        LiveReads::start(requests, ControllerName::new("example.com/controller"), tasks)
    }

    async fn answer(self, path: String) -> Result<Response<Body>, std::io::Error> {
        let name = path.rsplit('/').next().unwrap_or_default().to_owned();
        self.requested.lock().push(name.clone());
        let generation = self.generation.load(Ordering::Relaxed);
        let resource_version = self.resource_version.fetch_add(1, Ordering::Relaxed).to_string();
        if name == "stalls" {
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(TAKES).await;
        let (code, body) = match name.as_str() {
            "gone" => (
                404,
                json!({"kind": "Status", "status": "Failure", "message": "", "reason": "NotFound", "code": 404}),
            ),
            "hidden" => (
                403,
                json!({"kind": "Status", "status": "Failure", "message": "no", "reason": "Forbidden", "code": 403}),
            ),
            "policies" => (200, (*self.listed).clone()),
            "going" => {
                (200, json!({"metadata": {"name": name, "deletionTimestamp": "2026-01-01T00:00:00Z"}}))
            }
            _ => (
                200,
                json!({"metadata": {"name": name, "generation": generation, "resourceVersion": resource_version}}),
            ),
        };
        Ok(Response::builder().status(code).body(Body::from(body.to_string().into_bytes())).unwrap())
    }

    fn requests_for(&self, name: &str) -> usize {
        self.requested.lock().iter().filter(|requested| *requested == name).count()
    }
}

/// The expectation that an object exists with this generation, or does not exist if `generation` is `None`.
fn object(resource: &str, name: &str, generation: Option<i64>) -> Precondition {
    let (gvr, key) = (GroupVersionResource::new("example.com", "v1", resource), ObjectKey::new("shop", name));
    let Some(generation) = generation else { return Precondition::Absent(gvr, key) };
    let source = POLICIES.resource(gvr.kind.clone());
    let object: HubObject = serde_json::from_value(json!({"metadata": {"generation": generation}})).unwrap();
    let deletion_hash =
        source.prune(&object, &ControllerName::new("example.com/controller")).unwrap().deletion_hash();
    Precondition::Object(source, gvr, key, deletion_hash.unwrap())
}

/// The cause of deleting the works of `policy`.
fn cause(policy: &str) -> BTreeSet<Precondition> {
    BTreeSet::from([object("gateways", "web", Some(0)), object("policies", policy, Some(0))])
}

fn category(outcome: Result<(), WriteError>) -> &'static str {
    outcome.map_or_else(|error| error.category(), |()| "same")
}

#[tokio::test(start_paused = true)]
async fn concurrent_checks_of_one_cause_share_one_read() {
    let server = Server::default();
    let causes = server.causes();
    let first = causes.check(cause("first"));
    let names: Vec<String> = (1..LIST_THRESHOLD).map(|n| n.to_string()).collect();
    let others = names.iter().map(|name| async {
        // The first request is still in progress.
        tokio::time::sleep(TAKES / 2).await;
        causes.check(cause(name)).await
    });
    let (first, others) = futures::join!(first, join_all(others));
    assert_eq!(category(first), "same");
    assert!(others.into_iter().all(|outcome| category(outcome) == "same"));
    assert!(server.requests_for("web") <= 1 + CONCURRENT_BATCHES, "{} reads", server.requests_for("web"));
    assert_eq!(server.requests_for("9"), 1);
}

#[tokio::test(start_paused = true)]
async fn many_objects_are_listed_and_missing_ones_are_read_singly() {
    for (more, reads) in [("", 0), ("token", 2)] {
        let server = Server::listing(["1", "2"], more);
        let causes = server.causes();
        let policies = |n: usize| object("policies", &n.to_string(), (n < 3).then_some(0));
        let requested: BTreeSet<Precondition> =
            (1..=LIST_THRESHOLD).map(policies).chain([object("policies", "gone", None)]).collect();
        let outcome = causes.check(requested.clone()).await;
        assert_eq!(server.requests_for("policies"), 1);
        match more {
            "" => assert_eq!(category(outcome), "same", "what a whole list lacks is not there"),
            _ => assert_eq!(category(outcome), "cause_changed", "the others are on the next page"),
        }
        assert_eq!((server.requests_for("1"), server.requests_for("gone")), (0, reads / 2));
    }
}

#[tokio::test(start_paused = true)]
async fn each_check_uses_a_read_that_starts_after_it() {
    let server = Server::default();
    let causes = server.causes();
    let early = causes.check(cause("early"));
    let late = async {
        tokio::time::sleep(TAKES / 2).await;
        server.generation.store(1, Ordering::Relaxed);
        causes.check(cause("late")).await
    };
    let (early, late) = futures::join!(early, late);
    assert_eq!((category(early), category(late)), ("same", "cause_changed"));
}

#[tokio::test(start_paused = true)]
async fn slow_read_does_not_block_other_checks() {
    let server = Server::default();
    let causes = server.causes();
    let start = tokio::time::Instant::now();
    let stalled = async { (category(causes.check(cause("stalls")).await), start.elapsed()) };
    let other = async { (category(causes.check(cause("other")).await), start.elapsed()) };
    let later = async {
        tokio::time::sleep(TAKES).await;
        (category(causes.check(cause("later")).await), start.elapsed())
    };
    let (stalled, other, later) = futures::join!(stalled, other, later);
    assert_eq!((stalled.0, other.0, later.0), ("timeout", "same", "same"));
    assert!(other.1 < Duration::from_secs(1) && later.1 < Duration::from_secs(1), "{other:?}, {later:?}");
}

#[tokio::test(start_paused = true)]
async fn missing_object_counts_as_absent_but_failed_read_is_an_error() {
    let server = Server::default();
    let causes = server.causes();
    let check =
        async |name, generation| category(causes.check([object("policies", name, generation)].into()).await);
    assert_eq!(check("gone", None).await, "same");
    assert_eq!(check("gone", Some(0)).await, "cause_changed");
    assert_eq!(check("there", None).await, "cause_changed");
    assert_eq!(check("hidden", None).await, "forbidden");
    let both = futures::join!(causes.check(cause("hidden")), causes.check(cause("hidden")));
    assert_eq!((category(both.0), category(both.1)), ("forbidden", "forbidden"));
    assert_eq!(server.requests_for("hidden"), 2);
}

#[tokio::test(start_paused = true)]
async fn missing_or_terminating_namespace_does_not_match() {
    let server = Server::default();
    let causes = server.causes();
    let check =
        async |name: &str| category(causes.check([Precondition::Namespace(name.into())].into()).await);
    assert_eq!(check("shop").await, "same");
    assert_eq!(check("going").await, "cause_changed");
    assert_eq!(check("gone").await, "cause_changed");
    assert_eq!(check("hidden").await, "forbidden");
}
