use super::*;

fn object(name: &str, version: &str, status: &Value) -> DynamicObject {
    let object = json!({
        "apiVersion": "kuadrant.io/v1", "kind": "RateLimitPolicy",
        "metadata": {"name": name, "namespace": "shop", "uid": name, "generation": 1, "resourceVersion": version},
        "spec": {"targetRef": {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "web"}},
        "status": status,
    });
    serde_json::from_value(object).unwrap()
}

fn listed(objects: &[DynamicObject]) -> Tables {
    let mut tables = Tables::new([StatusForm::Whole]);
    for source in [Source::Gateways, Source::Policies(0)] {
        tables.take(source, Event::Init);
        if source == Source::Policies(0) {
            objects.iter().for_each(|object| tables.take(source, Event::InitApply(object.clone())));
        }
        tables.take(source, Event::InitDone);
    }
    tables
}

#[test]
fn no_status_is_due_before_gateways_are_listed() {
    let mut tables = Tables::new([StatusForm::Whole]);
    tables.take(Source::Policies(0), Event::Init);
    tables.take(Source::Policies(0), Event::InitApply(object("a", "1", &Value::Null)));
    tables.take(Source::Policies(0), Event::InitDone);
    assert!(tables.due().is_empty());
    tables.failed(Source::Gateways);
    assert_eq!(tables.due().len(), 1);
}

#[test]
fn older_event_does_not_revert_a_written_status() {
    let mut tables = listed(&[object("a", "1", &Value::Null)]);
    let due = tables.due();
    tables.written(&due[0], &object("a", "2", &due[0].patch["status"]));
    assert!(tables.due().is_empty());
    tables.take(Source::Policies(0), Event::Apply(object("a", "1", &Value::Null)));
    assert!(tables.due().is_empty());
    tables.take(Source::Policies(0), Event::Apply(object("a", "3", &Value::Null)));
    assert_eq!(tables.due().len(), 1);
}

#[test]
fn a_status_that_the_server_prunes_is_written_once() {
    let mut tables = listed(&[object("a", "1", &Value::Null)]);
    let due = tables.due();
    tables.written(&due[0], &object("a", "2", &Value::Null));
    assert!(tables.due().is_empty());
}

#[test]
fn list_removes_deleted_policies() {
    let mut tables = listed(&[object("a", "1", &Value::Null)]);
    tables.take(Source::Policies(0), Event::Init);
    tables.take(Source::Policies(0), Event::InitDone);
    assert!(tables.due().is_empty());
}
