//! Writes YAML documents in the style of go-yaml, with an indentation of 2.

use std::cmp::Ordering;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Number, Value};

use super::plain::{Plain, is_text, resolve};

/// The maximum length in bytes of a key that is written before its colon.
const SIMPLE: usize = 128;
/// The maximum number of characters of a key in JSON. OPA writes a value as JSON, which go-yaml then parses.
const KEY: usize = 1_024;

/// The reason why a value cannot be written as YAML.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Error {
    /// The value has a character or a key that go-yaml rejects.
    Invalid,
    /// The value has Unicode line breaks.
    Unsupported,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    Plain,
    Single,
    Double,
    Literal,
}

/// The YAML document for `value`.
pub(super) fn document(value: &Value) -> Result<String, Error> {
    check(value)?;
    let mut writer = Writer { out: String::new(), column: 0, is_after_blank: true, is_indented: true };
    writer.value(value, None);
    writer.start_line(0);
    Ok(writer.out)
}

fn check(value: &Value) -> Result<(), Error> {
    match value {
        Value::String(text) => check_text(text),
        Value::Array(items) => items.iter().try_for_each(check),
        Value::Object(fields) => fields.iter().try_for_each(|(key, value)| {
            check_text(key)?;
            let length: usize = key.chars().map(length_in_json).sum();
            if length + 2 > KEY { Err(Error::Invalid) } else { check(value) }
        }),
        _ => Ok(()),
    }
}

fn check_text(text: &str) -> Result<(), Error> {
    text.chars().try_for_each(|c| match c {
        '\u{85}' | '\u{2028}' | '\u{2029}' | '\u{feff}' => Err(Error::Unsupported),
        '\u{7f}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}' => Err(Error::Invalid),
        _ => Ok(()),
    })
}

/// The length of `c` in Go's JSON, in characters.
fn length_in_json(c: char) -> usize {
    match c {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..' ' | '<' | '>' | '&' => 6,
        _ => 1,
    }
}

fn is_break(c: char) -> bool {
    c == '\n' || c == '\r'
}

fn is_printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}')
}

/// The properties of a text that determine its style.
struct Shape {
    has_breaks: bool,
    may_be_plain: bool,
    may_be_single: bool,
    may_be_literal: bool,
}

impl Shape {
    fn of(text: &str) -> Self {
        let mut has_indicators = text.starts_with("---") || text.starts_with("...");
        let (mut is_special, mut has_breaks, mut is_ragged, mut has_space_before_break) =
            (false, false, false, false);
        let mut before = None;
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            let is_last_of_word = chars.peek().is_none_or(|next| matches!(next, ' ' | '\t'));
            has_indicators |= match (c, before) {
                (
                    '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@'
                    | '`',
                    None,
                ) => true,
                ('?' | '-', None) | (':', _) => is_last_of_word,
                ('#', Some(before)) => matches!(before, ' ' | '\t' | '\0') || is_break(before),
                _ => false,
            };
            is_special |= c != '\t' && !is_printable(c);
            is_ragged |= c == '\t' || (c == ' ' && before.is_some_and(is_break));
            has_space_before_break |= is_break(c) && before == Some(' ');
            has_breaks |= is_break(c);
            before = Some(c);
        }
        let is_blank = |c: char| c == ' ' || is_break(c);
        let is_odd = is_special || is_ragged || has_space_before_break;
        let has_blank_edges = text.starts_with(is_blank) || text.ends_with(is_blank);
        Self {
            has_breaks,
            may_be_plain: !(is_odd || has_blank_edges || has_breaks || has_indicators),
            may_be_single: !is_odd,
            may_be_literal: !(text.is_empty() || text.ends_with(' ') || is_special || has_space_before_break),
        }
    }

    /// The style of `text`. A key before its colon must be on one line.
    fn style(&self, text: &str, is_simple_key: bool) -> Style {
        let is_literal = text.contains('\n') && self.may_be_literal && !is_simple_key;
        if is_literal {
            Style::Literal
        } else if text.contains('\n') || !is_text(text) || (is_simple_key && self.has_breaks) {
            Style::Double
        } else if self.may_be_plain {
            Style::Plain
        } else if self.may_be_single {
            Style::Single
        } else {
            Style::Double
        }
    }
}

