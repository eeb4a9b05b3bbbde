//! The picture of a graph: it is well-formed with any names, its size is bounded, and its text fits into the
//! boxes.

use std::collections::BTreeMap;

use policy_sync_topology::Graph;
use policy_sync_topology::show::picture::{Column, Picture, Row, Tile};
use policy_sync_topology::show::{NodeLabel, Scope, TopologyReport, faults, svg};
use proptest::prelude::*;
use roxmltree::{Document, Node};
use serde_json::{Value, json};

use crate::shorthand::objects;
use crate::worlds::world;

fn picture(world: &[Value]) -> Picture {
    let objects = objects(world);
    let graph_input = objects.graph_input();
    let graph = Graph::build(&graph_input);
    Picture::new(&TopologyReport::new(&graph, Scope::default(), faults(&graph, &|_| None)))
}

fn drawn(world: &[Value]) -> String {
    svg::svg(&picture(world), &|object| Some(format!("/objects/{}", object.id)))
}

fn number(node: Node<'_, '_>, name: &str) -> f64 {
    node.attribute(name).unwrap().parse().unwrap()
}

/// All visible texts, without tooltips.
fn texts(svg: &Document<'_>) -> Vec<String> {
    let texts = svg.descendants().filter(|node| node.has_tag_name("text"));
    texts.filter_map(|node| node.first_child()?.text()).map(str::to_owned).collect()
}

/// Checks that every text ends inside its box: a tile, or the mark that counts policies.
fn all_is_in_its_box(svg: &Document<'_>) {
    for group in svg.descendants().filter(|node| node.has_tag_name("g")) {
        let boxes: Vec<_> = group.descendants().filter(|node| node.has_tag_name("rect")).collect();
        for text in group.descendants().filter(|node| node.has_tag_name("text")) {
            let (x, y) = (number(text, "x"), number(text, "y"));
            let shown = text.first_child().unwrap().text().unwrap();
            let columns: usize = shown.chars().map(|c| if c.is_ascii() { 1 } else { 2 }).sum();
            let end = x + 8.0 * columns as f64;
            let fits = |node: &Node<'_, '_>| {
                let (left, top) = (number(*node, "x"), number(*node, "y"));
                let (right, bottom) = (left + number(*node, "width"), top + number(*node, "height"));
                left <= x && end <= right && top < y && y <= bottom
            };
            assert!(boxes.iter().any(fits), "{shown:?} exceeds its box");
            assert!(shown.is_ascii() || text.has_attribute("textLength"), "{shown:?} has no fixed width");
        }
    }
}

#[test]
fn gateway_is_shown_with_listeners_routes_and_backends() {
    let world = [
        json!({"GatewayClass": "istio"}),
        json!({"Gateway": "web", "listeners": [{"hostname": "*.example.com"}, {"name": "b", "port": 81}]}),
        json!({"Service": "api", "ports": [{"port": 80}]}),
        json!({"HTTPRoute": "orders", "parents": ["web#http"], "hostnames": ["a.example.com"],
            "rules": [{"name": "read", "backends": ["api:80"]}]}),
        json!({"HTTPRoute": "nowhere", "parents": ["web#none"]}),
        json!({"RateLimitPolicy": "top", "target": "Gateway/web", "limits": {"x": {}}}),
        json!({"AuthPolicy": "one", "target": "HTTPRoute/orders#read", "rules": {}}),
        json!({"AuthPolicy": "two", "target": "HTTPRoute/orders#read", "rules": {}}),
        json!({"AuthPolicy": "lost", "target": "HTTPRoute/gone", "rules": {}}),
    ];
    let svg = drawn(&world);
    let svg = Document::parse(&svg).unwrap();
    let texts = texts(&svg);
    let shown = [
        "GatewayClasses",
        "GatewayClass istio",
        "Gateways",
        "Gateway shop/web",
        "1 policy",
        "http: HTTP 80 *.example.com",
        "b: HTTP 81 *",
        "Routes",
        "HTTPRoute shop/orders",
        "rule read",
        "2 policies",
        "! HTTPRoute shop/nowhere",
        "! NoMatchingParent: Gateway shop/…",
        "Backends",
        "Service shop/api",
        "port 80",
        "Policies without effect",
        "! AuthPolicy shop/lost",
        "! TargetNotFound: HTTPRoute shop/…",
    ];
    for text in shown {
        assert!(texts.iter().any(|found| found == text), "{text:?} is missing in {texts:#?}");
    }
    all_is_in_its_box(&svg);
    let pages: Vec<_> = svg.descendants().filter_map(|node| node.attribute("href")).collect();
    assert!(pages.contains(&"/objects/httproute.gateway.networking.k8s.io:shop/orders"), "{pages:?}");
    assert!(pages.contains(&"/objects/ratelimitpolicy.kuadrant.io:shop/top"), "{pages:?}");
    let titles: Vec<_> = svg.descendants().filter(|node| node.has_tag_name("title")).collect();
    let is_whole = |node: &&Node<'_, '_>| node.text() == Some("AuthPolicy shop/one, AuthPolicy shop/two");
    assert!(titles.iter().any(|node| is_whole(&node)), "no title lists both policies");
    // The lines go from class to Gateway, from listener to route, and from rule to port.
    let lines = svg.descendants().filter(|node| node.attribute("d").is_some_and(|d| d.contains('C')));
    assert_eq!(lines.count(), 3);
}

