//! Tests requests to a server that never responds: whether they are sent, and when they end.

use std::sync::atomic::{AtomicUsize, Ordering};

use kube::api::{GetParams, PostParams};
use kube::client::Body;

use super::*;

const KIND: (&str, &str, &str) = ("work.open-cluster-management.io", "v1", "manifestworks");

struct SilentServer {
    requests: Requests,
    sent: Arc<AtomicUsize>,
}

impl SilentServer {
    fn new(leadership: Leadership) -> Self {
        let sent = Arc::new(AtomicUsize::new(0));
        let counted = sent.clone();
        let serve = move |_: Request<Body>| {
            counted.fetch_add(1, Ordering::Relaxed);
            std::future::pending::<Result<http::Response<Body>, std::io::Error>>()
        };
        let client = Client::new(tower::service_fn(serve), "default");
        Self { requests: Requests::new(client, leadership), sent }
    }

    /// The error category of a request, its duration in seconds, and whether it was sent.
    async fn ends(&self, request: Result<Request<Vec<u8>>, request::Error>) -> (&'static str, u64, bool) {
        let start = Instant::now();
        let error = self.requests.write(request).await.unwrap_err();
        (error.category(), start.elapsed().as_secs(), self.sent.load(Ordering::Relaxed) > 0)
    }
}

fn kind() -> request::Request {
    of_kind(&GroupVersionResource::new(KIND.0, KIND.1, KIND.2), "eu-1")
}

fn create() -> Result<Request<Vec<u8>>, request::Error> {
    kind().create(&PostParams::default(), Vec::new())
}

#[tokio::test(start_paused = true)]
async fn follower_sends_no_write() {
    let silent = SilentServer::new(Leadership::lasting(Instant::now()));
    assert_eq!(silent.ends(create()).await, ("not_leader", 0, false));
}

#[tokio::test(start_paused = true)]
async fn follower_may_read() {
    let silent = SilentServer::new(Leadership::lasting(Instant::now()));
    assert_eq!(silent.ends(kind().get("limits", &GetParams::default())).await, ("timeout", 30, true));
}

/// Until there is a response, the client may still send the write. So the write must be cancelled.
#[tokio::test(start_paused = true)]
async fn write_is_cancelled_when_the_term_ends() {
    let silent = SilentServer::new(Leadership::lasting(Instant::now() + Duration::from_secs(10)));
    assert_eq!(silent.ends(create()).await, ("not_leader", 10, true));
}

#[tokio::test(start_paused = true)]
async fn write_without_response_times_out() {
    let silent = SilentServer::new(Leadership::always());
    assert_eq!(silent.ends(create()).await, ("timeout", 30, true));
}

/// Leadership is checked after the wait for a slot.
#[tokio::test(start_paused = true)]
async fn write_that_waited_past_the_term_is_not_sent() {
    let silent = SilentServer::new(Leadership::lasting(Instant::now() + Duration::from_secs(10)));
    let slots = silent.requests.slots.clone().acquire_many_owned(64).await.unwrap();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(11)).await;
        drop(slots);
    });
    assert_eq!(silent.ends(create()).await, ("not_leader", 11, false));
}

/// Queries the time of a server that sends this `Date`.
async fn time_of(date: Option<&'static str>) -> Option<Moment> {
    let serve = move |request: Request<Body>| async move {
        assert_eq!(request.uri().path(), "/version");
        let response = http::Response::builder().status(403);
        let response = date.into_iter().fold(response, |response, date| response.header("date", date));
        response.body(Body::empty()).map_err(std::io::Error::other)
    };
    let client = Client::new(tower::service_fn(serve), "default");
    Requests::new(client, Leadership::never()).server_time().await.unwrap()
}

#[tokio::test]
async fn server_time_is_read_from_the_date_header() {
    assert_eq!(time_of(Some("Sun, 06 Nov 1994 08:49:37 GMT")).await, Some(Moment(784_111_777_000)));
    assert_eq!(time_of(Some("yesterday")).await, None);
    assert_eq!(time_of(None).await, None);
}
