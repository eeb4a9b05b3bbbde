//! OPA's own test cases: the embedded engine has OPA's result, or the check rejects the modules for a listed reason.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use policy_sync_rego::bundle::Bundle;
use policy_sync_rego::confined::checked;
use policy_sync_rego::embedded::Embedded;
use policy_sync_rego::engine::EngineKind;
use policy_sync_rego::module::{ModuleId, Text};
use policy_sync_rego::queries::QueriedPackages;
use policy_sync_testenv::binaries::opa_cases;
use regex::Regex;
use serde::Deserialize;
use serde_json::{Value, json};

/// The minimum number of cases with OPA's result.
const EQUAL: usize = 4_130;

/// A file of OPA's test cases.
#[derive(Debug, Deserialize)]
struct File {
    cases: Vec<Case>,
}

/// A case, as in OPA's `v1/test/cases`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    note: String,
    query: String,
    #[serde(default)]
    modules: Vec<String>,
    #[serde(default)]
    data: Option<Value>,
    #[serde(default)]
    input: Option<Value>,
    /// The input as a Rego term, instead of `input`.
    #[serde(default)]
    input_term: Option<String>,
    /// The bindings of each result.
    #[serde(default)]
    want_result: Option<Vec<BTreeMap<String, Value>>>,
    #[serde(default)]
    want_error: Option<String>,
    #[serde(default)]
    want_error_code: Option<String>,
    /// Whether arrays in the results are sets.
    #[serde(default)]
    sort_bindings: bool,
    /// Whether the expected error occurs only if errors of builtins end the evaluation.
    #[serde(default)]
    strict_error: bool,
    #[serde(default, rename = "ignore_generated_vars")]
    _ignore_generated_vars: bool,
}

/// The result of an evaluation.
#[derive(Debug, PartialEq)]
enum EngineResult {
    /// The bindings of each result; none if the query is undefined.
    Results(Vec<BTreeMap<String, Value>>),
    /// The evaluation fails.
    Failed(String),
    /// The check rejects the modules.
    Rejected(String),
}

fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let (mut folders, mut files) = (vec![folder.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "yaml") {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

/// The path and the variable of a query `data.a.b = x`.
fn path_query(query: &str) -> Option<(&str, &str)> {
    let (path, variable) = query.trim().split_once(" = ")?;
    let is_name = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let is_variable = variable.starts_with(|c: char| c.is_ascii_lowercase()) && variable != "input";
    let parts: Vec<&str> = path.split('.').collect();
    let is_path = parts[0] == "data" && parts.iter().all(|part| is_name(part));
    (is_path && is_variable && is_name(variable)).then_some((path, variable))
}

fn texts(case: &Case) -> Vec<Text> {
    let text = |(number, text): (usize, &String)| Text {
        id: ModuleId::new(&format!("case/{number}.rego")),
        text: text.as_str().into(),
    };
    case.modules.iter().enumerate().map(text).collect()
}

fn embedded(case: &Case) -> Result<EngineResult> {
    let mut texts = texts(case);
    let (query, variable) = match path_query(&case.query) {
        Some((path, variable)) => (path.to_owned(), Some(variable)),
        None => {
            let names: BTreeSet<&String> =
                case.want_result.iter().flatten().flat_map(BTreeMap::keys).collect();
            let bindings: Vec<String> = names.iter().map(|name| format!("\"{name}\": {name}")).collect();
            let rule = format!(
                "package case_query\n\nresults contains {{{}}} if {{\n\t{}\n}}\n",
                bindings.join(", "),
                case.query
            );
            texts.push(Text { id: ModuleId::new("case/query.rego"), text: rule.into() });
            ("data.case_query.results".to_owned(), None)
        }
    };
    let found = checked(&texts, EngineKind::Embedded, &QueriedPackages::default());
    if !found.faults.is_empty() {
        return Ok(EngineResult::Rejected(found.faults.to_string()));
    }
    let bundle = Bundle::read(&texts).map_err(|faults| anyhow::anyhow!("{faults:?}"))?;
    let data = case.data.clone().unwrap_or_else(|| json!({}));
    let engine = match Embedded::new(&bundle, data.into()) {
        Ok(engine) => engine,
        Err(fault) => return Ok(EngineResult::Failed(fault.to_string())),
    };
    let input = match (&case.input_term, &case.input) {
        (Some(term), _) => regorus::Engine::new()
            .eval_query(format!("x := {term}"), false)?
            .result
            .first()
            .and_then(|result| result.bindings.as_object().ok()?.get(&"x".into()).cloned())
            .context("the input is not a Rego term")?,
        (None, Some(input)) => input.clone().into(),
        (None, None) => regorus::Value::Undefined,
    };
    let value = match engine.evaluate(&query, &input) {
        Ok(evaluated) => evaluated.into_value(),
        Err(failure) => return Ok(EngineResult::Failed(failure.to_string())),
    };
    let Some(value) = value.map(serde_json::to_value).transpose()? else {
        return Ok(EngineResult::Results(Vec::new()));
    };
    Ok(EngineResult::Results(match variable {
        Some(variable) => vec![BTreeMap::from([(variable.to_owned(), value)])],
        None => serde_json::from_value(value)?,
    }))
}

/// Writes equal numbers in the same way. With `sort`, also sorts arrays, which represent sets.
fn normal(value: &Value, sort: bool) -> Value {
    match value {
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 9e15 => {
                json!(float as i64)
            }
            _ => value.clone(),
        },
        Value::Array(items) => {
            let mut items: Vec<Value> = items.iter().map(|item| normal(item, sort)).collect();
            if sort {
                items.sort_by_cached_key(Value::to_string);
            }
            Value::Array(items)
        }
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| (key.clone(), normal(value, sort))).collect()
        }
        _ => value.clone(),
    }
}