#[test]
fn objects_with_faults_are_shown_first_and_omitted_ones_are_counted() {
    let mut world = vec![json!({"Gateway": "web", "listeners": [{}]})];
    world.extend((0..130).map(|number| json!({"HTTPRoute": format!("r-{number:03}"), "parents": ["web"]})));
    world.push(json!({"HTTPRoute": "z-nowhere", "parents": ["web#none"]}));
    let picture = picture(&world);
    let columns: BTreeMap<Column, _> = picture.columns.into_iter().collect();
    let routes = &columns[&Column::Routes];
    assert_eq!(routes.len(), 101);
    let named = |words: &str| {
        routes.iter().position(|tile| tile.object.as_ref().is_some_and(|object| object.words == words))
    };
    assert_eq!(named("HTTPRoute shop/z-nowhere"), Some(99), "the unattached route is the last one shown");
    assert_eq!(named("HTTPRoute shop/r-099"), None);
    assert_eq!(routes[100].rows[0].text, "31 more routes");
}

#[test]
fn search_selects_among_many_routes() {
    let mut world = vec![json!({"Gateway": "web", "listeners": [{}]})];
    world.extend((0..200).map(|number| {
        json!({"HTTPRoute": format!("r-{number:03}"), "parents": ["web"], "hostnames": [format!("h{number}.example.com")],
            "rules": [{"backends": [format!("api-{number:03}:80")]}]})
    }));
    let objects = objects(&world);
    let graph_input = objects.graph_input();
    let graph = Graph::build(&graph_input);
    let report = TopologyReport::new(&graph, Scope::default(), Vec::new());
    let shown = |text: &str| {
        let picture = Picture::with_routes(&report, text);
        let column = |of: Column| {
            let tiles = picture.columns.iter().find(|(column, _)| *column == of).map(|(_, tiles)| tiles);
            let titles = tiles.into_iter().flatten().map(|tile| tile.rows[0].text.clone());
            titles.collect::<Vec<String>>()
        };
        (column(Column::Routes), column(Column::Backends))
    };
    assert_eq!(shown("shop/r-19").0.len(), 10);
    // A route beyond the first hundred is found by its host. The picture shows the backend of this route, and counts
    // the other backends.
    let (routes, backends) = shown("h150.example");
    assert_eq!(routes, ["HTTPRoute shop/r-150"]);
    assert_eq!(backends, ["Service shop/api-150 (unknown)", "199 more backends"]);
    assert_eq!(shown("nothing").0, Vec::<String>::new());
    assert_eq!(shown("").0.len(), 101);
}

