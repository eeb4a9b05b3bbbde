use std::sync::Arc;

use serde_json::{Value, json};

use super::Strings;
use super::class::ConfigMap;
use super::grant::Grant;
use super::secret::Secret;
use super::work::{Content, Purpose, Work};
use crate::feedback::{AgentReport, TEXT_LIMIT};
use crate::testing::objects::{
    CLASS, CONTROLLER, Object, config_map, grant, listing, policy, policy_origin, secret,
};
use crate::testing::reports::applied;
use crate::testing::world::shop;
use policy_sync_api::names::{ControllerName, WorkName};
use policy_sync_api::object::HubObject;
use policy_sync_api::work::{Manifest, ManifestWorkSpec};

fn hub_object(json: &Value) -> HubObject {
    serde_json::from_str(&json.to_string()).unwrap()
}

/// The work of the policy `limits` in `eu-1`, as the API server returns it. It requests the value `field`.
fn json() -> Value {
    let mut params = listing(&["ratelimitpolicies"]);
    params["policiesToSync"][0]["statusFields"] = json!([{"name": "field", "path": ".status.field"}]);
    let world = shop(&["eu-1"])
        .class(CLASS, &params)
        .with(policy("limits").targets("web"))
        .settled(&[policy_origin("limits")]);
    let (name, cluster) =
        world.work_names().into_iter().find(|(name, _)| name.starts_with("ratelimitpolicy")).unwrap();
    serde_json::from_str(&world.work_text(&name, &cluster, Value::to_string)).unwrap()
}

fn pruned(work: &Value) -> Work {
    Work::new(&hub_object(work), &ControllerName::new(CONTROLLER))
}

fn edited(edit: impl FnOnce(&mut Value)) -> Work {
    let mut work = json();
    edit(&mut work);
    pruned(&work)
}

fn report_of(edit: impl FnOnce(&mut Value)) -> AgentReport {
    let mut work = json();
    work["status"] = applied().condition("Enforced", "True", "R", "m").status(&work);
    edit(&mut work["status"]);
    Arc::unwrap_or_clone(pruned(&work).report.unwrap())
}

/// The report on the work that `json` returns, if the agent also reports `value`.
fn fed_back(value: &Value) -> AgentReport {
    report_of(|status| values(status).push(value.clone()))
}

fn values(status: &mut Value) -> &mut Vec<Value> {
    status.pointer_mut("/resourceStatus/manifests/1/statusFeedback/values").unwrap().as_array_mut().unwrap()
}

#[test]
fn works_are_compared_by_content_not_by_annotations() {
    let content = pruned(&json()).content;
    let lie = edited(|work| {
        work["spec"]["workload"]["manifests"][1]["spec"]["rate"] = json!(1);
        work["metadata"]["annotations"]["kuadrant.io/hash"] = "as planned".into();
    });
    assert_ne!(lie.content, content);
    for path in ["workload", "deleteOption", "manifestConfigs"] {
        assert_ne!(
            edited(|work| work["spec"][path].take().clone_into(&mut Value::Null)).content,
            content,
            "{path}"
        );
    }
}

#[test]
fn fields_that_no_plan_writes_do_not_count() {
    let content = pruned(&json()).content;
    let newer = edited(|work| {
        work["spec"]["executor"] = json!({"subject": {"type": "ServiceAccount"}});
        work["spec"]["manifestConfigs"][1]["updateStrategy"]["serverSideApply"]["ignoreFields"] = json!([]);
        work["metadata"]["labels"]["other"] = "x".into();
    });
    assert_eq!(newer.content, content);
}

#[test]
fn invalid_spec_differs_from_every_plan() {
    let content = pruned(&json()).content;
    for spec in [json!(null), json!(5), json!([]), json!({"workload": 5}), json!({"manifestConfigs": [{}]})] {
        assert_ne!(edited(|work| work["spec"] = spec.clone()).content, content, "{spec}");
    }
}

