//! Tests of the explanations of works that exist or are planned.

use serde_json::json;

use super::*;
use crate::kinds::POLICIES;
use crate::testing::objects::Object;
use policy_sync_api::generators::{GENERATORS, Generator};
use policy_sync_api::names::{GroupResource, ObjectKey};

#[test]
fn unwritten_work_is_named() {
    let reasons = why(&world(), "eu-1");
    assert!(reasons[0].starts_with(
        "NotWritten: the controller has not created ManifestWork <cluster>/ratelimitpolicy-limits-"
    ));
    let changed = world().written().with(policy("limits").targets("web").label("team", "shop"));
    let reasons = why(&changed, "eu-1");
    assert!(
        reasons[0].starts_with("NotWritten: the controller has not updated ManifestWork <cluster>/"),
        "{reasons:?}"
    );
    let before = world().written().terminating(&policy_origin("limits"), "eu-1");
    let says =
        "Leaving: its agent has not finished removing the previous copy [the agent of cluster <cluster>]";
    assert_eq!(why(&before, "eu-1"), [says]);
    assert!(matches!(verdict(&before, "eu-1").reasons[0].when, Some(TimeBound::Since(_))));
}

#[test]
fn foreign_work_is_the_object_to_change() {
    let mut foreign =
        world().written().works.into_iter().find(|((name, _), _)| name.starts_with("ratelimit")).unwrap().1;
    foreign["metadata"]["annotations"] = serde_json::json!({});
    foreign["metadata"]["namespace"] = "eu-1".into();
    let reasons = why(&world().with_work(foreign), "eu-1");
    let says = "ForeignWork: cluster <cluster> has a ManifestWork ratelimitpolicy-limits-";
    assert!(
        reasons[0].starts_with(says)
            && reasons[0].contains("[ManifestWork <cluster>/ratelimitpolicy-limits-"),
        "{reasons:?}"
    );
}

