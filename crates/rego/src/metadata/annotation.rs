//! Parses the YAML of a comment with metadata, and returns the same result as OPA.
//!
//! OPA decodes the YAML with [go-yaml](https://pkg.go.dev/go.yaml.in/yaml/v3). Constructs that OPA accepts and this
//! parser does not support, such as anchors, are rejected.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::comments::Block;
use crate::extensions::yaml::{Content, Error, Node, Plain, is_time, resolve, single};

/// The parts of a module to which metadata applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    Rule,
    Document,
    Package,
    Subpackages,
}

/// Metadata of a rule or a package.
#[derive(Debug)]
pub(super) struct Annotation {
    /// The line of `# METADATA`, from 1.
    pub(super) line: u32,
    /// The scope, if the metadata has one.
    pub(super) scope: Option<Scope>,
    pub(super) is_entrypoint: bool,
    /// The object for `rego.metadata.rule`, without the scope.
    fields: Map<String, Value>,
}

type Result<T> = std::result::Result<T, String>;

/// Names that cannot be part of a reference.
const KEYWORDS: [&str; 15] = [
    "as", "contains", "default", "else", "every", "false", "if", "import", "in", "not", "null", "package",
    "some", "true", "with",
];

impl Scope {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Rule => "rule",
            Self::Document => "document",
            Self::Package => "package",
            Self::Subpackages => "subpackages",
        }
    }
}

impl Annotation {
    /// Parses `block`.
    ///
    /// # Errors
    ///
    /// If OPA rejects the metadata, or this parser cannot parse it as OPA does.
    pub(super) fn read(block: &Block) -> Result<Self> {
        if block.yaml.trim().is_empty() {
            return Err("nothing follows # METADATA: write YAML there, or remove it".to_owned());
        }
        let root = single(&block.yaml).map_err(|error| match error {
            Error::Invalid => "is not valid YAML".to_owned(),
            Error::Unsupported(what) => format!("has YAML with {what}, which is not supported"),
            Error::Memory(over) => over.to_string(),
        })?;
        let fields = root.as_ref().map(mapping).transpose()?.unwrap_or_default();
        let mut read = Self { line: block.line, scope: None, is_entrypoint: false, fields: Map::new() };
        for (name, node) in fields {
            read.field(name, node).map_err(|error| format!("{name} {error}"))?;
        }
        Ok(read)
    }

    fn field(&mut self, name: &str, node: &Node) -> Result<()> {
        let value = match name {
            "scope" => {
                self.scope = match string(node)?.as_str() {
                    "" => None,
                    "rule" => Some(Scope::Rule),
                    "document" => Some(Scope::Document),
                    "package" => Some(Scope::Package),
                    "subpackages" => Some(Scope::Subpackages),
                    _ => return Err("is not rule, document, package or subpackages".to_owned()),
                };
                return Ok(());
            }
            "entrypoint" => {
                self.is_entrypoint = match plain(node) {
                    Some(Plain::Bool(value)) => value,
                    Some(Plain::Null) => false,
                    _ => return Err("is not true or false".to_owned()),
                };
                if self.is_entrypoint { json!(true) } else { json!("") }
            }
            "title" | "description" => string(node)?.into(),
            "organizations" => {
                let texts = list(node)?.iter().filter(|item| !is_null(item)).map(string);
                texts.collect::<Result<Vec<_>>>()?.into()
            }
            "authors" => list(node)?.iter().map(author).collect::<Result<Vec<_>>>()?.into(),
            "related_resources" => list(node)?.iter().map(resource).collect::<Result<Vec<_>>>()?.into(),
            "schemas" => list(node)?.iter().map(schema).collect::<Result<Vec<_>>>()?.into(),
            "custom" | "labels" if !is_null(node) => object(node)?,
            "compile" => return check_compile(node),
            // Other fields are ignored, as in OPA.
            _ => return Ok(()),
        };
        let is_empty = match &value {
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Object(fields) => fields.is_empty(),
            _ => false,
        };
        if !is_empty {
            self.fields.insert(name.to_owned(), value);
        }
        Ok(())
    }

    /// The object for `rego.metadata.rule`.
    pub(super) fn object(&self, scope: Scope) -> Value {
        let mut fields = self.fields.clone();
        fields.insert("scope".to_owned(), scope.name().into());
        fields.into()
    }
}