#[test]
fn work_belongs_to_an_origin_only_if_its_name_matches() {
    assert_eq!(**pruned(&json()).origin().unwrap(), policy_origin("limits"));
    for (field, value) in [
        ("name", json!("other")),
        ("annotations", json!({})),
        ("annotations", json!({"kuadrant.io/parent": "nonsense"})),
    ] {
        assert_eq!(edited(|work| work["metadata"][field] = value).purpose, Purpose::Foreign);
    }
}

#[test]
fn work_without_status_has_no_report() {
    assert_eq!(pruned(&json()).report, None);
    assert_eq!(edited(|work| work["status"] = Value::Null).report, None);
}

#[test]
fn invalid_status_gives_an_empty_report() {
    for status in [json!(5), json!({"conditions": 5}), json!({"resourceStatus": []}), json!({})] {
        assert_eq!(
            *edited(|work| work["status"] = status.clone()).report.unwrap(),
            AgentReport::default(),
            "{status}"
        );
    }
}

#[test]
fn values_of_wrong_type_are_ignored() {
    for (name, field) in [
        ("_generation", json!({"type": "String", "string": "1"})),
        ("_observedGeneration", json!({"type": "Boolean", "boolean": true})),
    ] {
        let report = report_of(|status| {
            values(status).retain(|value| value["name"] != name);
            values(status).push(json!({"name": name, "fieldValue": field}));
        });
        assert_eq!(if name == "_generation" { report.generation } else { report.observed_generation }, None);
    }
    let report =
        fed_back(&json!({"name": "_Enforced_status", "fieldValue": {"type": "Integer", "integer": 1}}));
    assert!(report.conditions.is_empty(), "{report:?}");
}

#[test]
fn values_with_unknown_names_are_ignored() {
    let value = |name: &str| json!({"name": name, "fieldValue": {"type": "String", "string": "x"}});
    for name in ["_", "__", "_unknown", "_Enforced_unknown", "_Unknown_status", "_status", "_Enforced"] {
        assert_eq!(fed_back(&value(name)), report_of(|_| {}), "{name:?}");
    }
}

#[test]
fn values_without_a_feedback_rule_are_ignored() {
    let value = |name: &str| json!({"name": name, "fieldValue": {"type": "String", "string": "x"}});
    assert_eq!(fed_back(&value("field")).fields.len(), 1);
    assert_eq!(fed_back(&value("other")), report_of(|_| {}));
}

#[test]
fn last_value_of_a_name_counts() {
    let value = json!({"name": "_Enforced_status", "fieldValue": {"type": "String", "string": "False"}});
    let report = fed_back(&value);
    assert_eq!((report.conditions.len(), &*report.conditions[0].status), (1, "False"));
}

#[test]
fn conditions_with_invalid_status_are_dropped() {
    let status =
        |text: &str| json!({"name": "_Enforced_status", "fieldValue": {"type": "String", "string": text}});
    for known in ["True", "False", "Unknown"] {
        assert_eq!(&*fed_back(&status(known)).conditions[0].status, known);
    }
    for odd in ["", "true", "Truee", " True", "\u{1}", &"True".repeat(300)] {
        assert!(fed_back(&status(odd)).conditions.is_empty(), "{odd:?}");
    }
}

#[test]
fn invalid_reasons_are_dropped() {
    let reason = |text: &str| {
        let value = json!({"name": "_Enforced_reason", "fieldValue": {"type": "String", "string": text}});
        let status = json!({"name": "_Enforced_status", "fieldValue": {"type": "String", "string": "False"}});
        let report = report_of(|status_of| values(status_of).extend([status, value]));
        report.conditions[0].reason.as_deref().map(str::to_owned)
    };
    for known in ["Overridden", "A", "a1_,:b", &"x".repeat(1_024)] {
        assert_eq!(reason(known).as_deref(), Some(known));
    }
    for odd in ["", "1a", "a b", "a,", "\u{1}", "ü", &"x".repeat(1_025)] {
        assert_eq!(reason(odd), None, "{odd:?}");
    }
}

