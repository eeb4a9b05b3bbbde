//! Parses Gatekeeper's ConstraintTemplates, constraints and suites of tests.

use serde_json::Value;

/// A ConstraintTemplate with Rego.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// The name of the template.
    pub name: String,
    /// The kind of the template's constraints.
    pub kind: String,
    /// The template's own module.
    pub module: String,
    /// The modules of the template's libraries.
    pub libraries: Vec<String>,
}

/// A constraint.
#[derive(Clone, Debug, PartialEq)]
pub struct Constraint {
    /// The kind of the constraint, which identifies its template.
    pub kind: String,
    /// The name of the constraint.
    pub name: String,
    /// `spec.parameters`
    pub parameters: Value,
    /// `spec.match`
    pub matches: Value,
    /// `spec.enforcementAction`: `deny`, `warn`, `dryrun`
    pub enforcement: String,
}

/// A case of a test in a suite.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The name of the case.
    pub name: String,
    /// The object under review, or an AdmissionReview.
    pub object: Value,
    /// The assertions of the case.
    pub assertions: Vec<Assertion>,
}

/// An assertion on the violations of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assertion {
    /// The number of violations.
    pub violations: Violations,
    /// A regular expression. Only violations whose messages match it count.
    pub message: Option<String>,
}

/// The number of violations in an assertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violations {
    /// Exactly this number of violations.
    Exactly(u64),
    /// At least one violation.
    Some,
}

/// Whether the `apiVersion` of `object` belongs to `group`.
fn is_of(group: &str, object: &Value) -> bool {
    has_group(object["apiVersion"].as_str().unwrap_or_default(), group)
}

fn has_group(api_version: &str, group: &str) -> bool {
    api_version.split_once('/').is_some_and(|(found, _)| found == group)
}

/// The value at this JSON Pointer; `None` unless the value is a string.
fn text<'v>(object: &'v Value, pointer: &str) -> Option<&'v str> {
    object.pointer(pointer)?.as_str()
}

fn required<'v>(object: &'v Value, pointer: &str) -> Result<&'v str, String> {
    let field = || pointer.trim_start_matches('/').replace('/', ".");
    text(object, pointer)
        .filter(|text| !text.is_empty())
        .ok_or_else(|| format!("{}: expected a string", field()))
}

impl Template {
    /// Parses a ConstraintTemplate; `None` if `object` is of another kind.
    ///
    /// # Errors
    ///
    /// If a required field is missing, or the target has no Rego.
    pub fn read(object: &Value) -> Option<Result<Self, String>> {
        let text = |field: &str| object[field].as_str().unwrap_or_default();
        Self::is(text("apiVersion"), text("kind")).then(|| Self::of(object))
    }

    /// Whether an object with this `apiVersion` and `kind` is a ConstraintTemplate.
    #[must_use]
    pub fn is(api_version: &str, kind: &str) -> bool {
        has_group(api_version, "templates.gatekeeper.sh") && kind == "ConstraintTemplate"
    }

    fn of(object: &Value) -> Result<Self, String> {
        let targets = object["spec"]["targets"].as_array().map(Vec::as_slice).unwrap_or_default();
        let [target] = targets else {
            return Err(format!("spec.targets: expected one target, found {}", targets.len()));
        };
        let source = match target["code"].as_array() {
            Some(code) => code.iter().find(|code| code["engine"] == "Rego").map(|code| &code["source"]),
            None => Some(target),
        };
        let module = source.and_then(|source| source["rego"].as_str());
        let module = module.ok_or("spec.targets[0]: expected Rego: templates in CEL are not converted")?;
        let libraries = source.and_then(|source| source["libs"].as_array()).into_iter().flatten();
        let libraries = libraries.enumerate().map(|(index, library)| {
            let text = library.as_str().map(str::to_owned);
            text.ok_or_else(|| format!("spec.targets[0].libs[{index}]: expected a string"))
        });
        let (name, kind) =
            (required(object, "/metadata/name")?, required(object, "/spec/crd/spec/names/kind")?);
        if name != kind.to_lowercase() || !kind.chars().all(|c| c.is_ascii_alphanumeric()) {
            return Err(format!("metadata.name: expected the kind {kind} in lower case, found {name}"));
        }
        Ok(Self {
            name: name.to_owned(),
            kind: kind.to_owned(),
            module: module.to_owned(),
            libraries: libraries.collect::<Result<_, _>>()?,
        })
    }
}

impl Constraint {
    /// Parses a constraint; `None` if `object` is of another group.
    ///
    /// # Errors
    ///
    /// If the constraint has no name, or an action that cannot be converted.
    pub fn read(object: &Value) -> Option<Result<Self, String>> {
        is_of("constraints.gatekeeper.sh", object).then(|| Self::of(object))
    }

    fn of(object: &Value) -> Result<Self, String> {
        let enforcement = text(object, "/spec/enforcementAction").unwrap_or("deny");
        if !matches!(enforcement, "deny" | "warn" | "dryrun") {
            return Err(format!(
                "spec.enforcementAction: expected deny, warn or dryrun, found {enforcement}"
            ));
        }
        let name = required(object, "/metadata/name")?;
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
        if !name.chars().all(is_name) || name.starts_with('.') {
            return Err(format!(
                "metadata.name: expected lower case letters, digits, - and ., found {name:?}"
            ));
        }
        Ok(Self {
            kind: required(object, "/kind")?.to_owned(),
            name: name.to_owned(),
            parameters: match &object["spec"]["parameters"] {
                Value::Null => Value::Object(serde_json::Map::new()),
                parameters => parameters.clone(),
            },
            matches: object["spec"]["match"].clone(),
            enforcement: enforcement.to_owned(),
        })
    }
}

/// A test of a suite: the paths of its template and its constraint, and its cases with the paths of their objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuiteTest {
    /// The path of the template.
    pub template: String,
    /// The path of the constraint.
    pub constraint: String,
    /// The name, the path of the object, and the assertions of each case.
    pub cases: Vec<(String, String, Vec<Assertion>)>,
}

/// The tests of `object`, if it is a suite. Skipped tests and cases, and those that need other objects, are omitted.
#[must_use]
pub fn suite(object: &Value) -> Option<Vec<SuiteTest>> {
    if !is_of("test.gatekeeper.sh", object) || object["kind"] != "Suite" {
        return None;
    }
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let string = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let is_run = |value: &Value| value["skip"] != true && value["inventory"].is_null();
    let case = |case: Value| {
        let assertions = list(&case["assertions"]).iter().map(assertion).collect();
        (string(&case["name"]), string(&case["object"]), assertions)
    };
    let test = |test: Value| SuiteTest {
        template: string(&test["template"]),
        constraint: string(&test["constraint"]),
        cases: list(&test["cases"]).into_iter().filter(is_run).map(case).collect(),
    };
    Some(list(&object["tests"]).into_iter().filter(is_run).map(test).collect())
}

fn assertion(value: &Value) -> Assertion {
    let violations = match &value["violations"] {
        Value::Number(number) => Violations::Exactly(number.as_u64().unwrap_or_default()),
        Value::Bool(false) => Violations::Exactly(0),
        Value::String(text) if text == "no" => Violations::Exactly(0),
        _ => Violations::Some,
    };
    Assertion { violations, message: value["message"].as_str().map(str::to_owned) }
}