fn plain(node: &Node) -> Option<Plain> {
    match &node.content {
        Content::Scalar { text, is_plain: true } => Some(resolve(text)),
        _ => None,
    }
}

fn is_null(node: &Node) -> bool {
    plain(node) == Some(Plain::Null)
}

/// Rejects a node with an alias or an anchor, whose limits in go-yaml depend on the whole document.
fn check_anchor(node: &Node) -> Result<()> {
    if node.anchor > 0 || matches!(node.content, Content::Alias(_)) {
        return Err("has an anchor or an alias of YAML: write the value twice".to_owned());
    }
    Ok(())
}

/// The scalar of `node` as written.
fn string(node: &Node) -> Result<String> {
    check_anchor(node)?;
    match &node.content {
        Content::Scalar { .. } if is_null(node) => Ok(String::new()),
        Content::Scalar { text, .. } => Ok(text.clone()),
        _ => Err("is not a string".to_owned()),
    }
}

/// The text of `node`, if it is a text and not a number.
fn text(node: &Node) -> Option<&str> {
    match &node.content {
        Content::Scalar { text, is_plain } => {
            let is_text = !is_plain || (resolve(text) == Plain::Text && !is_time(text));
            is_text.then_some(text)
        }
        _ => None,
    }
}

fn list(node: &Node) -> Result<&[Node]> {
    check_anchor(node)?;
    match &node.content {
        Content::List(items) => Ok(items),
        _ if is_null(node) => Ok(&[]),
        _ => Err("is not a list".to_owned()),
    }
}

/// The fields of `node`.
fn mapping(node: &Node) -> Result<Vec<(&str, &Node)>> {
    check_anchor(node)?;
    let Content::Map(fields) = &node.content else {
        return if is_null(node) { Ok(Vec::new()) } else { Err("is not a YAML object".to_owned()) };
    };
    let mut names = HashSet::new();
    fields
        .iter()
        .map(|(key, value)| {
            check_anchor(key)?;
            let key = text(key).ok_or("has a key that is not a string: put it in quotes")?;
            if !names.insert(key) {
                return Err(format!("has the duplicate key {key}"));
            }
            Ok((key, value))
        })
        .collect()
}

/// The value of `node`, which may have any type.
fn value(node: &Node) -> Result<Value> {
    check_anchor(node)?;
    Ok(match &node.content {
        Content::List(items) => items.iter().map(value).collect::<Result<Vec<_>>>()?.into(),
        Content::Map(_) => object(node)?,
        Content::Scalar { text, is_plain: false } => text.as_str().into(),
        Content::Scalar { text, .. } => match resolve(text) {
            Plain::Null => Value::Null,
            Plain::Bool(value) => value.into(),
            Plain::Integer(number) => number.into(),
            Plain::Unsigned(number) => number.into(),
            Plain::Float(number) if number.fract() == 0.0 && number.abs() < 9e15 => (number as i64).into(),
            Plain::Float(number) if number.is_finite() => number.into(),
            Plain::Text if !is_time(text) => text.as_str().into(),
            _ => return Err(format!("has the value {text}: put it in quotes")),
        },
        Content::Alias(_) => Value::Null,
    })
}

fn object(node: &Node) -> Result<Value> {
    let fields = mapping(node)?.into_iter();
    let fields = fields.map(|(key, node)| Ok((key.to_owned(), value(node)?)));
    Ok(fields.collect::<Result<Map<_, _>>>()?.into())
}

/// These fields of `node`, without surrounding blanks. A field that is missing or not a text is empty.
fn texts<const N: usize>(node: &Node, names: [&str; N]) -> Result<[String; N]> {
    // The fields with other names must be valid, too.
    value(node)?;
    let fields = mapping(node)?;
    Ok(names.map(|name| {
        let field = fields.iter().find(|(key, _)| *key == name);
        field.and_then(|(_, node)| text(node)).unwrap_or_default().trim().to_owned()
    }))
}

/// An object of the fields that are not empty.
fn filled<const N: usize>(fields: [(&str, String); N]) -> Value {
    let fields = fields.into_iter().filter(|(_, text)| !text.is_empty());
    fields.map(|(name, text)| (name.to_owned(), text.into())).collect::<Map<_, _>>().into()
}