#[test]
fn long_texts_are_cut_between_characters() {
    for character in ["x", "ü", "€", "😀", "\u{0}", "\""] {
        for offset in 0..4 {
            let text = format!("{}{}", "a".repeat(offset), character.repeat(3_000));
            let value =
                json!({"name": "_Enforced_message", "fieldValue": {"type": "String", "string": text}});
            let message = fed_back(&value).conditions[0].message.clone().unwrap();
            assert!(message.len() <= TEXT_LIMIT && message.len() > TEXT_LIMIT - 8, "{}", message.len());
            assert!(text.starts_with(message.strip_suffix('…').unwrap()));
        }
    }
}

#[test]
fn texts_within_the_limit_are_kept() {
    let text = format!("\u{0}\u{1b}[31m\n{}", "x".repeat(TEXT_LIMIT - 7));
    let value = json!({"name": "field", "fieldValue": {"type": "String", "string": text}});
    assert_eq!(*fed_back(&value).fields[0].1, *Value::from(text).to_string());
}

#[test]
fn every_long_text_of_a_spoke_is_cut() {
    let long = "x".repeat(10_000);
    let text = |name: &str| json!({"name": name, "fieldValue": {"type": "String", "string": long}});
    for name in ["_Enforced_status", "_Enforced_reason", "_Enforced_message", "field"] {
        let kept = format!("{:?}", fed_back(&text(name)));
        assert!(kept.len() < 3 * TEXT_LIMIT, "{name}: {}", kept.len());
    }
    let refused = report_of(|status| {
        *status.pointer_mut("/conditions/0/status").unwrap() = "False".into();
        *status.pointer_mut("/resourceStatus/manifests/1/conditions/0/status").unwrap() = "False".into();
        *status.pointer_mut("/resourceStatus/manifests/1/conditions/0/message").unwrap() =
            long.clone().into();
    });
    assert_eq!(refused.message.unwrap().len(), TEXT_LIMIT);
}

/// The report on a work whose spec requests all of `values`. A spoke may have written such a spec.
fn report_of_all(values: &[(String, Value)]) -> AgentReport {
    let mut work = json();
    let paths: Vec<Value> =
        values.iter().map(|(name, _)| json!({"name": name, "path": ".status.a"})).collect();
    work["spec"]["manifestConfigs"][1]["feedbackRules"][0]["jsonPaths"] = paths.into();
    work["status"] = applied().status(&work);
    self::values(&mut work["status"])
        .extend(values.iter().map(|(name, value)| json!({"name": name, "fieldValue": value})));
    Arc::unwrap_or_clone(pruned(&work).report.unwrap())
}

#[test]
fn reports_are_limited_in_size() {
    let text = |length: usize| json!({"type": "String", "string": "x".repeat(length)});
    let raw = json!({"type": "JsonRaw", "jsonRaw": format!("[{}]", ["1"; 500].join(","))});
    let integer = json!({"type": "Integer", "integer": 1});
    let odd = json!({"type": "JsonRaw", "jsonRaw": "{"});
    let many = |name: fn(usize) -> String, value: &Value| -> Vec<(String, Value)> {
        (0..2_000).map(|number| (name(number), value.clone())).collect()
    };
    for values in [
        many(|number| format!("f{number}"), &text(2_000)),
        many(|number| format!("f{number}"), &raw),
        many(|number| format!("f{number}"), &odd),
        many(|number| format!("{number}{}", "x".repeat(2_000)), &integer),
        many(|number| format!("_listener_l{number}_attachedRoutes"), &integer),
        many(|number| format!("_listener_{number}{}_attachedRoutes", "x".repeat(2_000)), &integer),
        many(|number| format!("_listener_l{}_Accepted_message", number % 64), &text(2_000)),
        many(|number| format!("_listener_a_kind_K{number}"), &text(2_000)),
        many(|number| format!("_listener_a_kind_K{}{number}", "x".repeat(2_000)), &text(1)),
        many(|number| format!("_address_{}", number % 16), &text(2_000)),
    ] {
        let report = report_of_all(&values);
        let kept = format!("{report:?}");
        // The debug output adds the names of fields.
        assert!(kept.len() < 32 * 1024, "{} bytes of {:?}", kept.len(), values[0].0.get(..20));
        assert!(report.fields.len() <= 64 && report.dropped.len() <= 64, "{kept}");
        let gateway = report.gateway.unwrap_or_default();
        assert!(gateway.addresses.len() <= 16 && gateway.listeners.len() <= 64, "{gateway:?}");
        assert!(gateway.listeners.iter().all(|listener| listener.kinds.len() <= 8), "{gateway:?}");
    }
}

