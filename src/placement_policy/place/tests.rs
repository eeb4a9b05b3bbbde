//! What is stored is what the policy says of the developer's wish alone, whatever came before.

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// What a policy says of one key.
#[derive(Clone, Copy, Debug)]
enum Rule {
    Nothing,
    Set(&'static str),
    Remove,
    /// What the developer wrote, or nothing, and more.
    Extend,
}

/// A policy: what it says of each of the keys `k0`, `k1` and `k2`.
type Policy = [Rule; 3];

#[derive(Clone, Debug)]
enum Act {
    /// The developer writes a key of what is stored, or takes it away, and sends all of it.
    Edit(usize, Option<&'static str>),
    /// They send what they want, and nothing else.
    Replace([Option<&'static str>; 3]),
    /// They send what is stored with a forged word of what is the policy's.
    Forge(String),
    /// Another policy is in force, and is asked again.
    Policy(Policy),
    /// Another policy is in force, and what it says is written, as by anybody.
    Remediated(Policy),
}

fn key(number: usize) -> String {
    format!("k{number}")
}

fn answer(policy: &Policy, wish: &Strings) -> BTreeMap<String, Option<String>> {
    let of = |(number, rule): (usize, &Rule)| {
        let value = match rule {
            Rule::Nothing => return None,
            Rule::Set(value) => Some((*value).to_owned()),
            Rule::Remove => None,
            Rule::Extend => Some(format!("{}-x", wish.get(&key(number)).map_or("", String::as_str))),
        };
        Some((key(number), value))
    };
    policy.iter().enumerate().filter_map(of).collect()
}

/// What should be stored of this wish.
fn expected(policy: &Policy, wish: &Strings) -> Strings {
    let mut strings = wish.clone();
    for (key, value) in answer(policy, wish) {
        put(&mut strings, &key, value);
    }
    strings
}

/// What is stored where this is sent to replace `stored`.
fn stored(sent: &Value, stored: &Value, policy: &Policy, field: &str) -> Value {
    let wish = super::super::review::wish(sent, stored);
    let said = answer(policy, &strings(&wish, field));
    let mut answer = Answer::default();
    if field == "labels" {
        answer.labels = said
    } else {
        answer.annotations = said
    }
    place(sent, &wish, &answer).unwrap()
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
            json!({"annotations": {"k0": {"value": Set::new(Some("a"), None).hash, "before": "x"}}})
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
    fn what_is_stored_is_what_the_policy_says_of_the_wish_alone(
        first in policies(),
        acts in prop::collection::vec(acts(), 1..20),
        field in prop::sample::select(vec!["annotations", "labels"]),
    ) {
        let (mut policy, mut wish) = (first, Strings::new());
        let mut object = stored(&json!({"metadata": {"name": "web"}}), &Value::Null, &policy, field);
        for act in acts {
            let mut sent = object.clone();
            match act {
                Act::Edit(number, value) => {
                    let mut now = strings(&object, field);
                    // What stands there already is no wish: nobody can tell it from what is sent along.
                    if now.get(&key(number)).map(String::as_str) != value {
                        put(&mut now, &key(number), value.map(str::to_owned));
                        put(&mut wish, &key(number), value.map(str::to_owned));
                        write(&mut sent, field, &now);
                    }
                }
                Act::Replace(values) => {
                    let now = strings(&object, field);
                    let mut all = Strings::new();
                    for (number, value) in values.into_iter().enumerate() {
                        put(&mut all, &key(number), value.map(str::to_owned));
                        if now.get(&key(number)).map(String::as_str) != value {
                            put(&mut wish, &key(number), value.map(str::to_owned));
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
            prop_assert_eq!(&found, &expected(&policy, &wish));
            // Asked again it says the same, and nothing is written.
            prop_assert_eq!(&stored(&object, &object, &policy, field), &object);
        }
        // Once there is no policy, the wish is all that is there.
        let nobody = stored(&object, &object, &[Rule::Nothing; 3], field);
        prop_assert_eq!(strings(&nobody, field), wish);
        prop_assert!(nobody["metadata"]["annotations"][PLACED_BY_POLICY].is_null());
    }
}

#[test]
fn a_forged_word_of_a_new_object_is_nothing() {
    let forged =
        json!({"annotations": {"k0": {"value": Set::new(Some("a"), None).hash, "before": "forged"}}})
            .to_string();
    let sent = json!({"metadata": {"annotations": {"k0": "a", PLACED_BY_POLICY: forged}}});
    let object = stored(&sent, &Value::Null, &[Rule::Nothing; 3], "annotations");
    assert_eq!(object, json!({"metadata": {"annotations": {"k0": "a"}}}));
}

#[test]
fn a_word_that_nobody_has_reviewed_makes_nobody_write_what_no_policy_may() {
    let word = json!({
        "annotations": {"kuadrant.io/parent": {"before": "x"}, "not a key": {"before": "x"}, "a": {"before": "x"}},
        "labels": {"kuadrant.io/work-for": {"before": "x"}, "b": {"before": "not a value!"}, "c": {"before": "x"}},
    });
    let placed = Placed::read(&word.to_string());
    assert_eq!(placed.annotations.into_keys().collect::<Vec<_>>(), ["a"]);
    assert_eq!(placed.labels.into_keys().collect::<Vec<_>>(), ["c"]);
}

#[test]
fn annotations_that_the_api_would_not_take_are_refused() {
    let object = json!({"metadata": {"annotations": {"mine": "x".repeat(100 * 1024)}}});
    let place = |bytes: usize| {
        let annotations = BTreeMap::from([("k".to_owned(), Some("x".repeat(bytes)))]);
        place(&object, &object, &Answer { annotations, ..Answer::default() })
            .map_err(|fault| fault.to_string())
    };
    assert!(place(150 * 1024).is_ok());
    let error = place(300 * 1024).unwrap_err();
    assert!(error.starts_with("annotations: the object's would have 409,"), "{error}");
    assert!(error.ends_with("262,144 are allowed"), "{error}");
}
