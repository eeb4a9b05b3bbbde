use serde_json::json;

use super::*;
use crate::bundle::Bundle;
use crate::embedded::Embedded;
use crate::module::Text;

/// Modules of one package and syntax whose texts begin and end in different ways.
const V0: [&str; 12] = [
    "package a\nolder = true { true }\nexempt[\"x\"]",
    "package a\ndefault one = false\none { input.x == 1 }",
    "package a\n# nothing\n\nlist[x] { x := input.list[_] } # the end",
    "package a\np = 1 { input.x == 2 } else = 2 { input.x == 1 }",
    "package a\nf(x) = x + 1 { x > 0 }\nf(x) = 0 { x == 0 }\nfs = [f(0), f(1)]",
    "package a\nq { input.y }{ input.x == 1 }",
    "package a  q2 = 7 { true }",
    "package a\n\texempt[\"y\"] { input.x == 1 }\n\n\n",
    "package a\nmap[\"k\"] = input.x { true }",
    "package a\r\nr = 3 { true }\r\n",
    "package a\ndefault two = true\ntwo = false { input.x == 2 }",
    "package a\nraw = `a\nb` { true }",
];
const V1: [&str; 8] = [
    "package a\nimport data.lib\n\nexempt contains \"x\"",
    "package a\nimport data.lib\ndefault one := false\none if input.x == 1",
    "package a\nimport data.lib\np := 1 if input.x == 2\nelse := lib.two",
    "package a\n\nimport data.lib\nf(x) := lib.two + x\nfs := [f(0), f(1)]",
    "package a\nimport data.lib q2 := 7",
    "package a\nimport data.lib\nexempt contains name if some name in input.list",
    "package a\nimport data.lib\nmap.k := input.x",
    "package a\nimport data.lib\nevery_one if { every x in input.list { x != \"z\" } }",
];

fn bundle(texts: &[String]) -> Bundle {
    let text = |(number, text): (usize, &String)| Text {
        id: ModuleId::new(&format!("policies/{number}/a.rego")),
        text: text.as_str().into(),
    };
    Bundle::read(&texts.iter().enumerate().map(text).collect::<Vec<_>>()).unwrap()
}

/// `texts` and further modules of the same package, enough to join them all.
fn many(texts: &[&str], further: &str) -> Vec<String> {
    let further = (0..MIN_JOINED_MODULES).map(|number| further.replace("NUMBER", &number.to_string()));
    texts.iter().map(|text| (*text).to_owned()).chain(further).collect()
}

fn value(bundle: &Bundle, query: &str) -> Result<String, String> {
    let input = json!({"x": 1, "list": ["a", "b"]}).into();
    let engine =
        Embedded::new(bundle, json!({"lib": {"two": 2}}).into()).map_err(|fault| fault.to_string())?;
    let value = engine.query_value(query, &input).map_err(|failure| failure.to_string())?;
    Ok(value.map(|value| value.to_string()).unwrap_or_default())
}

#[test]
fn joined_modules_have_the_values_of_modules_read_one_by_one() {
    for (texts, further) in [
        (V0.as_slice(), "package a\nm_NUMBER = NUMBER { true }\n"),
        (&V1, "package a\nimport data.lib\nm_NUMBER := NUMBER + lib.two"),
    ] {
        let mut texts = many(texts, further);
        for _ in 0..texts.len() {
            // Each text is once the first of the joined texts, and once the last.
            texts.rotate_left(1);
            let joined = bundle(&texts);
            assert_eq!(joined.texts_of_engine(), 1);
            let one_by_one = joined.unjoined();
            assert_eq!(one_by_one.texts_of_engine(), texts.len());
            let expected = value(&one_by_one, "data.a").unwrap();
            assert_eq!(value(&joined, "data.a").unwrap(), expected);
        }
    }
}

