//! The hierarchy on a spoke: whether policies of the spoke take precedence over copies of a hub's policies
//! with the same target.

use policy_sync_topology::Graph;
use policy_sync_topology::show::faults;
use serde_json::{Value, json};

use crate::shorthand::objects;

/// The faults of a spoke with these policies on the Gateway `web` or its listener `http`.
fn reported(policies: &[Value]) -> Vec<String> {
    let mut world = vec![
        json!({"Gateway": "web", "listeners": [{}]}),
        json!({"HTTPRoute": "r", "parents": ["web"], "rules": [{}]}),
    ];
    world.extend_from_slice(policies);
    let objects = objects(&world);
    let graph_input = objects.graph_input();
    let graph = Graph::build(&graph_input);
    faults(&graph, &|_| None)
        .into_iter()
        .map(|fault| format!("{}: {}", fault.object, fault.message))
        .collect()
}

/// A policy created at `second` with its rules in `block` (defaults or overrides), as a copy or not.
fn policy(name: &str, second: u32, is_copy: bool, block: &str) -> Value {
    let mut policy = json!({"RateLimitPolicy": name, "created": second, "target": "Gateway/web",
        block: {"limits": {"all": {"rates": [{"limit": 1, "window": "1s"}]}}}});
    if is_copy {
        policy["annotations"] = json!({"kuadrant.io/policy-synced": "hub/limits"});
    }
    policy
}

const REPORT: &str = "ratelimitpolicy.kuadrant.io:shop/copy: HierarchyNotHonored: this copy of the hub's hub/limits takes \
                      precedence over RateLimitPolicy shop/local, a policy of this cluster with the same target, Gateway shop/web";

#[test]
fn copy_that_takes_precedence_is_reported() {
    for (copy, local, blocks, is_honored) in [
        // Of two defaults, the younger policy is in force. Of two overrides, the older policy is in force.
        (1, 2, ["defaults", "defaults"], true),
        (2, 1, ["defaults", "defaults"], false),
        (1, 2, ["overrides", "overrides"], false),
        (2, 1, ["overrides", "overrides"], true),
        // An override takes precedence over a default of any age.
        (1, 2, ["overrides", "defaults"], false),
        (2, 1, ["overrides", "defaults"], false),
        (1, 2, ["defaults", "overrides"], true),
        // If both policies were created in the same second, their names decide.
        (1, 1, ["defaults", "defaults"], true),
        (1, 1, ["overrides", "overrides"], false),
    ] {
        let world = [policy("copy", copy, true, blocks[0]), policy("local", local, false, blocks[1])];
        let expected: &[&str] = if is_honored { &[] } else { &[REPORT] };
        assert_eq!(reported(&world), expected, "{world:?}");
    }
}

#[test]
fn policies_of_one_origin_or_of_other_targets_do_not_compete() {
    let [copy, local] = [policy("copy", 2, true, "defaults"), policy("local", 1, false, "defaults")];
    assert_eq!(reported(&[copy.clone(), policy("other", 1, true, "defaults")]), [""; 0]);
    assert_eq!(reported(&[local.clone(), policy("other", 2, false, "defaults")]), [""; 0]);
    let mut on_route = local.clone();
    on_route["target"] = "HTTPRoute/r".into();
    let mut on_listener = local.clone();
    on_listener["target"] = "Gateway/web#http".into();
    let mut deleting = local.clone();
    deleting["deleting"] = true.into();
    for other in [on_route, on_listener, deleting] {
        assert_eq!(reported(&[copy.clone(), other.clone()]), [""; 0], "{other}");
    }
    // If the rules of both policies have different keys, the merge strategy of the older policy decides which rules are
    // in force.
    let mut merged = policy("local", 1, false, "defaults");
    merged["defaults"] = json!({"limits": {"own": {"rates": []}}});
    let mut copy = copy;
    copy["defaults"]["strategy"] = "merge".into();
    assert_eq!(reported(&[copy.clone(), merged]), [REPORT]);
    copy["created"] = 0.into();
    assert_eq!(reported(&[copy, local]), [""; 0]);
}

#[test]
fn older_copy_of_a_kind_without_merge_is_reported() {
    let dns = |name: &str, second: u32, is_copy: bool| {
        let mut policy = json!({"DNSPolicy": name, "created": second, "target": "Gateway/web"});
        if is_copy {
            policy["annotations"] = json!({"kuadrant.io/policy-synced": "hub/limits"});
        }
        policy
    };
    assert_eq!(
        reported(&[dns("copy", 1, true), dns("local", 2, false)]),
        [REPORT.replace("ratelimitpolicy", "dnspolicy").replace("RateLimitPolicy", "DNSPolicy")]
    );
    assert_eq!(reported(&[dns("copy", 2, true), dns("local", 1, false)]), [""; 0]);
    // Kuadrant reports the policy as not accepted.
    let refused = |reason: &str| {
        let mut local = dns("local", 2, false);
        let condition = json!({"type": "Accepted", "status": "False", "reason": reason, "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"});
        local["status"] = json!({"conditions": [condition]});
        reported(&[dns("copy", 1, true), local])
            .iter()
            .filter(|line| line.contains("HierarchyNotHonored"))
            .count()
    };
    assert_eq!((refused("Conflicted"), refused("Invalid")), (1, 0));
}

#[test]
fn policy_generated_from_a_copy_is_not_a_local_policy() {
    let count = |policies: &[Value]| {
        reported(policies).iter().filter(|line| line.contains("HierarchyNotHonored")).count()
    };
    let limits = json!({"limits": {"all": {"rates": [{"limit": 1, "window": "1s"}]}}});
    let rules = json!({"rules": {"authentication": {"anyone": {"anonymous": {}}}}});
    for (kind, source, block) in [
        ("RateLimitPolicy", "PlanPolicy.extensions.kuadrant.io", limits),
        ("AuthPolicy", "OIDCPolicy.extensions.kuadrant.io", rules),
    ] {
        let policy = |name: &str, second: u32| json!({kind: name, "created": second, "target": "Gateway/web", "overrides": block});
        let (mut copy, generated) = (policy("copy", 1), policy("made", 2));
        copy["annotations"] = json!({"kuadrant.io/policy-synced": "hub/limits"});
        let mut own = json!({source: "made", "target": "Gateway/web"});
        assert_eq!(count(&[copy.clone(), generated.clone(), own.clone()]), 1, "a local {source}");
        own["annotations"] = json!({"kuadrant.io/policy-synced": "hub/made"});
        assert_eq!(count(&[copy, generated, own]), 0, "{source}");
    }
}
