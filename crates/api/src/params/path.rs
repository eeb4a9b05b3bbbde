//! Paths of `statusFields`: the common subset of kubectl's JSONPath and [RFC
//! 9535](https://www.rfc-editor.org/rfc/rfc9535).
//!
//! ```text
//! path    = segment+            .status.conditions[?(@.type=="Ready")].status
//! segment = "." name            a name: letters, digits, "_", "-", and any character after a backslash
//!         | "['" quoted "']"
//!         | "[" digits "]"
//!         | "[?(@." name "==" '"' text '"' ")]"      at most once
//! ```
//!
//! A spoke's agent evaluates a path with kubectl's JSONPath. A path that kubectl's JSONPath cannot parse invalidates
//! the feedback of the whole work. Therefore all paths outside the common subset are rejected, with the position of the
//! error.

use std::fmt::Write;

use jsonpath_rust::JsonPath;
use serde_json::Value;

use crate::text::excerpt;

/// A path that all agents can evaluate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusPath {
    segments: Vec<Segment>,
}

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    Name(String),
    Index(u32),
    Equals { name: String, text: String },
}

/// Why a path is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{fault} at character {position}")]
pub struct PathError {
    /// The description of the error.
    pub fault: String,
    /// The position of the error in the path, in characters from 1.
    pub position: usize,
}

impl StatusPath {
    /// Parses a path.
    ///
    /// # Errors
    ///
    /// The first element that the supported subset of JSONPath lacks, with its position.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        let mut parser = Parser { chars: text.chars().collect(), position: 0 };
        let mut segments = Vec::new();
        while parser.position < parser.chars.len() {
            let start = parser.position;
            let segment = parser.segment()?;
            let is_filter = |segment: &Segment| matches!(segment, Segment::Equals { .. });
            if is_filter(&segment) && segments.iter().any(is_filter) {
                return Err(PathError { fault: "a second filter".into(), position: start + 1 });
            }
            segments.push(segment);
        }
        if segments.is_empty() {
            return Err(PathError { fault: "expected `.` and a name".into(), position: 1 });
        }
        let path = Self { segments };
        // The grammar above is a subset of RFC 9535; the library's parser verifies that.
        jsonpath_rust::parser::parse_json_path(&path.to_rfc9535())
            .map_err(|_| PathError { fault: "not a path of RFC 9535".into(), position: 1 })?;
        Ok(path)
    }

    /// The path in the notation of RFC 9535.
    #[must_use]
    pub fn to_rfc9535(&self) -> String {
        let mut text = String::from("$");
        for segment in &self.segments {
            // Writing to a String cannot fail.
            let _ = match segment {
                Segment::Name(name) => write!(text, "['{}']", quote(name, '\'')),
                Segment::Index(index) => write!(text, "[{index}]"),
                Segment::Equals { name, text: value } => {
                    write!(text, "[?@['{}'] == \"{}\"]", quote(name, '\''), quote(value, '"'))
                }
            };
        }
        text
    }

    /// The names in the path, in order; `None` if the path has an index or a filter.
    #[must_use]
    pub fn names(&self) -> Option<Vec<String>> {
        let name = |segment: &Segment| match segment {
            Segment::Name(name) => Some(name.clone()),
            Segment::Index(_) | Segment::Equals { .. } => None,
        };
        self.segments.iter().map(name).collect()
    }

    /// The values in `object`, in order. There are several if the filter matches several items.
    #[must_use]
    pub fn values<'v>(&self, object: &'v Value) -> Vec<&'v Value> {
        // The query cannot fail, because `parse` has verified the path.
        object.query(&self.to_rfc9535()).unwrap_or_default()
    }
}

fn quote(text: &str, mark: char) -> String {
    text.chars().flat_map(|c| if c == mark || c == '\\' { vec!['\\', c] } else { vec![c] }).collect()
}

struct Parser {
    chars: Vec<char>,
    position: usize,
}

