use serde_json::json;

use super::*;

fn evaluate(expression: &str) -> std::result::Result<String, String> {
    let object = json!({"metadata": {"generation": 3}, "list": ["a", "bü"], "flag": true, "half": 0.5});
    text(expression, &object, true)
}

#[test]
fn sizes_and_cuts_are_in_characters() {
    assert_eq!(evaluate("string(size('aü😀'))").unwrap(), "3");
    assert_eq!(evaluate("'aü😀b'.substring(1, 3)").unwrap(), "ü😀");
    assert_eq!(evaluate("'aü'.substring(0, 2)").unwrap(), "aü");
    assert!(evaluate("'aü'.substring(0, 3)").is_err());
    assert!(evaluate("'aü'.substring(2, 1)").is_err());
}

#[test]
fn lists_are_mapped_filtered_and_joined() {
    assert_eq!(evaluate("object.list.map(s, string(size(s)) + ':' + s).join('')").unwrap(), "1:a2:bü");
    assert_eq!(evaluate("object.list.filter(s, s in ['a', 'x']).join(',')").unwrap(), "a");
    assert!(evaluate("[1, 2].join('')").is_err());
}

#[test]
fn presence_is_tested_with_has_and_in() {
    assert_eq!(evaluate("has(object.status) ? object.status.text : 'none'").unwrap(), "none");
    assert_eq!(evaluate("'x' in object.metadata ? 'there' : 'gone'").unwrap(), "gone");
    assert_eq!(evaluate("string(object.metadata['generation'])").unwrap(), "3");
    assert!(evaluate("object.status.text").is_err());
}

#[test]
fn functions_unknown_to_ocms_agent_are_rejected() {
    for expression in [
        "'a'.upperAscii()",
        "'a b'.split(' ').join('')",
        "'ab'.replace('a', 'b')",
        "'abc'.indexOf('b') == 1 ? '' : ''",
        "string(sets.contains([1], [1]))",
        "string(object.list.sum())",
        "string(quantity('1Gi').asInteger())",
        "'%d'.format([1])",
    ] {
        assert!(evaluate(expression).is_err(), "{expression}");
    }
}

#[test]
fn results_of_the_wrong_type_are_errors() {
    let object = json!({"flag": false});
    assert_eq!(boolean("object.flag", &object), Ok(false));
    assert!(boolean("'text'", &object).is_err());
    assert!(evaluate("object.half").is_err());
    assert_eq!(evaluate("result ? 'yes' : 'no'").unwrap(), "yes");
    assert!(boolean("result", &object).is_err());
    assert!(boolean("object.", &object).is_err());
}
