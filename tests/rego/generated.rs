//! Random modules: for each module, the embedded engine has OPA's result, or the check rejects the module.
//!
//! `POLICY_SYNC_REGO_MINUTES` sets the duration, and `POLICY_SYNC_REGO_SEED` the seed of the first module.

mod grammar;

use std::collections::BTreeMap;
use std::env;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use policy_sync_rego::bundle::Bundle;
use policy_sync_rego::confined::checked;
use policy_sync_rego::embedded::{Embedded, EvaluationResult};
use policy_sync_rego::engine::EngineKind;
use policy_sync_rego::module::{ModuleId, Text};
use policy_sync_testenv::Opa;
use serde_json::{Value, json};

use self::grammar::Module;

/// The number of modules if `POLICY_SYNC_REGO_MINUTES` is not set.
const MODULES: u64 = 400;

fn input() -> Value {
    json!({
        "one": 1, "text": "web", "no": false, "null": null, "empty": [], "list": [1, 2, "a", 2.5, null],
        "labels": {"app": "web", "tier": "a", "n": 4},
        "nested": {"a": {"b": "a"}, "list": [["a", 1], ["b", 2]], "n": 8},
        "pods": [
            {"name": "web-1", "app": "web", "ports": [80, 443]},
            {"name": "db", "app": "db", "ports": [], "labels": {"a": "b"}},
        ],
    })
}

fn data() -> Value {
    json!({"limit": 2, "names": ["a", "web", "db"], "table": {"a": 1, "b": {"c": [1, 2]}, "web": "x"}, "sets": {"one": [1, 1]}})
}

/// The values of a module's rules by the name of the rule: at most one value for each rule, or the error of its
/// evaluation.
type Values = BTreeMap<String, Result<Vec<Value>, String>>;

/// The result of a comparison.
enum Comparison {
    /// The check rejects the module.
    Rejected,
    /// Only OPA rejects the module, because its type checker finds more errors, or OPA's process ends.
    RejectedByOpa,
    Equal,
    /// The name of a rule, and its values in both engines.
    Different(String),
}

/// Converts equal values to the same JSON.
fn normal(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(items) => {
            let mut items: Vec<Value> = items.iter().map(normal).collect();
            // In the embedded engine, sets sort before objects.
            if items.iter().any(Value::is_object) && items.iter().any(Value::is_array) {
                items.sort_by_cached_key(Value::to_string);
            }
            items.into()
        }
        Value::Object(fields) => fields.iter().map(|(key, value)| (normal_key(key), normal(value))).collect(),
        _ => value.clone(),
    }
}

/// Normalizes a key that is an object in JSON, because the engines sort the fields of the object differently.
fn normal_key(key: &str) -> String {
    match serde_json::from_str(key) {
        Ok(object @ Value::Object(_)) => object.to_string(),
        _ => key.to_owned(),
    }
}

/// The values in the embedded engine; `None` if the check rejects the module.
fn embedded(module: &Module) -> Result<Option<Values>> {
    let texts = [Text { id: ModuleId::new("g.rego"), text: module.text().into() }];
    let found = checked(&texts, EngineKind::Embedded, &Default::default());
    if !found.faults.is_empty() {
        return Ok(None);
    }
    let bundle = Bundle::read(&texts).map_err(|faults| anyhow::anyhow!("{faults:?}"))?;
    let engine = Embedded::new(&bundle, data().into())?;
    let input = input().into();
    let mut values = Values::new();
    for rule in module.rules() {
        let value = match engine.evaluate(&format!("data.g.{rule}"), &input).map(EvaluationResult::into_value)
        {
            Ok(value) => {
                let value = value.map(serde_json::to_value).transpose()?;
                Ok(value.iter().map(normal).collect())
            }
            Err(failure) => Err(failure.to_string()),
        };
        values.insert(rule.to_owned(), value);
    }
    Ok(Some(values))
}

/// The values in OPA. `None` if OPA rejects the module, or if OPA's process ends during the evaluation. OPA 1.22
/// overflows its stack if a variable is unified with a set that contains the variable.
async fn opa(server: &mut Opa, module: &Module) -> Result<Option<Values>> {
    let (status, _) = server.ask("PUT", "/v1/policies/g", module.text().into_bytes()).await?;
    if !status.is_success() {
        return Ok(None);
    }
    let mut values = Values::new();
    for rule in module.rules() {
        let question = json!({"query": format!("answer = data.g.{rule}"), "input": input()});
        let answer = server.ask("POST", "/v1/query", serde_json::to_vec(&question)?).await;
        if let Err(error) = &answer
            && format!("{error:#}").contains("connection closed before message completed")
        {
            server.start_again().await?;
            server.ask("PUT", "/v1/data", serde_json::to_vec(&data())?).await?;
            return Ok(None);
        }
        let (status, response) = answer?;
        let results = response["result"].as_array().into_iter().flatten();
        let values_of = results.map(|result| normal(&result["answer"])).collect();
        let value = if status.is_success() { Ok(values_of) } else { Err(response.to_string()) };
        values.insert(rule.to_owned(), value);
    }
    Ok(Some(values))
}

