use super::super::tests::{ends, is, is_undefined};
use super::ast::Type;
use super::*;

#[test]
fn trees_have_the_fields_of_opa() {
    is(
        "graphql.parse_query(\"query A($v: [Int!] = [1]) { x: a(b: $v) @c ...F ... on T { d } }\")",
        r#"{"Operations": [{
            "Name": "A", "Operation": "query",
            "VariableDefinitions": [{
                "Variable": "v", "Used": false,
                "Type": {"Elem": {"NamedType": "Int", "NonNull": true}, "NamedType": "", "NonNull": false},
                "DefaultValue": {
                    "Raw": "", "Kind": 8, "ExpectedTypeHasDefault": false,
                    "Children": [{"Name": "", "Value": {"Raw": "1", "Kind": 1, "ExpectedTypeHasDefault": false}}],
                },
            }],
            "SelectionSet": [
                {
                    "Alias": "x", "Name": "a", "Directives": [{"Name": "c", "Location": ""}],
                    "Arguments": [{"Name": "b", "Value": {"Raw": "v", "Kind": 0, "ExpectedTypeHasDefault": false}}],
                },
                {"Name": "F"},
                {"TypeCondition": "T", "SelectionSet": [{"Alias": "d", "Name": "d"}]},
            ],
        }]}"#,
    );
    is(
        "graphql.parse_schema(\"# c\\ntype A implements B { a: Int }\")",
        r##"{"Definitions": [{
            "Kind": "OBJECT", "Name": "A", "Description": "", "Interfaces": ["B"], "BuiltIn": false,
            "AfterDescriptionComment": {"List": [{"Value": "# c"}]},
            "Fields": [{"Name": "a", "Description": "", "Type": {"NamedType": "Int", "NonNull": false}}],
        }]}"##,
    );
    is("graphql.parse_query(\"\")", "{}");
    for expression in
        ["graphql.parse_query(\"{\")", "graphql.parse_query(1)", "graphql.parse_schema(\"{a}\")"]
    {
        is_undefined(expression);
    }
}

