//! Tests that all pages escape the texts of tenants and clusters, and do not report unread objects as absent.

use std::collections::{BTreeMap, BTreeSet};

use maud::Markup;
use serde_json::{Value, json};

use super::*;
use policy_sync_api::annotations::{
    POLICIES_SYNCED, POLICIES_SYNCED_DETAIL, POLICIES_SYNCED_SUMMARY, POLICY_SYNC_MESSAGE,
};
use policy_sync_api::names::{ClusterName, ObjectKey, Origin};
use policy_sync_api::object::HubObject;
use policy_sync_report::testing::{SUMMARY, report};
use policy_sync_report::{CopyReport, ObjectExplanation, PolicyReport, VerdictGroup};
use policy_sync_sync::explain::{ClusterVerdict, CopyState, DecisionStep, Reason};
use policy_sync_topology::show::picture::Picture;
use policy_sync_topology::show::{
    self, EffectiveReport, NodeLabel, PathsEffect, PolicyEffect, Replacement, TopologyReport, faults,
};
use policy_sync_topology::{Graph, Objects};

const EVIL: &str = "<script>alert(1)</script>\"'&\u{202e}\u{7f}";

fn assert_escaped(page: Markup) -> String {
    let text = page.into_string();
    assert!(!text.contains("<script>alert") && !text.contains("\"'"), "{text}");
    assert!(!text.contains('\u{202e}') && !text.contains('\u{7f}'), "{text}");
    text
}

fn notices() -> Notices {
    let evil = || vec![EVIL.to_owned()];
    Notices { watch_errors: evil(), unread: evil(), faults: evil(), is_read_once: false }
}

fn evil_policy() -> PolicyReport {
    let entries = json!([{
        "cluster": EVIL, "name": EVIL, "namespace": EVIL, "applied": false, "message": EVIL,
        "conditions": [{"type": EVIL, "status": EVIL, "reason": EVIL, "message": EVIL}],
    }]);
    let entries = entries.to_string();
    let mut report = report(&[
        (POLICIES_SYNCED, &*entries),
        (POLICIES_SYNCED_SUMMARY, SUMMARY),
        (POLICY_SYNC_MESSAGE, EVIL),
    ]);
    report.kind = EVIL.to_owned();
    report.origin = Origin::named(EVIL, EVIL, EVIL, EVIL);
    report.faults.push(EVIL.to_owned());
    report
}

#[test]
fn policy_page_escapes_all_texts() {
    let named = BTreeSet::from([NodeLabel { id: EVIL.to_owned(), words: EVIL.to_owned() }]);
    let replacement = Replacement { keys: BTreeSet::from([EVIL.to_owned()]), policies: named.clone() };
    let report_on_hub = show::PolicyReport {
        has_effect: Some(false),
        assumed: true,
        no_effect: Some(("Conflicted", EVIL.to_owned())),
        effects: vec![PathsEffect {
            effect: PolicyEffect::Partial(replacement),
            paths: 2,
            at: named.clone(),
        }],
        unknown: vec![EVIL.to_owned()],
    };
    let on_hub = Some(PolicyOnHub { targets: named.into_iter().collect(), report: report_on_hub });
    let (hub, report) = (EVIL.to_owned(), evil_policy());
    let reason = Reason { code: "Evil", text: EVIL.to_owned(), when: None, change: vec![EVIL.to_owned()] };
    let explanation = ObjectExplanation {
        origin: report.origin.clone(),
        kind: EVIL.to_owned(),
        steps: vec![DecisionStep { reason: reason.clone(), passes: true }],
        groups: vec![VerdictGroup {
            verdict: ClusterVerdict {
                state: CopyState::Missing,
                policy_state: None,
                reported: None,
                reasons: vec![reason],
            },
            clusters: vec![ClusterName::from(EVIL)],
        }],
        is_one_cluster: true,
        on_hub: None,
    };
    let mut shown =
        PolicyPage { hub, notices: notices(), report, on_hub, is_explained: true, why: None, skip: 0 };
    for result in [Ok(explanation), Err(EVIL.to_owned())] {
        shown.why = Some(ClusterExplanation { cluster: EVIL.to_owned(), result });
        let text = assert_escaped(policy(&shown));
        assert!(text.contains("&lt;script&gt;"), "{text}");
    }
}

