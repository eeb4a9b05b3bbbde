//! Tests against a scripted server: each request gets the next response of a script.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use futures::{StreamExt, stream};
use http::{Request, Response};
use kube::client::Body;
use serde_json::{Value, json};

use super::*;
use crate::clock::Clock;
use crate::telemetry::metrics::Metrics;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ControllerName, ObjectKey};
use policy_sync_api::object::HubObject;
use policy_sync_mirror::{Index, Kind, KindDeclaration, Mirror, ObjectRow, Row, Tables};

static GATEWAYS: Kind<Gateway> = Kind::new("gateway.networking.k8s.io", "v1", "gateways");

/// A row without data.
#[derive(Clone, Debug, PartialEq)]
struct Gateway;

impl Row for Gateway {}

impl ObjectRow for Gateway {
    fn prune(_: &HubObject, _: &ControllerName) -> Self {
        Self
    }
}

/// An index without derived data.
#[derive(Clone, Debug)]
struct NoIndex;

impl Index for NoIndex {
    const REQUIRED_KINDS: &'static [&'static KindDeclaration] = &[];

    type View<'m> = ();

    fn new(_: ControllerName) -> Self {
        Self
    }

    fn view<'m>(&'m self, _: &'m Tables, _: Moment) {}
}

/// The remaining responses, and the requests so far.
#[derive(Clone, Default)]
struct Script {
    responses: Arc<Mutex<VecDeque<(u16, String)>>>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Script {
    fn response(self, code: u16, body: impl ToString) -> Self {
        self.responses.lock().unwrap().push_back((code, body.to_string()));
        self
    }

    fn list(self, version: &str, next: Option<&str>, names: &[&str]) -> Self {
        let items: Vec<Value> = names.iter().map(|name| gateway(name, version)).collect();
        let metadata = json!({"resourceVersion": version, "continue": next});
        self.response(200, json!({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items}))
    }

    /// Servers send an event's type before its object. The decoder of raw specs relies on this order.
    fn watch(self, events: &[(&str, Value)]) -> Self {
        let lines: Vec<String> = events
            .iter()
            .map(|(kind, object)| format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n"))
            .collect();
        self.response(200, lines.concat())
    }

    fn client(&self) -> Client {
        let script = self.clone();
        let serve = move |request: Request<Body>| {
            script.requests.lock().unwrap().push(request.uri().to_string());
            let next = script.responses.lock().unwrap().pop_front();
            let (code, body) =
                next.unwrap_or_else(|| (500, json!({"message": "the script is over"}).to_string()));
            let response = Response::builder().status(code).body(Body::from(body.into_bytes()));
            async move { response.map_err(std::io::Error::other) }
        };
        Client::new(tower::service_fn(serve), "default")
    }
}

fn gateway(name: &str, version: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "shop", "uid": name, "resourceVersion": version}, "spec": {}})
}

fn status(code: u16) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code, "message": "expired"})
}

struct Fixture {
    mirror: Arc<Mirror<NoIndex>>,
    feed: Feed,
    followed: SourceWatcher,
    tasks: Tasks,
}

impl Fixture {
    fn new() -> Self {
        let controller = ControllerName::new("example.com/test");
        let mirror = Arc::new(Mirror::new(controller.clone()));
        let feed = Feed::new(mirror.clone(), controller, Clock::start(), |_| ());
        let gvr = GroupVersionResource::new("gateway.networking.k8s.io", "v1", "gateways");
        let tasks = Tasks::new(Metrics::new().unwrap());
        let followed = SourceWatcher::new(GATEWAYS.all(), gvr, tasks.clone());
        Self { mirror, feed, followed, tasks }
    }

    /// Runs until the script is over.
    async fn play(&self, script: &Script) -> SourceWatchError {
        self.followed.until_failure(&script.client(), &self.feed, &mut DefaultBackoff::default()).await
    }

    fn names(&self) -> Vec<String> {
        let guard = self.mirror.read();
        let mut names: Vec<String> =
            guard.tables().rows(&GATEWAYS).map(|(key, _)| key.name.to_string()).collect();
        names.sort();
        names
    }
}