#[test]
fn reports_of_the_agent_are_quoted() {
    let world = world().written();
    let waits = "WaitingForApply: its agent has not applied it yet [the agent of cluster <cluster>]";
    assert_eq!(why(&world, "eu-1"), [waits]);
    let copy = "RateLimitPolicy kuadrant-shop/limits on cluster <cluster>";
    let conflict = world.with_report("eu-1", &refused("conflict with \"kubectl\""));
    let says = format!("NotApplied: its agent could not apply it: conflict with \"kubectl\" [{copy}]");
    assert_eq!(why(&conflict, "eu-1"), [says]);
    assert!(!verdict(&conflict, "eu-1").state.is_present());

    let reported = |report| crate::explain::tests::world().written().with_report("eu-1", &report);
    let overridden = applied().observed(1).condition("Enforced", "False", "Overridden", "by local/limits");
    let says = "Overridden: it is overridden by a policy that was created on the cluster: by local/limits \
                [the policies that were created on cluster <cluster>]";
    assert_eq!(why(&reported(overridden), "eu-1"), [says]);
    let named = applied().observed(1).condition(
        "Enforced",
        "False",
        "Overridden",
        "RateLimitPolicy is overridden by [kuadrant-shop/zzz]",
    );
    let says = "Overridden: it is overridden by policy shop/zzz of the hub: RateLimitPolicy is overridden by [kuadrant-shop/zzz] \
                [RateLimitPolicy shop/zzz]";
    let two = || {
        let world = crate::explain::tests::world().written().with(policy("zzz").targets("web"));
        world.settled(&[policy_origin("zzz")])
    };
    assert_eq!(why(&two().with_report("eu-1", &named), "eu-1"), [says]);
    for (of_zzz, age) in [
        ("2026-01-01T00:00:01Z", "older"),
        ("2026-01-01T00:00:02Z", "in the same second"),
        ("2026-01-01T00:00:03Z", "younger"),
    ] {
        let world = two().with_policy_report("zzz", "eu-1", &applied().created(of_zzz));
        let reasons = why(&world.with_report("eu-1", &named.clone().created("2026-01-01T00:00:02Z")), "eu-1");
        assert!(
            reasons[0].contains(" of the hub, and ") && reasons[0].contains(&format!(" {age} there: ")),
            "{reasons:?}"
        );
    }
    let both = applied().observed(1).condition(
        "Enforced",
        "False",
        "Overridden",
        "overridden by kuadrant-shop/zzz, kuadrant-shop/local.",
    );
    let says = "Overridden: it is overridden by policy shop/zzz of the hub and a policy that was created on the cluster: overridden by \
                kuadrant-shop/zzz, kuadrant-shop/local. \
                [RateLimitPolicy shop/zzz | the policies that were created on cluster <cluster>]";
    assert_eq!(why(&two().with_report("eu-1", &both), "eu-1"), [says]);
    // A policy that was created on the spoke has the name of the copy, so the agent reports a conflict for the copy.
    let taken =
        two().with_policy_report("zzz", "eu-1", &refused("conflict").of_revision(&"no revision ".repeat(9)));
    let says = "Overridden: it is overridden by a policy that was created on the cluster: RateLimitPolicy is overridden by [kuadrant-shop/zzz] \
                [the policies that were created on cluster <cluster>]";
    assert_eq!(why(&taken.with_report("eu-1", &named), "eu-1"), [says]);
    let invalid = applied().observed(1).condition("Accepted", "False", "Invalid", "no such gateway");
    let says = format!(
        "Rejected: it is applied, but not accepted: Invalid: no such gateway [RateLimitPolicy shop/limits | {copy}]"
    );
    assert_eq!(why(&reported(invalid), "eu-1"), [says]);
    let unknown = applied().observed(1).condition("Enforced", "Unknown", "Unknown", "waits for the gateway");
    let says = format!(
        "Unknown: it is applied, but its condition Enforced is Unknown: Unknown: waits for the gateway \
         [RateLimitPolicy shop/limits | {copy}]"
    );
    assert_eq!(why(&reported(unknown), "eu-1"), [says]);
    // The `False` condition is the reason, not the `Unknown` condition.
    let both = applied().observed(1).condition("Accepted", "Unknown", "Pending", "");
    let says = format!(
        "NotEnforced: it is applied, but not programmed: Invalid: no port [RateLimitPolicy shop/limits | {copy}]"
    );
    assert_eq!(why(&reported(both.condition("Programmed", "False", "Invalid", "no port")), "eu-1"), [says]);
    let stale = applied().observed(0).condition("Enforced", "True", "Enforced", "");
    assert!(
        why(&reported(stale), "eu-1")[0]
            .starts_with("Pending: it is applied, but the cluster has not reported")
    );
    let says_nothing = verdict(&reported(applied()), "eu-1");
    assert!(
        says_nothing.state == CopyState::OutOfSync && says_nothing.reasons[0].code == "Unknown",
        "{says_nothing:?}"
    );
}

#[test]
fn override_by_a_generated_policy_names_its_source() {
    for Generator { source, generated } in GENERATORS {
        let (kind, origin) = (
            generated.kind,
            Origin::new(
                GroupResource::new(generated.group, generated.resource),
                ObjectKey::new("shop", "own"),
            ),
        );
        let sources = GroupResource::new(source.group, source.resource);
        let mut params = listing(&[generated.resource]);
        let kinds = params["policiesToSync"].as_array_mut().unwrap();
        kinds.push(json!({"group": source.group, "version": "v1", "resource": source.resource}));
        let mut world = world().params("multi", &params.to_string());
        for (group, resource, kind) in
            [(source.group, source.resource, source.kind), (generated.group, generated.resource, kind)]
        {
            world.resolve_as(group, resource, resolved(kind));
            world.list(&POLICIES.resource(GroupResource::new(group, resource)), &[]);
        }
        let world = world.with(Object::policy(generated.group, generated.resource, "own").targets("web"));
        let world = world.settled(std::slice::from_ref(&origin));
        let overridden = |world: World, names: &str| {
            let message = format!("{kind} is overridden by [{names}]");
            let report = applied().observed(1).condition("Enforced", "False", "Overridden", &message);
            let world = world.edited(&origin, "eu-1", |work| work["status"] = report.status(work));
            let explanation =
                world.see(|view| explain(view, &world.settings, &origin, kind, &Unavailable::new()));
            (rendered(&explanation.clusters[&ClusterName::from("eu-1")].reasons[0]), world)
        };
        // If the hub has no policy of the source kind, the overriding policy belongs to the cluster.
        let own = format!(
            "Overridden: it is overridden by a policy that was created on the cluster: {kind} is overridden by [kuadrant-shop/other] \
             [the policies that were created on cluster <cluster>]"
        );
        let (text, world) = overridden(world, "kuadrant-shop/other");
        assert_eq!(text, own);
        let other = Object::policy(source.group, source.resource, "other").targets("web");
        let world = world.with(other).settled(&[Origin::new(sources, ObjectKey::new("shop", "other"))]);
        let of_hub = format!("{} shop/other", source.kind);
        let made = format!(
            "Overridden: it is overridden by policies that the cluster's controller generated from {of_hub} of the hub: \
             {kind} is overridden by [kuadrant-shop/other] [{of_hub}]"
        );
        let (text, world) = overridden(world, "kuadrant-shop/other");
        assert_eq!(text, made);
        let (text, _) = overridden(world, "kuadrant-shop/others kuadrant-else/other");
        assert!(text.contains("a policy that was created on the cluster"), "{text}");
    }
}

