//! Converts the cases of a suite to tests.

use std::collections::BTreeSet;
use std::fmt::Write;

use serde_json::{Value, json};

use super::matching::Kinds;
use super::objects::{Assertion, Case, Constraint, Template, Violations};
use super::{Converted, identifier, indented, matching, quoted, unused};

/// The tests of `cases` for the module of `constraint`, whose template is `of`.
///
/// # Errors
///
/// If `spec.match` of the constraint cannot be converted.
pub fn tests(of: &Template, constraint: &Constraint, cases: &[Case]) -> Result<Converted, String> {
    let kinds = matching::kinds(&constraint.matches)?;
    let mut text = "package admission_test\n\nimport rego.v1\n\nimport data.admission\n".to_owned();
    let mut used = BTreeSet::new();
    for Case { name, object, assertions } in cases {
        let rule = identifier(&format!("test {} {} {name}", of.name, constraint.name));
        let rule = unused(&mut used, &rule, '_');
        let input = indented(&input(object, &kinds), 1);
        let statements: String =
            assertions.iter().map(|assertion| format!("\t{}\n", counted(assertion))).collect();
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "
{rule} if {{
	denials := admission.deny with input as {input}
	messages := [denial.resolution.message | some denial in denials; denial.id == {id}]
{statements}}}
",
            id = quoted(&constraint.name),
        );
    }
    Ok(Converted { name: format!("{}-{}_test", of.name, constraint.name), text })
}

fn counted(assertion: &Assertion) -> String {
    let messages = match &assertion.message {
        Some(pattern) => {
            format!("[message | some message in messages; regex.match({}, message)]", quoted(pattern))
        }
        None => "messages".to_owned(),
    };
    match assertion.violations {
        Violations::Exactly(number) => format!("count({messages}) == {number}"),
        Violations::Some => format!("count({messages}) > 0"),
    }
}

/// The input of the review for `object`. If `object` is an AdmissionReview, its request is reviewed; otherwise, the
/// creation of `object` is reviewed.
fn input(object: &Value, kinds: &[Kinds]) -> Value {
    let mut request = match &object["request"] {
        Value::Object(_) if object["kind"] == "AdmissionReview" => object["request"].clone(),
        _ => json!({"operation": "CREATE", "object": object, "userInfo": {}}),
    };
    let object = match &request["object"] {
        Value::Null => request["oldObject"].clone(),
        object => object.clone(),
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
    let (group, version) = version.split_once('/').unwrap_or(("", &version));
    if request["kind"].is_null() {
        request["kind"] = json!({"group": group, "version": version, "kind": kind});
    }
    let (namespace, name) = (text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"]));
    for (field, value) in [("namespace", &namespace), ("name", &name)] {
        if request[field].is_null() {
            request[field] = value.as_str().into();
        }
    }
    let names = [matching::name(group, &kind), matching::name("", &kind)];
    let [exact, _] = &names;
    let known = names.iter().find(|name| kinds.contains(&Kinds::One((*name).clone())));
    json!({"request": request, "reviewed": [known.unwrap_or(exact), namespace, name, object]})
}