/// An author: a name followed by an email in angle brackets, or an object.
fn author(node: &Node) -> Result<Value> {
    check_anchor(node)?;
    if let Some(text) = text(node) {
        let mut words: Vec<&str> = text.split_whitespace().collect();
        let last = *words.last().ok_or("has an empty text")?;
        let email = last.strip_prefix('<').and_then(|rest| rest.strip_suffix('>'));
        if email.is_some() {
            words.pop();
        }
        return Ok(filled([("name", words.join(" ")), ("email", email.unwrap_or_default().to_owned())]));
    }
    let [name, email] = texts(node, ["name", "email"]).map_err(|_| "has an entry that is not an author")?;
    if name.is_empty() && email.is_empty() {
        return Err("has an entry without name and email".to_owned());
    }
    Ok(filled([("name", name), ("email", email)]))
}

/// A related resource: a URL, or an object.
fn resource(node: &Node) -> Result<Value> {
    check_anchor(node)?;
    let (url, description) = match text(node) {
        Some(url) => (url.to_owned(), String::new()),
        None => {
            let texts =
                texts(node, ["ref", "description"]).map_err(|_| "has an entry that is not a resource")?;
            let [url, description] = texts;
            (url, description)
        }
    };
    if !is_plain_url(&url) {
        return Err("has an entry without ref, or with a URL that is not supported: write \
                    https://host/path?query#fragment without special characters"
            .to_owned());
    }
    Ok(filled([("ref", url), ("description", description)]))
}

/// Whether Go parses and writes `url` unchanged.
fn is_plain_url(url: &str) -> bool {
    let is_plain =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~/=&+,@:".contains(&byte));
    let (rest, fragment) = url.split_once('#').unwrap_or((url, "-"));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, "-"));
    if fragment.is_empty() || query.is_empty() || !is_plain(fragment) || !is_plain(query) {
        return false;
    }
    let Some((scheme, rest)) = rest.split_once("://") else {
        let first = rest.split('/').next().unwrap_or_default();
        return !rest.is_empty() && !rest.starts_with("//") && is_plain(rest) && !first.contains(':');
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (host, port) = authority.split_once(':').unwrap_or((authority, "0"));
    let is_name = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase());
    let is_host = !host.is_empty()
        && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.');
    let is_port = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    is_name(scheme) && is_host && is_port && is_plain(path)
}

/// The steps of a reference such as `data.acl`.
fn reference(text: &str) -> Option<Vec<&str>> {
    let is_name = |name: &&str| {
        let is_word = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        is_word
            && !name.is_empty()
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && !KEYWORDS.contains(name)
    };
    let steps: Vec<&str> = text.split('.').collect();
    steps.iter().all(is_name).then_some(steps)
}

/// An entry of `schemas`: the path of a document, and the path or the definition of its schema.
fn schema(node: &Node) -> Result<Value> {
    const SUPPORTED: &str = "has an entry other than a path with a schema, such as input: schema.app";
    let fields = mapping(node).map_err(|_| SUPPORTED)?;
    let [(path, node)] = fields[..] else { return Err(SUPPORTED.to_owned()) };
    let path = reference(path).filter(|path| matches!(path[0], "data" | "input")).ok_or(SUPPORTED)?;
    Ok(match &node.content {
        Content::Map(_) => json!({"path": path, "definition": object(node)?}),
        _ => {
            let schema = text(node).and_then(reference).filter(|schema| schema[0] == "schema");
            json!({"path": path, "schema": schema.ok_or(SUPPORTED)?})
        }
    })
}

/// Checks the part of `compile` that OPA reads. The result of `rego.metadata.rule` does not contain `compile`.
fn check_compile(node: &Node) -> Result<()> {
    const SUPPORTED: &str = "has unknowns or a mask_rule that are not references, such as input.app";
    value(node)?;
    for (name, node) in mapping(node)? {
        let is_reference = |node: &Node| text(node).is_some_and(|text| reference(text).is_some());
        let is_valid = match name {
            "unknowns" => list(node).is_ok_and(|items| items.iter().all(is_reference)),
            "mask_rule" => is_reference(node),
            _ => true,
        };
        if !is_valid {
            return Err(SUPPORTED.to_owned());
        }
    }
    Ok(())
}
