//! An API server in memory below `kube::Client`: no process, no socket, no wall clock.
//!
//! ```text
//! kube::Client ──retries──▶ Interposer ──▶ MemoryServer ──▶ store: objects, versions, changes
//!                           faults of       one lock,
//!                           tests           no I/O
//! ```
//!
//! The server implements the parts of the API that this project uses. Lists have pages and continue tokens. Watches
//! start at a version, and have bookmarks and the error 410. Patches are JSON, merge and apply patches, with field
//! managers. Further parts are preconditions, finalizers, generations, the status subresource, and
//! CustomResourceDefinitions. `tests/memory` runs the same scenarios on this server and on a real server. This server
//! has no schemas: it neither prunes nor defaults nor validates. It has no garbage collector, and deleting a Namespace
//! does not delete its objects.
//!
//! The clock is tokio's: with `start_paused`, a run of hours takes milliseconds. Each request and each event takes
//! [`LATENCY`], so that no request and no event arrives at the time when it was sent.

mod agents;
mod attackers;
pub mod fault_plan;
mod fields;
mod flow;
mod hub;
mod kinds;
mod outcome;
mod read;
mod request;
mod selector;
mod status_error;
mod store;
mod topology;
mod watch_stream;
mod write;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request as HttpRequest, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::Client;
use kube::client::Body;
use kube::client::retry::RetryPolicy;
use parking_lot::Mutex;
use policy_sync_api::moment::Moment;
use policy_sync_hub::IDLE_TIMEOUT;
use policy_sync_hub::clock::Clock;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::sleep;
use tower::retry::RetryLayer;
use tower::{BoxError, Layer};

pub use self::agents::agents;
pub use self::attackers::{Attack, Attackers};
pub use self::outcome::{EventOutcome, Faultless, Interposer, RequestOutcome};
pub use self::request::RequestInfo;
pub use self::topology::{check_topology, keep_topology};

use self::kinds::Kind;
use self::request::Request;
use self::status_error::StatusError;
use self::store::{Change, KindKey, Store};
use self::watch_stream::WatchStream;
use self::write::ObjectWrite;

/// Delay of each request and each event.
pub const LATENCY: Duration = Duration::from_millis(1);
/// Start time of servers: 2026-01-01.
const EPOCH: Moment = Moment(1_767_225_600_000);

type HttpResponse = Response<UnsyncBoxBody<Bytes, BoxError>>;

/// An API server in memory. Clones share the same server.
#[derive(Clone)]
pub struct MemoryServer(Arc<Inner>);

struct Inner {
    store: Mutex<Store>,
    changed: watch::Sender<u64>,
    clock: Clock,
    info: Mutex<Vec<RequestInfo>>,
    ordinals: Mutex<HashMap<String, usize>>,
    in_flight: Arc<AtomicUsize>,
    disturbances: Arc<AtomicUsize>,
}

/// A fault that has not ended. The server's counter includes the fault until this value is dropped.
pub(crate) struct Disturbance(Arc<AtomicUsize>);

impl Disturbance {
    fn new(counter: &Arc<AtomicUsize>) -> Self {
        counter.fetch_add(1, Ordering::Relaxed);
        Self(counter.clone())
    }
}

