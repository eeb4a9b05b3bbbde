use proptest::prelude::*;

use super::*;

fn origin() -> Origin {
    Origin::named("apps", "deployments", "shop", "web")
}

fn clusters(names: &[&str]) -> BTreeSet<ClusterName> {
    names.iter().map(|name| ClusterName::from(*name)).collect()
}

fn shares(of: &[(&str, u64)]) -> Shares {
    of.iter().map(|(name, share)| (ClusterName::from(*name), *share)).collect()
}

/// The split of 50 replicas among these clusters, where `current` is the present split.
fn fifty(preferences: &str, names: &[&str], current: &[(&str, u64)]) -> Split {
    let preferences = Preferences::read(preferences).unwrap();
    preferences.split(&origin(), 50, &clusters(names), &clusters(&[]), &shares(current))
}

/// The shares in ascending order.
fn sizes(split: &Split) -> Vec<u64> {
    let mut sizes: Vec<u64> = split.shares.values().copied().collect();
    sizes.sort_unstable();
    sizes
}

const ABC: [&str; 3] = ["a", "b", "c"];

/// This test and the following tests check the scenarios of *Federated ReplicaSets*, except those about capacity.
#[test]
fn scenario_1_replicas_are_spread_evenly() {
    let evenly = r#"{"rebalance": true, "clusters": {"*": {"weight": 1}}}"#;
    assert_eq!(sizes(&fifty(evenly, &ABC, &[])), [16, 17, 17]);
    assert_eq!(fifty(evenly, &["a"], &[]).shares, shares(&[("a", 50)]));
}

#[test]
fn scenario_2_two_in_each_cluster() {
    for preferences in [
        r#"{"rebalance": true, "clusters": {"*": {"maxReplicas": 2, "weight": 1}}}"#,
        r#"{"rebalance": true, "clusters": {"*": {"minReplicas": 2, "weight": 0}}}"#,
        r#"{"rebalance": true, "clusters": {"*": {"minReplicas": 2, "maxReplicas": 2}}}"#,
    ] {
        let split = fifty(preferences, &ABC, &[]);
        assert_eq!((sizes(&split), split.left_out), (vec![2, 2, 2], 44), "{preferences}");
    }
}

