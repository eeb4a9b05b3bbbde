//! Builtins for GraphQL, with the results of OPA. Syntax trees and validation results are those of
//! [gqlparser](https://pkg.go.dev/github.com/vektah/gqlparser/v2) v2.5.58, which OPA 1.22 uses. No other parser gives
//! the same results, because gqlparser's trees include comments, and gqlparser deviates from the specification in
//! places.

mod ast;
mod lexer;
mod parser;
mod rules;
mod schema;

use std::cell::Cell;

use anyhow::{Result, bail};
use regorus::Value;

use self::ast::{Decoder, Node, QueryDocument, SchemaDocument};
use self::schema::Schema;

/// The maximum length of a document in bytes.
pub(super) const BYTES: usize = 64 << 10;
/// The maximum number of tokens in a document, or of nodes in a tree.
pub(super) const TOKENS: usize = 10_000;
/// The maximum nesting of selections, values and types.
const LEVELS: usize = 100;
/// The maximum nesting of selections, including the selections of fragments.
const VALIDATION_LEVELS: usize = 200;
/// The maximum number of comparisons during the validation of a schema or a query.
const STEPS: usize = 10_000_000;
/// The maximum number of pairs of fragments that are compared.
const PAIRS: usize = 5_000;

/// Why a document has no result.
#[derive(Clone, Copy, Debug)]
enum DocumentError {
    /// gqlparser reports an error.
    Invalid,
    /// This crate does not support the document, although gqlparser may accept it.
    Unsupported(&'static str),
    /// The document exceeds a limit: the name of the limited elements, and their maximum number.
    Limit(&'static str, usize),
}

/// Counts comparisons during a validation.
struct Steps(Cell<usize>);

impl Steps {
    fn new() -> Self {
        Self(Cell::new(STEPS))
    }

    /// Counts one step, and one more for each element.
    fn count(&self, elements: usize) -> Result<(), DocumentError> {
        let left = self.0.get().checked_sub(elements.saturating_add(1));
        self.0.set(left.ok_or(DocumentError::Limit("comparisons", STEPS))?);
        Ok(())
    }
}

/// The result, or `None` if the document is invalid.
fn result<T>(builtin: &str, result: Result<T, DocumentError>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(DocumentError::Invalid) => Ok(None),
        Err(DocumentError::Unsupported(what)) => bail!("{builtin}: GraphQL with {what} is not supported"),
        Err(DocumentError::Limit(what, limit)) => {
            bail!("{builtin}: GraphQL with more than {limit} {what} is not supported")
        }
    }
}

fn tree(node: &impl Node) -> Value {
    node.encode().unwrap_or_else(Value::new_object)
}

/// Parses a document from its text or its tree.
fn document<T: Node>(value: &Value, parse: fn(&str) -> Result<T, DocumentError>) -> Result<T, DocumentError> {
    match value {
        Value::String(text) => parse(text),
        Value::Object(_) => T::decode(value, &mut Decoder::default()),
        _ => Err(DocumentError::Invalid),
    }
}

/// Parses and validates a query and a schema.
fn validated(values: &[Value]) -> Result<QueryDocument, DocumentError> {
    let query = document(&values[0], parser::query)?;
    validate(&query, document(&values[1], parser::schema)?)?;
    Ok(query)
}

/// Like [`validated`], but returns the syntax trees of the query and of the schema.
fn validated_trees(values: &[Value]) -> Result<[Value; 2], DocumentError> {
    let query = document(&values[0], parser::query)?;
    let schema = document(&values[1], parser::schema)?;
    let of_schema = tree(&schema);
    validate(&query, schema)?;
    Ok([tree(&query), of_schema])
}

fn validate(query: &QueryDocument, schema: SchemaDocument) -> Result<(), DocumentError> {
    let steps = Steps::new();
    rules::check(&Schema::new(schema, &steps)?, query, &steps)
}

pub(super) fn parse_query(values: Vec<Value>) -> Result<Value> {
    let Some(text) = super::text(&values[0]) else { return Ok(Value::Undefined) };
    let document = result("graphql.parse_query", parser::query(text))?;
    Ok(document.map_or(Value::Undefined, |document| tree(&document)))
}

pub(super) fn parse_schema(values: Vec<Value>) -> Result<Value> {
    let Some(text) = super::text(&values[0]) else { return Ok(Value::Undefined) };
    let document = result("graphql.parse_schema", parser::schema(text))?;
    Ok(document.map_or(Value::Undefined, |document| tree(&document)))
}

pub(super) fn parse(values: Vec<Value>) -> Result<Value> {
    let trees = result("graphql.parse", validated_trees(&values))?;
    Ok(trees.map_or(Value::Undefined, |trees| Value::from(trees.to_vec())))
}

pub(super) fn parse_and_verify(values: Vec<Value>) -> Result<Value> {
    let trees = result("graphql.parse_and_verify", validated_trees(&values))?;
    let is_valid = trees.is_some();
    let [query, schema] = trees.unwrap_or_else(|| [Value::new_object(), Value::new_object()]);
    Ok(vec![is_valid.into(), query, schema].into())
}

pub(super) fn is_valid(values: Vec<Value>) -> Result<Value> {
    Ok(result("graphql.is_valid", validated(&values))?.is_some().into())
}

pub(super) fn schema_is_valid(values: Vec<Value>) -> Result<Value> {
    let schema = document(&values[0], parser::schema).and_then(|schema| Schema::new(schema, &Steps::new()));
    Ok(result("graphql.schema_is_valid", schema)?.is_some().into())
}

#[cfg(test)]
mod tests;
