use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResource;
use kube::ResourceExt;
use kube::client::Body;
use serde_json::{Value, json};

use super::*;

pub(in crate::cli::status) fn kind() -> PolicyKind {
    let served = APIResource { kind: "RateLimitPolicy".into(), ..APIResource::default() };
    PolicyKind::new(GroupVersionResource::new("kuadrant.io", "v1", "ratelimitpolicies"), &served)
}

/// A hub that answers each request by the next of `answers`, and then not at all.
pub(in crate::cli::status) fn scripted(answers: Vec<(u16, Value)>) -> Hub {
    let answers = Arc::new(Mutex::new(VecDeque::from(answers)));
    let serve = move |_: Request<Body>| {
        let answer = answers.lock().unwrap().pop_front();
        async move {
            let Some((code, body)) = answer else { return std::future::pending().await };
            let body = Body::from(body.to_string().into_bytes());
            Response::builder().status(code).body(body).map_err(std::io::Error::other)
        }
    };
    let client = Client::new(tower::service_fn(serve), "default");
    let live = Live { client: client.clone(), url: "https://hub".into() };
    Hub { live, watching: client }
}

pub(in crate::cli::status) fn list(names: &[&str]) -> (u16, Value) {
    let item =
        |name: &&str| json!({"metadata": {"name": name, "namespace": "shop", "resourceVersion": "10"}});
    let items: Vec<Value> = names.iter().map(item).collect();
    let kind = "PartialObjectMetadataList";
    let list = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": "10"}, "items": items});
    (200, list)
}

pub(in crate::cli::status) fn status(code: u16) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code, "message": "no"})
}

fn word(event: watcher::Result<Seen>) -> String {
    match event {
        Ok(watcher::Event::Init) => "init".into(),
        Ok(watcher::Event::InitApply(object)) => object.name_any(),
        Ok(watcher::Event::InitDone) => "listed".into(),
        Ok(event) => format!("{event}"),
        Err(_) => "failed".into(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_forgotten_has_the_kind_listed_anew() {
    let gone_on_watch = json!({"type": "ERROR", "object": status(410)});
    for gone in [(200, gone_on_watch), (410, status(410)), (500, status(500))] {
        let hub = scripted(vec![list(&["api", "web"]), gone, list(&["web"])]);
        let watched = [Watched::Policies(kind())];
        let events = hub.events(&watched, Selection { namespace: Some("shop"), name: None });
        let words = events.take(8).map(|(_, event)| word(event)).collect::<Vec<String>>();
        let words = tokio::time::timeout(Duration::from_secs(600), words).await.unwrap();
        assert_eq!(words, ["init", "api", "web", "listed", "failed", "init", "web", "listed"]);
    }
}
