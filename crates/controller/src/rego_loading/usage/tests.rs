use serde_json::{Value as Json, json};

use super::*;
use crate::rego_loading::kinds::documents;
use crate::rego_loading::sharing::Sharing;
use crate::rego_loading::tests::{Hub, NOW, object};

/// The budget in bytes.
const BUDGET: usize = 400_000;

fn pods() -> GroupResource {
    GroupResource::new("", "pods")
}

/// A pod with about 2,000 bytes of unshared text.
fn pod(namespace: &str, name: &str) -> Json {
    let mut pod = object("Pod", Some(namespace), name);
    pod["spec"] = json!({"text": format!("{namespace}/{name}{}", "x".repeat(2_000))});
    pod
}

fn many(namespace: &str, count: usize) -> Vec<Json> {
    (0..count).map(|number| pod(namespace, &format!("p{number}"))).collect()
}

/// For each namespace, the number of documents in `data`. Also the parts that are left out, and the estimated memory.
fn found(hub: &Hub) -> (BTreeMap<String, usize>, Vec<String>, usize) {
    let guard = hub.0.read();
    let view = guard.view(NOW);
    let documents = view.documents(&pods());
    let namespaces = documents.as_object().unwrap().iter();
    let kept = namespaces
        .map(|(name, objects)| (name.as_string().unwrap().to_string(), objects.as_object().unwrap().len()));
    let left_out =
        view.left_out().map(|(part, found)| format!("{} {} {}", part.namespace, part.kind, found.objects));
    (kept.collect(), left_out.collect(), view.bytes())
}

#[test]
fn only_the_namespace_at_ten_times_its_share_loses_documents() {
    let hub = Hub::with_budget(BUDGET, usize::MAX);
    let others: Vec<Json> = (0..8).flat_map(|tenant| many(&format!("n{tenant}"), 5)).collect();
    hub.documents("pods", &others);
    let (before, left_out, quiet) = found(&hub);
    assert_eq!((before.len(), left_out), (8, Vec::new()));
    // The greedy namespace sorts before, among and after the other namespaces.
    for greedy in ["a", "n45", "z"] {
        let mut all = others.clone();
        all.extend(many(greedy, 10 * BUDGET / 9 / 2_000));
        all.sort_by_key(|object| object["metadata"]["namespace"].to_string());
        hub.documents("pods", &all);
        let (kept, left_out, bytes) = found(&hub);
        assert_eq!((&kept, bytes), (&before, quiet), "{greedy}");
        assert_eq!(left_out, [format!("{greedy} pods {}", 10 * BUDGET / 9 / 2_000)]);
        let guard = hub.0.read();
        let view = guard.view(NOW);
        assert_eq!(view.documents_of(&pods()).count(), others.len(), "what is left out is no object");
        assert_eq!(view.counts().into_values().sum::<usize>(), all.len());
        assert!(view.returning().is_empty());
    }
    hub.documents("pods", &[]);
    assert_eq!(found(&hub), (BTreeMap::new(), Vec::new(), 0), "nothing is left behind");
}

#[test]
fn only_the_namespace_with_many_small_objects_loses_documents() {
    let hub = Hub::with_budget(usize::MAX, 900);
    let others: Vec<Json> = (0..8).flat_map(|tenant| many(&format!("n{tenant}"), 50)).collect();
    // Cluster-scoped documents count separately.
    hub.documents("nodes", &(0..1_000).map(|n| object("Node", None, &format!("n{n}"))).collect::<Vec<_>>());
    let with = |count: usize| {
        let mut all = others.clone();
        all.extend(many("greedy", count));
        hub.documents("pods", &all);
        let (kept, left_out, _) = found(&hub);
        (kept.values().sum::<usize>(), left_out)
    };
    assert_eq!(with(500), (900, Vec::new()));
    assert_eq!(with(501), (400, vec!["greedy pods 501".to_owned()]));
    assert_eq!(with(5_000), (400, vec!["greedy pods 5000".to_owned()]));
    let returning = || hub.0.read().view(NOW).returning();
    assert!(returning().is_empty());
    assert_eq!(with(500), (400, vec!["greedy pods 500".to_owned()]));
    assert_eq!(returning(), BTreeSet::from([pods()]));
    hub.documents("pods", &others);
    assert_eq!(with(500), (900, Vec::new()), "what was left out counts no more");
}

#[test]
fn left_out_documents_use_no_budget() {
    let (mut usage, document) = (DocumentUsage::new(usize::MAX, 10), Document::from(Value::from(json!({}))));
    for _ in 0..11 {
        usage.replace("shop", &pods(), None, Some(&document));
    }
    assert_eq!((usage.kept(), usage.objects.kept), (11 * document.weight, 11));
    assert_eq!(usage.take_excess().len(), 1);
    for _ in 0..11 {
        usage.replace("shop", &pods(), Some(&document), Some(&document.left_out()));
    }
    assert_eq!((usage.kept(), usage.objects.kept), (0, 0));
    usage.replace("shop", &pods(), Some(&document.left_out()), None);
    assert_eq!((usage.kept(), usage.objects.kept), (0, 0));
}

