//! Checks that a stored object depends only on the original object and the current placement policies, not on
//! its history.

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// The effect of a placement policy on one key.
#[derive(Clone, Copy, Debug)]
enum Rule {
    Nothing,
    Set(&'static str),
    Remove,
    /// Appends to the original value, or to the empty string.
    Extend,
}

/// The effects on the keys `k0`, `k1` and `k2`.
type Policy = [Rule; 3];

#[derive(Clone, Debug)]
enum Act {
    /// The developer edits or removes one key of the stored object, and sends the whole object.
    Edit(usize, Option<&'static str>),
    /// The developer sends an object with only these keys.
    Replace([Option<&'static str>; 3]),
    /// The developer sends the stored object with a forged record of original values.
    Forge(String),
    /// Another placement policy is loaded, and the object is written again.
    Policy(Policy),
    /// Another placement policy is loaded, and remediation patches the object.
    Remediated(Policy),
}

fn key(number: usize) -> String {
    format!("k{number}")
}

fn placement_result(policy: &Policy, original: &Strings) -> BTreeMap<String, Option<String>> {
    let of = |(number, rule): (usize, &Rule)| {
        let value = match rule {
            Rule::Nothing => return None,
            Rule::Set(value) => Some((*value).to_owned()),
            Rule::Remove => None,
            Rule::Extend => Some(format!("{}-x", original.get(&key(number)).map_or("", String::as_str))),
        };
        Some((key(number), value))
    };
    policy.iter().enumerate().filter_map(of).collect()
}

/// The labels or annotations that `policy` must produce if the developer of the object wrote `original`.
fn expected(policy: &Policy, original: &Strings) -> Strings {
    let mut strings = original.clone();
    for (key, value) in placement_result(policy, original) {
        put(&mut strings, &key, value);
    }
    strings
}

/// The stored object after `sent` replaces `stored`.
fn stored(sent: &Value, stored: &Value, policy: &Policy, field: &str) -> Value {
    let original = super::super::review::original(sent, stored);
    let result_strings = placement_result(policy, &strings(&original, field));
    let mut placement_result = PlacementResult::default();
    if field == "labels" {
        placement_result.labels = result_strings
    } else {
        placement_result.annotations = result_strings
    }
    place(sent, &original, &placement_result).unwrap()
}

fn values() -> impl Strategy<Value = Option<&'static str>> {
    prop::sample::select(vec![None, Some("a"), Some("b"), Some("a-x"), Some("p")])
}

fn policies() -> impl Strategy<Value = Policy> {
    let rule =
        prop::sample::select(vec![Rule::Nothing, Rule::Set("p"), Rule::Set("a"), Rule::Remove, Rule::Extend]);
    [rule.clone(), rule.clone(), rule]
}

fn acts() -> impl Strategy<Value = Act> {
    prop_oneof![
        (0..3usize, values()).prop_map(|(number, value)| Act::Edit(number, value)),
        [values(), values(), values()].prop_map(Act::Replace),
        prop::sample::select(vec![
            "{}".to_owned(),
            "{".to_owned(),
            json!({"annotations": {"k0": {"value": MetadataChange::new(Some("a"), None).hash, "before": "x"}}})
                .to_string(),
            json!({"labels": {"k1": {"before": "x"}}, "annotations": {"k1": {"before": "x"}}}).to_string(),
        ])
        .prop_map(Act::Forge),
        policies().prop_map(Act::Policy),
        policies().prop_map(Act::Remediated),
    ]
}

proptest! {
    #[test]
    fn stored_object_depends_on_original_and_policy_only(
        first in policies(),
        acts in prop::collection::vec(acts(), 1..20),
        field in prop::sample::select(vec!["annotations", "labels"]),
    ) {
        let (mut policy, mut original) = (first, Strings::new());
        let mut object = stored(&json!({"metadata": {"name": "web"}}), &Value::Null, &policy, field);
        for act in acts {
            let mut sent = object.clone();
            match act {
                Act::Edit(number, value) => {
                    let mut now = strings(&object, field);
                    // Sending the stored value again does not count as an edit: the webhook cannot distinguish it from
                    // an unchanged value.
                    if now.get(&key(number)).map(String::as_str) != value {
                        put(&mut now, &key(number), value.map(str::to_owned));
                        put(&mut original, &key(number), value.map(str::to_owned));
                        write(&mut sent, field, &now);
                    }
                }
                Act::Replace(values) => {
                    let now = strings(&object, field);
                    let mut all = Strings::new();
                    for (number, value) in values.into_iter().enumerate() {
                        put(&mut all, &key(number), value.map(str::to_owned));
                        if now.get(&key(number)).map(String::as_str) != value {
                            put(&mut original, &key(number), value.map(str::to_owned));
                        }
                    }
                    sent = json!({"metadata": {"name": "web"}});
                    write(&mut sent, field, &all);
                }
                Act::Forge(text) => {
                    sent["metadata"]["annotations"][PLACED_BY_POLICY] = text.into();
                }
                Act::Policy(other) => policy = other,
                Act::Remediated(other) => {
                    policy = other;
                    sent = stored(&object, &object, &policy, field);
                }
            }
            object = stored(&sent, &object, &policy, field);
            let mut found = strings(&object, field);
            found.remove(PLACED_BY_POLICY);
            prop_assert_eq!(&found, &expected(&policy, &original));
            // A second evaluation changes nothing.
            prop_assert_eq!(&stored(&object, &object, &policy, field), &object);
        }
        // Without a placement policy, the original object remains.
        let nobody = stored(&object, &object, &[Rule::Nothing; 3], field);
        prop_assert_eq!(strings(&nobody, field), original);
        prop_assert!(nobody["metadata"]["annotations"][PLACED_BY_POLICY].is_null());
    }
}

#[test]
fn forged_record_on_a_new_object_is_ignored() {
    let forged =
        json!({"annotations": {"k0": {"value": MetadataChange::new(Some("a"), None).hash, "before": "forged"}}})
            .to_string();
    let sent = json!({"metadata": {"annotations": {"k0": "a", PLACED_BY_POLICY: forged}}});
    let object = stored(&sent, &Value::Null, &[Rule::Nothing; 3], "annotations");
    assert_eq!(object, json!({"metadata": {"annotations": {"k0": "a"}}}));
}

#[test]
fn unreviewed_record_cannot_restore_reserved_or_invalid_keys() {
    let word = json!({
        "annotations": {"kuadrant.io/parent": {"before": "x"}, "not a key": {"before": "x"}, "a": {"before": "x"}},
        "labels": {"kuadrant.io/work-for": {"before": "x"}, "b": {"before": "not a value!"}, "c": {"before": "x"}},
    });
    let placed = PlacedByPolicy::parse(&word.to_string());
    assert_eq!(placed.annotations.into_keys().collect::<Vec<_>>(), ["a"]);
    assert_eq!(placed.labels.into_keys().collect::<Vec<_>>(), ["c"]);
}

#[test]
fn annotations_over_the_api_limit_are_rejected() {
    let object = json!({"metadata": {"annotations": {"mine": "x".repeat(100 * 1024)}}});
    let place = |bytes: usize| {
        let annotations = BTreeMap::from([("k".to_owned(), Some("x".repeat(bytes)))]);
        place(&object, &object, &PlacementResult { annotations, ..PlacementResult::default() })
            .map_err(|fault| fault.to_string())
    };
    assert!(place(150 * 1024).is_ok());
    let error = place(300 * 1024).unwrap_err();
    assert!(error.starts_with("annotations: the object's annotations would have 409,"), "{error}");
    assert!(error.ends_with("262,144 are allowed"), "{error}");
}
