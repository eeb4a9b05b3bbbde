//! Implements `sprintf` like Go's `fmt`, which OPA calls. OPA passes 64-bit integers as `int64`, larger integers as
//! `*big.Int`, other numbers as `float64` and everything else as text.

mod float;

use anyhow::{Result, ensure};
use regorus::Value;

use super::engine;

/// The maximum width and precision.
const MAX_WIDTH: usize = 1_000;

/// An argument in the form in which Go receives it.
#[derive(Debug)]
enum Argument {
    Int(i64),
    /// An integer beyond 64 bits, in decimal.
    Big(String),
    Float(f64),
    Text(String),
}

impl Argument {
    fn of(value: &Value) -> Self {
        match value {
            Value::String(text) => Self::Text(text.to_string()),
            Value::Number(number) => match (fraction(value), number.as_i64()) {
                (Some(fraction), _) => Self::Float(fraction),
                (None, Some(integer)) => Self::Int(integer),
                (None, None) => Self::Big(number.format_decimal()),
            },
            _ => {
                let mut text = String::new();
                write(value, &mut text);
                Self::Text(text)
            }
        }
    }

    fn type_name(&self) -> &'static str {
        match self {
            Self::Int(_) => "int64",
            Self::Big(_) => "*big.Int",
            Self::Float(_) => "float64",
            Self::Text(_) => "string",
        }
    }
}

/// The number `value`, if it is a fraction. As in OPA, 1.0 is a fraction.
fn fraction(value: &Value) -> Option<f64> {
    let Value::Number(number) = value else { return None };
    number.format_decimal_with_width(1).contains('.').then(|| number.as_f64().unwrap_or_default())
}

/// Appends `value` as OPA writes it.
pub(crate) fn write(value: &Value, text: &mut String) {
    fn list<'v>(items: impl Iterator<Item = &'v Value>, text: &mut String) {
        for (nth, item) in items.enumerate() {
            text.push_str(if nth > 0 { ", " } else { "" });
            write(item, text);
        }
    }
    match value {
        Value::String(string) => {
            text.push('"');
            string.chars().for_each(|char| text.push_str(&Directive::default().escaped(char, '"')));
            text.push('"');
        }
        Value::Number(number) => text.push_str(&match fraction(value) {
            Some(fraction) => serde_json::Value::from(fraction).to_string(),
            None => number.format_decimal(),
        }),
        Value::Array(items) => {
            text.push('[');
            list(items.iter(), text);
            text.push(']');
        }
        Value::Set(items) if items.is_empty() => text.push_str("set()"),
        Value::Set(items) => {
            text.push('{');
            list(items.iter(), text);
            text.push('}');
        }
        Value::Object(fields) => {
            text.push('{');
            for (nth, (key, value)) in fields.iter_sorted().enumerate() {
                text.push_str(if nth > 0 { ", " } else { "" });
                write(key, text);
                text.push_str(": ");
                write(value, text);
            }
            text.push('}');
        }
        Value::Bool(_) | Value::Null | Value::Undefined => text.push_str(&value.to_string()),
    }
}

/// The text between `%` and a verb.
#[derive(Clone, Default)]
struct Directive {
    minus: bool,
    plus: bool,
    sharp: bool,
    space: bool,
    zero: bool,
    width: Option<usize>,
    precision: Option<usize>,
}

pub(super) fn sprintf(values: Vec<Value>) -> Result<Value> {
    let (Ok(format), Value::Array(values)) = (values[0].as_string(), &values[1]) else {
        return Ok(Value::Undefined);
    };
    let arguments: Vec<Argument> = values.iter().map(Argument::of).collect();
    let mut formatter =
        Formatter { rest: format, arguments: &arguments, next: 0, reordered: false, text: String::new() };
    while let Some((before, rest)) = formatter.rest.split_once('%') {
        formatter.text.push_str(before);
        formatter.rest = rest;
        formatter.directive()?;
    }
    formatter.text.push_str(formatter.rest);
    let extra = arguments.get(formatter.next..).filter(|extra| !extra.is_empty() && !formatter.reordered);
    if let Some(extra) = extra {
        let plain = Directive::default();
        let extra: Vec<String> = extra
            .iter()
            .map(|argument| format!("{}={}", argument.type_name(), plain.value(argument)))
            .collect();
        formatter.text.push_str(&format!("%!(EXTRA {})", extra.join(", ")));
    }
    Ok(formatter.text.into())
}