#[test]
fn left_out_documents_return_after_a_new_list_once_they_fit() {
    let hub = Hub::with_budget(BUDGET, usize::MAX);
    let mut all = many("shop", 10);
    all.extend(many("greedy", 500));
    hub.documents("pods", &all);
    assert_eq!(found(&hub).1, ["greedy pods 500"]);
    let returning = || hub.0.read().view(NOW).returning();
    assert!(returning().is_empty());
    all.truncate(20);
    hub.documents("pods", &all);
    assert_eq!(found(&hub).1, ["greedy pods 10"], "the hub does not send again what has not changed");
    assert_eq!(returning(), BTreeSet::from([pods()]));
    hub.0.forget(&documents(&pods()), NOW);
    hub.documents("pods", &all);
    let (kept, left_out, _) = found(&hub);
    assert_eq!(kept, BTreeMap::from([("greedy".to_owned(), 10), ("shop".to_owned(), 10)]));
    assert!(left_out.is_empty());
}

#[test]
fn shared_parts_count_once_until_the_last_document_is_deleted() {
    let hub = Hub::new();
    let shared = |namespace: &str, count: usize| -> Vec<Json> {
        let template = json!({"env": (0..60).map(|n| json!({"name": format!("VARIABLE_{n}"), "value": "x".repeat(40)})).collect::<Vec<_>>()});
        (0..count)
            .map(|number| {
                let mut pod = object("Pod", Some(namespace), &format!("p{number}"));
                pod["spec"] = json!({"node": format!("n{number}"), "template": template});
                pod
            })
            .collect()
    };
    let bytes = |objects: &[Json]| {
        hub.documents("pods", objects);
        found(&hub).2
    };
    let (one, ten) = (bytes(&shared("shop", 1)), bytes(&shared("shop", 10)));
    assert!(ten < 2 * one, "{one} {ten}");
    // The whole template was charged to the first pod.
    assert!(bytes(&shared("shop", 10)[9..]) >= one);
    let mut both = shared("shop", 10);
    both.extend(shared("other", 10));
    assert_eq!(bytes(&both), 2 * ten, "each namespace pays for what it uses");
    assert_eq!(bytes(&[]), 0);
}

/// The estimated bytes of `count` objects of this form, and the bytes measured by the allocator.
fn measured(count: usize, form: impl Fn(usize) -> Json) -> (usize, usize) {
    let (mut sharing, mut kept, mut usage) =
        (Sharing::default(), Vec::new(), DocumentUsage::new(usize::MAX, usize::MAX));
    let took = allocation_counter::measure(|| {
        for number in 0..count {
            let document = sharing.share(&Value::from(form(number)));
            let document = Document::from(document);
            usage.replace("shop", &pods(), None, Some(&document));
            kept.push(document);
        }
    });
    (usage.kept(), usize::try_from(took.bytes_current).unwrap())
}

/// A realistic pod; `tag` makes it different from other pods.
fn pod_of_template(tag: usize) -> Json {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("web-7d4b9c6f5d-{tag}"), "namespace": "shop", "uid": format!("0f3c{tag:032}"),
            "resourceVersion": format!("{}", 1_000_000 + tag), "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": "web", "pod-template-hash": "7d4b9c6f5d", "tier": "front"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-7d4b9c6f5d",
                "uid": "5e8a1b0c-3f7d-4a52-9c7e-1f2d3c4b5a69", "controller": true}],
        },
        "spec": {
            "nodeName": format!("node-{tag}"), "serviceAccountName": "default", "restartPolicy": "Always",
            "containers": [{"name": "web", "image": format!("registry.example.com/shop/web:{tag}"),
                "ports": [{"containerPort": 8080, "protocol": "TCP"}],
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
                "env": [{"name": "TAG", "value": format!("value-of-this-pod-{tag}")}]}],
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}],
        },
        "status": {"phase": "Running", "podIP": format!("10.0.{}.{}", tag / 250, tag % 250),
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": format!("t{tag}")}]},
    })
}

fn config_map(tag: usize, keys: usize) -> Json {
    let data: serde_json::Map<String, Json> =
        (0..keys).map(|key| (format!("key-{tag}-{key}"), json!(format!("v{key}")))).collect();
    json!({"kind": "ConfigMap", "metadata": {"name": format!("c{tag}"), "namespace": "shop"}, "data": data})
}

#[test]
fn memory_estimates_are_close_to_allocator_measurements() {
    type Form = fn(usize) -> Json;
    let forms: [(&str, usize, Form, [f64; 2]); 5] = [
        ("pods of one template", 200, pod_of_template, [0.6, 2.2]),
        ("many keys", 4, |tag| config_map(tag, 3_000), [0.6, 2.2]),
        (
            "one long text",
            50,
            |tag| json!({"data": {"a": format!("{tag}{}", "x".repeat(100_000))}}),
            [0.6, 2.2],
        ),
        (
            "long lists",
            4,
            |tag| json!({"spec": (0..5_000).map(|n| tag * 100_000 + n).collect::<Vec<_>>()}),
            [0.6, 2.2],
        ),
        (
            "small maps of distinct texts",
            4,
            |tag| {
                let one = |n: usize| json!({format!("k{tag}-{n}"): format!("v{tag}-{n}")});
                json!({"spec": (0..1_000).map(one).collect::<Vec<_>>()})
            },
            [0.6, 2.2],
        ),
    ];
    for (what, count, form, [least, most]) in forms {
        let (estimated, took) = measured(count, form);
        let ratio = estimated as f64 / took as f64;
        assert!((least..=most).contains(&ratio), "{what}: {estimated} estimated, {took} taken: {ratio:.2}");
    }
}
