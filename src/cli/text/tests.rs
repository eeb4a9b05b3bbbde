use super::*;

#[test]
fn control_characters_are_escaped() {
    assert_eq!(printable("a\nb\t\u{1b}[31mred\u{9b}"), "a\\nb\\t\\u{1b}[31mred\\u{9b}");
    assert_eq!(printable("\u{202e}drowssap"), "\\u{202e}drowssap");
    assert_eq!(printable("grün 日本"), "grün 日本");
}

#[test]
fn escaped_json_has_the_same_value() {
    let value = serde_json::json!({"a": "\u{9b}\u{7f}\u{202e}\u{1b}\n"});
    let text = printable_json(&serde_json::to_string_pretty(&value).unwrap());
    assert!(!text.chars().any(|c| c != '\n' && (c.is_control() || is_format_character(c))), "{text:?}");
    assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
}

#[test]
fn escaped_yaml_has_the_same_value() {
    let value = serde_json::json!({
        "plain": "grün 日本", "block": "a\nb\n",
        "a": "\u{9b}\u{7f}\u{202e}\u{1b}\n", "b": ["\\x01\u{1}\u{200b}", "a\nb\u{2066}\n", "\u{2028}\u{feff}"],
        "\u{202e}key": {"c": "it's \u{200f}: #"},
    });
    let text = printable_yaml(&value).unwrap();
    assert!(!text.chars().any(|c| c != '\n' && (c.is_control() || is_format_character(c))), "{text:?}");
    assert_eq!(serde_saphyr::from_str::<serde_json::Value>(&text).unwrap(), value);
    assert!(text.contains("grün 日本"), "{text}");
}
