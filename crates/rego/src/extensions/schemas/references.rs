//! Resolves references in schemas (`$ref`).
//!
//! References to other documents are not supported: OPA would read files or use the network. URLs with a query, with
//! special characters or with `.` and `..` are not supported, either.

use std::collections::BTreeMap;
use std::fmt;

use super::json::Json;
use super::{Result, SchemaError};
use crate::memory;

/// A reference: a URL in parts. Missing parts are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Reference {
    /// The scheme and the host, for example `https://example.com`.
    origin: String,
    path: String,
    fragment: String,
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.origin, self.path)?;
        if self.fragment.is_empty() { Ok(()) } else { write!(f, "#{}", self.fragment) }
    }
}

impl Reference {
    /// Parses `text`.
    ///
    /// # Errors
    ///
    /// Ends the evaluation if `text` has a form of reference that is not supported.
    pub(super) fn read(text: &str) -> Result<Self> {
        Self::parsed(text).ok_or_else(|| SchemaError::unsupported(&format!("the reference {text:?}")))
    }

    fn parsed(text: &str) -> Option<Self> {
        let is_plain = |text: &str, more: &[u8]| {
            text.bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || more.contains(&byte))
        };
        let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
        let (origin, path) = match rest.split_once("://") {
            Some((scheme, rest)) => {
                let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
                let (name, port) = host.split_once(':').unwrap_or((host, "0"));
                let is_scheme = !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_lowercase());
                let is_port = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
                if !is_scheme || scheme == "file" || !is_port || name.is_empty() || !is_plain(name, b"") {
                    return None;
                }
                (format!("{scheme}://{host}"), path)
            }
            None => (String::new(), rest),
        };
        let is_path = is_plain(path, b"/@&=+$")
            && !path.starts_with("//")
            && !path.split('/').any(|step| step == "." || step == "..");
        (is_path && is_plain(fragment, b"/$&+,:;=@!()*")).then(|| Self {
            origin,
            path: path.to_owned(),
            fragment: fragment.to_owned(),
        })
    }

    /// Resolves the reference `child`, relative to this reference.
    pub(super) fn resolve(&self, child: &Self) -> Self {
        if !child.origin.is_empty() {
            return child.clone();
        }
        let path = if child.path.is_empty() {
            self.path.clone()
        } else if child.path.starts_with('/') {
            child.path.clone()
        } else {
            let folder = self.path.rfind('/').map_or("", |end| &self.path[..=end]);
            format!("{folder}{}", child.path)
        };
        let path = if path.is_empty() || path.starts_with('/') { path } else { format!("/{path}") };
        Self { origin: self.origin.clone(), path, fragment: child.fragment.clone() }
    }

    fn length(&self) -> usize {
        self.origin.len() + self.path.len() + self.fragment.len()
    }

    fn without_fragment(&self) -> String {
        format!("{}{}", self.origin, self.path)
    }

    /// The target of the fragment in `document`. As in OPA, a fragment that is not a JSON pointer refers to the whole
    /// document.
    fn pointed<'j>(&self, document: &'j Json) -> Result<&'j Json> {
        let Some(steps) = self.fragment.strip_prefix('/') else { return Ok(document) };
        let mut value = document;
        for step in steps.split('/') {
            value = match value {
                Json::Object(fields) => {
                    let key = step.replace("~1", "/").replace("~0", "~");
                    fields
                        .get(&key)
                        .ok_or_else(|| SchemaError::schema(format!("Object has no key '{key}'")))?
                }
                Json::Array(items) => {
                    let Ok(index) = step.parse::<i64>() else {
                        return Err(SchemaError::schema(format!("Invalid array index '{step}'")));
                    };
                    usize::try_from(index).ok().and_then(|index| items.get(index)).ok_or_else(|| {
                        SchemaError::schema(format!("Out of bound array[0,{}] index '{index}'", items.len()))
                    })?
                }
                _ => return Err(SchemaError::schema(format!("Invalid token reference '{step}'"))),
            };
        }
        Ok(value)
    }
}

/// The path of a value in a document: the index of the item or field at each level.
type Steps = Vec<usize>;

/// The schemas with an id, by their references, and the whole document.
#[derive(Debug, Default)]
pub(super) struct Pool {
    by_id: BTreeMap<String, Steps>,
}

impl Pool {
    /// Makes the references in `document` absolute, and collects the schemas with an id.
    pub(super) fn collect(document: &mut Json) -> Result<Self> {
        let mut pool = Self::default();
        pool.add(document, &Reference::default(), &mut Vec::new())?;
        pool.by_id.insert(String::new(), Vec::new());
        Ok(pool)
    }

    fn add(&mut self, value: &mut Json, base: &Reference, steps: &mut Steps) -> Result<()> {
        match value {
            Json::Array(items) => {
                for (nth, item) in items.iter_mut().enumerate() {
                    self.nested(item, base, nth, steps)?;
                }
            }
            Json::Object(fields) => {
                let id = fields.get("id").or_else(|| fields.get("$id"));
                let mut base = base.clone();
                if let Some(Json::Text(id)) = id {
                    base = base.resolve(&Reference::read(id)?);
                    memory::check(4 * (base.length() + steps.len() * size_of::<usize>()) + 256)?;
                    if self.by_id.insert(base.to_string(), steps.clone()).is_some() {
                        return Err(SchemaError::schema(format!("Reference already exists: \"{base}\"")));
                    }
                }
                if let Some(Json::Text(reference)) = fields.get_mut("$ref") {
                    let absolute = base.resolve(&Reference::read(reference)?);
                    memory::check(4 * absolute.length())?;
                    *reference = absolute.to_string();
                }
                for (nth, (key, value)) in fields.iter_mut().enumerate() {
                    match (key.as_str(), value) {
                        ("const" | "enum", _) => {}
                        ("properties" | "dependencies" | "patternProperties", Json::Object(children)) => {
                            steps.push(nth);
                            for (nth, child) in children.values_mut().enumerate() {
                                self.nested(child, &base, nth, steps)?;
                            }
                            steps.pop();
                        }
                        ("properties" | "dependencies" | "patternProperties", _) => {}
                        (_, value) => self.nested(value, &base, nth, steps)?,
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn nested(&mut self, value: &mut Json, base: &Reference, nth: usize, steps: &mut Steps) -> Result<()> {
        steps.push(nth);
        self.add(value, base, steps)?;
        steps.pop();
        Ok(())
    }

    /// The schema in `document` to which `reference` leads.
    pub(super) fn get<'j>(&self, document: &'j Json, reference: &Reference) -> Result<&'j Json> {
        let at = |steps: &Steps| {
            steps.iter().try_fold(document, |value, nth| match value {
                Json::Array(items) => items.get(*nth),
                Json::Object(fields) => fields.values().nth(*nth),
                _ => None,
            })
        };
        if let Some(schema) = self.by_id.get(&reference.to_string()).and_then(at) {
            return Ok(schema);
        }
        if let Some(schema) = self.by_id.get(&reference.without_fragment()).and_then(at) {
            return reference.pointed(schema);
        }
        if reference.origin.is_empty() {
            return Err(SchemaError::schema(format!("Reference {reference} must be canonical")));
        }
        Err(SchemaError::unsupported(&format!("a reference to the other document {reference}")))
    }
}
