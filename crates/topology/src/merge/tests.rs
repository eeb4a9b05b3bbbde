use super::*;
use crate::locator::KindRef;

const KIND: KindRef<'static> = KindRef { group: "example.com", kind: "LimitPolicy" };

/// Rules `key=value`, separated by spaces.
fn rules(text: &str) -> Vec<PolicyRule> {
    let pairs = text.split_whitespace().map(|rule| rule.split_once('=').unwrap());
    pairs.map(|(key, value)| PolicyRule::new(key, &value.into())).collect()
}

/// The effective policy of these policies, the least specific first, as `key=value`. Also the indexes of the policies
/// without a rule in force.
fn folded(policies: &[(&dyn MergeStrategy, &str)]) -> (String, Vec<u32>) {
    let rules: Vec<Vec<PolicyRule>> = policies.iter().map(|(_, text)| rules(text)).collect();
    let layers = policies.iter().zip(&rules).enumerate().map(|(index, ((strategy, _), rules))| Layer {
        policy: PolicyId::new(index),
        locator: Locator::new(KIND, "ns", "name"),
        rules,
        strategy: *strategy,
    });
    let effective = EffectivePolicy::fold(KIND, layers.collect());
    let texts = effective.rules.iter().map(|entry| format!("{}={}", entry.key(), entry.rule.value));
    let text = texts.collect::<Vec<_>>().join(" ").replace('"', "");
    (text, effective.lost.iter().map(|id| id.0).collect())
}

#[test]
fn strategies_of_gep_713_merge_as_documented() {
    for (strategy, expected, lost) in [
        (&AtomicDefaults as &dyn MergeStrategy, "b=low c=low", vec![0]),
        (&AtomicOverrides, "a=high b=high", vec![1]),
        (&MergeDefaults, "a=high b=low c=low", vec![]),
        (&MergeOverrides, "a=high b=high c=low", vec![]),
    ] {
        let found = folded(&[(strategy, "a=high b=high"), (&AtomicDefaults, "b=low c=low")]);
        assert_eq!(found, (expected.to_owned(), lost), "{strategy:?}");
    }
}

#[test]
fn rules_are_sorted_and_the_first_of_each_key_counts() {
    assert_eq!(folded(&[(&AtomicDefaults, "c=1 a=2 c=3 b=4")]).0, "a=2 b=4 c=1");
    let found = folded(&[(&MergeDefaults, "c=high a=high"), (&AtomicDefaults, "b=low a=low")]);
    assert_eq!(found.0, "a=low b=low c=high");
}

#[test]
fn atomic_defaults_apply_unless_a_more_specific_policy_has_rules() {
    assert_eq!(folded(&[(&AtomicDefaults, "a=high"), (&AtomicDefaults, "")]).0, "a=high");
    let mut beside = rules("when=low");
    beside[0].is_rule = false;
    let high = rules("a=high");
    let layer = |index, rules| Layer {
        policy: PolicyId::new(index),
        locator: Locator::new(KIND, "ns", "name"),
        rules,
        strategy: &AtomicDefaults,
    };
    let folded = fold(&[layer(0, &high), layer(1, &beside)]);
    assert_eq!(folded.iter().map(Entry::key).collect::<Vec<_>>(), ["a"], "conditions alone are no rules");
}

#[test]
fn overrides_are_never_lost_to_defaults_between() {
    let found = folded(&[
        (&AtomicOverrides, "a=gateway"),
        (&MergeDefaults, "a=listener b=listener"),
        (&AtomicDefaults, "a=route"),
    ]);
    assert_eq!(found, ("a=gateway".to_owned(), vec![1, 2]));
}

#[test]
fn of_the_same_target_the_newer_default_and_the_older_override_win() {
    assert_eq!(folded(&[(&AtomicDefaults, "a=older"), (&AtomicDefaults, "a=newer")]).0, "a=newer");
    assert_eq!(folded(&[(&AtomicOverrides, "a=older"), (&AtomicOverrides, "a=newer")]).0, "a=older");
}

#[test]
fn the_hash_depends_on_values_and_sources() {
    let hash = |text: &str, name: &'static str| {
        let rules = rules(text);
        let layer = Layer {
            policy: PolicyId::new(0),
            locator: Locator::new(KIND, "ns", name),
            rules: &rules,
            strategy: &AtomicDefaults,
        };
        EffectivePolicy::fold(KIND, vec![layer]).id
    };
    assert_eq!(hash("a=1", "x"), hash("a=1", "x"));
    assert_ne!(hash("a=1", "x"), hash("a=2", "x"));
    assert_ne!(hash("a=1", "x"), hash("a=1", "y"));
}
