//! Tests a spoke's work agent as a producer of works uses it: the built-in agent, or OCM's agent if
//! `POLICY_SYNC_WORK_AGENT` names its binary.
//!
//! The tests share a fleet and use separate namespaces. Each test reads only its own objects on a spoke.

use kube::api::{DeleteParams, Patch, PatchParams};
use policy_sync_api::params::Params;
use policy_sync_api::work::ManifestWork;
use policy_sync_testenv::api::AppliedManifestWork;
use policy_sync_testenv::apply::{apply, apply_status};
use policy_sync_testenv::fixtures::{auth_policy, gateway, namespace, rate_limit_policy};
use serde_json::json;

use crate::spokes::{self, SpokeFixture, Work, config, orphaned_namespace, reads};

#[tokio::test]
async fn applies_a_policy_and_reports_its_status() {
    let fixture = SpokeFixture::on("eu-1", "feedback").await;
    apply(&fixture.spoke, &namespace("feedback")).await.unwrap();
    apply(&fixture.spoke, &gateway("feedback", "web", "istio", None)).await.unwrap();
    let work = fixture.create(&policy_work("feedback-policy", "feedback", 10)).await;

    let work = fixture.applied(&work).await;
    let manifest = &work.status.as_ref().unwrap().resource_status.manifests[1];
    let meta = &manifest.resource_meta;
    assert_eq!((meta.ordinal, meta.group.as_str(), meta.version.as_str()), (1, "kuadrant.io", "v1"));
    assert_eq!((meta.kind.as_str(), meta.resource.as_str()), ("RateLimitPolicy", "ratelimitpolicies"));
    assert_eq!((meta.namespace.as_str(), meta.name.as_str()), ("feedback", "limits"));

    fixture
        .until(&work, "the status of Enforced is reported", |work| {
            reads(work, 1, "_enforced") == json!("True")
        })
        .await;
    let work = fixture
        .until(&work, "the generation is reported", |work| reads(work, 1, "_observed") == json!(1))
        .await;
    assert_eq!(reads(&work, 1, "_revision"), json!("r1"));
    assert_eq!(reads(&work, 1, "_absent"), json!(null), "a missing key has no value");
    fixture.until_condition(&work, "Available", "True", "ResourcesAvailable").await;
}