#[test]
fn policy_page_notes_what_its_list_omits() {
    let page = |annotations: &[(&str, &str)], skip| {
        let report = report(annotations);
        let (hub, notices) = (String::new(), Notices::default());
        let (is_explained, why) = (false, None);
        policy(&PolicyPage { hub, notices, report, on_hub: None, is_explained, why, skip }).into_string()
    };
    assert!(page(&[], 0).contains("Not yet reported by the controller"));
    let entries: Vec<Value> = (0..600)
        .map(|n| json!({"cluster": format!("c-{n:03}"), "name": "limits", "namespace": "shop", "applied": n != 7}))
        .collect();
    let (entries, keys) = (json!(entries).to_string(), [(POLICIES_SYNCED_DETAIL, "keys")]);
    let first = page(&[(POLICIES_SYNCED, &*entries), (POLICIES_SYNCED_SUMMARY, SUMMARY)], 0);
    assert!(first.contains("1 to 500 of 600"), "{first}");
    assert!(first.contains("?cluster=500") && first.find("c-007") < first.find("c-000"), "the worst first");
    let cut =
        page(&[&[(POLICIES_SYNCED, &*entries), (POLICIES_SYNCED_SUMMARY, SUMMARY)], &keys[..]].concat(), 500);
    assert!(cut.contains("501 to 600 of 600") && cut.contains("only cluster names are"), "{cut}");
}

#[test]
fn cluster_page_escapes_all_texts() {
    let mut copy = CopyReport::default();
    (copy.origin, copy.kind) = (Some(Origin::named(EVIL, EVIL, EVIL, EVIL)), EVIL.to_owned());
    let shown = ClusterPage {
        hub: EVIL.to_owned(),
        notices: notices(),
        cluster: ClusterName::from(EVIL),
        unavailable_since: None,
        copies: Some(vec![copy]),
        skip: 0,
    };
    assert_escaped(cluster(&shown));
    let all = Notices { unread: Vec::new(), ..shown.notices.clone() };
    let none = ClusterPage { copies: Some(Vec::new()), ..shown.clone() };
    let nothing = cluster(&ClusterPage { notices: all, ..none.clone() }).into_string();
    assert!(nothing.contains("This cluster has no synced objects, and none are planned."));
    let partial = cluster(&none).into_string();
    assert!(
        partial.contains("It is unknown whether any are planned")
            && !partial.contains("and none are planned")
    );
    // The user may not read the objects, so they may exist.
    let unread = cluster(&ClusterPage { copies: None, ..shown }).into_string();
    assert!(!unread.contains("This cluster has no synced objects") && !unread.contains("<table"));
}

#[test]
fn unavailable_cluster_shows_no_good_state() {
    let applied = r#"{"cluster":"eu-1","name":"web","namespace":"kuadrant-shop","applied":true,
        "conditions":[{"type":"Programmed","status":"True"}]}"#;
    let page = |unavailable| {
        let mut copy = CopyReport::default();
        let (origin, work) = (Origin::Gateway(ObjectKey::new("shop", "web")), serde_json::from_str(applied));
        (copy.origin, copy.work, copy.unavailable) = (Some(origin), Some(work.unwrap()), unavailable);
        let page = ClusterPage {
            hub: String::new(),
            notices: notices(),
            cluster: ClusterName::from("eu-1"),
            unavailable_since: None,
            copies: Some(vec![copy]),
            skip: 0,
        };
        cluster(&page).into_string()
    };
    let (available, silent) = (page(false), page(true));
    assert!(available.contains("state good") && available.contains("Programmed"), "{available}");
    assert!(silent.contains("Unreachable") && !silent.contains("state good"), "{silent}");
}

/// A Gateway with a route and a policy that contain `text` in all fields.
fn objects(text: &str) -> Objects {
    let mut objects = Objects::default();
    let all = [
        json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": text, "namespace": text},
            "spec": {"gatewayClassName": text, "listeners": [{"name": text, "port": 80, "protocol": "HTTP"}]}}),
        json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": {"name": text, "namespace": text},
            "spec": {"parentRefs": [{"name": text}], "rules": [{"name": text}]}}),
        json!({"apiVersion": "kuadrant.io/v1", "kind": "RateLimitPolicy", "metadata": {"name": text, "namespace": text},
            "spec": {"targetRef": {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": text},
                "limits": {(text): {"rates": [{"limit": 1, "window": text}]}}}}),
    ];
    for object in all {
        let object: HubObject = serde_json::from_value(object).unwrap();
        let _ = objects.take(&object);
    }
    objects
}

