//! Converts `spec.match` of a constraint to statements.

use kube::core::{ApiResource, GroupVersionKind};
use serde_json::Value;

use super::quoted;

/// The kind of Namespaces, as policies name it.
const NAMESPACES: &str = "namespaces";

/// Kinds in `spec.match`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kinds {
    /// One kind, as policies name it.
    One(String),
    /// All kinds of these groups except Namespaces. An empty list means all groups.
    Other(Vec<String>),
}

/// The kinds to which `matches`, the `spec.match` of a constraint, applies.
pub(super) fn kinds(matches: &Value) -> Result<Vec<Kinds>, String> {
    let any = || vec![Kinds::One(NAMESPACES.to_owned()), Kinds::Other(Vec::new())];
    let Some(rules) = matches["kinds"].as_array().filter(|rules| !rules.is_empty()) else {
        return Ok(any());
    };
    let (mut found, mut groups_of_all) = (Vec::new(), Vec::new());
    for rule in rules {
        let groups = texts(&rule["apiGroups"], "spec.match.kinds[].apiGroups")?;
        let kinds = texts(&rule["kinds"], "spec.match.kinds[].kinds")?;
        let is_any_group = groups.is_empty() || groups.contains(&"*");
        if kinds.is_empty() || kinds.contains(&"*") {
            if is_any_group {
                return Ok(any());
            }
            groups_of_all.extend(groups.into_iter().map(str::to_owned));
            continue;
        }
        for kind in kinds {
            let groups = if is_any_group { &[""][..] } else { &groups };
            for name in groups.iter().map(|group| Kinds::One(name(group, kind))) {
                if !found.contains(&name) {
                    found.push(name);
                }
            }
        }
    }
    if !groups_of_all.is_empty() {
        let namespaces = Kinds::One(NAMESPACES.to_owned());
        if groups_of_all.iter().any(String::is_empty) && !found.contains(&namespaces) {
            found.push(namespaces);
        }
        found.push(Kinds::Other(groups_of_all));
    }
    Ok(found)
}

impl Kinds {
    /// The Rego term for the kind: a string, or the variable `kind`.
    pub(super) fn term(&self) -> String {
        match self {
            Self::One(name) => quoted(name),
            Self::Other(_) => "kind".to_owned(),
        }
    }
}

/// The name of `kind` of `group` in policies: `pods`, `deployments.apps`.
pub(super) fn name(group: &str, kind: &str) -> String {
    let plural = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "", kind)).plural;
    if group.is_empty() { plural } else { format!("{plural}.{group}") }
}

/// The statements that apply `matches`, the `spec.match` of a constraint, to an object of `kind`. In the module, these
/// statements follow the statement that binds `namespace`, `name` and `object`.
pub(super) fn statements(matches: &Value, kind: &Kinds) -> Result<Vec<String>, String> {
    let mut statements = Vec::new();
    if let Kinds::Other(groups) = kind {
        statements.push(format!("kind != {}", quoted(NAMESPACES)));
        if !groups.is_empty() {
            let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
            statements.push(one_of("input.request.kind.group", &groups));
        }
    }
    // The namespace of a Namespace is the Namespace itself.
    let is_namespace = *kind == Kinds::One(NAMESPACES.to_owned());
    let namespace = if is_namespace { "name" } else { "namespace" };
    let fields = matches.as_object().into_iter().flatten();
    for (field, value) in fields.filter(|(_, value)| !value.is_null()) {
        let path = format!("spec.match.{field}");
        match field.as_str() {
            "kinds" => {}
            "namespaces" => {
                let found = texts(value, &path)?;
                if !found.is_empty() {
                    // Gatekeeper applies `namespaces` only to namespaced objects. Cluster-scoped objects match any
                    // list.
                    statements.push(one_of(namespace, &[&[""], found.as_slice()].concat()));
                }
            }
            "excludedNamespaces" => {
                let found = texts(value, &path)?;
                if !found.is_empty() {
                    // `excludedNamespaces` does not exclude cluster-scoped objects.
                    let excluded = one_of(namespace, &found);
                    statements.push(format!("count([1 | {namespace} != \"\"; {excluded}]) == 0"));
                }
            }
            "scope" => match value.as_str() {
                Some("Namespaced") => statements.push("namespace != \"\"".to_owned()),
                Some("Cluster") => statements.push("namespace == \"\"".to_owned()),
                _ => {}
            },
            "name" => {
                let name = value.as_str().ok_or_else(|| format!("{path}: expected a string"))?;
                if !name.is_empty() {
                    statements.push(one_of("name", &[name]));
                }
            }
            "labelSelector" => selector(value, &path, &mut statements)?,
            "source" if value != "Generated" => {}
            "namespaceSelector" if value.as_object().is_some_and(serde_json::Map::is_empty) => {}
            _ => return Err(format!("{path} is not converted: write the condition into the module")),
        }
    }
    Ok(statements)
}

/// A condition that holds if `variable` matches one of `patterns`, which may begin or end with `*`.
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
        let value = value.as_str().ok_or_else(|| format!("{path}.matchLabels.{key}: expected a string"))?;
        statements.push(format!("{} == {}", label(key), quoted(value)));
    }
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        let path = format!("{path}.matchExpressions");
        let key = expression["key"].as_str().ok_or_else(|| format!("{path}[].key: expected a string"))?;
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

/// The strings in the list `value`; empty if the list is missing.
fn texts<'v>(value: &'v Value, path: &str) -> Result<Vec<&'v str>, String> {
    let expected = || format!("{path}: expected a list of strings");
    match value {
        Value::Null => Ok(Vec::new()),
        Value::Array(items) => items.iter().map(|item| item.as_str().ok_or_else(expected)).collect(),
        _ => Err(expected()),
    }
}