struct Formatter<'a> {
    rest: &'a str,
    arguments: &'a [Argument],
    /// The index of the next argument.
    next: usize,
    /// Whether the format selects an argument by its index, as in `%[2]d`.
    reordered: bool,
    text: String,
}

impl<'a> Formatter<'a> {
    /// Formats the directive at the start of `rest`, after its `%`.
    fn directive(&mut self) -> Result<()> {
        let mut directive = Directive::default();
        while let Some(flag) = self.rest.chars().next().filter(|flag| "+-# 0".contains(*flag)) {
            match flag {
                '+' => directive.plus = true,
                '-' => directive.minus = true,
                '#' => directive.sharp = true,
                ' ' => directive.space = true,
                _ => directive.zero = true,
            }
            self.rest = &self.rest[1..];
        }
        let mut index = self.index();
        let mut is_good = index != Some(false);
        if self.starts_with('*') {
            index = None;
            match self.argument() {
                Some(Argument::Int(width)) => {
                    directive.minus |= *width < 0;
                    directive.width = Some(limited(width.unsigned_abs())?);
                }
                _ => self.text.push_str("%!(BADWIDTH)"),
            }
        } else {
            directive.width = self.number()?;
            // A number after an index is an error.
            is_good &= index.is_none() || directive.width.is_none();
        }
        if self.starts_with('.') {
            is_good &= index.is_none();
            index = self.index();
            is_good &= index != Some(false);
            if self.starts_with('*') {
                index = None;
                match self.argument() {
                    Some(Argument::Int(precision)) if *precision >= 0 => {
                        directive.precision = Some(limited(precision.unsigned_abs())?);
                    }
                    _ => self.text.push_str("%!(BADPREC)"),
                }
            } else {
                directive.precision = self.number()?.or(Some(0));
            }
        }
        if index.is_none() {
            is_good &= self.index() != Some(false);
        }
        let Some(verb) = self.rest.chars().next() else {
            self.text.push_str("%!(NOVERB)");
            return Ok(());
        };
        self.rest = &self.rest[verb.len_utf8()..];
        let text = match (verb, is_good) {
            ('%', _) => "%".to_owned(),
            (_, false) => format!("%!{verb}(BADINDEX)"),
            _ => match self.argument() {
                None => format!("%!{verb}(MISSING)"),
                Some(argument) => directive.of(verb, argument)?,
            },
        };
        self.text.push_str(&text);
        Ok(())
    }

    /// Takes the next argument.
    fn argument(&mut self) -> Option<&'a Argument> {
        let argument = self.arguments.get(self.next)?;
        self.next += 1;
        Some(argument)
    }

    fn starts_with(&mut self, next: char) -> bool {
        let rest = self.rest.strip_prefix(next);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Moves to the argument whose index is next in the format, for example `[2]`. Returns `None` if no index is next,
    /// and `false` if that argument does not exist.
    fn index(&mut self) -> Option<bool> {
        let rest = self.rest.strip_prefix('[')?;
        self.reordered = true;
        let Some((index, rest)) = rest.split_once(']') else {
            self.rest = rest;
            return Some(false);
        };
        self.rest = rest;
        let is_number = index.bytes().all(|byte| byte.is_ascii_digit());
        let index = index.parse::<usize>().ok().filter(|_| is_number);
        let index = index.filter(|index| (1..=self.arguments.len()).contains(index));
        if let Some(index) = index {
            self.next = index - 1;
        }
        Some(index.is_some())
    }

    /// The number that is next in the format, if any.
    fn number(&mut self) -> Result<Option<usize>> {
        let end = self.rest.find(|next: char| !next.is_ascii_digit()).unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at(end);
        self.rest = rest;
        if digits.is_empty() { Ok(None) } else { limited(digits.parse().unwrap_or(u64::MAX)).map(Some) }
    }
}

fn limited(number: u64) -> Result<usize> {
    ensure!(
        number <= MAX_WIDTH as u64,
        "sprintf: a width or precision of {number} is more than {MAX_WIDTH} characters"
    );
    Ok(usize::try_from(number)?)
}