struct Writer {
    out: String,
    column: usize,
    is_after_blank: bool,
    /// Whether the line has only indicators so far.
    is_indented: bool,
}

impl Writer {
    fn put(&mut self, c: char) {
        self.out.push(c);
        self.column += 1;
    }

    fn end_line(&mut self) {
        self.out.push('\n');
        (self.column, self.is_indented) = (0, true);
    }

    /// Begins a line with this indentation, or continues the current line after an indicator.
    fn start_line(&mut self, indentation: usize) {
        let is_at = self.column == indentation && !self.is_after_blank;
        if !self.is_indented || self.column > indentation || is_at {
            self.end_line();
        }
        while self.column < indentation {
            self.put(' ');
        }
        self.is_after_blank = true;
    }

    fn indicator(&mut self, text: &str, is_of_indentation: bool) {
        text.chars().for_each(|c| self.put(c));
        self.is_after_blank = false;
        self.is_indented &= is_of_indentation;
    }

    /// Writes a blank, unless the line ends with a blank.
    fn blank(&mut self) {
        if !self.is_after_blank {
            self.put(' ');
        }
    }

    fn plain(&mut self, text: &str) {
        self.blank();
        self.indicator(text, false);
    }

    /// Writes a value in a collection with this indentation.
    fn value(&mut self, value: &Value, outer: Option<usize>) {
        let indentation = outer.map_or(0, |outer| outer + 2);
        match value {
            Value::Null => self.plain("null"),
            Value::Bool(value) => self.plain(&value.to_string()),
            Value::Number(value) => self.plain(&number(value)),
            Value::String(text) => self.text(text, outer, false),
            Value::Array(items) if items.is_empty() => self.plain("[]"),
            Value::Object(fields) if fields.is_empty() => self.plain("{}"),
            Value::Array(items) => {
                for item in items {
                    self.start_line(indentation);
                    self.blank();
                    self.indicator("-", true);
                    self.value(item, Some(indentation));
                }
            }
            Value::Object(fields) => self.fields(fields, indentation),
        }
    }

    fn fields(&mut self, fields: &Map<String, Value>, indentation: usize) {
        let mut fields: Vec<(&String, &Value)> = fields.iter().collect();
        fields.sort_by(|(one, _), (other, _)| order(one, other));
        for (key, value) in fields {
            self.start_line(indentation);
            if key.len() <= SIMPLE && !Shape::of(key).has_breaks {
                self.text(key, Some(indentation), true);
                self.indicator(":", false);
            } else {
                self.blank();
                self.indicator("?", true);
                self.text(key, Some(indentation), false);
                self.start_line(indentation);
                self.blank();
                self.indicator(":", true);
            }
            self.value(value, Some(indentation));
        }
    }

    fn text(&mut self, text: &str, outer: Option<usize>, is_simple_key: bool) {
        match Shape::of(text).style(text, is_simple_key) {
            Style::Plain => self.plain(text),
            Style::Single => self.plain(&format!("'{}'", text.replace('\'', "''"))),
            Style::Double => self.plain(&format!("\"{}\"", text.chars().map(escaped).collect::<String>())),
            Style::Literal => self.literal(text, outer.unwrap_or(0) + 2),
        }
    }

    fn literal(&mut self, text: &str, indentation: usize) {
        self.plain("|");
        if text.starts_with(|c| c == ' ' || is_break(c)) {
            self.put('2');
        }
        let mut end = text.chars().rev();
        match (end.next().is_some_and(is_break), end.next().is_none_or(is_break)) {
            (false, _) => self.put('-'),
            (true, true) => self.put('+'),
            (true, false) => {}
        }
        self.end_line();
        self.is_after_blank = true;
        let mut is_first = true;
        for c in text.chars() {
            if c == '\n' {
                self.end_line();
            } else {
                if is_first {
                    self.start_line(indentation);
                }
                self.put(c);
                self.is_indented = false;
            }
            is_first = c == '\n';
        }
    }
}

