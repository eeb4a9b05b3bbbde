use serde_json::json;

use super::*;

fn pod(name: usize) -> Value {
    json!({
        "metadata": {"name": format!("web-{name}"), "labels": {"app": "web", "tier": "front"}},
        "spec": {"containers": [{"image": "registry.example/web:1", "ports": [80, 443], "tty": false}]},
    })
    .into()
}

#[test]
fn equal_parts_share_memory_and_values_are_unchanged() {
    let mut sharing = Sharing::default();
    let pods: Vec<Value> = (0..100).map(|name| sharing.share(&pod(name))).collect();
    assert!(pods.iter().enumerate().all(|(name, shared)| *shared == pod(name)));
    let Value::Object(spec) = &pods[0]["spec"] else { panic!("no spec") };
    assert!(pods.iter().all(|pod| matches!(&pod["spec"], Value::Object(other) if Arc::ptr_eq(spec, other))));
    // The object, its metadata and its name are unique to each pod.
    let parts = sharing.parts.len();
    assert!(parts < 100 * 3 + 20, "{parts} parts");
}

#[test]
fn different_scalars_are_not_shared() {
    let mut sharing = Sharing::default();
    let values =
        [json!([1]), json!([1.5]), json!([true]), json!([false]), json!([null]), json!(["1"]), json!([])];
    let shared: Vec<Value> = values.iter().map(|value| sharing.share(&value.clone().into())).collect();
    assert_eq!(serde_json::to_value(shared).unwrap(), json!(values));
}

#[test]
fn unused_parts_are_removed() {
    let mut sharing = Sharing::default();
    let kept: Vec<Value> = (0..10).map(|name| sharing.share(&pod(name))).collect();
    for name in 0..20_000 {
        sharing.share(&pod(name));
    }
    let parts = sharing.parts.len();
    assert!(parts < 2 * MIN_SWEEP_SIZE + 100, "{parts} parts");
    assert!(kept.iter().enumerate().all(|(name, shared)| *shared == sharing.share(&pod(name))));
}