fn normal_results(results: &[BTreeMap<String, Value>], sort: bool) -> Vec<Value> {
    let mut results: Vec<Value> = results
        .iter()
        .map(|bindings| bindings.iter().map(|(name, value)| (name.clone(), normal(value, sort))).collect())
        .collect();
    results.sort_by_cached_key(Value::to_string);
    results
}

/// An entry of `conformance.yaml`: a reason for which the check rejects modules that OPA accepts.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Category {
    title: String,
    /// A regular expression for the faults.
    faults: String,
    /// A regular expression for the text of a module, if `faults` is not specific enough.
    #[serde(default)]
    modules: Option<String>,
    differs: String,
    /// The alternative for users.
    instead: String,
}

/// All categories with their compiled regular expressions. A case belongs to the first category that matches.
struct Categories(Vec<(Category, Regex, Option<Regex>)>);

impl Categories {
    fn read() -> Result<Self> {
        let categories: Vec<Category> = serde_saphyr::from_str(include_str!("conformance.yaml"))?;
        let compiled = categories.into_iter().map(|category| {
            let faults = Regex::new(&category.faults)?;
            let modules = category.modules.as_deref().map(Regex::new).transpose()?;
            Ok((category, faults, modules))
        });
        Ok(Self(compiled.collect::<Result<_>>()?))
    }

    fn of(&self, case: &Case, faults: &str) -> Option<usize> {
        self.0.iter().position(|(_, expected, modules)| {
            let has = |regex: &Regex| case.modules.iter().any(|text| regex.is_match(text));
            expected.is_match(faults) && modules.as_ref().is_none_or(has)
        })
    }
}

/// Compares the result of `case` with OPA's result. Returns the category if the check rejects the modules, and an error
/// if the results differ.
fn compared(case: &Case, categories: &Categories) -> Result<Option<usize>> {
    let has_error = case.want_error.is_some() || case.want_error_code.is_some();
    let wanted = case.want_result.as_deref().map(|wanted| normal_results(wanted, case.sort_bindings));
    match embedded(case)? {
        EngineResult::Rejected(_) | EngineResult::Failed(_) if has_error => Ok(None),
        EngineResult::Rejected(faults) | EngineResult::Failed(faults) => {
            let category = categories.of(case, &faults);
            category.map(Some).with_context(|| format!("rejected without a category: {faults}"))
        }
        // In the embedded engine, an error of a builtin does not end the evaluation, so the query is undefined.
        EngineResult::Results(results) if case.strict_error && results.is_empty() => Ok(None),
        EngineResult::Results(results) => {
            let found = normal_results(&results, case.sort_bindings);
            let is_equal = wanted.as_ref() == Some(&found) && (case.strict_error || !has_error);
            ensure!(is_equal, "found {}, expected {case:?}", serde_json::to_string(&found)?);
            Ok(None)
        }
    }
}

#[tokio::test]
async fn cases_of_opa_have_the_same_result_or_are_rejected_for_a_listed_reason() -> Result<()> {
    let (folder, categories) = (opa_cases().await?, Categories::read()?);
    let (mut equal, mut rejected, mut different) = (0, vec![0; categories.0.len()], Vec::new());
    for path in files(&folder)? {
        let name = path.strip_prefix(&folder)?.display().to_string();
        let text = fs::read_to_string(&path)?;
        let file: File = serde_saphyr::from_str(&text).with_context(|| format!("reading {name}"))?;
        for case in file.cases {
            match compared(&case, &categories) {
                Ok(None) => equal += 1,
                Ok(Some(category)) => rejected[category] += 1,
                Err(error) => different.push(format!("{name}: {}: {error:#}", case.note)),
            }
        }
    }
    ensure!(different.is_empty(), "{} cases differ:\n{}", different.len(), different.join("\n"));
    ensure!(equal >= EQUAL, "{equal} cases are equal, expected {EQUAL}");
    is_current(&page(equal, &rejected, &categories)?)
}

/// The page about the differences.
fn page(equal: usize, rejected: &[usize], categories: &Categories) -> Result<String> {
    let all = equal + rejected.iter().sum::<usize>();
    let mut page = format!(
        "# Unsupported features of OPA\n\n\
         Generated by a test that runs OPA's {all} test cases with the embedded engine. {equal} of them have OPA's result. The check\n\
         rejects the modules of the others when they are loaded, for one of the reasons below. No case has another result.\n\
         [Differences from OPA](rego.md) has limits and details that these cases do not cover.\n"
    );
    for ((category, ..), count) in categories.0.iter().zip(rejected) {
        ensure!(*count > 0, "no case is rejected for {}", category.title);
        let Category { title, differs, instead, .. } = category;
        write!(page, "\n## {title}\n\n- Cases: {count}\n- Difference: {differs}\n- Instead: {instead}\n")?;
    }
    Ok(page)
}

/// Fails if the page in `docs` is not `page`; `POLICY_SYNC_UPDATE=1` writes the page.
fn is_current(page: &str) -> Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference/opa.md");
    if std::env::var_os("POLICY_SYNC_UPDATE").is_some() {
        fs::write(&path, page)?;
    }
    ensure!(
        fs::read_to_string(&path).is_ok_and(|text| text == page),
        "docs/reference/opa.md is not current: POLICY_SYNC_UPDATE=1 cargo test --test rego conformance"
    );
    Ok(())
}