#[test]
fn fields_over_the_limit_are_recorded_as_dropped() {
    let integer = json!({"type": "Integer", "integer": 1});
    let values: Vec<(String, Value)> =
        (0..66).map(|number| (format!("f{number:02}"), integer.clone())).collect();
    let report = report_of_all(&values);
    assert_eq!(report.fields.len(), 64);
    assert_eq!(report.dropped, ["f64".into(), "f65".into()]);
}

#[test]
fn too_long_revision_is_ignored() {
    let long = json!({"name": "_revision", "fieldValue": {"type": "String", "string": "a".repeat(33)}});
    assert_eq!(fed_back(&long).revision, None);
    let held = edited(|work| {
        work["spec"]["workload"]["manifests"][1]["metadata"]["annotations"]["kuadrant.io/revision"] =
            "a".repeat(33).into();
    });
    assert_eq!(held.revision, None);
}

#[test]
fn feedback_of_other_manifests_is_ignored() {
    let report = report_of(|status| {
        let manifest = status.pointer_mut("/resourceStatus/manifests/1/resourceMeta").unwrap();
        manifest["resource"] = "configmaps".into();
    });
    assert_eq!(report, AgentReport { applied: true, ..AgentReport::default() });
}

#[test]
fn unreadable_parameters_give_an_error() {
    let fault = |data: Value| {
        let mut object = config_map("multi", "");
        object.json["data"] = data;
        ConfigMap::from(&hub_object(&object.json)).params.unwrap_err().to_string()
    };
    for data in [json!(null), json!({}), json!({"other": "{}"}), json!({"params": 5}), json!([])] {
        assert_eq!(fault(data.clone()), "has no key \"params\"", "{data}");
    }
    assert!(fault(json!({"params": ""})).starts_with("not JSON: EOF while parsing"));
    assert_eq!(fault(json!({"params": "[]"})), "expected an object, found a list");
}

#[test]
fn tls_secret_keeps_only_copied_data_and_prints_none() {
    let mut object = secret("a").holding("VE9Q").annotation("example.com/note", "VE9Q");
    object.json["data"]["other"] = "VE9Q".into();
    let last_applied = "kubectl.kubernetes.io/last-applied-configuration";
    let row = Secret::from(&hub_object(&object.annotation(last_applied, "VE9Q").json));
    let kept: Vec<&str> = row.data.as_ref().unwrap().0.keys().map(String::as_str).collect();
    assert_eq!(kept, ["tls.crt", "tls.key"]);
    assert!(!row.annotations.contains_key(last_applied));
    let shown = format!("{row:?} {:?}", row.data);
    assert!(!shown.contains("VE9Q"), "{shown}");
    assert!(Secret::from(&hub_object(&secret("a").deleting().json)).data.is_none());
    let mut opaque = secret("a");
    opaque.json["type"] = "Opaque".into();
    assert!(Secret::from(&hub_object(&opaque.json)).data.is_none());
}