impl Drop for Disturbance {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Default for MemoryServer {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryServer {
    /// A server with Kubernetes' built-in kinds and the namespace `default`.
    #[must_use]
    pub fn new() -> Self {
        let (changed, _) = watch::channel(0);
        let server = Self(Arc::new(Inner {
            store: Mutex::new(Store::new()),
            changed,
            clock: Clock::starting_at(EPOCH),
            info: Mutex::default(),
            ordinals: Mutex::default(),
            in_flight: Arc::default(),
            disturbances: Arc::default(),
        }));
        let namespace =
            serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}});
        server.0.store.lock().put(
            &(String::new(), "namespaces".to_owned()),
            &(String::new(), "default".to_owned()),
            namespace,
            Vec::new(),
        );
        server
    }

    /// An administrator client without faults.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client_of("admin", Faultless)
    }

    /// A client of `user`. `interposer` decides the outcomes of the client's requests and watch events. The client
    /// retries as kube's default client does.
    #[must_use]
    pub fn client_of(&self, user: &str, interposer: impl Interposer) -> Client {
        let (server, user): (Self, Arc<str>) = (self.clone(), user.into());
        let interposer: Arc<dyn Interposer> = Arc::new(interposer);
        let serve = tower::service_fn(move |request: HttpRequest<Body>| {
            server.clone().carry(user.clone(), interposer.clone(), request)
        });
        Client::new(RetryLayer::new(RetryPolicy::server_retry()).layer(serve), "default")
    }

    /// The server's clock.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.0.clock
    }

    /// All requests so far, in the order in which they were sent.
    #[must_use]
    pub fn requests(&self) -> Vec<RequestInfo> {
        self.0.info.lock().clone()
    }

    /// The requests of `user` so far, one per line with time and status code.
    #[must_use]
    pub fn log_of(&self, user: &str) -> String {
        let requests = self.requests();
        let info = requests.iter().filter(|info| info.user == user);
        let lines = info.map(|info| format!("{:>9} ms  {:>3}  {info}", info.at.0, info.code));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Number of matching requests so far.
    #[must_use]
    pub fn count(&self, is_such: impl Fn(&RequestInfo) -> bool) -> usize {
        self.0.info.lock().iter().filter(|info| is_such(info)).count()
    }

    /// All objects, by `<resource>.<group> <namespace>/<name>`.
    #[must_use]
    pub fn objects(&self) -> BTreeMap<String, Value> {
        let store = self.0.store.lock();
        let named = |((group, resource), (namespace, name), stored): (
            &KindKey,
            &store::ObjectKey,
            &store::Stored,
        )| {
            (format!("{resource}.{group} {namespace}/{name}"), stored.object.as_ref().clone())
        };
        store.all().map(named).collect()
    }

    /// The objects of a kind.
    fn objects_of(&self, group: &str, resource: &str) -> Vec<Arc<Value>> {
        let store = self.0.store.lock();
        store.at(&(group.to_owned(), resource.to_owned()), store.version).into_values().collect()
    }

    /// Compacts the history: watches and paged lists from older versions expire.
    pub fn compact(&self) {
        self.0.store.lock().compact();
    }

    /// Makes access reviews deny `verb` on a kind.
    pub fn deny(&self, verb: &str, group: &str, resource: &str) {
        let denied = (verb.to_owned(), group.to_owned(), resource.to_owned());
        self.0.store.lock().denied.insert(denied);
    }

    /// Whether no requests are in progress, except open watches, and no [`Interposer`] delays anything.
    #[must_use]
    pub fn is_undisturbed(&self) -> bool {
        self.0.in_flight.load(Ordering::Relaxed) == 0 && self.0.disturbances.load(Ordering::Relaxed) == 0
    }

    fn disturb(&self) -> Disturbance {
        Disturbance::new(&self.0.disturbances)
    }

    fn changed(&self) -> watch::Receiver<u64> {
        self.0.changed.subscribe()
    }

    fn version(&self) -> u64 {
        self.0.store.lock().version
    }

    fn compacted(&self, kind: &KindKey) -> u64 {
        self.0.store.lock().compacted(kind)
    }

    fn forget(&self, kind: &KindKey) {
        self.0.store.lock().forget(kind);
    }

    fn serves(&self, kind: &KindKey) -> bool {
        self.0.store.lock().kinds.contains_key(kind)
    }

    fn next_change(&self, kind: &KindKey, version: u64) -> Option<Change> {
        self.0.store.lock().next_change(kind, version).cloned()
    }

    /// Delivers a request to the server and its response to the client, with the interposer's outcome.
    async fn carry(
        self,
        user: Arc<str>,
        interposer: Arc<dyn Interposer>,
        request: HttpRequest<Body>,
    ) -> Result<HttpResponse, BoxError> {
        let _in_flight = Disturbance::new(&self.0.in_flight);
        let (parts, body) = request.into_parts();
        let body = body.collect_bytes().await?.to_vec();
        let mut request = Request::read(&user, &parts, body, self.0.clock.now());
        let index = self.note(&mut request.info);
        let reset = || Err(io::Error::from(io::ErrorKind::ConnectionReset).into());
        let outcome = interposer.request(&request.info);
        let late = match outcome {
            RequestOutcome::Served | RequestOutcome::ResponseLost | RequestOutcome::ResponseLate(_) => {
                Duration::ZERO
            }
            RequestOutcome::Late(late) => late,
            RequestOutcome::Lost => {
                let _disturbance = self.disturb();
                sleep(IDLE_TIMEOUT).await;
                return Err(io::Error::from(io::ErrorKind::TimedOut).into());
            }
            RequestOutcome::Reset => return reset(),
            RequestOutcome::Refused { code, retry_after } => {
                sleep(LATENCY).await;
                let status_error = StatusError::injected(code, retry_after);
                let mut response = unary(code, &status_error.status())?;
                if let Some(seconds) = retry_after {
                    response.headers_mut().insert(http::header::RETRY_AFTER, seconds.into());
                }
                return Ok(response);
            }
        };
        let server = self.clone();
        // A separate task, so that the request is processed even if the client no longer waits.
        let serving = tokio::spawn(async move {
            let _disturbance = server.disturb();
            sleep(LATENCY + late).await;
            server.serve(request, interposer, index)
        });
        let response = serving.await?;
        match outcome {
            RequestOutcome::ResponseLost => reset(),
            RequestOutcome::ResponseLate(late) => {
                sleep(late).await;
                response
            }
            _ => response,
        }
    }

    /// Records a request and its ordinal. Returns the index of the recorded request.
    fn note(&self, info: &mut RequestInfo) -> usize {
        let mut ordinals = self.0.ordinals.lock();
        let ordinal = ordinals.entry(format!("{} {info}", info.user)).or_default();
        *ordinal += 1;
        info.ordinal = *ordinal;
        let mut all = self.0.info.lock();
        all.push(info.clone());
        all.len() - 1
    }

    fn serve(
        &self,
        request: Request,
        interposer: Arc<dyn Interposer>,
        index: usize,
    ) -> Result<HttpResponse, BoxError> {
        let mut store = self.0.store.lock();
        let before = store.version;
        let response = self.response(&mut store, request, interposer);
        let after = store.version;
        drop(store);
        if after != before {
            self.0.changed.send_replace(after);
        }
        let response = match response {
            Ok(response) => response,
            Err(status_error) => unary(status_error.code, &status_error.status())?,
        };
        self.0.info.lock()[index].code = response.status().as_u16();
        Ok(response)
    }

    fn response(
        &self,
        store: &mut Store,
        request: Request,
        interposer: Arc<dyn Interposer>,
    ) -> Result<HttpResponse, StatusError> {
        let unreadable = |error: BoxError| StatusError::bad_request(&error.to_string());
        let info = &request.info;
        if info.resource.is_empty() {
            return unary(200, &read::discovery(store, &request.path, request.aggregated)?)
                .map_err(unreadable);
        }
        let kind = store.kinds.get(&(info.group.clone(), info.resource.clone())).cloned();
        let kind = kind.filter(|kind| {
            kind.versions.contains(&info.version)
                && (info.subresource.is_empty() || (info.subresource == "status" && kind.status))
        });
        let kind = kind.ok_or_else(StatusError::unknown_path)?;
        if kind.kind == "SelfSubjectAccessReview" {
            return unary(201, &read::review(store, &request.body)?).map_err(unreadable);
        }
        if kind.kind == "SelfSubjectReview" {
            return unary(201, &read::self_subject_review(&info.user)).map_err(unreadable);
        }
        let (code, object) = match info.verb {
            "watch" => {
                let watch_stream = WatchStream::new(self, store, kind, request, interposer)?;
                let body = StreamBody::new(watch_stream.stream()).boxed_unsync();
                return Ok(Response::new(body));
            }
            "get" => (200, read::get(store, &kind, &request)?),
            "list" => (200, read::list(store, &kind, &request)?),
            "create" => self.write(store, kind.clone(), &request).create()?,
            "update" => self.write(store, kind.clone(), &request).update()?,
            "patch" => self.write(store, kind.clone(), &request).patch()?,
            "delete" if !info.name.is_empty() => self.write(store, kind.clone(), &request).delete()?,
            _ => return Err(StatusError::not_allowed()),
        };
        let is_write = !matches!(info.verb, "get" | "list");
        let object = if is_write { read::shown(&kind, &request, &object) } else { object };
        unary(code, &object).map_err(unreadable)
    }

    fn write<'r>(&self, store: &'r mut Store, kind: Arc<Kind>, request: &'r Request) -> ObjectWrite<'r> {
        ObjectWrite { store, kind, request, now: seconds(self.0.clock) }
    }
}

/// The current time in whole seconds, as in objects.
fn seconds(clock: Clock) -> String {
    use k8s_openapi::jiff::Timestamp;
    Timestamp::from_second(clock.now().0 / 1000).unwrap_or(Timestamp::MAX).to_string()
}

fn unary(code: u16, body: &Value) -> Result<HttpResponse, BoxError> {
    let body = Full::new(Bytes::from(body.to_string())).map_err(|never| match never {}).boxed_unsync();
    Ok(Response::builder().status(code).header(http::header::CONTENT_TYPE, "application/json").body(body)?)
}
