//! What building a row costs: a hostile object at most five times as much as a plain one of as many bytes, so that no tenant and no
//! spoke holds up the watch that others' objects come through.

use std::hint::black_box;
use std::time::{Duration, Instant};

use policy_sync::api::names::GroupResource;
use policy_sync::api::object::HubObject;
use policy_sync::hub::Source;
use policy_sync::sync::kinds as synced;
use policy_sync::topology::objects::kind_of;
use policy_sync::topology::stored::kinds as stored;
use policy_sync::topology::watched;
use policy_sync_testenv::hostile::costly::{CONTROLLER, Costly, costly};
use serde_json::Value;

/// How many times as much as a plain object a hostile one may cost.
const TIMES: f64 = 5.0;

/// Everything that keeps a row of objects of this kind.
fn sources(plural: &str, object: &HubObject) -> Vec<Source> {
    let kind = kind_of(object);
    let of_graph = || watched::source(kind, GroupResource::new(kind.group, plural));
    match plural {
        "httproutes" => vec![stored::HTTP_ROUTES.all(), of_graph()],
        "gateways" => vec![stored::GATEWAYS.all(), synced::GATEWAYS.all(), of_graph()],
        "listenersets" => vec![stored::SETS.all(), of_graph()],
        "services" => vec![stored::SERVICES.all(), of_graph()],
        "ratelimitpolicies" => vec![synced::POLICIES.all(), of_graph()],
        "manifestworks" => vec![synced::WORKS.all()],
        other => panic!("nothing watches {other}"),
    }
}

/// The time to read `text` and to build its row, the shortest of several.
fn cost(source: &Source, text: &str) -> Duration {
    let once = |_| {
        let begun = Instant::now();
        let object: HubObject = serde_json::from_str(text).unwrap();
        assert!(black_box(source.prune(&object, &CONTROLLER)).is_some());
        begun.elapsed()
    };
    (0..5).map(once).min().unwrap()
}

/// How many times as much a byte of the hostile object costs as one of the plain one.
fn times(source: &Source, [hostile, plain]: [&Value; 2]) -> f64 {
    let texts = [hostile.to_string(), plain.to_string()];
    let [hostile, plain] = texts.each_ref().map(|text| cost(source, text).as_secs_f64() / text.len() as f64);
    hostile / plain
}

#[test]
fn a_hostile_object_costs_at_most_five_times_as_much_as_a_plain_one() {
    let mut faults = Vec::new();
    for Costly { name, plural, hostile, plain } in costly() {
        let object: HubObject = serde_json::from_value(hostile.clone()).unwrap();
        for source in sources(plural, &object) {
            // A machine that does something else meanwhile costs more, never less.
            let times = (0..3).map(|_| times(&source, [&hostile, &plain])).fold(f64::INFINITY, f64::min);
            println!("{plural}, {name}: {times:.2}");
            if times > TIMES {
                faults.push(format!("{plural}, {name}: {times:.1} times as much"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
