use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::join_all;
use http::{Request, Response};
use kube::client::Body;
use serde_json::{Value, json};
use tower::service_fn;

use super::*;

/// The latency of the API server.
const TAKES: Duration = Duration::from_millis(20);

/// An API server that authenticates tokens beginning with `valid` or `nobody`, and authorizes only tokens beginning
/// with `valid`.
#[derive(Clone, Default)]
struct ApiServer {
    reviews: Arc<AtomicUsize>,
    in_flight: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

impl ApiServer {
    fn readers(&self) -> Readers {
        let server = self.clone();
        let serve = service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move { Ok::<_, Infallible>(server.answer(request).await) }
        });
        Readers::new(Client::new(serve, "default"))
    }

    async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let is_token = request.uri().path().ends_with("tokenreviews");
        let body = request.into_body().collect_bytes().await.unwrap();
        let mut review: Value = serde_json::from_slice(&body).unwrap();
        if is_token {
            self.reviews.fetch_add(1, Ordering::Relaxed);
            let token = review["spec"]["token"].as_str().unwrap().to_owned();
            let is_known = token.starts_with("valid") || token.starts_with("nobody");
            review["status"] = json!({"authenticated": is_known, "user": {"username": token}});
        } else {
            let is_valid = review["spec"]["user"].as_str().unwrap().starts_with("valid");
            review["status"] = json!({"allowed": is_valid});
        }
        self.most.fetch_max(1 + self.in_flight.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        tokio::time::sleep(TAKES).await;
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
        Response::new(Body::from(review.to_string().into_bytes()))
    }

    fn reviews(&self) -> usize {
        self.reviews.load(Ordering::Relaxed)
    }
}

fn address(last: u8) -> Option<IpAddr> {
    Some(Ipv4Addr::new(10, 0, 0, last).into())
}

/// The verdicts about 25 readers at the address `from`, while 500 callers at 10.0.0.1 send invalid tokens without a
/// pause.
async fn readers_beside_bogus_tokens(readers: &Readers, from: Option<IpAddr>) -> Vec<Result<(), Rejection>> {
    let bogus = (0..500).map(|number| {
        let readers = readers.clone();
        tokio::spawn(async move {
            for again in 0.. {
                let _ = readers.admit(&format!("bogus-{number}-{again}"), address(1)).await;
                // Avoids a busy loop, because a rejection may take no time.
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
    });
    let bogus: Vec<_> = bogus.collect();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let tokens: Vec<String> = (0..25).map(|number| format!("valid-{number}")).collect();
    let verdicts = join_all(tokens.iter().map(|token| readers.admit(token, from))).await;
    bogus.iter().for_each(tokio::task::JoinHandle::abort);
    // Wait until all callers have left the queue.
    join_all(bogus).await;
    verdicts
}

fn are_admitted(verdicts: &[Result<(), Rejection>]) -> bool {
    verdicts.iter().all(Result::is_ok)
}

#[tokio::test(start_paused = true)]
async fn new_readers_are_admitted_despite_bogus_tokens_of_another_address() {
    let server = ApiServer::default();
    assert!(are_admitted(&readers_beside_bogus_tokens(&server.readers(), address(2)).await));
    assert!(server.most.load(Ordering::Relaxed) <= MAX_UNKNOWN_CALLERS);
}

#[tokio::test(start_paused = true)]
async fn known_readers_are_admitted_despite_bogus_tokens_of_their_own_address() {
    let server = ApiServer::default();
    let readers = server.readers();
    for number in 0..25 {
        readers.admit(&format!("valid-{number}"), address(1)).await.unwrap();
    }
    // The verdicts about the readers have expired.
    tokio::time::sleep(2 * ACCEPTED_FOR).await;
    assert!(are_admitted(&readers_beside_bogus_tokens(&readers, address(1)).await));
    assert!(server.most.load(Ordering::Relaxed) <= MAX_UNKNOWN_CALLERS + MAX_READERS);
}

/// Only the API server can distinguish a new token from an invalid token. So both kinds of tokens share the slots of
/// their address.
#[tokio::test(start_paused = true)]
async fn new_readers_get_429_while_bogus_tokens_come_from_their_address() {
    let readers = ApiServer::default().readers();
    let began = Instant::now();
    let verdicts = readers_beside_bogus_tokens(&readers, address(1)).await;
    assert!(began.elapsed() <= TIMEOUT + Duration::from_secs(1), "{:?}", began.elapsed());
    let refused: Vec<&Rejection> = verdicts.iter().filter_map(|verdict| verdict.as_ref().err()).collect();
    assert!(!refused.is_empty());
    assert!(refused.iter().all(|(code, _)| *code == StatusCode::TOO_MANY_REQUESTS), "{refused:?}");
    // A rejection for lack of a slot is not remembered.
    for number in 0..25 {
        readers.admit(&format!("valid-{number}"), address(1)).await.unwrap();
    }
    // The readers' tokens have been accepted, so they are known from now on.
    tokio::time::sleep(2 * ACCEPTED_FOR).await;
    assert!(are_admitted(&readers_beside_bogus_tokens(&readers, address(1)).await));
}

#[tokio::test(start_paused = true)]
async fn tokens_without_the_right_are_strangers_too() {
    let server = ApiServer::default();
    let readers = server.readers();
    let refused = readers.admit("nobody-1", address(1)).await.unwrap_err();
    assert_eq!(refused, (StatusCode::FORBIDDEN, "nobody-1 cannot get path \"/audit\"\n".to_owned()));
    assert!(readers.known.lock().accepted.verdicts.is_empty());
}

#[tokio::test(start_paused = true)]
async fn verdicts_are_reviewed_again_once_they_are_old() {
    let server = ApiServer::default();
    let readers = server.readers();
    for (token, is_valid, fresh) in [("valid", true, ACCEPTED_FOR), ("bogus", false, REJECTED_FOR)] {
        let before = server.reviews();
        for _ in 0..10 {
            assert_eq!(readers.admit(token, address(1)).await.is_ok(), is_valid);
        }
        assert_eq!(server.reviews(), before + 1, "{token}");
        tokio::time::sleep(fresh).await;
        assert_eq!(readers.admit(token, address(1)).await.is_ok(), is_valid);
        assert_eq!(server.reviews(), before + 2, "{token}");
    }
}

#[tokio::test(start_paused = true)]
async fn bogus_tokens_are_remembered_in_bounded_number_and_displace_no_reader() {
    let readers = ApiServer::default().readers();
    readers.admit("valid", address(1)).await.unwrap();
    for number in 0..MAX_REJECTED + 100 {
        readers.admit(&format!("bogus-{number}"), address(1)).await.unwrap_err();
    }
    let known = readers.known.lock();
    assert_eq!((known.rejected.verdicts.len(), known.rejected.order.len()), (MAX_REJECTED, MAX_REJECTED));
    assert_eq!(known.accepted.verdicts.len(), 1);
}