/// Errors that end an evaluation of the embedded engine. In OPA, an expression with such an error is undefined.
const ERRORS: [&str; 6] = [
    "operand of the wrong type",
    "arithmetic without a result",
    "needs an array",
    "conflicting values",
    "more than one value for a key",
    "rule conflicts with rule",
];

/// Whether `error` of OPA is about the head of a rule in `module`. Only lines of bodies are indented.
fn is_in_head(module: &Module, error: &str) -> bool {
    let error: Value = serde_json::from_str(error).unwrap_or_default();
    let row = error["errors"][0]["location"]["row"].as_u64().and_then(|row| usize::try_from(row).ok());
    let line = row.and_then(|row| module.text().lines().nth(row.checked_sub(1)?).map(str::to_owned));
    line.is_some_and(|line| !line.starts_with('\t'))
}

fn is_equal(module: &Module, rule: &str, own: &Values, opa: &Values) -> bool {
    match (&own[rule], &opa[rule]) {
        (Ok(own), Ok(opa)) => own == opa,
        (Err(own), Ok(_)) => ERRORS.iter().any(|error| own.contains(error)),
        (Err(_), Err(_)) => true,
        // OPA fails because of a defect, or because of a conflict in another rule or in a comprehension of a head. OPA
        // may evaluate such a rule or comprehension before a statement that does not hold.
        (Ok(_), Err(error)) => {
            let mut others = own.iter().filter(|(other, value)| *other != rule && value.is_err());
            let is_named = |other: &str| error.contains(&format!("rule data.g.{other}"));
            error.contains("requires evaluation")
                || error.contains("eval_conflict_error") && others.any(|(other, _)| is_named(other))
                || error.contains("object keys must be unique") && is_in_head(module, error)
        }
    }
}

async fn compared(server: &mut Opa, module: &Module) -> Result<Comparison> {
    let Some(own) = embedded(module)? else { return Ok(Comparison::Rejected) };
    let Some(opa) = opa(server, module).await? else { return Ok(Comparison::RejectedByOpa) };
    let different = own.iter().find(|(rule, _)| !is_equal(module, rule, &own, &opa));
    Ok(different.map_or(Comparison::Equal, |(rule, value)| {
        Comparison::Different(format!("{rule}: embedded {value:?}, OPA {:?}", opa[rule]))
    }))
}

/// Removes parts of `module` until no smaller module shows a difference. Returns the smallest module and its
/// difference.
async fn smallest(server: &mut Opa, mut module: Module, mut found: String) -> Result<(Module, String)> {
    'smaller: loop {
        for part in 0..module.parts() {
            let smaller = module.without(part);
            if smaller.text() != module.text()
                && let Comparison::Different(difference) = compared(server, &smaller).await?
            {
                (module, found) = (smaller, difference);
                continue 'smaller;
            }
        }
        return Ok((module, found));
    }
}

#[tokio::test]
async fn random_modules_have_the_same_values_as_in_opa_or_are_rejected() -> Result<()> {
    let minutes = env::var("POLICY_SYNC_REGO_MINUTES").ok().map(|minutes| minutes.parse()).transpose()?;
    let until = minutes.map(|minutes: u64| Instant::now() + Duration::from_secs(60 * minutes));
    let first: u64 =
        env::var("POLICY_SYNC_REGO_SEED").ok().map(|seed| seed.parse()).transpose()?.unwrap_or(0);
    let mut server = Opa::start().await?;
    let (status, response) = server.ask("PUT", "/v1/data", serde_json::to_vec(&data())?).await?;
    ensure!(status.is_success(), "{response}");
    let (mut seed, mut equal, mut rejected, mut by_opa, mut wrong) = (first, 0, 0, 0, Vec::new());
    while until.map_or(seed < first + MODULES, |until| Instant::now() < until) && wrong.len() < 20 {
        let module = Module::random(seed);
        match compared(&mut server, &module)
            .await
            .with_context(|| format!("seed {seed}\n{}", module.text()))?
        {
            Comparison::Rejected => rejected += 1,
            Comparison::RejectedByOpa => by_opa += 1,
            Comparison::Equal => equal += 1,
            Comparison::Different(difference) => {
                let (module, difference) = smallest(&mut server, module, difference).await?;
                wrong.push(format!("seed {seed}: {difference}\n{}", module.text()));
            }
        }
        seed += 1;
    }
    println!("{equal} modules are equal, {rejected} rejected by the check, {by_opa} by OPA only");
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    ensure!(equal > (seed - first) / 5, "only {equal} modules of {} are equal", seed - first);
    Ok(())
}