impl Directive {
    fn of(&self, verb: char, argument: &Argument) -> Result<String> {
        if verb == 'T' {
            return Ok(self.padded(self.truncated(argument.type_name())));
        }
        // With %v, `+` and `#` select other formats of structures.
        let plain = Self { plus: false, sharp: false, ..self.clone() };
        Ok(match (argument, verb) {
            (Argument::Int(_), 'v') => plain.value(argument),
            (Argument::Int(integer), 'd' | 'b' | 'o' | 'O' | 'x' | 'X') => {
                self.integer(verb, &integer.unsigned_abs().to_string(), *integer < 0)?
            }
            (Argument::Int(integer), 'c') => self.padded(&rune(*integer).to_string()),
            (Argument::Int(integer), 'q') => {
                self.padded(&format!("'{}'", self.escaped(rune(*integer), '\'')))
            }
            (Argument::Int(integer), 'U') => {
                let digits = self.precision.unwrap_or_default().max(4);
                let shown =
                    u32::try_from(*integer).ok().and_then(char::from_u32).filter(|char| is_printable(*char));
                let shown = shown.filter(|_| self.sharp).map(|char| format!(" '{char}'")).unwrap_or_default();
                Self { zero: false, ..self.clone() }.padded(&format!("U+{integer:0digits$X}{shown}"))
            }
            (Argument::Big(digits), 'v' | 's' | 'd' | 'b' | 'o' | 'O' | 'x' | 'X') => {
                let magnitude = digits.trim_start_matches('-');
                let verb = if verb == 'v' || verb == 's' { 'd' } else { verb };
                self.integer(verb, magnitude, digits.starts_with('-'))?
            }
            (Argument::Float(_), 'v') => plain.value(argument),
            (Argument::Float(float), 'e' | 'E' | 'f' | 'F' | 'g' | 'G' | 'b' | 'x' | 'X') => {
                self.fraction(float::formatted(*float, verb, self.precision)?, verb)
            }
            (Argument::Text(_), 'v') if self.sharp => {
                Self { plus: false, sharp: false, ..self.clone() }.of('q', argument)?
            }
            (Argument::Text(text), 'q') => {
                let text = self.truncated(text);
                let is_raw = self.sharp && text.chars().all(may_be_raw);
                let quoted = || text.chars().map(|char| self.escaped(char, '"')).collect::<String>();
                self.padded(&if is_raw { format!("`{text}`") } else { format!("\"{}\"", quoted()) })
            }
            (Argument::Text(text), 'v' | 's') => self.padded(self.truncated(text)),
            (Argument::Text(text), 'x' | 'X') => self.padded(&self.hex(text, verb == 'X')),
            (Argument::Big(digits), _) => format!("%!{verb}(big.Int={digits})"),
            _ => format!("%!{verb}({}={})", argument.type_name(), self.value(argument)),
        })
    }

    /// Formats `argument` for `%v` with these flags.
    fn value(&self, argument: &Argument) -> String {
        match argument {
            Argument::Int(integer) => self.decimal(&integer.unsigned_abs().to_string(), *integer < 0, ""),
            Argument::Big(digits) => digits.clone(),
            Argument::Float(float) => self.fraction(float::general(*float, self.precision, 'e'), 'v'),
            Argument::Text(text) => self.padded(self.truncated(text)),
        }
    }

    /// Formats the integer with these decimal digits in the base of `verb`.
    fn integer(&self, verb: char, magnitude: &str, is_negative: bool) -> Result<String> {
        let number = Value::from_numeric_string(magnitude)?;
        let own = |verb: &str| -> Result<String> {
            let text = engine("sprintf", &[verb.into(), vec![number.clone()].into()])?;
            Ok(text.as_string()?.to_string())
        };
        // The engine adds the prefix `0O`.
        let octal = || own("%o").map(|digits| digits.trim_start_matches("0O").to_owned());
        let (digits, prefix) = match verb {
            'b' => (own("%b")?, if self.sharp { "0b" } else { "" }),
            'o' => (octal()?, if self.sharp && magnitude != "0" { "0" } else { "" }),
            'O' => (octal()?, "0o"),
            'x' => (own("%x")?, if self.sharp { "0x" } else { "" }),
            'X' => (own("%X")?, if self.sharp { "0X" } else { "" }),
            _ => (magnitude.to_owned(), ""),
        };
        Ok(self.decimal(&digits, is_negative, prefix))
    }

