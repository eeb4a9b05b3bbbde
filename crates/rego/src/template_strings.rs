//! Replaces template strings, for example `$"{kind} has no {label}"`, which the embedded engine does not support.
//! Before a module is parsed, each template string becomes a call of a builtin function. OPA compiles template strings
//! to the same call. The argument of the call has the literal parts, and a set for each expression. The set is empty if
//! the expression is undefined:
//! ```text
//! internal.template_string(["", {policysync_part | policysync_part := kind}, " has no ", {policysync_part | policysync_part := label}, ""])
//! ```

use std::sync::Arc;

use anyhow::{Result, bail};
use regorus::Value;

use super::edit::{Edit, EditedText, offset};
use super::extensions::written;
use super::parentheses::string_end;

/// The builtin function that joins the parts of a template string.
pub(super) const FUNCTION: &str = "internal.template_string";
/// The variable for the value of an expression.
pub(super) const PART: &str = "policysync_part";

/// The maximum nesting of template strings.
const DEPTH: usize = 16;

/// An invalid template string.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("{text}")]
pub(super) struct TemplateError {
    /// The byte offset.
    pub(super) at: usize,
    text: &'static str,
}

/// Replaces the template strings in `text`. Lines keep their numbers.
///
/// # Errors
///
/// If a template string does not end.
pub(super) fn replaced(text: &Arc<str>) -> Result<EditedText, TemplateError> {
    if !(text.contains("$\"") || text.contains("$`")) {
        return Ok(EditedText::unchanged(text));
    }
    let mut scanner = Scanner { text, at: 0, depth: 0, edits: Vec::new() };
    scanner.rego(None)?;
    if let Some(at) = text.find(PART).filter(|_| !scanner.edits.is_empty()) {
        return Err(TemplateError { at, text: "names that begin with policysync_ are reserved" });
    }
    Ok(EditedText::new(text, scanner.edits))
}

/// Scans a text and collects the edits for its template strings.
struct Scanner<'t> {
    text: &'t str,
    at: usize,
    /// The number of enclosing template strings at `at`.
    depth: usize,
    edits: Vec<Edit>,
}

impl Scanner<'_> {
    /// Scans Rego up to the end, or up to the brace that closes the expression of a template string that starts at
    /// `template`.
    fn rego(&mut self, template: Option<usize>) -> Result<(), TemplateError> {
        let mut depth = 0_usize;
        while let Some(next) = self.next() {
            match next {
                '#' => self.skip_to('\n'),
                '`' => {
                    self.skip_to('`');
                    self.next();
                }
                '"' => self.at = string_end(self.text, self.at),
                '$' if self.rest().starts_with(['"', '`']) => self.template()?,
                '{' => depth += 1,
                '}' if depth == 0 && template.is_some() => return Ok(()),
                '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        template.map_or(Ok(()), |at| Err(TemplateError { at, text: "the template string does not end" }))
    }

    /// Scans the template string whose quote is next.
    fn template(&mut self) -> Result<(), TemplateError> {
        let start = self.at - 1;
        let Some(quote) = self.next() else { return Ok(()) };
        if self.depth == DEPTH {
            let text = "more than 16 nested template strings: assign some to variables";
            return Err(TemplateError { at: start, text });
        }
        self.depth += 1;
        self.edit(start, &format!("{FUNCTION}([{quote}"));
        loop {
            let at = self.at;
            match self.next() {
                Some('\\') if self.rest().starts_with('{') => {
                    self.next();
                    self.edits.push(Edit { start: offset(at), end: offset(at + 1), text: String::new() });
                }
                Some('\\') if quote == '"' => drop(self.next()),
                Some('{') => {
                    self.edit(at, &format!("{quote}, {{{PART} | {PART} := "));
                    self.rego(Some(start))?;
                    self.edit(self.at - 1, &format!("}}, {quote}"));
                }
                Some('\n') if quote == '"' => break,
                Some(next) if next == quote => {
                    self.edits.push(Edit::insert(offset(self.at), "])".to_owned()));
                    self.depth -= 1;
                    return Ok(());
                }
                Some(_) => {}
                None => break,
            }
        }
        Err(TemplateError { at: start, text: "the template string does not end" })
    }

    fn skip_to(&mut self, end: char) {
        self.at += self.rest().find(end).unwrap_or(self.rest().len());
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn next(&mut self) -> Option<char> {
        let next = self.rest().chars().next()?;
        self.at += next.len_utf8();
        Some(next)
    }

    /// Replaces the text from `start` to the current offset by `text`.
    fn edit(&mut self, start: usize, text: &str) {
        self.edits.push(Edit { start: offset(start), end: offset(self.at), text: text.to_owned() });
    }
}

/// Joins the parts of a template string. Implements [`FUNCTION`].
///
/// # Errors
///
/// If an expression has several values.
pub(super) fn template_string(values: Vec<Value>) -> Result<Value> {
    let Value::Array(parts) = &values[0] else { return Ok(Value::Undefined) };
    let mut text = String::new();
    for part in parts.iter() {
        match part {
            Value::String(literal) => text.push_str(literal),
            Value::Set(values) => match (values.first(), values.len()) {
                (None, _) => text.push_str("<undefined>"),
                (Some(Value::String(value)), 1) => text.push_str(value),
                (Some(value), 1) => written(value, &mut text),
                _ => bail!("{FUNCTION}: an expression has several values"),
            },
            other => written(other, &mut text),
        }
    }
    Ok(text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn template_strings_become_calls() {
        for (text, expected) in [
            (r#"p := $"""#, r#"p := internal.template_string([""])"#),
            (
                r#"p := $"a {x}\{{y}" # $"{"#,
                r#"p := internal.template_string(["a ", {policysync_part | policysync_part := x}, "{", {policysync_part | policysync_part := y}, ""]) # $"{"#,
            ),
            (
                "p := $`a\n{ {\"}\": 1} }`",
                "p := internal.template_string([`a\n`, {policysync_part | policysync_part :=  {\"}\": 1} }, ``])",
            ),
            (
                r#"p := $"{$"{x}"}""#,
                r#"p := internal.template_string(["", {policysync_part | policysync_part := internal.template_string(["", {policysync_part | policysync_part := x}, ""])}, ""])"#,
            ),
            (r#"p := "$\"" # $""#, r#"p := "$\"" # $""#),
            (r#"p := `$"{`"#, r#"p := `$"{`"#),
        ] {
            assert_eq!(replaced(&text.into()).unwrap().text().as_ref(), expected, "{text}");
        }
    }

    #[test]
    fn template_strings_inside_each_other_have_a_limit() {
        let nested = |depth: usize| format!("p := {}1{}", "$\"{".repeat(depth), "}\"".repeat(depth));
        assert!(replaced(&nested(DEPTH).into()).is_ok());
        assert_eq!(replaced(&nested(DEPTH + 1).into()).unwrap_err().at, 5 + 3 * DEPTH);
        assert!(replaced(&nested(100_000).into()).is_err());
    }

    #[test]
    fn template_string_without_end_is_rejected_at_its_start() {
        for text in ["p := $\"a {x", "p := $\"a", "p := $\"a\n\"", "p := $`a {`"] {
            assert_eq!(replaced(&text.into()).unwrap_err().at, 5, "{text}");
        }
    }
}
