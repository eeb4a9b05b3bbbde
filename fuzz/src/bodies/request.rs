//! Evaluates requests to a cluster. The input has a request and the objects of the cluster: `{"request": ["host",
//! "/path", "METHOD", "header=value", port], "objects": […]}`. Each responding backend is on a path of the topology
//! with the right port, and repeated requests have the same results.

use policy_sync_topology::show::{EffectiveReport, Scope};
use policy_sync_topology::{BadRequest, Graph, Request};
use serde_json::Value;

use super::topology::{objects, taken};

pub fn body(data: &[u8]) {
    let Ok(json) = serde_json::from_slice::<Value>(data) else { return };
    let request = match request(&json["request"]) {
        Ok(request) => request,
        Err(error) => {
            let text = error.to_string();
            assert!(!text.chars().any(char::is_control), "more than one line: {text:?}");
            return;
        }
    };
    let objects = taken(&objects(json["objects"].as_array().map(Vec::as_slice).unwrap_or_default()));
    let graph_input = objects.graph_input();
    let graph = Graph::build(&graph_input);
    let report_on = |request: Option<Request>| {
        let report = EffectiveReport::new(&graph, &Scope::default(), request, Vec::new());
        serde_json::to_value(report).expect("a report is serializable")
    };
    let report = report_on(Some(request.clone()));
    assert_eq!(report, report_on(Some(request.clone())), "a repeated request has another result");
    let all = report_on(None);
    let answers = report["answers"].as_array().expect("a list");
    let choices = request.choices(&graph).chosen;
    assert!(answers.len() <= choices.len(), "more results than choices");
    for answer in answers {
        let path = &answer["path"];
        let has_same_path = |other: &&Value| other["path"] == *path;
        assert!(
            all["answers"].as_array().expect("a list").iter().any(|other| has_same_path(&other)),
            "{path} does not exist"
        );
    }
    for choice in choices {
        let listener = graph.listener(choice.listener).expect("a listener");
        assert!(request.port.is_none_or(|port| port == listener.port), "a chosen listener has another port");
        assert!(
            graph.links(choice.listener).any(|route| route == choice.route),
            "a chosen route is not attached"
        );
    }
}

fn request(words: &Value) -> Result<Request, BadRequest> {
    let text = |index: usize| words[index].as_str();
    let mut request = Request { path: "/".to_owned(), ..Request::default() };
    if let Some(host) = text(0) {
        request = request.with_host(host)?;
    }
    if let Some(path) = text(1) {
        request = request.with_path(path)?;
    }
    if let Some(method) = text(2) {
        request = request.with_method(method)?;
    }
    if let Some(header) = text(3) {
        request = request.with_header(header)?;
    }
    request.port = request.port.or(words[4].as_u64().and_then(|port| u16::try_from(port).ok()));
    Ok(request)
}
