use super::*;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::ClusterName;
use policy_sync_sync::explain::{Explanation, Unavailable, explain};
use policy_sync_sync::testing::objects::{cluster, gateway, policy, policy_origin};
use policy_sync_sync::testing::reports::{applied, refused};
use policy_sync_sync::testing::world::{World, shop};
use policy_sync_topology::show::{NodeLabel, PathsEffect, PolicyEffect, Replacement};

fn explanation(world: &World, unavailable: &Unavailable) -> Explanation {
    let kind = "RateLimitPolicy";
    world.see(|view| explain(view, &world.settings, &policy_origin("limits"), kind, unavailable))
}

fn explained_with<T>(
    world: &World,
    unavailable: &Unavailable,
    output: impl FnOnce(&ObjectExplanation) -> T,
) -> T {
    let explanation = explanation(world, unavailable);
    output(&ObjectExplanation::new(policy_origin("limits"), "RateLimitPolicy", explanation, false))
}

/// A fleet of 1,000 clusters, of which the first 100 are placed.
fn fleet() -> World {
    let names: Vec<String> = (0..1000).map(|index| format!("c-{index:04}")).collect();
    let placed: Vec<&str> = names[..100].iter().map(String::as_str).collect();
    let world = shop(&placed).with(policy("limits").targets("web"));
    names.iter().map(|name| cluster(name)).fold(world, World::with)
}