#[test]
fn unreadable_report_is_not_a_rejection() {
    let info = KindInfo { has_ancestors: true, ..KindInfo::named("RateLimitPolicy") };
    let world = world().resolution("ratelimitpolicies", Resolution::Resolved(info)).written();
    let world = world
        .with_report("eu-1", &applied().ancestors("ConditionRuleExpressionInvalid", "no such key: name"));
    let says = "Untold: it is applied, but its status is unknown: the agent cannot report status.ancestors: no such \
                key: name [RateLimitPolicy kuadrant-shop/limits status on cluster <cluster>]";
    assert_eq!(why(&world, "eu-1"), [says]);
    assert!(verdict(&world, "eu-1").state.is_present());
}

#[test]
fn unavailable_agent_is_a_reason_only_where_a_work_exists() {
    let enforced = applied().observed(1).condition("Enforced", "True", "Enforced", "");
    let world = world().written().with_report("eu-1", &enforced);
    let silent: Unavailable = ["ap-1", "eu-1"].map(|name| (ClusterName::from(name), Moment(7_000))).into();
    let explanation = explained(&world, &policy_origin("limits"), &silent);
    let eu = &explanation.clusters[&ClusterName::from("eu-1")];
    assert!(eu.state != CopyState::InSync && eu.state.is_present());
    let codes: Vec<&str> = eu.reasons.iter().map(|reason| reason.code).collect();
    assert_eq!(
        (codes, eu.reasons[1].when),
        (vec!["Enforced", "AgentSilent"], Some(TimeBound::Since(Moment(7_000))))
    );
    assert_eq!(explanation.clusters[&ClusterName::from("ap-1")].reasons.len(), 1);
}

#[test]
fn unreadable_class_parameters_are_the_reason() {
    let fault = "parameters params/multi cannot be read: configmaps is forbidden (403)";
    let conditions = serde_json::json!({"conditions": [{"type": "Accepted", "status": "Unknown", "reason": "ParametersUnread",
        "message": fault, "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
    let world = world().with(class("multi").status(conditions));
    let right = "the controller's right to get, list and watch it";
    let says = format!(
        "ParametersUnread: it targets Gateway shop/web of GatewayClass multi, which the controller cannot serve: {fault} \
         [{PARAMS} | {right}]"
    );
    assert_eq!(stops(&world), [says]);
}

#[test]
fn policy_names_the_older_copy_it_waits_for() {
    let aged = |name: &str, second: u32| {
        let created = json!(format!("2025-12-31T00:00:{second:02}Z"));
        policy(name).targets("web").metadata("creationTimestamp", created)
    };
    let mut params = crate::testing::objects::listing(&["ratelimitpolicies"]);
    params["policyWaitSeconds"] = json!(10);
    let world = crate::testing::world::shop(&["eu-1"]).params("multi", &params.to_string());
    let world = world.with(aged("older", 0)).with(aged("limits", 5));
    let says = "WaitsForOlder: it waits for the copy of policy shop/older, which has the same target and is older \
                [RateLimitPolicy shop/older on cluster <cluster>]";
    assert_eq!(why(&world, "eu-1"), [says]);
}
