use std::collections::BTreeSet;
use std::convert::Infallible;
use std::time::Duration;

use http::{Request, Response};
use kube::client::Body;
use tokio::time::sleep;

use super::*;

/// A hub that needs 5 ms for each Event, and the Events that it received.
fn hub() -> (Client, Arc<Mutex<Vec<serde_json::Value>>>) {
    let taken: Arc<Mutex<Vec<serde_json::Value>>> = Arc::default();
    let noted = taken.clone();
    let serve = move |request: Request<Body>| {
        let noted = noted.clone();
        async move {
            let body = request.into_body().collect_bytes().await.unwrap();
            sleep(Duration::from_millis(5)).await;
            noted.lock().push(serde_json::from_slice(&body).unwrap());
            Ok::<_, Infallible>(Response::new(Body::from(body)))
        }
    };
    (Client::new(tower::service_fn(serve), "default"), taken)
}

#[tokio::test(start_paused = true)]
async fn denials_of_one_namespace_drop_no_event_of_another() {
    let (client, taken) = hub();
    let metrics = Metrics::new().unwrap();
    let events = Events::start(client, &Tasks::new(metrics.clone()), metrics.clone(), "Admit");
    // For ten seconds, 400 denials a second in one namespace, and only 12 denials in total in another, each about a
    // different object.
    let deny = |name: &str, number: u32| {
        let related = ObjectReference { name: Some(format!("web-{number}")), ..ObjectReference::default() };
        let about = (namespace_reference(name), Some(related));
        events.warn_rate_limited(
            Tenant::namespace(name),
            about,
            "AdmissionDenied",
            &format!("denied {number}"),
        );
    };
    for number in 0..4_000 {
        deny("hostile", number);
        if number % 333 == 0 && number > 0 {
            deny("shop", number);
        }
        sleep(Duration::from_micros(2_500)).await;
    }
    sleep(Duration::from_secs(1)).await;
    let of = |name: &str| -> BTreeSet<String> {
        let taken = taken.lock();
        let of_it = taken.iter().filter(|event| event["regarding"]["name"] == name);
        of_it.map(|event| event["note"].as_str().unwrap().to_owned()).collect()
    };
    let (shop, hostile) = (of("shop").len(), of("hostile").len());
    assert_eq!(shop, 12, "{hostile} of the other namespace");
    assert!((32..40).contains(&hostile), "{hostile}");
    let metric = format!("policy_sync_events_dropped_total {}", 4_000 - hostile);
    assert!(metrics.gather(|| {}).contains(&metric), "{hostile}");
}

#[tokio::test(start_paused = true)]
async fn events_of_one_namespace_do_not_delay_those_of_another() {
    let (client, taken) = hub();
    let metrics = Metrics::new().unwrap();
    let events = Events::start(client, &Tasks::new(metrics.clone()), metrics, "Sync");
    for number in 0..1_000 {
        events.warn(namespace_reference("many"), "Stuck", format!("{number}"));
    }
    events.warn(namespace_reference("shop"), "Stuck", "one".to_owned());
    sleep(Duration::from_secs(1)).await;
    let taken = taken.lock();
    let place = taken.iter().position(|event| event["regarding"]["name"] == "shop");
    assert!(place.is_some_and(|place| place <= 2), "{place:?} of {}", taken.len());
}

#[tokio::test(start_paused = true)]
async fn long_names_are_cut_and_queued_events_are_sent_before_the_task_ends() {
    let (client, taken) = hub();
    let metrics = Metrics::new().unwrap();
    let events = Events::start(client, &Tasks::new(metrics.clone()), metrics, "Admit");
    let mut object = namespace_reference("shop");
    object.name = Some("x".repeat(1 << 20));
    events.warn(object, "AdmissionDenied", "denied".to_owned());
    drop(events);
    sleep(Duration::from_secs(1)).await;
    let taken = taken.lock();
    let name = taken[0]["regarding"]["name"].as_str().unwrap();
    assert_eq!((taken.len(), name.len()), (1, NAME_LIMIT));
}
