use policy_sync_api::work::{Manifest, ResourceIdentifier, SelectivelyOrphan, Workload};
use serde_json::json;

use super::*;

fn identifier(namespace: &str, name: &str) -> ResourceIdentifier {
    ResourceIdentifier {
        group: "kuadrant.io".into(),
        resource: "ratelimitpolicies".into(),
        name: name.into(),
        namespace: namespace.into(),
    }
}

fn meta() -> ResourceMeta {
    let manifest = json!({"apiVersion": "kuadrant.io/v1", "kind": "RateLimitPolicy",
        "metadata": {"namespace": "kuadrant-shop", "name": "limits"}});
    let resource = ApiResource {
        group: "kuadrant.io".into(),
        version: "v1".into(),
        api_version: "kuadrant.io/v1".into(),
        kind: "RateLimitPolicy".into(),
        plural: "ratelimitpolicies".into(),
    };
    meta_of(1, &manifest, Some(&Mapping { resource, namespaced: true }))
}

fn config(identifier: ResourceIdentifier) -> ManifestConfig {
    ManifestConfig {
        resource_identifier: identifier,
        update_strategy: None,
        feedback_rules: Vec::new(),
        feedback_scrape_type: Some(FeedbackScrapeType::Watch),
        condition_rules: Vec::new(),
    }
}

#[test]
fn an_unknown_kind_has_no_resource() {
    let manifest = json!({"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "a", "namespace": "b"}});
    let meta = meta_of(0, &manifest, None);
    assert_eq!((meta.group.as_str(), meta.version.as_str(), meta.kind.as_str()), ("", "v1", "Thing"));
    assert_eq!((meta.resource.as_str(), meta.name.as_str(), meta.namespace.as_str()), ("", "a", "b"));
}

#[test]
fn configurations_match_by_name_and_by_wildcard() {
    for (namespace, name, expected) in [
        ("kuadrant-shop", "limits", true),
        ("*", "*", true),
        ("kuadrant-*", "l*s", true),
        ("shop", "limits", false),
    ] {
        let found = Configuration::new(&meta(), &[config(identifier(namespace, name))]);
        assert_eq!(found.watched, expected, "{namespace}/{name}");
    }
}

#[test]
fn the_default_strategy_is_update() {
    assert_eq!(Configuration::default().strategy(), UpdateStrategyType::Update);
}

#[test]
fn orphans_are_not_owned() {
    let option = |propagation_policy, rules: &[ResourceIdentifier]| DeleteOption {
        propagation_policy,
        selectively_orphans: Some(SelectivelyOrphan { orphaning_rules: rules.to_vec() }),
    };
    let this = [identifier("kuadrant-shop", "limits")];
    let other = [identifier("kuadrant-shop", "other")];
    assert!(owned(&meta(), None));
    assert!(owned(&meta(), Some(&option(PropagationPolicy::Foreground, &this))));
    assert!(!owned(&meta(), Some(&option(PropagationPolicy::Orphan, &[]))));
    assert!(!owned(&meta(), Some(&option(PropagationPolicy::SelectivelyOrphan, &this))));
    assert!(owned(&meta(), Some(&option(PropagationPolicy::SelectivelyOrphan, &other))));
}

#[test]
fn dependencies_are_applied_first() {
    let manifests = ["RateLimitPolicy", "ClusterRole", "Gateway", "Namespace"]
        .map(|kind| Manifest(json!({"apiVersion": "v1", "kind": kind})));
    let spec =
        ManifestWorkSpec { workload: Workload { manifests: manifests.to_vec() }, ..Default::default() };
    assert_eq!(order(&spec), [3, 1, 0, 2]);
}