#[test]
fn conditions_of_listeners_and_assumed_merges_are_shown() {
    let mut objects = Objects::default();
    let all = [
        json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"gatewayClassName": "istio", "listeners": [{"name": "lower", "port": 80, "protocol": "http"},
                {"name": "odd", "port": 81, "protocol": "HTTP", "allowedRoutes": {"kinds": [{"kind": "FooRoute"}]}}]}}),
        json!({"apiVersion": "example.com/v1", "kind": "OtherPolicy", "metadata": {"name": "other", "namespace": "shop"},
            "spec": {"targetRef": {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "web"}, "a": 1}}),
    ];
    for object in all {
        let object: HubObject = serde_json::from_value(object).unwrap();
        objects.take(&object).unwrap();
    }
    let graph_input = objects.graph_input();
    let graph = Graph::build(&graph_input);
    let report = TopologyReport::new(&graph, policy_sync_topology::show::Scope::default(), Vec::new());
    let shown = GatewayPage {
        hub: "files".to_owned(),
        notices: Notices::default(),
        key: ObjectKey::new("shop", "web"),
        routes: String::new(),
        picture: Picture::new(&report),
        verdict: report.verdict(),
    };
    let page = assert_escaped(gateway(&shown));
    assert!(page.contains("lower: http 80 *: UnsupportedProtocol: unsupported protocol"), "{page}");
    assert!(
        page.contains("odd: HTTP 81 *: InvalidRouteKinds: Gateway API has no route kind FooRoute"),
        "{page}"
    );
    let verdict = show::TopologyStatus::Unknown { cause: "labels" };
    let page = assert_escaped(gateway(&GatewayPage { verdict, ..shown }));
    assert!(
        page.contains(
            "It is unknown whether everything is attached, and every policy has an effect: labels."
        ),
        "{page}"
    );
    assert!(!page.contains("Everything is attached"), "{page}");
    let report = EffectiveReport::new(&graph, &Default::default(), None, Vec::new());
    let shown = EffectivePage {
        hub: "files".to_owned(),
        notices: Notices::default(),
        query: EffectiveQuery::read("gateway=web"),
        clusters: Vec::new(),
        gateways: Vec::new(),
        result: Some(Ok(EffectiveResult::Hub(report))),
    };
    let page = assert_escaped(effective(&shown));
    assert!(page.contains("OtherPolicy.example.com (assumed)"), "{page}");
}

#[test]
fn gateway_and_effective_pages_escape_all_texts() {
    for text in ["plain", EVIL] {
        let objects = objects(text);
        let graph_input = objects.graph_input();
        let graph = Graph::build(&graph_input);
        let found = faults(&graph, &|_| None);
        let report = TopologyReport::new(&graph, policy_sync_topology::show::Scope::default(), found);
        let shown = GatewayPage {
            hub: text.to_owned(),
            notices: Notices { unread: vec![text.to_owned()], ..Notices::default() },
            key: ObjectKey::new(text, text),
            routes: text.to_owned(),
            picture: Picture::new(&report),
            verdict: report.verdict(),
        };
        let page = assert_escaped(gateway(&shown));
        assert!(page.contains("<svg") && page.contains("As a list"), "{page}");
        let query = form_urlencoded::Serializer::new(String::new())
            .extend_pairs(
                ["cluster", "namespace", "gateway", "host", "path", "method", "port"].map(|key| (key, text)),
            )
            .finish();
        let effective_report = EffectiveReport::new(&graph, &Default::default(), None, vec![text.to_owned()]);
        let shown = EffectivePage {
            hub: text.to_owned(),
            notices: Notices::default(),
            query: EffectiveQuery::read(&query),
            clusters: vec![text.to_owned()],
            gateways: Vec::new(),
            result: Some(Ok(EffectiveResult::Hub(effective_report))),
        };
        let page = assert_escaped(effective(&shown));
        assert!(text == EVIL || page.contains("limits#plain"), "{page}");
    }
}

#[test]
fn invalid_request_names_the_field() {
    let fault = |query: &str| EffectiveQuery::read(query).request().unwrap_err();
    assert!(fault("host=a%20b").starts_with("Host: "));
    assert!(fault("path=cart").starts_with("Path: "));
    assert!(fault("method=G+T").starts_with("Method: "));
    assert!(["0", "65536", "x"].iter().all(|port| fault(&format!("port={port}")).starts_with("Port: ")));
    let request = EffectiveQuery::read("host=shop.example.com&port=8080").request().unwrap().unwrap();
    assert_eq!(
        (request.host.as_deref(), request.port, &*request.path),
        (Some("shop.example.com"), Some(8080), "/")
    );
    assert_eq!(EffectiveQuery::read("cluster=*").request(), Ok(None));
    let is_restricted: BTreeMap<&str, bool> = ["", "cluster=eu-1", "host=a.io", "gateway=web"]
        .map(|query| (query, EffectiveQuery::read(query).is_restricted()))
        .into();
    assert_eq!(
        is_restricted,
        BTreeMap::from([("", false), ("cluster=eu-1", false), ("host=a.io", true), ("gateway=web", true)])
    );
}

#[test]
fn script_stays_below_3_kib() {
    assert!(SCRIPT.len() < 3 << 10, "{} bytes", SCRIPT.len());
}
