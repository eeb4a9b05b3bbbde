//! Feedback paths: the common part of client-go's JSONPath and RFC 9535, parsed in client-go's syntax and
//! evaluated as RFC 9535.
//!
//! Supported are names, quoted names, escaped dots, indexes and an equality filter. Each step becomes one segment
//! of [RFC 9535](https://www.rfc-editor.org/rfc/rfc9535). Between the steps, two checks of client-go are added
//! that the RFC lacks. An index past the end is an error, and so is an index or a filter on a value that is not a
//! list.

use std::fmt::Write;

use jsonpath_rust::JsonPath as _;
use serde_json::Value;

/// Why a path cannot be evaluated.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum PathError {
    /// The path has a syntax that this agent cannot parse.
    #[error("{what} at offset {at}")]
    Syntax {
        what: String,
        /// Offset of the error, in bytes.
        at: usize,
    },
    /// A value on the path has the wrong type, or its list is too short.
    #[error("{0}")]
    Shape(String),
}

/// A parsed path.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Path(Vec<Step>);

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    Index(i64),
    Equals { left: Vec<String>, right: Value },
}

impl Path {
    /// Parses the path of a feedback rule, which has no braces.
    pub(super) fn parse(text: &str) -> Result<Self, PathError> {
        let mut parser = Parser { text, at: 0 };
        parser.steps().map(Self)
    }

    /// The whole path in the syntax of RFC 9535.
    #[cfg(test)]
    fn rfc9535(&self) -> String {
        self.0.iter().fold("$".to_owned(), |path, step| path + &step.segment())
    }

    /// All values that the path selects.
    pub(super) fn all<'a>(&self, object: &'a Value) -> Result<Vec<&'a Value>, PathError> {
        let mut reached = vec![object];
        for step in &self.0 {
            let query = format!("${}", step.segment());
            let mut next = Vec::new();
            for value in reached {
                if !step.applies_to(value)? {
                    continue;
                }
                next.extend(value.query(&query).map_err(|error| PathError::Shape(error.to_string()))?);
            }
            reached = next;
        }
        Ok(reached)
    }
}

impl Step {
    fn segment(&self) -> String {
        match self {
            Self::Field(name) => name_segment(name),
            Self::Index(index) => format!("[{index}]"),
            Self::Equals { left, right } => {
                let left: String = left.iter().map(|name| name_segment(name)).collect();
                let right = match right {
                    Value::String(text) => quoted(text),
                    other => other.to_string(),
                };
                format!("[?@{left}=={right}]")
            }
        }
    }

    fn applies_to(&self, value: &Value) -> Result<bool, PathError> {
        match (self, value) {
            (Self::Field(_), _) => Ok(true),
            (Self::Index(_), Value::Null) => Ok(false),
            (Self::Index(index), Value::Array(items)) => {
                let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
                let place = if *index < 0 { index + length } else { *index };
                if (0..length).contains(&place) {
                    Ok(true)
                } else {
                    Err(PathError::Shape(format!(
                        "array index out of bounds: index {place}, length {length}"
                    )))
                }
            }
            (Self::Index(_), other) => {
                Err(PathError::Shape(format!("{} is not array or slice", go_type(other))))
            }
            (Self::Equals { .. }, Value::Array(_)) => Ok(true),
            (Self::Equals { .. }, other) => {
                Err(PathError::Shape(format!("{other} is not array or slice and cannot be filtered")))
            }
        }
    }
}

fn name_segment(name: &str) -> String {
    format!("[{}]", quoted(name))
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("'");
    for character in text.chars() {
        match character {
            '\'' | '\\' => {
                quoted.push('\\');
                quoted.push(character);
            }
            control if control < ' ' => {
                // Writing to a string cannot fail.
                let _ = write!(quoted, "\\u{:04x}", u32::from(control));
            }
            other => quoted.push(other),
        }
    }
    quoted.push('\'');
    quoted
}