impl Parser {
    fn segment(&mut self) -> Result<Segment, PathError> {
        match self.peek() {
            Some('.') => {
                self.position += 1;
                self.name().map(Segment::Name)
            }
            Some('[') => {
                self.position += 1;
                let segment = match self.peek() {
                    Some('\'') => self.quoted('\'').map(Segment::Name)?,
                    Some('?') => self.filter()?,
                    Some(c) if c.is_ascii_digit() => self.index()?,
                    Some('-') => return self.fault("not all agents support an index from the end"),
                    Some('*') => return self.fault("a wildcard can select more than one value"),
                    Some('"') => return self.fault("a name in brackets must be quoted with '"),
                    _ => return self.fault("expected a quoted name, an index or a filter"),
                };
                self.expect(']')?;
                Ok(segment)
            }
            Some('$' | '{' | '@') => self.fault("a path must start with `.`"),
            _ => self.fault("expected `.` or `[`"),
        }
    }

    fn name(&mut self) -> Result<String, PathError> {
        let mut name = String::new();
        loop {
            match self.peek() {
                Some(c) if c.is_ascii_alphanumeric() || c == '_' || c == '-' => name.push(c),
                Some('\\') => match self.chars.get(self.position + 1) {
                    Some(c @ ('.' | '/')) => {
                        name.push(*c);
                        self.position += 1;
                    }
                    _ => return self.fault("only `.` and `/` can be escaped"),
                },
                Some('/') => name.push('/'),
                Some('.') if name.is_empty() => return self.fault("`..` can select more than one value"),
                Some('*') => return self.fault("a wildcard can select more than one value"),
                _ if name.is_empty() => return self.fault("expected a name"),
                _ => return Ok(name),
            }
            self.position += 1;
        }
    }

    fn quoted(&mut self, mark: char) -> Result<String, PathError> {
        self.expect(mark)?;
        let mut text = String::new();
        loop {
            match self.peek() {
                None => return self.fault(&format!("expected {mark}")),
                Some(c) if c == mark => break,
                Some('\\') if self.chars.get(self.position + 1) == Some(&'.') => {
                    self.position += 1;
                    text.push('.');
                }
                Some('\\') => return self.fault("only `.` can be escaped in quotes"),
                // Agents would split the name at a dot that is not escaped.
                Some('.') if mark == '\'' => return self.fault("a dot in a quoted name is written `\\.`"),
                Some(c) if c.is_control() => return self.fault("a control character"),
                Some(c) => text.push(c),
            }
            self.position += 1;
        }
        if text.is_empty() {
            return self.fault("an empty name");
        }
        self.position += 1;
        Ok(text)
    }

    fn index(&mut self) -> Result<Segment, PathError> {
        let start = self.position;
        while self.peek().is_some_and(|c| c.is_ascii_digit()) {
            self.position += 1;
        }
        let digits: String = self.chars[start..self.position].iter().collect();
        match digits.parse() {
            Ok(index) if digits == "0" || !digits.starts_with('0') => Ok(Segment::Index(index)),
            _ => {
                Err(PathError { fault: format!("{} is not an index", excerpt(&digits)), position: start + 1 })
            }
        }
    }

    fn filter(&mut self) -> Result<Segment, PathError> {
        for expected in ['?', '(', '@', '.'] {
            self.expect(expected)?;
        }
        let name = self.name()?;
        for expected in ['=', '='] {
            if self.peek() != Some(expected) {
                return self.fault("a filter must compare with `==`");
            }
            self.position += 1;
        }
        let text = match self.peek() {
            Some(mark @ ('"' | '\'')) => self.quoted(mark)?,
            _ => return self.fault("a filter must compare with a quoted string"),
        };
        self.expect(')')?;
        Ok(Segment::Equals { name, text })
    }

    fn peek(&self) -> Option<char> {
        self.chars.get(self.position).copied()
    }

    fn expect(&mut self, expected: char) -> Result<(), PathError> {
        if self.peek() != Some(expected) {
            return self.fault(&format!("expected `{expected}`"));
        }
        self.position += 1;
        Ok(())
    }

    fn fault<T>(&self, fault: &str) -> Result<T, PathError> {
        Err(PathError { fault: fault.into(), position: self.position + 1 })
    }
}

#[cfg(test)]
mod tests;