#[tokio::test]
async fn feedback_has_ocms_types_and_limits() {
    let fixture = SpokeFixture::on("eu-1", "types").await;
    let paths = [
        ("number", ".spec.limits.all.rates[0].limit"),
        ("text", ".spec.limits.all.rates[0].window"),
        ("list", ".spec.limits.all.rates"),
        ("beyond", ".spec.limits.all.rates[7].limit"),
        ("quoted", r#".metadata["name"]"#),
        ("name", ".metadata['name']"),
    ];
    let work = Work::new("types")
        .manifest(orphaned_namespace("types"))
        .orphan("", "namespaces", "", "types")
        .manifest(rate_limit_policy("types", "limits", "web"))
        .config(config("kuadrant.io", "ratelimitpolicies", "types", "limits", &paths))
        .config(spokes::create_only("", "namespaces", "", "types"));
    let work = fixture.create(&work).await;
    let work =
        fixture.until(&work, "the name is reported", |work| reads(work, 1, "name") == json!("limits")).await;
    assert_eq!(reads(&work, 1, "number"), json!(10));
    assert_eq!(reads(&work, 1, "text"), json!("10s"));
    for absent in ["list", "beyond", "quoted"] {
        assert_eq!(reads(&work, 1, absent), json!(null), "{absent}");
    }
    let synced = spokes::manifest_condition(&work, 1, "StatusFeedbackSynced").unwrap();
    assert_eq!((synced.status.as_str(), synced.reason.as_str()), ("False", "StatusFeedbackSyncFailed"));
    assert!(
        synced.message.contains("the type []interface {} of the value for list is not found"),
        "{}",
        synced.message
    );
    assert!(synced.message.contains("array index out of bounds: index 7, length 1"), "{}", synced.message);
}

/// Result of evaluating a feedback path.
#[derive(Clone, Debug, PartialEq)]
enum FeedbackResult {
    /// The agent reports an error.
    Rejected,
    /// There is no value.
    NoValue,
    /// There is a value.
    Reported(serde_json::Value),
}

/// Feedback paths that parameters reject, and their results in OCM's agent: an error, the first of several values, or a
/// value that differs from RFC 9535. The built-in agent supports fewer paths, and reports an error for the unsupported
/// paths.
#[tokio::test]
async fn rejected_paths_evaluate_as_expected() {
    let fixture = SpokeFixture::on("eu-1", "refused").await;
    let table = [
        ("spec", FeedbackResult::Rejected),
        ("spec.targetRef.name", FeedbackResult::Rejected),
        ("$.metadata.name", FeedbackResult::Reported(json!("limits"))),
        ("{.metadata.name}", FeedbackResult::Rejected),
        ("@.metadata.name", FeedbackResult::Reported(json!("limits"))),
        (".metadata.", FeedbackResult::NoValue),
        ("..limit", FeedbackResult::Reported(json!(10))),
        (".spec.limits.*.rates[0].limit", FeedbackResult::Reported(json!(10))),
        (".spec.limits.all.rates[*].limit", FeedbackResult::Reported(json!(10))),
        (".spec.limits.all.rates[-1].limit", FeedbackResult::Reported(json!(10))),
        (".spec.limits.all.rates[00].limit", FeedbackResult::Reported(json!(10))),
        (".spec.limits.all.rates[0:1].limit", FeedbackResult::Reported(json!(10))),
        (".spec.limits.all.rates[0,1].limit", FeedbackResult::Rejected),
        (".metadata[\"name\"]", FeedbackResult::Rejected),
        (".metadata['name", FeedbackResult::Rejected),
        (".metadata.annotations['example.com/tier']", FeedbackResult::NoValue),
        (".spec.limits.all.rates[?(@.limit>1)].limit", FeedbackResult::Reported(json!(10))),
        (".spec.limits.all.rates[?(@.limit==10)].window", FeedbackResult::Reported(json!("10s"))),
        (".spec.limits.all.rates[?(@.window==\"10s\")][?(@.limit==10)].limit", FeedbackResult::Rejected),
        (".metadata name", FeedbackResult::Rejected),
        (".spec.limits.all.rates.length()", FeedbackResult::NoValue),
        (".spec['limits','targetRef'].name", FeedbackResult::Reported(json!("web"))),
    ];
    for (path, _) in &table {
        let field = json!({"name": "a", "path": path});
        let kind = json!({"group": "a", "version": "v1", "resource": "b", "statusFields": [field]});
        let fault = Params::parse(&json!({"policiesToSync": [kind]}).to_string()).unwrap_err();
        assert!(fault.to_string().contains("path: "), "{path}: {fault}");
    }
    let names: Vec<String> = (0..table.len()).map(|index| format!("p{index}")).collect();
    let paths: Vec<(&str, &str)> = names
        .iter()
        .map(String::as_str)
        .zip(table.iter().map(|(path, _)| *path))
        .chain([("name", ".metadata.name")])
        .collect();
    let mut limits = rate_limit_policy("refused", "limits", "web");
    limits["metadata"]["annotations"] = json!({"example.com/tier": "gold"});
    let work = Work::new("refused")
        .manifest(orphaned_namespace("refused"))
        .orphan("", "namespaces", "", "refused")
        .manifest(limits)
        .config(config("kuadrant.io", "ratelimitpolicies", "refused", "limits", &paths))
        .config(spokes::create_only("", "namespaces", "", "refused"));
    let work = fixture.create(&work).await;
    let work =
        fixture.until(&work, "the name is reported", |work| reads(work, 1, "name") == json!("limits")).await;
    let errors = spokes::manifest_condition(&work, 1, "StatusFeedbackSynced").unwrap().message.clone();
    for (name, (path, expected)) in names.iter().zip(&table) {
        let found = match reads(&work, 1, name) {
            serde_json::Value::Null if errors.contains(&format!(" {name} ")) => FeedbackResult::Rejected,
            serde_json::Value::Null => FeedbackResult::NoValue,
            value => FeedbackResult::Reported(value),
        };
        assert!([expected, &FeedbackResult::Rejected].contains(&&found), "{path}: {found:?}, {errors}");
    }
}

#[tokio::test]
async fn reports_a_conflict_and_keeps_local_fields() {
    let fixture = SpokeFixture::on("eu-1", "conflict").await;
    apply(&fixture.spoke, &namespace("conflict")).await.unwrap();
    let theirs = rate_limit_policy("conflict", "limits", "theirs");
    let api = fixture.policies("conflict");
    let params = PatchParams::apply("kubectl").force();
    api.patch("limits", &params, &Patch::Apply(&theirs)).await.unwrap();

    let work = fixture.create(&policy_work("conflict-policy", "conflict", 10)).await;
    // On the first try, the spoke's API server may not have the agent's new right yet.
    let shape = r#"Failed to apply manifest: Apply failed with 1 conflict: conflict with "kubectl""#;
    let refused = |work: &ManifestWork| {
        spokes::manifest_condition(work, 1, "Applied").is_some_and(|found| found.message.starts_with(shape))
    };
    let work = fixture.until(&work, "a field of another manager is a conflict", refused).await;
    let applied = spokes::manifest_condition(&work, 1, "Applied").unwrap();
    assert_eq!(
        (applied.status.as_str(), applied.reason.as_str(), applied.observed_generation),
        ("False", "AppliedManifestFailed", Some(1))
    );
    let whole = spokes::work_condition(&work, "Applied").unwrap();
    assert_eq!((whole.status.as_str(), whole.reason.as_str()), ("False", "AppliedManifestWorkFailed"));
    assert!(applied.message.ends_with(": .spec.targetRef.name"), "{}", applied.message);

    fixture.delete(&work).await;
    assert_eq!(api.get("limits").await.unwrap().data["spec"]["targetRef"]["name"], "theirs");
}

#[tokio::test]
async fn follows_the_spec_and_removes_dropped_manifests() {
    let fixture = SpokeFixture::on("eu-1", "follow").await;
    let both = policy_work("follow-policy", "follow", 10)
        .manifest(auth_policy("follow", "login", "web"))
        .config(spokes::server_side_apply("kuadrant.io", "authpolicies", "follow", "login"));
    let work = fixture.create(&both).await;
    fixture.applied(&work).await;
    assert!(fixture.logins("follow").get_opt("login").await.unwrap().is_some());

    let work = fixture.replace(&policy_work("follow-policy", "follow", 20)).await;
    let work = fixture.applied(&work).await;
    assert_eq!(work.status.unwrap().resource_status.manifests.len(), 2);
    let policy = fixture.policies("follow").get("limits").await.unwrap();
    assert_eq!(policy.data["spec"]["limits"]["all"]["rates"][0]["limit"], 20);
    fixture
        .gone("the dropped policy", || async {
            fixture.logins("follow").get_opt("login").await.unwrap().is_none()
        })
        .await;
}

#[tokio::test]
async fn cleans_up_and_leaves_an_orphan() {
    let fixture = SpokeFixture::on("eu-1", "cleanup").await;
    let work = fixture.create(&policy_work("cleanup-policy", "cleanup", 10)).await;
    let work = fixture.applied(&work).await;
    let records: kube::Api<AppliedManifestWork> = kube::Api::all(fixture.spoke.clone());
    let all = records.list(&Default::default()).await.unwrap();
    let record = all.into_iter().find(|record| record.spec.manifest_work_name == "cleanup-policy").unwrap();
    let name = record.metadata.name.unwrap();
    let (hash, rest) = name.split_at(64);
    assert!(hash.chars().all(|digit| digit.is_ascii_hexdigit()) && rest == "-cleanup-policy", "{name}");
    assert_eq!(hash, record.spec.hub_hash);

    fixture.delete(&work).await;
    assert!(fixture.policies("cleanup").get_opt("limits").await.unwrap().is_none());
    assert!(records.get_opt(&name).await.unwrap().is_none());
    let namespace = fixture.namespaces().get("cleanup").await.unwrap();
    assert_eq!(namespace.metadata.deletion_timestamp, None);
}

#[tokio::test]
async fn applies_once_access_is_granted() {
    let fixture = SpokeFixture::without_access("us-1").await;
    let name = "late-rights";
    let policy = policy_sync_testenv::fixtures::timeout_policy(name, "timeouts", &["web"]);
    let work = Work::new(name)
        .manifest(orphaned_namespace(name))
        .orphan("", "namespaces", "", name)
        .config(spokes::create_only("", "namespaces", "", name))
        .manifest(policy)
        .config(spokes::server_side_apply("policies.example.com", "timeoutpolicies", name, "timeouts"));
    let work = fixture.create(&work).await;
    let work = fixture.until_condition(&work, "Applied", "False", "AppliedManifestWorkFailed").await;
    let message = &spokes::manifest_condition(&work, 1, "Applied").unwrap().message;
    assert!(message.contains("is forbidden: User"), "{message}");

    fixture.create(&spokes::access("late-access", "policies.example.com", "timeoutpolicies")).await;
    fixture.applied(&work).await;
}

#[tokio::test]
async fn applies_once_the_kind_exists() {
    let fixture = SpokeFixture::on("us-1", "late-kind").await;
    let group = "late.example.com";
    let thing = json!({"apiVersion": "late.example.com/v1", "kind": "Thing",
        "metadata": {"name": "one", "namespace": "late-kind"}, "spec": {"size": 1}});
    let work = Work::new("late-kind")
        .manifest(orphaned_namespace("late-kind"))
        .orphan("", "namespaces", "", "late-kind")
        .config(spokes::create_only("", "namespaces", "", "late-kind"))
        .manifest(thing)
        .config(spokes::server_side_apply(group, "things", "late-kind", "one"));
    fixture.create(&spokes::access("late-kind-access", group, "things")).await;
    let work = fixture.create(&work).await;
    let work = fixture.until_condition(&work, "Applied", "False", "AppliedManifestWorkFailed").await;
    let message = &spokes::manifest_condition(&work, 1, "Applied").unwrap().message;
    assert_eq!(message, r#"Failed to apply manifest: the server doesn't have a resource type "Thing""#);

    apply(&fixture.spoke, &spokes::crd(group, "things", "Thing")).await.unwrap();
    fixture.applied(&work).await;
}

#[tokio::test]
async fn carries_on_after_a_restart() {
    let fixture = SpokeFixture::alone("restart").await;
    let (kept, dropped) = (policy_work("kept", "restart", 10), policy_work("dropped", "restart-too", 10));
    let (kept, dropped) = (fixture.create(&kept).await, fixture.create(&dropped).await);
    tokio::join!(fixture.applied(&kept), fixture.applied(&dropped));
    tokio::join!(fixture.recorded(&kept), fixture.recorded(&dropped));

    fixture.stop_agent().await;
    fixture.replace(&policy_work("kept", "restart", 30)).await;
    fixture.start_delete(&dropped).await;
    fixture.start_agent().await;
    let kept =
        fixture.until(&kept, "the work has generation 2", |work| work.metadata.generation == Some(2)).await;
    fixture.applied(&kept).await;
    fixture.deleted(&dropped).await;
    assert!(fixture.policies("restart-too").get_opt("limits").await.unwrap().is_none());
    let policy = fixture.policies("restart").get("limits").await.unwrap();
    assert_eq!(policy.data["spec"]["limits"]["all"]["rates"][0]["limit"], 30);
}

#[tokio::test]
async fn local_policy_overrides_the_synced_one_while_it_exists() {
    let fixture = SpokeFixture::on("eu-1", "overridden").await;
    let work = fixture.create(&policy_work("overridden-policy", "overridden", 10)).await;
    let reason = |expected: &'static str| {
        move |work: &policy_sync_api::work::ManifestWork| {
            reads(work, 1, "_enforced_reason") == json!(expected)
        }
    };
    let status = |field: &'static str, expected: &'static str| {
        move |work: &policy_sync_api::work::ManifestWork| reads(work, 1, field) == json!(expected)
    };
    fixture.until(&work, "the target is missing", status("_accepted_reason", "TargetNotFound")).await;
    apply(&fixture.spoke, &gateway("overridden", "web", "istio", None)).await.unwrap();
    fixture.until(&work, "enforced", reason("Enforced")).await;

    apply(&fixture.spoke, &rate_limit_policy("overridden", "local", "web")).await.unwrap();
    let work = fixture.until(&work, "overridden", reason("Overridden")).await;
    assert_eq!(reads(&work, 1, "_enforced"), json!("False"));
    assert_eq!(reads(&work, 1, "_enforced_message"), json!("Policy is overridden by [overridden/local]"));

    fixture.policies("overridden").delete("local", &DeleteParams::default()).await.unwrap();
    fixture.until(&work, "enforced again", reason("Enforced")).await;
    fixture.policies_gateways("overridden").delete("web", &DeleteParams::default()).await.unwrap();
    fixture.until(&work, "the target is missing again", status("_accepted_reason", "TargetNotFound")).await;
}

/// A status written by hand, as a policy controller does, is reported before the next poll.
#[tokio::test]
async fn status_change_is_reported_before_the_next_poll() {
    let fixture = SpokeFixture::without_policy_controller("us-1", "at-once", "thing.example.com").await;
    let group = "thing.example.com";
    let thing = json!({"apiVersion": "thing.example.com/v1", "kind": "Thing",
        "metadata": {"name": "one", "namespace": "at-once"}, "spec": {"size": 1}});
    let work = Work::new("at-once")
        .manifest(orphaned_namespace("at-once"))
        .orphan("", "namespaces", "", "at-once")
        .config(spokes::create_only("", "namespaces", "", "at-once"))
        .manifest(thing.clone())
        .config(config(group, "things", "at-once", "one", &[("size", ".status.size")]));
    let work = fixture.create(&work).await;
    fixture.applied(&work).await;
    for size in 1..=20 {
        let mut thing = thing.clone();
        thing["status"] = json!({"size": size});
        apply_status(&fixture.spoke, &thing).await.unwrap();
        let before = std::time::Instant::now();
        fixture.until(&work, "the size is reported", |work| reads(work, 1, "size") == json!(size)).await;
        // The poll interval is at least 2 s, and 20 changes cannot all coincide with a poll.
        assert!(before.elapsed() < std::time::Duration::from_secs(2), "{:?}", before.elapsed());
    }
}

fn policy_work(name: &str, namespace: &str, limit: i64) -> Work {
    let mut policy = rate_limit_policy(namespace, "limits", "web");
    policy["metadata"]["annotations"] =
        json!({"kuadrant.io/policy-synced": "shop/limits", "kuadrant.io/revision": "r1"});
    policy["spec"]["limits"]["all"]["rates"][0]["limit"] = json!(limit);
    let paths = [
        ("_revision", r".metadata.annotations['kuadrant\.io/revision']"),
        ("_observed", ".status.observedGeneration"),
        ("_absent", ".status.nothing"),
        ("_accepted_reason", r#".status.conditions[?(@.type=="Accepted")].reason"#),
        ("_enforced", r#".status.conditions[?(@.type=="Enforced")].status"#),
        ("_enforced_reason", r#".status.conditions[?(@.type=="Enforced")].reason"#),
        ("_enforced_message", r#".status.conditions[?(@.type=="Enforced")].message"#),
    ];
    Work::new(name)
        .manifest(orphaned_namespace(namespace))
        .orphan("", "namespaces", "", namespace)
        .config(spokes::create_only("", "namespaces", "", namespace))
        .manifest(policy)
        .config(config("kuadrant.io", "ratelimitpolicies", namespace, "limits", &paths))
}