/// Go's type name of a decoded JSON value.
pub(super) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn fault<T>(&self, what: impl Into<String>) -> Result<T, PathError> {
        Err(PathError::Syntax { what: what.into(), at: self.at })
    }

    fn take(&mut self, prefix: &str) -> bool {
        let found = self.rest().starts_with(prefix);
        if found {
            self.at += prefix.len();
        }
        found
    }

    fn steps(&mut self) -> Result<Vec<Step>, PathError> {
        let mut steps = Vec::new();
        let _ = self.take("$") || self.take("@");
        while !self.rest().is_empty() {
            if self.rest().starts_with("..") {
                return self.fault("recursive descent is not supported");
            } else if self.take("[?(") {
                steps.push(self.filter()?);
            } else if self.take("[") {
                self.bracket(&mut steps)?;
            } else if self.take(".") {
                steps.push(Step::Field(self.name()?));
            } else {
                return self.fault("expected '.' or '['");
            }
        }
        if steps.is_empty() { self.fault("the path is empty") } else { Ok(steps) }
    }

    /// Parses a name up to the next terminator; a backslash escapes the next character.
    fn name(&mut self) -> Result<String, PathError> {
        let mut name = String::new();
        let mut escaped = false;
        let start = self.at;
        for (offset, character) in self.rest().char_indices() {
            if escaped {
                name.push(character);
                escaped = false;
            } else if character == '\\' {
                escaped = true;
            } else if matches!(
                character,
                '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}' | ' ' | '\t' | '\r' | '\n'
            ) {
                self.at = start + offset;
                return self.checked_name(name);
            } else {
                name.push(character);
            }
        }
        self.at = self.text.len();
        self.checked_name(name)
    }

    fn checked_name(&self, name: String) -> Result<String, PathError> {
        match name.as_str() {
            "" => self.fault("expected a name"),
            "*" => self.fault("wildcards are not supported"),
            _ => Ok(name),
        }
    }

    fn bracket(&mut self, steps: &mut Vec<Step>) -> Result<(), PathError> {
        let Some(end) = self.rest().find(']') else { return self.fault("unterminated array") };
        let inside = &self.rest()[..end];
        if let Some(quoted) = inside.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
            // client-go parses the quoted text as another path, so an unescaped dot separates two names.
            let dotted = format!(".{quoted}");
            let names =
                Parser { text: &dotted, at: 0 }.steps().or_else(|error| self.fault(error.to_string()))?;
            steps.extend(names);
        } else if let Ok(index) = inside.parse() {
            steps.push(Step::Index(index));
        } else {
            return self.fault(format!("invalid array index {inside}"));
        }
        self.at += end + 1;
        Ok(())
    }

    fn filter(&mut self) -> Result<Step, PathError> {
        let Some(operator) = self.rest().find(['=', '!', '<', '>']) else {
            return self.fault("only an equality filter is supported");
        };
        let left = self.rest()[..operator].trim();
        let left = match (Parser { text: left, at: 0 }).steps() {
            Ok(steps) if left.starts_with('@') => steps,
            Ok(_) => return self.fault("expected '@' in the filter"),
            Err(error) => return self.fault(error.to_string()),
        };
        let left = left.into_iter().map(|step| match step {
            Step::Field(name) => Some(name),
            Step::Index(_) | Step::Equals { .. } => None,
        });
        let Some(left) = left.collect::<Option<Vec<_>>>() else {
            return self.fault("expected a field path in the filter");
        };
        self.at += operator;
        if !self.take("==") {
            return self.fault("only an equality filter is supported");
        }
        let right = self.literal()?;
        if self.take(")]") { Ok(Step::Equals { left, right }) } else { self.fault("expected ')]'") }
    }

    fn literal(&mut self) -> Result<Value, PathError> {
        self.at += self.rest().len() - self.rest().trim_start().len();
        for quote in ['"', '\''] {
            if let Some(inside) = self.rest().strip_prefix(quote) {
                let Some(end) = inside.find(quote) else { return self.fault("unterminated quoted string") };
                let text = &inside[..end];
                if text.contains('\\') {
                    return self.fault("escapes in a quoted string are not supported");
                }
                self.at += end + 2;
                return Ok(Value::from(text));
            }
        }
        let end = self.rest().find(')').unwrap_or(self.rest().len());
        let literal = match self.rest()[..end].trim() {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            number => match number.parse::<i64>() {
                Ok(number) => Value::from(number),
                Err(_) => return self.fault("expected a quoted string, an integer or a boolean"),
            },
        };
        self.at += end;
        Ok(literal)
    }
}

#[cfg(test)]
mod tests;