#[test]
fn grant_covers_the_named_namespaces_and_secrets() {
    let row = |grant: Object| Grant::from(&hub_object(&grant.json));
    let all = row(grant("g"));
    assert!(all.is_for("shop") && !all.is_for("tls") && all.allows("a"));
    let one = row(grant("g").spec("to", json!([{"group": "", "kind": "Secret", "name": "a"}])));
    assert!(one.allows("a") && !one.allows("b") && !one.allows(""));
    assert!(!row(grant("g").spec("to", json!("all"))).allows("a"));
    assert!(!row(grant("g").deleting()).is_for("shop"));
}

#[test]
fn debug_output_of_objects_contains_no_secrets() {
    let mut object = secret("a").holding("VE9Q").annotation("example.com/note", "VE9Q").json;
    object["stringData"] = json!({"tls.key": "VE9Q"});
    let shown = format!("{:?}", hub_object(&object));
    assert!(shown.contains("shop/a") && !shown.contains("VE9Q"), "{shown}");
    let work = Manifest(json!({"kind": "List", "items": [
        {"kind": "Secret", "metadata": {"name": "a"}, "data": {"tls.key": "VE9Q"}}]}));
    let shown = format!("{work:?} {work:#?}");
    assert!(shown.contains("tls.key") && !shown.contains("VE9Q"), "{shown}");
}

#[test]
fn spec_hash_equals_the_hash_of_its_value() {
    use policy_sync_api::json::Hash;
    let whole: ManifestWorkSpec = serde_json::from_value(json()["spec"].clone()).unwrap();
    let mut bare = whole.clone();
    (bare.delete_option, bare.manifest_configs) = (None, Vec::new());
    for spec in [whole, bare, ManifestWorkSpec::default()] {
        let content = Content::new(&spec, &Strings::new(), &Strings::new());
        assert_eq!(content.spec, Hash::of_value(&spec), "{spec:?}");
    }
}

#[test]
fn annotations_of_an_access_work_do_not_count() {
    let controller = ControllerName::new("kuadrant.io/policy-sync");
    let content = |annotations: Value| {
        let name = WorkName::access(&controller).to_string();
        let work =
            json!({"metadata": {"name": name, "namespace": "eu-1", "annotations": annotations}, "spec": {}});
        let work: HubObject = serde_json::from_str(&work.to_string()).unwrap();
        Work::new(&work, &controller).content
    };
    let noted = json!({"kuadrant.io/gateways": "[\"web\"]", "kuadrant.io/parent": "nobody"});
    assert_eq!(content(noted), content(json!({})));
}

#[test]
fn creation_time_counts_only_beside_a_revision() {
    let copied = |edit: &dyn Fn(&mut Vec<Value>)| {
        let mut work = json();
        work["status"] = applied().created("2026-01-01T00:00:02Z").status(&work);
        edit(values(&mut work["status"]));
        pruned(&work).copied.map(|moment| moment.0)
    };
    let second = 1_767_225_602_000;
    assert_eq!(copied(&|_| {}), Some(second));
    // An object that is not a copy has no revision.
    assert_eq!(copied(&|values| values.retain(|value| value["name"] != "_revision")), None);
    for text in ["", "soon", "2026-01-01", "2026-01-01T00:00:02Z and a long text behind the moment"] {
        let of_text = copied(&|values| {
            let created = values.iter_mut().find(|value| value["name"] == "_created").unwrap();
            created["fieldValue"]["string"] = text.into();
        });
        assert_eq!(of_text, None, "{text}");
    }
    // Clusters with equal conditions share one report.
    let of = |moment: &str| {
        report_of(|status| {
            values(status)
                .push(json!({"name": "_created", "fieldValue": {"type": "String", "string": moment}}));
        })
    };
    assert_eq!(of("2026-01-01T00:00:02Z"), of("2026-01-01T00:00:03Z"));
}