#[test]
fn modules_are_joined_whatever_their_comments_contain_and_keep_all_rules() {
    let long = format!("package a\n# {}\n#{}\nlong = 1 {{ true }}", "x".repeat(5_000), "\t".repeat(2_000));
    let returned = "package a\n# a\rb\nreturned = 1 { true }";
    let target = "package a\n__target__ := \"x\"\nevery = 1";
    let further = "package a\nm_NUMBER = NUMBER { true }\n";
    let texts = [many(&[], further), vec![long, returned.to_owned()]].concat();
    let joined = bundle(&texts);
    assert_eq!(joined.texts_of_engine(), 1);
    assert_eq!(value(&joined, "data.a").unwrap(), value(&joined.unjoined(), "data.a").unwrap());
    // The rule `__target__` changes the syntax of the rules that follow.
    let texts = [vec![target.to_owned()], many(&[], further)].concat();
    assert_eq!(bundle(&texts).texts_of_engine(), 2);
}

#[test]
fn nul_characters_are_rejected() {
    let text = Text { id: ModuleId::new("a.rego"), text: "package a\nx = 1 { true }\n# \0".into() };
    let faults = Bundle::read(&[text]).unwrap_err();
    assert_eq!(faults[0].to_string(), "a.rego:3:3: has a NUL character");
}

#[test]
fn faults_name_the_module_and_its_place() {
    let faulty = "package a\n# a comment\nsum = 1 + input.list { true }\n";
    let conflicting = "package a\n\nsame = 1 { true }\n";
    for (fault, query) in [(faulty, "data.a.sum"), (conflicting, "data.a.same")] {
        let mut texts = many(&[], "package a\nm_NUMBER = NUMBER { true }\nsame = 2 { input.x == NUMBER }\n");
        texts.insert(7, fault.to_owned());
        let joined = bundle(&texts);
        assert!(joined.texts_of_engine() < texts.len());
        assert_eq!(value(&joined, query), value(&joined.unjoined(), query));
    }
    let expected = "policies/7/a.rego:3:";
    let mut texts = many(&[], "package a\nm_NUMBER = NUMBER { true }\n");
    texts.insert(7, faulty.to_owned());
    let error = value(&bundle(&texts), "data.a.sum").unwrap_err();
    assert!(error.starts_with(expected), "{error}");
}

#[test]
fn places_in_messages_and_prints_are_those_of_modules() {
    let mut texts = many(&[], "package a\nm_NUMBER = NUMBER { true }\n");
    texts.insert(9, "package a\n\nprinted { print(\"seen\") }".to_owned());
    let joined = bundle(&texts);
    // Each further module has two lines, and the separator between two modules has one line.
    let of_engine =
        format!("rule conflicts with rule at {NAME}0:27:5 and {NAME}0:30:1, not {NAME}7:1 or {NAME}x");
    let expected = format!(
        "rule conflicts with rule at policies/8/a.rego:3:5 and policies/9/a.rego:3:1, not {NAME}7:1 or {NAME}x"
    );
    assert_eq!(joined.printed(&of_engine), expected);
    let engine = Embedded::new(&joined, json!({}).into()).unwrap();
    let prints = engine.evaluate("data.a.printed", &json!({}).into()).unwrap().prints;
    assert_eq!(prints, ["policies/9/a.rego:3: seen"]);
}

#[test]
fn joined_texts_are_limited_in_bytes_and_lines() {
    let comment = format!("# {}\n", "x".repeat(100));
    for filler in ["\n".repeat(MAX_TEXT_LINES / 4), comment.repeat(MAX_TEXT_BYTES / 4 / comment.len())] {
        let joined = bundle(&many(&[], &format!("package a\nm_NUMBER = NUMBER\n{filler}")));
        assert!((4..MIN_JOINED_MODULES).contains(&joined.texts_of_engine()), "{}", joined.texts_of_engine());
        assert_eq!(value(&joined, "data.a"), value(&joined.unjoined(), "data.a"));
    }
}
