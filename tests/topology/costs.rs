//! The cost of building a row. A hostile object may cost at most five times as much as a plain object of the same size.
//! So no tenant and no spoke can delay a watch that other users depend on.

use std::hint::black_box;
use std::time::Duration;

use policy_sync_api::names::GroupResource;
use policy_sync_api::object::HubObject;
use policy_sync_controller::stored_topology::kinds as stored;
use policy_sync_mirror::Source;
use policy_sync_rego::carrier::CarrierContents;
use policy_sync_report::watched;
use policy_sync_sync::kinds as synced;
use policy_sync_testenv::hostile::costly::{CONTROLLER, CostlyObject, costly};
use policy_sync_topology::objects::kind_of;
use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;

/// The maximum cost of a hostile object, as a multiple of a plain object.
const TIMES: f64 = 5.0;

/// Reads an object.
type Reader = Box<dyn Fn(&HubObject)>;

/// Returns a reader that builds the row of `source`.
fn row(source: Source) -> Reader {
    Box::new(move |object: &HubObject| assert!(black_box(source.prune(object, &CONTROLLER)).is_some()))
}

/// All code that keeps a row of objects of this kind.
fn readers(plural: &str, object: &HubObject) -> Vec<Reader> {
    let kind = kind_of(object);
    let of_graph = || watched::source(kind, GroupResource::new(kind.group, plural));
    let sources = match plural {
        "httproutes" => vec![stored::HTTP_ROUTES.all(), of_graph()],
        "grpcroutes" => vec![stored::GRPC_ROUTES.all(), of_graph()],
        "gateways" => vec![stored::GATEWAYS.all(), synced::GATEWAYS.all(), of_graph()],
        "listenersets" => vec![stored::LISTENER_SETS.all(), of_graph()],
        "services" => vec![stored::SERVICES.all(), of_graph()],
        "ratelimitpolicies" => vec![synced::POLICIES.all(), of_graph()],
        "referencegrants" => vec![stored::GRANTS.all(), synced::GRANTS.all(), of_graph()],
        "manifestworks" => vec![synced::WORKS.all()],
        "managedclusters" => vec![synced::CLUSTERS.all()],
        "placementdecisions" => vec![synced::DECISIONS.all()],
        "secrets" => vec![synced::SECRETS.all()],
        // The row of a ConfigMap with Rego modules is not public, so this reader builds the type that the row contains.
        "configmaps" => {
            return vec![Box::new(|object: &HubObject| {
                assert!(black_box(CarrierContents::from_object(object)).is_some())
            })];
        }
        other => panic!("no watch of {other}"),
    };
    sources.into_iter().map(row).collect()
}

/// The processor time of this thread. Other load on the machine changes it less than the elapsed time.
fn processor_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap()
}

/// The shortest of several processor times to parse `text` and to build its row.
fn cost(reader: &Reader, text: &str) -> Duration {
    let once = |_| {
        let begun = processor_time();
        let object: HubObject = serde_json::from_str(text).unwrap();
        reader(&object);
        processor_time() - begun
    };
    (0..5).map(once).min().unwrap()
}

/// The cost of a byte of the hostile object, as a multiple of a byte of the plain object.
fn times(reader: &Reader, [hostile, plain]: [&Value; 2]) -> f64 {
    let texts = [hostile.to_string(), plain.to_string()];
    let [hostile, plain] = texts.each_ref().map(|text| cost(reader, text).as_secs_f64() / text.len() as f64);
    hostile / plain
}

#[test]
fn hostile_object_costs_at_most_five_times_as_much_as_a_plain_one() {
    let mut faults = Vec::new();
    for CostlyObject { name, plural, hostile, plain } in costly() {
        let object: HubObject = serde_json::from_value(hostile.clone()).unwrap();
        for reader in readers(plural, &object) {
            // Other load on the machine can only increase the measured cost.
            let times = (0..3).map(|_| times(&reader, [&hostile, &plain])).fold(f64::INFINITY, f64::min);
            println!("{plural}, {name}: {times:.2}");
            if times > TIMES {
                faults.push(format!("{plural}, {name}: {times:.1} times the cost of the plain object"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