    /// The digits with sign and prefix. The precision is the minimum number of digits.
    fn decimal(&self, digits: &str, is_negative: bool, prefix: &str) -> String {
        let sign = match (is_negative, self.plus, self.space) {
            (true, ..) => "-",
            (_, true, _) => "+",
            (_, _, true) => " ",
            _ => "",
        };
        let least = match (self.precision, self.width) {
            (Some(precision), _) => precision,
            (None, Some(width)) if self.zero && !self.minus => width.saturating_sub(sign.len()),
            _ => 0,
        };
        let text = match digits {
            "0" if self.precision == Some(0) => String::new(),
            _ => {
                let zeros = "0".repeat(least.saturating_sub(digits.len()));
                // An octal number that begins with 0 needs no prefix.
                let prefix = if prefix == "0" && !zeros.is_empty() { "" } else { prefix };
                format!("{sign}{prefix}{zeros}{digits}")
            }
        };
        Self { zero: false, ..self.clone() }.padded(&text)
    }

    /// Applies the flags to the formatted `number`, which may have a minus.
    fn fraction(&self, number: String, verb: char) -> String {
        let number = if self.sharp { float::with_point(&number, verb, self.precision) } else { number };
        let (sign, magnitude) = match number.strip_prefix('-') {
            Some(magnitude) => ("-", magnitude),
            None if self.plus => ("+", number.as_str()),
            None if self.space => (" ", number.as_str()),
            None => ("", number.as_str()),
        };
        let missing = self.width.unwrap_or_default().saturating_sub(sign.len() + magnitude.len());
        if self.zero && !self.minus {
            return format!("{sign}{}{magnitude}", "0".repeat(missing));
        }
        self.padded(&format!("{sign}{magnitude}"))
    }

    fn padded(&self, text: &str) -> String {
        let missing = self.width.unwrap_or_default().saturating_sub(text.chars().count());
        match (self.minus, self.zero) {
            (true, _) => format!("{text}{}", " ".repeat(missing)),
            (_, true) => format!("{}{text}", "0".repeat(missing)),
            _ => format!("{}{text}", " ".repeat(missing)),
        }
    }

    /// Cuts `text` to the precision, in characters.
    fn truncated<'t>(&self, text: &'t str) -> &'t str {
        let end = self.precision.and_then(|most| text.char_indices().nth(most)).map(|(end, _)| end);
        &text[..end.unwrap_or(text.len())]
    }

    /// Escapes `char` for a Go literal with these quotes.
    fn escaped(&self, char: char, quote: char) -> String {
        match char {
            '\u{7}' => "\\a".to_owned(),
            '\u{8}' => "\\b".to_owned(),
            '\u{b}' => "\\v".to_owned(),
            '\u{c}' => "\\f".to_owned(),
            '\n' => "\\n".to_owned(),
            '\r' => "\\r".to_owned(),
            '\t' => "\\t".to_owned(),
            '\\' => "\\\\".to_owned(),
            _ if char == quote => format!("\\{char}"),
            _ if char.is_ascii_control() => format!("\\x{:02x}", u32::from(char)),
            _ if is_printable(char) && (char.is_ascii() || !self.plus) => char.to_string(),
            _ if u32::from(char) < 0x1_0000 => format!("\\u{:04x}", u32::from(char)),
            _ => format!("\\U{:08x}", u32::from(char)),
        }
    }

    fn hex(&self, text: &str, is_upper: bool) -> String {
        let byte = |byte: &u8| if is_upper { format!("{byte:02X}") } else { format!("{byte:02x}") };
        let prefix = match (self.sharp && !text.is_empty() && self.precision != Some(0), is_upper) {
            (true, true) => "0X",
            (true, false) => "0x",
            _ => "",
        };
        let bytes: Vec<String> =
            text.as_bytes().iter().take(self.precision.unwrap_or(usize::MAX)).map(byte).collect();
        match (self.space, self.sharp) {
            (true, true) => bytes.iter().map(|byte| format!("{prefix}{byte}")).collect::<Vec<_>>().join(" "),
            (true, false) => bytes.join(" "),
            _ => prefix.to_owned() + &bytes.concat(),
        }
    }
}

/// The character of this number, or the replacement character.
fn rune(number: i64) -> char {
    u32::try_from(number).ok().and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// Whether `char` may occur in a raw Go literal.
fn may_be_raw(char: char) -> bool {
    !matches!(char, '`' | '\u{feff}') && (char == '\t' || !char.is_ascii_control())
}

/// Whether Go prints `char` unescaped in a literal.
fn is_printable(char: char) -> bool {
    // A leading combining character is escaped.
    !char.is_control() && !format!("a{char}").escape_debug().to_string().contains("\\u{")
}

#[cfg(test)]
mod tests;