#[tokio::test]
async fn list_older_than_a_seen_version_is_rejected() {
    let fixture = Fixture::new();
    fixture.play(&Script::default().list("20", None, &["web"])).await;
    let error = fixture.play(&Script::default().list("10", None, &[])).await;
    assert!(matches!(error, SourceWatchError::Stale { shown: 10, seen: 20 }), "{error:?}");
    assert_eq!(fixture.names(), ["web"]);
}

#[tokio::test]
async fn bookmark_older_than_a_seen_version_is_rejected() {
    let fixture = Fixture::new();
    let bookmark = json!({"kind": "Gateway", "apiVersion": "gateway.networking.k8s.io/v1", "metadata": {"resourceVersion": "10"}});
    let script = Script::default().list("20", None, &["web"]).watch(&[("BOOKMARK", bookmark)]);
    let error = fixture.play(&script).await;
    assert!(matches!(error, SourceWatchError::Stale { shown: 10, seen: 20 }), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn restored_hub_ends_the_process_after_five_minutes() {
    let fixture = Fixture::new();
    fixture.play(&Script::default().list("20", None, &["web"])).await;
    let old = || SourceWatchError::Stale { shown: 10, seen: 20 };
    let fails = |error: SourceWatchError| {
        fixture.followed.failed(&fixture.feed, &error, &mut DefaultBackoff::default())
    };
    fails(old());
    tokio::time::advance(RESTORE_TIMEOUT - Duration::from_secs(1)).await;
    fails(old());
    assert_eq!(fixture.tasks.check(), Ok(()));
    // After a list that is not outdated, `RESTORE_TIMEOUT` starts anew.
    fixture.play(&Script::default().list("21", None, &["web"])).await;
    fails(old());
    tokio::time::advance(RESTORE_TIMEOUT / 2).await;
    tokio::time::advance(RESTORE_TIMEOUT / 2).await;
    assert_eq!(fixture.tasks.check(), Ok(()));
    fails(old());
    assert_eq!(fixture.tasks.check(), Err(RestartReason::HubRestored));
}

#[tokio::test]
async fn objects_deleted_between_watches_are_removed_by_the_next_list() {
    let fixture = Fixture::new();
    let script = Script::default().list("10", None, &["api", "web"]).watch(&[("ERROR", status(410))]).list(
        "20",
        None,
        &["web"],
    );
    fixture.play(&script).await;
    assert_eq!(fixture.names(), ["web"]);
}

#[tokio::test]
async fn interrupted_list_deletes_nothing() {
    let fixture = Fixture::new();
    fixture.play(&Script::default().list("10", Some("more"), &["api"]).list("10", None, &["web"])).await;
    assert_eq!(fixture.names(), ["api", "web"]);
    fixture.play(&Script::default().list("20", Some("more"), &["api"]).response(410, status(410))).await;
    assert_eq!(fixture.names(), ["api", "web"]);
}

/// The end of the first page arrives only after the second page was requested.
#[tokio::test]
async fn next_page_is_requested_while_the_current_one_arrives() {
    let fixture = Fixture::new();
    let script = Script::default().list("10", Some("more"), &["api"]).list("10", None, &["web"]);
    let later = script.client();
    let requested = Arc::new(tokio::sync::Semaphore::new(0));
    let serve = move |request: Request<Body>| {
        let (later, requested) = (later.clone(), requested.clone());
        async move {
            let uri = request.uri().to_string();
            let is_first = uri.contains("limit=") && !uri.contains("continue=");
            let text = later.send(request).await?.into_body().collect_bytes().await?;
            requested.add_permits(usize::from(!is_first));
            let (head, rest) = (text.slice(..text.len() - 1), text.slice(text.len() - 1..));
            let rest = async move {
                if is_first {
                    requested.acquire().await.map_err(std::io::Error::other)?.forget();
                }
                Ok::<_, std::io::Error>(rest)
            };
            let pieces = stream::iter([Ok(head)]).chain(stream::once(rest));
            Ok::<_, kube::Error>(Response::new(axum::body::Body::from_stream(pieces)))
        }
    };
    let client = Client::new(tower::service_fn(serve), "default");
    let mut backoff = DefaultBackoff::default();
    fixture.followed.until_failure(&client, &fixture.feed, &mut backoff).await;
    assert_eq!(fixture.names(), ["api", "web"]);
}

/// No real API server sends an invalid item.
#[tokio::test]
async fn invalid_item_is_reported_by_number_and_deletes_nothing() {
    let fixture = Fixture::new();
    fixture.play(&Script::default().list("10", None, &["api", "web"])).await;
    let page = |next: Option<&str>| {
        let items = [gateway("web", "20"), json!({"metadata": {"name": "odd", "labels": 3}})];
        json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "20", "continue": next}, "items": items})
    };
    let first = Script::default().response(200, page(Some("more"))).list("20", None, &["api"]);
    let second = Script::default().list("20", Some("more"), &["api"]).response(200, page(None));
    for script in [first, second] {
        let error = fixture.play(&script).await;
        assert!(matches!(error, SourceWatchError::Object { number: 2, .. }), "{error:?}");
        assert!(describe(&error).starts_with("object 2 of a page cannot be read: "), "{}", describe(&error));
        assert_eq!(fixture.names(), ["api", "web"]);
    }
}