#[test]
fn clusters_with_the_same_result_are_grouped() {
    let world = fleet().written();
    let enforced = applied().observed(1).condition("Enforced", "True", "Enforced", "");
    let overridden = applied().observed(1).condition("Enforced", "False", "Overridden", "by local/limits");
    let world =
        world.with_report("c-0003", &refused("conflict with \"kubectl\"")).with_report("c-0001", &enforced);
    let world = world.with_report("c-0002", &overridden).with_report("c-0004", &overridden);
    let silent = [("c-0002", 2_000), ("c-0004", 1_000), ("c-0003", 5_000)];
    let silent: Unavailable = silent.map(|(name, since)| (ClusterName::from(name), Moment(since))).into();
    let sentences = explained_with(&world, &silent, text);
    insta::assert_snapshot!(sentences, @r#"
    RateLimitPolicy shop/limits is for 100 of 1000 clusters, and in force on 1.

    - GatewayClass multi lists ratelimitpolicies.kuadrant.io.
    - It targets Gateway shop/web of GatewayClass multi, which Placement shop/all places on 100 clusters.

    Enforced on c-0001:
    - It is enforced there.

    Pending on c-0000, c-0005, c-0006, c-0007, c-0008, c-0009, c-0010, c-0011, c-0012, c-0013 and 86 more:
    - Its agent has not applied it yet.
      To change: the agent of cluster <cluster>

    Unreachable on c-0002, c-0004:
    - It is overridden by a policy that was created on the cluster: by local/limits.
      To change: the policies that were created on cluster <cluster>
    - The last report of its agent may be outdated, because the cluster is not available (since 1970-01-01T00:00:01Z at the earliest).
      To change: the agent of cluster <cluster>

    Unreachable on c-0003:
    - Its agent could not apply it: conflict with "kubectl".
      To change: RateLimitPolicy kuadrant-shop/limits on cluster c-0003
    - The last report of its agent may be outdated, because the cluster is not available (since 1970-01-01T00:00:05Z).
      To change: the agent of cluster c-0003

    Not on c-0100, c-0101, c-0102, c-0103, c-0104, c-0105, c-0106, c-0107, c-0108, c-0109 and 890 more:
    - Placement shop/all, which places Gateway shop/web, has not selected the cluster.
      To change: Placement shop/all, or Gateway shop/web label cluster.open-cluster-management.io/placement
    "#);
    // The output is deterministic.
    assert_eq!(sentences, explained_with(&world, &silent, text));
    let json = explained_with(&world, &silent, ObjectExplanation::json);
    let groups = json["groups"].as_array().unwrap();
    let sizes: Vec<usize> = groups.iter().map(|group| group["clusters"].as_array().unwrap().len()).collect();
    assert_eq!(sizes, [1, 96, 2, 1, 900]);
    assert_eq!(sizes.iter().sum::<usize>(), 1000);
    assert_eq!(json["inSync"], false);
}

#[test]
fn policy_is_in_sync_if_all_planned_clusters_are() {
    let enforced = applied().observed(1).condition("Enforced", "True", "Enforced", "");
    let world =
        shop(&["eu-1"]).with(policy("limits").targets("web")).with(cluster("eu-1")).with(cluster("us-1"));
    assert!(!explained_with(&world, &Unavailable::new(), ObjectExplanation::in_sync));
    let world = world.written().with_report("eu-1", &enforced);
    assert!(explained_with(&world, &Unavailable::new(), ObjectExplanation::in_sync));
    let on = |cluster: &str| {
        let mut explanation = explanation(&world, &Unavailable::new());
        explanation.clusters.retain(|name, _| *name.0 == *cluster);
        ObjectExplanation::new(policy_origin("limits"), "RateLimitPolicy", explanation, true).in_sync()
    };
    assert!(on("eu-1") && !on("us-1"));
    // A Gateway that is placed on no cluster is out of sync.
    assert!(!explained_with(&world.with(gateway("web")), &Unavailable::new(), ObjectExplanation::in_sync));
}

#[test]
fn explanation_escapes_control_characters() {
    let evil = "\u{1b}[2J\r\n- It is enforced.\u{202e}";
    let world = shop(&["eu-1"]).with(policy("limits").targets("web")).with(cluster("eu-1")).written();
    let sentences = explained_with(&world.with_report("eu-1", &refused(evil)), &Unavailable::new(), text);
    assert!(!sentences.chars().any(|c| (c.is_control() && c != '\n') || c == '\u{202e}'), "{sentences:?}");
    assert!(
        sentences.contains("- Its agent could not apply it: \\u{1b}[2J\\r\\n- It is enforced."),
        "{sentences}"
    );
}

#[test]
fn effect_on_the_hubs_routes_precedes_the_clusters() {
    let world = shop(&[]).with(policy("limits").targets("web"));
    let at = |words: &[&str]| {
        words.iter().map(|words| NodeLabel { id: (*words).into(), words: (*words).into() }).collect()
    };
    let replacement = |keys: &[&str]| Replacement {
        keys: keys.iter().map(|key| (*key).to_owned()).collect(),
        policies: at(&["RateLimitPolicy shop/own"]),
    };
    let effect = |effect, paths, words: &[&str]| PathsEffect { effect, paths, at: at(words) };
    let report = PolicyReport {
        has_effect: Some(true),
        assumed: false,
        no_effect: None,
        effects: vec![
            effect(PolicyEffect::InForce, 1, &["HTTPRoute shop/a rule-1"]),
            effect(
                PolicyEffect::Partial(replacement(&["limits#a", "limits#b"])),
                2,
                &["HTTPRoute shop/b rule-1", "HTTPRoute shop/b rule-2"],
            ),
            effect(
                PolicyEffect::Lost(replacement(&["limits#a", "limits#b", "limits#c"])),
                1,
                &["HTTPRoute shop/\u{1b}[2J rule-1"],
            ),
        ],
        unknown: vec!["what may not be listed".to_owned()],
    };
    let printed = |report: PolicyReport| {
        explained_with(&world, &Unavailable::new(), |explanation| {
            let explanation = ObjectExplanation { on_hub: Some(report), ..explanation.clone() };
            (text(&explanation), explanation.json())
        })
    };
    let (sentences, json) = printed(report);
    insta::assert_snapshot!(sentences, @r"
    RateLimitPolicy shop/limits is for 0 of 0 clusters, and in force on 0.

    - GatewayClass multi lists ratelimitpolicies.kuadrant.io.
    - It targets Gateway shop/web of GatewayClass multi, which Placement shop/all places on 0 clusters.

    Effect on routes of the hub, which are not synced:
    - In force on 1 path: HTTPRoute shop/a rule-1.
    - Partly in force on 2 paths: HTTPRoute shop/b rule-1, HTTPRoute shop/b rule-2; for limits#a, limits#b, replaced by RateLimitPolicy shop/own.
    - Not in force on 1 path: HTTPRoute shop/\u{1b}[2J rule-1; replaced by RateLimitPolicy shop/own.
    - Unknown: what may not be listed.
    ");
    assert_eq!(json["onHub"]["fates"][2]["fate"], "Lost");
    let no_effect = PolicyReport {
        has_effect: Some(false),
        no_effect: Some(("TargetNotFound", "Gateway shop/none does not exist".into())),
        ..PolicyReport::default()
    };
    let (sentences, json) = printed(no_effect);
    assert!(
        sentences.contains("- It has no effect: Gateway shop/none does not exist (TargetNotFound).\n"),
        "{sentences}"
    );
    assert_eq!(json["onHub"]["counts"], false);
    let (sentences, _) = printed(PolicyReport::default());
    assert!(sentences.contains("- No listener or route is on a path through its targets.\n"), "{sentences}");
}
