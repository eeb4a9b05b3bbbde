//! Cases with the results of OPA 1.22. `tests/rego` compares the results for all verbs and values with OPA.

use super::*;

/// `sprintf` with a JSON array of arguments.
fn formatted(format: &str, arguments: &str) -> Result<String, String> {
    let arguments = Value::from_json_str(arguments).unwrap();
    let value = sprintf(vec![format.into(), arguments]).map_err(|error| error.to_string())?;
    Ok(value.as_string().map(ToString::to_string).unwrap_or_default())
}

#[test]
fn directives_without_their_arguments_are_named() {
    for (format, arguments, expected) in [
        ("%s of %s", r#"["a"]"#, "a of %!s(MISSING)"),
        ("%s", r#"["a", "b", 1]"#, "a%!(EXTRA string=b, int64=1)"),
        ("x", "[1.5, 2]", "x%!(EXTRA float64=1.5, int64=2)"),
        ("%v% is used", "[95]", "95%!i(MISSING)s used"),
        ("100%", "[]", "100%!(NOVERB)"),
        ("%%", "[]", "%"),
        ("%z", r#"["a"]"#, "%!z(string=a)"),
        ("%٣d", "[1]", "%!٣(int64=1)d"),
        ("%d", r#"["a"]"#, "%!d(string=a)"),
        ("%.2f", "[100]", "%!f(int64=100)"),
        ("%t", "[true]", "%!t(string=true)"),
        ("%[2]s %[1]s", r#"["a", "b"]"#, "b a"),
        ("%[3]s|", r#"["a", "b"]"#, "%!s(BADINDEX)|"),
        ("%[1d|", "[2, 6]", "%!d(BADINDEX)|"),
        ("%[2]*[1]d|", "[2, 6]", "     2|"),
        ("%*d|%.*f", "[5, 7, 2, 3.14159]", "    7|3.14"),
        ("%*s|", r#"["x", "y"]"#, "%!(BADWIDTH)y|"),
    ] {
        assert_eq!(formatted(format, arguments).as_deref(), Ok(expected), "{format}");
    }
}

#[test]
fn values_are_formatted_as_by_go() {
    for (format, arguments, expected) in [
        ("%5d|%-5d|%05d|%-05d|%+d", "[7, 7, -7, 7, 7]", "    7|7    |-0007|7    |+7"),
        ("%.0d|%.3d|%#x|%#o|%O", "[0, 7, 255, 8, 8]", "|007|0xff|010|0o10"),
        ("%x|%X|%b|%x", r#"["jk", "jk", -5, -255]"#, "6a6b|6A6B|-101|-ff"),
        ("%c|%q|%U|%#U", "[65, 39, 233, 233]", "A|'\\''|U+00E9|U+00E9 'é'"),
        ("%6.2f|%08.2f|%-8.2f|%.0f", "[1.25, -2.25, 1.5, 2.0]", "  1.25|-0002.25|1.50    |2"),
        ("%v|%v|%v", "[1000000.0, 12345678.5, 0.00001234]", "1e+06|1.23456785e+07|1.234e-05"),
        ("%.3g|%.3g|%.10g", "[1.0, 123456.5, 123456.5]", "1|1.23e+05|123456.5"),
        ("%+.3e|%G", "[1234.5678, 0.00000012]", "+1.235e+03|1.2E-07"),
        ("%x|%b", "[3.5, 3.5]", "0x1.cp+01|7881299347898368p-51"),
        ("%5s|%-5s|%05s|%.1s", r#"["é", "b", "é", "éa"]"#, "    é|b    |0000é|é"),
        ("% x|%# x|%#x", r#"["ab", "ab", "ab"]"#, "61 62|0x61 0x62|0x6162"),
        ("%q", r#"["a\u00a0\u200b\u0301\u0001\"'`\n"]"#, "\"a\\u00a0\\u200b\u{301}\\x01\\\"'`\\n\""),
        ("%+q|%#q|%#q", r#"["é", "a\"b", "a`b"]"#, "\"\\u00e9\"|`a\"b`|\"a`b\""),
        ("%v|%T|%6T", "[[1, \"b\"], [1], 1]", "[1, \"b\"]|string| int64"),
    ] {
        assert_eq!(formatted(format, arguments).as_deref(), Ok(expected), "{format}");
    }
}

#[test]
fn width_and_precision_have_a_limit() {
    for (format, arguments) in [("%99999999999d", "[1]"), ("%.1001f", "[1.5]"), ("%*d", "[1001, 1]")] {
        assert!(formatted(format, arguments).unwrap_err().contains("more than 1000 characters"), "{format}");
    }
}