#[tokio::test(start_paused = true)]
async fn watch_resumes_at_once_from_its_last_version() {
    let began = Instant::now();
    let fixture = Fixture::new();
    let script = Script::default()
        .list("10", None, &["web"])
        .watch(&[
            ("ADDED", gateway("api", "11")),
            (
                "BOOKMARK",
                json!({"kind": "Gateway", "apiVersion": "v1", "metadata": {"resourceVersion": "15"}}),
            ),
        ])
        .watch(&[("DELETED", gateway("web", "16"))]);
    fixture.play(&script).await;
    assert_eq!(fixture.names(), ["api"]);
    let requests = script.requests.lock().unwrap().clone();
    assert!(
        requests[1].contains("resourceVersion=10") && requests[2].contains("resourceVersion=15"),
        "{requests:?}"
    );
    assert!(requests.iter().all(|request| !request.contains("resourceVersion=0&")), "{requests:?}");
    assert!(began.elapsed() < Duration::from_millis(100), "{:?}", began.elapsed());
}

/// The time that a script takes.
async fn duration(script: &Script) -> Duration {
    let began = Instant::now();
    Fixture::new().play(script).await;
    began.elapsed()
}

#[tokio::test(start_paused = true)]
async fn watches_that_end_at_once_back_off() {
    let ended = |script: Script| script.watch(&[]);
    let often = (0..5).fold(Script::default().list("10", None, &[]), |script, _| ended(script));
    assert!(duration(&often).await > Duration::from_secs(20));

    // Watches also back off if the version of each list has expired.
    let expired = |script: Script| script.list("10", None, &[]).watch(&[("ERROR", status(410))]);
    let often = (0..5).fold(Script::default(), |script, _| expired(script));
    assert!(duration(&often).await > Duration::from_secs(20));
}

#[tokio::test(start_paused = true)]
async fn missing_watch_permission_backs_off() {
    let refused = |script: Script| script.list("10", None, &[]).response(403, status(403));
    let script = (0..100).fold(Script::default(), |script, _| refused(script));
    let Fixture { feed, followed, .. } = Fixture::new();
    let minute = Duration::from_secs(60);
    tokio::time::timeout(minute, followed.run(script.client(), feed)).await.unwrap_err();
    let requests = script.requests.lock().unwrap().len();
    assert!((6..=14).contains(&requests), "{requests} requests in a minute");
}

#[tokio::test]
async fn object_of_unexpected_shape_does_not_stop_the_watch() {
    let fixture = Fixture::new();
    let mut odd = gateway("odd", "11");
    odd["spec"] = json!("not an object");
    odd["status"] = json!([1, 2]);
    let script = Script::default()
        .list("10", None, &["web"])
        .watch(&[("ADDED", odd), ("ADDED", gateway("api", "12"))]);
    fixture.play(&script).await;
    assert_eq!(fixture.names(), ["api", "odd", "web"]);
}

#[tokio::test]
async fn failure_keeps_known_objects_and_is_recorded() {
    let fixture = Fixture::new();
    fixture.play(&Script::default().list("10", None, &["web"])).await;
    let error = fixture.play(&Script::default().response(403, status(403))).await;
    fixture.followed.failed(&fixture.feed, &error, &mut DefaultBackoff::default());
    assert_eq!(fixture.names(), ["web"]);
    let guard = fixture.mirror.read();
    assert_eq!(guard.tables().failing()[&GATEWAYS.all()], "expired (403)");
    assert!(guard.tables().get(&GATEWAYS, &ObjectKey::new("shop", "web")).is_some());
}