#[test]
fn rejected_routes_and_listeners_are_in_the_picture() {
    let world = [
        json!({"Gateway": "web", "listeners": [{}, {"name": "same"}, {"name": "other", "port": 81}]}),
        json!({"HTTPRoute": "r", "parents": ["web"], "rules": [{"backends": ["api:80"]}]}),
        json!({"HTTPRoute": "elsewhere", "parents": ["web#none"]}),
    ];
    let objects = objects(&world);
    let graph_input = objects.graph_input();
    let graph = Graph::build(&graph_input);
    let scope = Scope { gateway: Some("web".to_owned()), ..Scope::default() };
    let picture = Picture::new(&TopologyReport::new(&graph, scope, Vec::new()));
    let rows = picture.columns.iter().flat_map(|(_, tiles)| tiles).flat_map(|tile| &tile.rows);
    let rows: Vec<&str> = rows.map(|row| &*row.title).collect();
    assert!(rows.contains(&"HTTPRoute shop/elsewhere"), "the rejected route is missing: {rows:#?}");
    assert!(rows.iter().any(|row| row.starts_with("same: HTTP 80 *: HostnameConflict")), "{rows:#?}");
}

#[test]
fn ports_of_unknown_services_are_shown_as_ports() {
    let world = [
        json!({"Gateway": "web", "listeners": [{}]}),
        json!({"HTTPRoute": "r", "parents": ["web"], "rules": [{"backends": ["api:80"]}]}),
    ];
    let svg = drawn(&world);
    let texts = texts(&Document::parse(&svg).unwrap());
    assert!(texts.iter().any(|text| text == "Service shop/api (unknown)"), "{texts:#?}");
    assert!(texts.iter().any(|text| text == "port 80"), "{texts:#?}");
}

#[test]
fn lines_from_many_listeners_are_combined() {
    let listeners: Vec<Value> =
        (0..60).map(|number| json!({"name": format!("l{number}"), "port": 1000 + number})).collect();
    let world = [
        json!({"Gateway": "web", "listeners": listeners}),
        json!({"HTTPRoute": "all", "parents": ["web"]}),
        json!({"HTTPRoute": "one", "parents": ["web#l7"]}),
    ];
    // One of the lines comes from the class.
    assert_eq!(picture(&world).lines.len(), 3);
}

#[test]
fn a_hundred_routes_of_sixteen_rules_take_less_than_200_kib() {
    let rules: Vec<Value> = (0..16).map(|_| json!({"backends": ["api:80"]})).collect();
    let listeners: Vec<Value> =
        (0..64).map(|number| json!({"name": format!("l{number}"), "port": 1000 + number})).collect();
    let mut world = vec![
        json!({"Gateway": "web", "listeners": listeners}),
        json!({"Service": "api", "ports": [{"port": 80}]}),
    ];
    world.extend(
        (0..1000).map(
            |number| json!({"HTTPRoute": format!("route-{number}"), "parents": ["web"], "rules": rules}),
        ),
    );
    let svg = drawn(&world);
    assert!(svg.len() < 200 * 1024, "the picture has {} bytes", svg.len());
}

#[test]
fn text_is_escaped_and_cut_to_its_box() {
    let long = "a".repeat(250);
    let names = [
        "<script>alert(1)</script>",
        "\"'&",
        "\u{202e}gpj.exe",
        "\u{1b}[2J",
        "名前名前名前名前名前名前名前名前",
        &long,
    ];
    for name in names {
        let row = Row { text: name.to_owned(), title: name.to_owned(), policies: Vec::new(), faulty: true };
        let object = Some(NodeLabel { id: name.to_owned(), words: name.to_owned() });
        let tile = Tile { object, rows: vec![row.clone(), row], faults: vec![name.to_owned()] };
        let picture = Picture { columns: vec![(Column::Routes, vec![tile])], ..Picture::default() };
        let svg = svg::svg(&picture, &|object| Some(object.id.clone()));
        let svg = Document::parse(&svg).unwrap_or_else(|error| panic!("{name:?}: {error}\n{svg}"));
        all_is_in_its_box(&svg);
        assert!(svg.descendants().all(|node| !node.has_tag_name("script")));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn picture_of_any_world_is_valid(world in world()) {
        let svg = drawn(&world);
        all_is_in_its_box(&Document::parse(&svg).unwrap());
    }
}
