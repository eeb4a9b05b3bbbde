//! `spec.match` of a constraint as statements.

use kube::core::{ApiResource, GroupVersionKind};
use serde_json::Value;

use super::quoted;

/// The plurals of the kinds in `matches`, as policies name them; `None` stands for any kind.
pub(super) fn kinds(matches: &Value) -> Result<Vec<Option<String>>, String> {
    let Some(rules) = matches["kinds"].as_array().filter(|rules| !rules.is_empty()) else {
        return Ok(vec![None]);
    };
    let mut names = Vec::new();
    for rule in rules {
        let groups = texts(&rule["apiGroups"], "spec.match.kinds[].apiGroups")?;
        let groups = if groups.is_empty() { vec!["*"] } else { groups };
        for kind in texts(&rule["kinds"], "spec.match.kinds[].kinds")? {
            if kind == "*" {
                return Ok(vec![None]);
            }
            for group in &groups {
                let name = Some(name(if *group == "*" { "" } else { group }, kind));
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
    }
    Ok(names)
}

/// What policies call `kind` of `group`: `pods`, `deployments.apps`.
pub(super) fn name(group: &str, kind: &str) -> String {
    let plural = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "", kind)).plural;
    if group.is_empty() { plural } else { format!("{plural}.{group}") }
}

/// The statements for `matches` on an object of `kind`, after that one that binds `namespace`, `name` and `object`.
pub(super) fn statements(matches: &Value, kind: Option<&str>) -> Result<Vec<String>, String> {
    let mut statements = Vec::new();
    let Some(fields) = matches.as_object() else { return Ok(statements) };
    // A Namespace is in itself.
    let namespace = if kind == Some("namespaces") { "name" } else { "namespace" };
    for (field, value) in fields {
        let path = format!("spec.match.{field}");
        match field.as_str() {
            "kinds" => {}
            "namespaces" => {
                let found = texts(value, &path)?;
                if !found.is_empty() {
                    // Gatekeeper applies it to objects in namespaces only.
                    statements.push(one_of(namespace, &[&[""], found.as_slice()].concat()));
                }
            }
            "excludedNamespaces" => {
                let found = texts(value, &path)?;
                if !found.is_empty() {
                    statements.push(format!("not {}", one_of(namespace, &found)));
                }
            }
            "scope" => match value.as_str() {
                Some("Namespaced") => statements.push("namespace != \"\"".to_owned()),
                Some("Cluster") => statements.push("namespace == \"\"".to_owned()),
                _ => {}
            },
            "name" => {
                let name = value.as_str().ok_or_else(|| format!("{path}: expected a text"))?;
                statements.push(one_of("name", &[name]));
            }
            "labelSelector" => selector(value, &path, &mut statements)?,
            "source" if value != "Generated" => {}
            _ => return Err(format!("{path} is not converted: write the condition into the module")),
        }
    }
    Ok(statements)
}

/// Whether `variable` is one of `patterns`, which may begin or end with `*`.
fn one_of(variable: &str, patterns: &[&str]) -> String {
    let list = patterns.iter().map(|pattern| quoted(pattern)).collect::<Vec<_>>().join(", ");
    if patterns.iter().any(|pattern| pattern.contains('*')) {
        format!("count([1 | some pattern in [{list}]; glob.match(pattern, null, {variable})]) > 0")
    } else {
        format!("{variable} in {{{list}}}")
    }
}

fn selector(selector: &Value, path: &str, statements: &mut Vec<String>) -> Result<(), String> {
    let label = |key: &str| format!("object.get(object, [\"metadata\", \"labels\", {}], null)", quoted(key));
    for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        let value = value.as_str().ok_or_else(|| format!("{path}.matchLabels.{key}: expected a text"))?;
        statements.push(format!("{} == {}", label(key), quoted(value)));
    }
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        let path = format!("{path}.matchExpressions");
        let key = expression["key"].as_str().ok_or_else(|| format!("{path}[].key: expected a text"))?;
        let values = texts(&expression["values"], &format!("{path}[].values"))?;
        let values = values.iter().map(|value| quoted(value)).collect::<Vec<_>>().join(", ");
        statements.push(match expression["operator"].as_str() {
            Some("In") => format!("{} in {{{values}}}", label(key)),
            Some("NotIn") => format!("not {} in {{{values}}}", label(key)),
            Some("Exists") => format!("{} != null", label(key)),
            Some("DoesNotExist") => format!("{} == null", label(key)),
            _ => return Err(format!("{path}[].operator: expected In, NotIn, Exists or DoesNotExist")),
        });
    }
    Ok(())
}

/// The texts in the list `value`; none if it is missing.
fn texts<'v>(value: &'v Value, path: &str) -> Result<Vec<&'v str>, String> {
    let expected = || format!("{path}: expected a list of texts");
    match value {
        Value::Null => Ok(Vec::new()),
        Value::Array(items) => items.iter().map(|item| item.as_str().ok_or_else(expected)).collect(),
        _ => Err(expected()),
    }
}