#[test]
fn scenario_3_some_clusters_get_less_if_there_are_too_few() {
    let split =
        fifty(r#"{"rebalance": true, "clusters": {"*": {"minReplicas": 20, "weight": 0}}}"#, &ABC, &[]);
    assert_eq!((sizes(&split), split.left_out), (vec![10, 20, 20], 0));
}

#[test]
fn scenario_4_one_takes_no_more_than_its_maximum() {
    let preferences =
        r#"{"rebalance": true, "clusters": {"*": {"weight": 1}, "c": {"maxReplicas": 20, "weight": 1}}}"#;
    assert_eq!(sizes(&fifty(preferences, &ABC, &[])), [16, 17, 17]);
    assert_eq!(fifty(preferences, &["a", "c"], &[]).shares, shares(&[("a", 30), ("c", 20)]));
    let split = fifty(preferences, &["c"], &[]);
    assert_eq!((split.shares, split.left_out), (shares(&[("c", 20)]), 30));
}

#[test]
fn scenario_5_one_is_much_preferred() {
    let preferences = r#"{"clusters": {"a": {"weight": 1000000}, "b": {"weight": 1}, "c": {"weight": 1}}}"#;
    assert_eq!(fifty(preferences, &ABC, &[]).shares, shares(&[("a", 50), ("b", 0), ("c", 0)]));
    assert_eq!(sizes(&fifty(preferences, &["b", "c"], &[])), [25, 25]);
}

#[test]
fn scenario_6_one_gets_twice_as_many() {
    let preferences = r#"{"clusters": {"a": {"weight": 2}, "b": {"weight": 1}, "c": {"weight": 1}}}"#;
    let split = fifty(preferences, &ABC, &[]);
    assert_eq!(split.shares[&ClusterName::from("a")], 25);
    assert_eq!(sizes(&split), [12, 13, 25]);
}

#[test]
fn scenario_7_present_replicas_are_not_moved() {
    let preferences = r#"{"rebalance": false, "clusters": {"*": {"weight": 1}}}"#;
    assert_eq!(fifty(preferences, &ABC, &[("a", 20)]).shares, shares(&[("a", 20), ("b", 15), ("c", 15)]));
    assert_eq!(sizes(&fifty(preferences, &ABC, &[("a", 30)])), [10, 10, 30]);
}

#[test]
fn the_published_sample_goes_to_one_cluster() {
    let sample = r#"{"clusters":{"c1":{"weight":1}},"rebalance":true}"#;
    let preferences = Preferences::read(sample).unwrap();
    assert!(preferences.names(&ClusterName::from("c1")) && !preferences.names(&ClusterName::from("c2")));
    assert_eq!(fifty(sample, &["c1", "c2"], &[("c2", 50)]).shares, shares(&[("c1", 50)]));
}

#[test]
fn small_workloads_are_spread_over_clusters() {
    let preferences = Preferences::read(r#"{"clusters": {"*": {"weight": 1}}}"#).unwrap();
    let taken: BTreeSet<ClusterName> = (0..20)
        .flat_map(|n| {
            let origin = Origin::named("apps", "deployments", "shop", &format!("web-{n}"));
            preferences.split(&origin, 1, &clusters(&ABC), &clusters(&[]), &Shares::new()).shares
        })
        .filter_map(|(cluster, share)| (share == 1).then_some(cluster))
        .collect();
    assert_eq!(taken, clusters(&ABC));
}

#[test]
fn huge_numbers_are_split_quickly() {
    let huge = u64::from(u32::MAX) >> 1;
    let preferences = r#"{"clusters": {"a": {"weight": 18446744073709551615}, "*": {"weight": 1}}}"#;
    let preferences = Preferences::read(preferences).unwrap();
    let names: Vec<String> = (0..1_000).map(|n| format!("c{n}")).chain(["a".to_owned()]).collect();
    let all: BTreeSet<ClusterName> = names.iter().map(|name| ClusterName::from(name.as_str())).collect();
    let began = std::time::Instant::now();
    for rest in [1, 1_000, 46_000, huge / 2] {
        let each = (huge - rest) / 1_001;
        let current: Shares = all.iter().map(|cluster| (cluster.clone(), each)).collect();
        let split = preferences.split(&origin(), huge, &all, &clusters(&[]), &current);
        assert_eq!(split.shares.values().sum::<u64>(), huge);
    }
    assert!(began.elapsed().as_secs() < 5, "it took {:?}", began.elapsed());
}

#[test]
fn invalid_preferences_are_reported_with_their_position() {
    for (text, fault) in [
        ("weight=1", ": not JSON: expected value at line 1 column 1"),
        ("[]", ": expected an object, found a list"),
        ("{}", ": clusters is required"),
        (r#"{"clusters": []}"#, ".clusters: expected an object, found a list"),
        (r#"{"clusters": {}, "rebalance": "yes"}"#, r#".rebalance: expected true or false, found "yes""#),
        (r#"{"clusters": {}, "weights": {}}"#, ".weights: unknown key, expected one of clusters, rebalance"),
        (
            r#"{"clusters": {"c1": {"weight": "2"}}}"#,
            r#".clusters.c1.weight: expected a whole number from 0, found "2""#,
        ),
        (
            r#"{"clusters": {"c1": {"weight": -1}}}"#,
            ".clusters.c1.weight: expected a whole number from 0, found -1",
        ),
        (
            r#"{"clusters": {"*": {"minReplicas": 1.5}}}"#,
            r#".clusters["*"].minReplicas: expected a whole number from 0, found 1.5"#,
        ),
        (
            r#"{"clusters": {"c1": {"minReplicas": 3, "maxReplicas": 2}}}"#,
            ".clusters.c1.minReplicas: 3 is more than maxReplicas, 2",
        ),
        (
            r#"{"clusters": {"c1": {"min": 3}}}"#,
            ".clusters.c1.min: unknown key, expected one of weight, minReplicas, maxReplicas",
        ),
        (r#"{"clusters": {"c1": {}, "c1": {}}}"#, ".clusters.c1: duplicate key"),
    ] {
        let (place, text_of_fault) = Preferences::read(text).unwrap_err();
        assert_eq!(format!("{place}: {text_of_fault}"), fault, "{text}");
    }
    let nulls = r#"{"clusters": {"c1": {"weight": null, "maxReplicas": null}}, "rebalance": null}"#;
    assert!(Preferences::read(nulls).is_ok());
}

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// Preferences of up to five clusters: weight, minimum and maximum of each.
type Bounds = Vec<(u64, u64, Option<u64>)>;

fn bounds() -> impl Strategy<Value = Bounds> {
    let maximum = prop_oneof![Just(None), (0..40_u64).prop_map(Some)];
    let one = (0..6_u64, 0..10_u64, maximum);
    let ordered = one.prop_map(|(weight, minimum, maximum)| {
        (weight, minimum, maximum.map(|maximum| maximum.max(minimum)))
    });
    prop::collection::vec(ordered, 1..=NAMES.len())
}

fn preferences(bounds: &Bounds, rebalance: bool) -> Preferences {
    let of = |(name, (weight, minimum, maximum)): (&&str, &(u64, u64, Option<u64>))| {
        ((*name).to_owned(), Preference { weight: *weight, minimum: *minimum, maximum: *maximum })
    };
    Preferences { clusters: NAMES.iter().zip(bounds).map(of).collect(), rebalance }
}

fn split(bounds: &Bounds, rebalance: bool, total: u64, current: &Shares) -> Split {
    preferences(bounds, rebalance).split(
        &origin(),
        total,
        &clusters(&NAMES[..bounds.len()]),
        &clusters(&[]),
        current,
    )
}

fn has(current: &[u64]) -> Shares {
    NAMES.iter().zip(current).map(|(name, count)| (ClusterName::from(*name), *count)).collect()
}

proptest! {
    #[test]
    fn every_replica_is_assigned_or_left_out_within_the_limits(
        bounds in bounds(), rebalance: bool, total in 0..120_u64, current in prop::collection::vec(0..60_u64, 5),
    ) {
        let split = split(&bounds, rebalance, total, &has(&current));
        prop_assert_eq!(split.shares.values().sum::<u64>() + split.left_out, total);
        let minima: u64 = bounds.iter().map(|(_, minimum, _)| minimum).sum();
        for ((_, share), (weight, minimum, maximum)) in split.shares.iter().zip(&bounds) {
            prop_assert!(maximum.is_none_or(|maximum| *share <= maximum));
            if minima <= total {
                prop_assert!(share >= minimum);
            }
            // A cluster with a weight takes the rest up to its maximum.
            if *weight > 0 && maximum.is_none_or(|maximum| *share < maximum) {
                prop_assert_eq!(split.left_out, 0);
            }
        }
    }

    #[test]
    fn splits_are_deterministic_and_stable(
        bounds in bounds(), rebalance: bool, total in 0..120_u64, current in prop::collection::vec(0..60_u64, 5),
    ) {
        let once = split(&bounds, rebalance, total, &has(&current));
        prop_assert_eq!(&split(&bounds, rebalance, total, &has(&current)), &once);
        prop_assert_eq!(split(&bounds, rebalance, total, &once.shares), once);
    }

    #[test]
    fn rebalance_ignores_present_replicas(
        bounds in bounds(), total in 0..120_u64, current in prop::collection::vec(0..60_u64, 5),
    ) {
        prop_assert_eq!(split(&bounds, true, total, &has(&current)), split(&bounds, true, total, &Shares::new()));
    }

    #[test]
    fn more_weight_never_gives_fewer_replicas(bounds in bounds(), at in 0..5_usize, more in 1..6_u64, total in 0..120_u64) {
        let at = at % bounds.len();
        let mut heavier = bounds.clone();
        heavier[at].0 += more;
        let of = |split: &Split| split.shares[&ClusterName::from(NAMES[at])];
        let (before, after) =
            (split(&bounds, true, total, &Shares::new()), split(&heavier, true, total, &Shares::new()));
        prop_assert!(of(&after) >= of(&before), "{before:?} {after:?}");
    }

    /// Without rebalance, a cluster loses replicas only in three cases. First, the total is lower than the number of
    /// current replicas; then no cluster gains replicas. Second, other clusters need replicas for their minimum. Third,
    /// the cluster exceeds its maximum.
    #[test]
    fn replicas_move_without_rebalance_only_if_necessary(
        bounds in bounds(), total in 0..120_u64, current in prop::collection::vec(0..60_u64, 5),
    ) {
        let current = has(&current);
        let split = split(&bounds, false, total, &current);
        let kept = |(cluster, (_, minimum, maximum)): (&ClusterName, &(u64, u64, Option<u64>))| {
            let has = current.get(cluster).copied().unwrap_or_default();
            has.max(*minimum).min(maximum.unwrap_or(u64::MAX))
        };
        let wanted: Vec<u64> = split.shares.keys().zip(&bounds).map(kept).collect();
        if wanted.iter().sum::<u64>() <= total {
            for (share, wanted) in split.shares.values().zip(&wanted) {
                prop_assert!(share >= wanted, "{split:?} of {current:?}");
            }
        } else {
            for (share, wanted) in split.shares.values().zip(&wanted) {
                prop_assert!(share <= wanted, "{split:?} of {current:?}");
            }
        }
    }
}
