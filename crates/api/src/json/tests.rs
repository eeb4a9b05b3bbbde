use serde_json::json;

use super::*;

fn normalized(text: &str) -> String {
    let mut value: Value = serde_json::from_str(text).unwrap();
    normalize(&mut value);
    value.to_string()
}

#[test]
fn whole_doubles_become_integers() {
    assert_eq!(normalized("[1.0, -0.0, 1e3, 9007199254740993]"), "[1,0,1000,9007199254740993]");
}

#[test]
fn integers_past_64_bits_become_doubles() {
    assert_eq!(
        normalized("9223372036854775808"),
        "9.223372036854775808e18".parse::<f64>().map(|f| json!(f).to_string()).unwrap()
    );
    assert_eq!(normalized("9223372036854775807"), "9223372036854775807");
}

#[test]
fn equal_values_have_equal_hashes() {
    let left: Value = serde_json::from_str(r#"{"a": 1.0, "b": [1e300]}"#).unwrap();
    let right: Value = serde_json::from_str(r#"{"b": [1e+300], "a": 1}"#).unwrap();
    assert_eq!(Hash::of_value(&left), Hash::of_value(&right));
    assert_ne!(Hash::of_value(&left), Hash::of_value(&json!({"a": 2, "b": [1e300]})));
    assert_ne!(Hash::of_value(&json!({"a": null})), Hash::of_value(&json!({})));
}

#[test]
fn hash_depends_on_the_boundaries_of_parts() {
    assert_ne!(Hash::of_parts(&["a-b", "c"]), Hash::of_parts(&["a", "b-c"]));
}

#[test]
fn joined_value_has_the_hash_of_the_whole() {
    let (number, text) =
        (json!([1.0, -0.0, 1e300, 18_446_744_073_709_551_615_u64]), json!({"ü\n": null, "a": [{}, []]}));
    let joined = BorrowedJson::Object(vec![
        (
            "list",
            BorrowedJson::List(vec![
                BorrowedJson::Value(&number),
                BorrowedJson::Value(&text),
                BorrowedJson::List(Vec::new()),
            ]),
        ),
        ("none", BorrowedJson::Object(Vec::new())),
    ]);
    assert_eq!(Hash::of_borrowed(&joined), Hash::of_value(&json!({"none": {}, "list": [number, text, []]})));
}

/// If the hash changed, an upgrade would rewrite all works of a fleet.
#[test]
fn hash_is_that_of_canonical_json() {
    let value = json!({"b": [1.0, 2, -0.5, 1e21, "\u{1}ü\"\\/"], "a": {"y": null, "x": true, "": {}}});
    let text = r#"{"a":{"":{},"x":true,"y":null},"b":[1,2,-0.5,1e+21,"\u0001ü\"\\/"]}"#;
    assert_eq!(Hash::of_value(&value).to_string(), blake3::hash(text.as_bytes()).to_hex()[..32]);
}