fn escaped(c: char) -> String {
    let name = match c {
        '\0' => '0',
        '\u{7}' => 'a',
        '\u{8}' => 'b',
        '\t' => 't',
        '\n' => 'n',
        '\u{b}' => 'v',
        '\u{c}' => 'f',
        '\r' => 'r',
        '\u{1b}' => 'e',
        '"' | '\\' => c,
        c if is_printable(c) => return c.to_string(),
        c => {
            return match u32::from(c) {
                code @ ..=0xff => format!("\\x{code:02X}"),
                code @ ..=0xffff => format!("\\u{code:04X}"),
                code => format!("\\U{code:08X}"),
            };
        }
    };
    format!("\\{name}")
}

/// Formats a number as go-yaml does after parsing it.
fn number(number: &Number) -> String {
    match resolve(&number.to_string()) {
        Plain::Integer(number) => number.to_string(),
        Plain::Unsigned(number) => number.to_string(),
        Plain::Float(number) => {
            let scientific = format!("{number:e}");
            let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
            match exponent.parse::<i32>().unwrap_or(0) {
                -4..6 => number.to_string(),
                exponent if exponent < 0 => format!("{mantissa}e-{:02}", exponent.abs()),
                exponent => format!("{mantissa}e+{exponent:02}"),
            }
        }
        _ => number.to_string(),
    }
}

fn is_letter(c: char) -> bool {
    static LETTER: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\pL$").ok());
    match c {
        c if c.is_ascii() => c.is_ascii_alphabetic(),
        c => LETTER.as_ref().is_some_and(|letter| letter.is_match(c.encode_utf8(&mut [0; 4]))),
    }
}

fn is_digit(c: char) -> bool {
    static DIGIT: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\p{Nd}$").ok());
    match c {
        c if c.is_ascii() => c.is_ascii_digit(),
        c => DIGIT.as_ref().is_some_and(|digit| digit.is_match(c.encode_utf8(&mut [0; 4]))),
    }
}

/// The order of keys. Numbers in keys are compared by value.
fn order(one: &str, other: &str) -> Ordering {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let Some(at) = one.iter().zip(&other).position(|(one, other)| one != other) else {
        return one.len().cmp(&other.len());
    };
    let is_after_digit = at > 0 && is_digit(one[at - 1]);
    match (is_letter(one[at]), is_letter(other[at])) {
        (true, true) => return one[at].cmp(&other[at]),
        (false, false) => {}
        (is_one, is_other) => {
            let is_less = if is_after_digit { is_one } else { is_other };
            return if is_less { Ordering::Less } else { Ordering::Greater };
        }
    }
    // Zeros after another digit belong to the number.
    let is_zero = one[at] == '0' || other[at] == '0';
    let is_in_number = one[..at].iter().rev().take_while(|c| is_digit(**c)).any(|c| *c != '0');
    let first = i64::from(is_zero && is_in_number);
    let number = |text: &[char]| {
        let digits = text[at..].iter().take_while(|c| is_digit(**c));
        digits.fold((first, 0_usize), |(number, digits), c| {
            let digit = i64::from(u32::from(*c)) - i64::from(u32::from('0'));
            (number.wrapping_mul(10).wrapping_add(digit), digits + 1)
        })
    };
    number(&one).cmp(&number(&other)).then(one[at].cmp(&other[at]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_in_their_natural_order() {
        let mut keys = ["a10", "a9", "a", "B", "b", "1", "10", "9", "-", "_", "a-1", "a1", "a01", ""];
        keys.sort_by(|one, other| order(one, other));
        assert_eq!(keys, ["", "-", "_", "1", "9", "10", "B", "a", "a-1", "a1", "a01", "a9", "a10", "b"]);
    }
}
