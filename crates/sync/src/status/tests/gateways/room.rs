//! Tests that items are left out if they are invalid or exceed limits of the API.

use super::*;

/// Any number of clusters with the given number of addresses and listeners each.
fn fleet(clusters: usize, addresses: usize, listeners: usize) -> World {
    let names: Vec<String> = (0..clusters).map(|n| format!("c{n:04}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let specs: Vec<Value> = (0..listeners)
        .map(|n| json!({"name": format!("l{n:02}"), "port": n + 1, "protocol": "HTTP"}))
        .collect();
    let world = shop(&names).with(web().spec("listeners", json!(specs)));
    let mut world = world.settled(&[gateway_origin("web")]);
    for name in names {
        let mut report = programmed("192.0.2.0");
        for n in 0..addresses {
            report = report.string(&format!("_address_{n}"), &format!("192.0.2.{n}"));
        }
        for n in 0..listeners {
            report = report.integer(&format!("_listener_l{n:02}_attachedRoutes"), 1);
        }
        world = world.with_gateway_report(name, &report);
    }
    world
}

#[test]
fn items_beyond_api_limits_are_counted() {
    let world = fleet(5, 16, 16);
    assert_eq!(addresses(&world).len(), 16);
    assert_eq!(addresses(&world)[15], "c0000/192.0.2.15");
    assert_eq!(listeners(&world).len(), 64);
    assert_eq!(
        programmed_message(&world),
        "True Programmed: programmed on all of its clusters: 5; left out, because they do not fit: 64 addresses, 16 listeners"
    );
    let full = fleet(1, 16, 64);
    assert_eq!((addresses(&full).len(), listeners(&full).len()), (16, 64));
    assert_eq!(condition(&full, "Programmed").2, "programmed on all of its clusters: 1");
}

#[test]
fn status_of_a_thousand_clusters_fits_the_api() {
    let world = fleet(1_000, 1, 1);
    assert_eq!(addresses(&world).len(), 16);
    let message = condition(&world, "Programmed").2;
    assert!(message.ends_with("984 addresses, 936 listeners"), "{message}");
    let listed: Vec<String> =
        serde_json::from_str(&metadata(&world).annotations["kuadrant.io/gateway-clusters"]).unwrap();
    assert_eq!(listed.len(), 1_000);
}

#[test]
fn listener_with_too_long_combined_name_is_left_out() {
    let long = "l".repeat(250);
    let listeners = ["http", &long].map(|name| json!({"name": name, "port": 80, "protocol": "HTTP"}));
    let routes = format!("_listener_{long}_attachedRoutes");
    let world = shop(&["eu-1"]).with(web().spec("listeners", json!(listeners)));
    let world = world
        .settled(&[gateway_origin("web")])
        .with_gateway_report("eu-1", &programmed("192.0.2.1").integer(&routes, 1));
    assert_eq!(super::listeners(&world), ["eu-1.http"]);
    let says = "programmed on all of its clusters: 1; left out, because they do not fit: 1 listeners";
    assert_eq!(condition(&world, "Programmed").2, says);
}

#[test]
fn invalid_item_does_not_affect_others() {
    let long = "a.".repeat(125) + "b";
    let reason = "not a reason";
    for hostile in [
        programmed("").string("_address_1", "\u{1b}[31m\n").string("_address_2", &long),
        programmed("192.0.2.1/24").listener_condition("http", "Programmed", "True", reason, ""),
        programmed("a b").string("_listener_http_kind_HTTPRoute", "Not.A.Group"),
        programmed("<script>").integer("_listener_http_attachedRoutes", i64::MAX),
        programmed("A.B").integer("_listener_http_attachedRoutes", -1),
        programmed("é").condition("Programmed", "True", "\u{0}", &"x".repeat(5_000)),
        programmed(&"x".repeat(5_000)).condition("Programmed", "False", &"r".repeat(5_000), "\u{2028}\"\\"),
    ] {
        let world = placed(&["eu-1", "us-1"])
            .with_gateway_report("eu-1", &hostile)
            .with_gateway_report("us-1", &programmed("192.0.2.2"));
        assert_eq!(addresses(&world), ["us-1/192.0.2.2"], "{hostile:?}");
        let status = status(&world);
        let theirs = status.listeners.iter().find(|listener| listener.name == "us-1.http").unwrap();
        assert_eq!(theirs.conditions.len(), 1);
        let message = condition(&world, "Programmed").2;
        assert!(message.contains("left out, because they do not fit: "), "{message}");
        assert!(message.len() < 2_000, "{message}");
    }
}