#[test]
fn block_strings_lose_their_indentation() {
    for (text, expected) in [
        ("\n    a\n      b\n  ", "a\n  b"),
        ("  a\n    b", "  a\n  b"),
        ("a\n    b", "a\n    b"),
        ("\r\n  a\r  b", "a\nb"),
        (r#"a\"""b"#, r#"a"""b"#),
        (" \n\t", ""),
    ] {
        let document = parser::query(&format!("{{a(b: \"\"\"{text}\"\"\")}}")).unwrap();
        let tree = tree(&document);
        let raw = &tree["Operations"][0]["SelectionSet"][0]["Arguments"][0]["Value"]["Raw"];
        assert_eq!(*raw, Value::from(expected), "{text:?}");
    }
}

#[test]
fn syntax_trees_are_accepted_as_documents() {
    let schema = "graphql.parse_schema(\"type Query { a(b: Int): Int }\")";
    is(&format!("graphql.is_valid(graphql.parse_query(\"{{ a(b: 1) }}\"), {schema})"), "true");
    is(&format!("graphql.is_valid(graphql.parse_query(\"{{ a(b: true) }}\"), {schema})"), "false");
    is(&format!("graphql.schema_is_valid({schema})"), "true");
    is("graphql.schema_is_valid({\"Definitions\": 1})", "false");
    for (tree, what) in [
        ("{\"Definitions\": [null]}", "null in an array of a tree"),
        ("{\"definitions\": []}", "a field of another case or of the validation in a tree"),
        (
            "{\"Definitions\": [{\"Directives\": [{\"Definition\": {}}]}]}",
            "a field of another case or of the validation in a tree",
        ),
        ("{\"Definitions\": [{\"Fields\": [{}]}]}", "a tree that lacks a type or a value"),
    ] {
        ends(
            &format!("graphql.schema_is_valid({tree})"),
            &format!("graphql.schema_is_valid: GraphQL with {what} is not supported"),
        );
    }
    let of_value = |value: &str| {
        format!(
            "graphql.is_valid({{\"Operations\": [{{\"Directives\": [{{\"Arguments\": [{{\"Value\": {value}}}]}}]}}]}}, \"\")"
        )
    };
    ends(&of_value("{\"Kind\": 10}"), "an unknown kind of value in a tree");
    ends(&of_value("{\"Kind\": 1, \"Raw\": \"0x1\"}"), "a number of another form in a tree");
    ends(
        "graphql.is_valid({\"Operations\": [{\"SelectionSet\": [{\"Name\": 1}]}]}, \"\")",
        "a selection of another type in a tree",
    );
}

#[test]
fn documents_and_their_validation_have_limits() {
    let nested = |levels: usize| format!("{}a{}", "{ a ".repeat(levels), "}".repeat(levels));
    let types = |levels: usize| format!("type A {{ a: {}Int{} }}", "[".repeat(levels), "]".repeat(levels));
    let fields = |count: usize| format!("{{{}}}", "a ".repeat(count));
    for (text, is_valid) in [(nested(LEVELS), true), (fields(TOKENS - 3), true), ("#".repeat(BYTES), true)] {
        assert_eq!(parser::query(&text).is_ok(), is_valid, "{}", &text[..20]);
    }
    assert!(parser::schema(&types(LEVELS)).is_ok());
    let chain = |fragments: usize| {
        let fragment = |at: usize| format!("fragment f{at} on Query {{ ...f{} }} ", at + 1);
        format!(
            "{{ ...f0 }} {} fragment f{fragments} on Query {{ a }}",
            (0..fragments).map(fragment).collect::<String>()
        )
    };
    let spreads = |fragments: usize| {
        let each = |form: &dyn Fn(usize) -> String| (0..fragments).map(form).collect::<String>();
        format!(
            "{{ {} }} {}",
            each(&|at| format!("...f{at} ")),
            each(&|at| format!("fragment f{at} on Query {{ a }} "))
        )
    };
    let doubled: String = (0..40)
        .map(|at| format!("fragment f{at} on __Type {{ ...f{} ...f{} }} ", at + 1, at + 1))
        .chain(["fragment f40 on __Type { name }".to_owned()])
        .collect();
    for (query, what) in [
        (nested(LEVELS + 1), "more than 100 levels"),
        (format!("{{ a(b: {}", "[".repeat(LEVELS)), "more than 100 levels"),
        (fields(TOKENS), "more than 10000 tokens"),
        ("#\n".repeat(TOKENS + 1), "more than 10000 tokens"),
        ("#".repeat(BYTES + 1), "more than 65536 bytes"),
        (chain(VALIDATION_LEVELS), "more than 200 levels, including those of fragments"),
        (spreads(110), "more than 5000 pairs of fragments"),
        (fields(1_500), "more than 10000000 comparisons"),
        (format!("{{ __schema {{ types {{ ...f0 }} }} }} {doubled}"), "more than 10000000 comparisons"),
    ] {
        let values = vec![query.as_str().into(), "type Query { a: Int }".into()];
        let error = is_valid(values).unwrap_err().to_string();
        assert_eq!(
            error,
            format!("graphql.is_valid: GraphQL with {what} is not supported"),
            "{}",
            &query[..20]
        );
    }
    for query in [chain(VALIDATION_LEVELS - 10), spreads(90), fields(600)] {
        let values = vec![query.as_str().into(), "type Query { a: Int }".into()];
        assert_eq!(is_valid(values).unwrap(), true.into(), "{}", &query[..20]);
    }
    let implements = format!(
        "interface I {{ {0} }} type A implements {1} I {{ {0} }}",
        (0..700).map(|at| format!("a{at}: Int ")).collect::<String>(),
        "I & ".repeat(200)
    );
    for (schema, what) in
        [(types(LEVELS + 1), "more than 100 levels"), (implements, "more than 10000000 comparisons")]
    {
        let error = schema_is_valid(vec![schema.as_str().into()]).unwrap_err().to_string();
        assert_eq!(error, format!("graphql.schema_is_valid: GraphQL with {what} is not supported"));
    }
    let tree = (0..=LEVELS).fold(Value::new_object(), |tree, _| {
        Value::from(std::collections::BTreeMap::from([("Elem".into(), tree)]))
    });
    let error = Type::decode(&tree, &mut Decoder::default()).unwrap_err();
    assert!(matches!(error, DocumentError::Limit("levels", LEVELS)), "{error:?}");
    let error = document(
        &Value::from(std::collections::BTreeMap::from([(
            "Definitions".into(),
            vec![Value::new_object(); TOKENS].into(),
        )])),
        parser::schema,
    );
    assert!(matches!(error, Err(DocumentError::Limit("nodes", TOKENS))));
}
