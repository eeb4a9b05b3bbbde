//! `sprintf` as Go has it where the engine's own has no value: with too few or too many arguments, a verb that there is not, and width
//! and precision at once. A message that has no value is no denial.

use std::iter::Peekable;
use std::str::Chars;

use anyhow::{Result, ensure};
use regorus::Value;

use super::engine;

/// The widest that anything may be.
const WIDEST: usize = 1_000;

/// What is between `%` and a verb.
#[derive(Default)]
struct Directive {
    flags: String,
    width: Option<usize>,
    precision: Option<usize>,
}

pub(super) fn sprintf(values: Vec<Value>) -> Result<Value> {
    let (Ok(format), Value::Array(arguments)) = (values[0].as_string(), &values[1]) else {
        return Ok(Value::Undefined);
    };
    let (mut text, mut chars, mut arguments) = (String::new(), format.chars().peekable(), arguments.iter());
    while let Some(char) = chars.next() {
        if char != '%' {
            text.push(char);
            continue;
        }
        let mut directive = Directive::default();
        while let Some(flag) = chars.next_if(|char| "+-# 0".contains(*char)) {
            directive.flags.push(flag);
        }
        directive.width = number(&mut chars)?;
        if chars.next_if_eq(&'.').is_some() {
            directive.precision = number(&mut chars)?.or(Some(0));
        }
        match chars.next() {
            None => text.push_str("%!(NOVERB)"),
            Some('%') => text.push('%'),
            Some(verb) => match arguments.next() {
                None => text.push_str(&format!("%!{verb}(MISSING)")),
                Some(argument) => text.push_str(&directive.of(verb, argument)?),
            },
        }
    }
    let more: Vec<String> = arguments.map(described).collect::<Result<_>>()?;
    if !more.is_empty() {
        text.push_str(&format!("%!(EXTRA {})", more.join(", ")));
    }
    Ok(text.into())
}

/// The number that `chars` begin with, if any.
fn number(chars: &mut Peekable<Chars<'_>>) -> Result<Option<usize>> {
    let digits: String = std::iter::from_fn(|| chars.next_if(char::is_ascii_digit)).collect();
    if digits.is_empty() {
        return Ok(None);
    }
    let number = digits.parse().unwrap_or(usize::MAX);
    ensure!(number <= WIDEST, "sprintf: {digits} is more than {WIDEST} characters");
    Ok(Some(number))
}

/// What the engine's own `sprintf` makes of one argument.
fn own(format: &str, argument: &Value) -> Result<Option<String>> {
    let values = [format.into(), vec![argument.clone()].into()];
    let text = engine("sprintf", &values)?;
    Ok(text.as_string().ok().map(ToString::to_string))
}

/// The same of a number, of which the engine writes a minus twice.
fn signed(format: &str, number: &Value) -> Result<Option<String>> {
    let written = own("%v", number)?.unwrap_or_default();
    match written.strip_prefix('-') {
        Some(magnitude) => Ok(own(format, &Value::from_json_str(magnitude)?)?.map(|text| format!("-{text}"))),
        None => own(format, number),
    }
}

/// `argument`, as Go writes what is at a wrong place.
fn described(argument: &Value) -> Result<String> {
    Ok(format!("{}={}", sort(argument), own("%v", argument)?.unwrap_or_default()))
}

/// What Go calls what OPA gives it: all but numbers as text.
fn sort(argument: &Value) -> &'static str {
    match argument {
        Value::Number(number) if number.is_integer() => "int",
        Value::Number(_) => "float64",
        _ => "string",
    }
}

fn hex(text: &str, is_upper: bool) -> String {
    text.bytes().map(|byte| if is_upper { format!("{byte:02X}") } else { format!("{byte:02x}") }).collect()
}

impl Directive {
    fn of(&self, verb: char, argument: &Value) -> Result<String> {
        let number = matches!(argument, Value::Number(_));
        let integer = matches!(argument, Value::Number(number) if number.is_integer());
        let precision = self.precision.map(|digits| format!(".{digits}")).unwrap_or_default();
        let own = match (verb, argument) {
            ('T', _) => Some(sort(argument).to_owned()),
            ('x' | 'X', Value::String(text)) => Some(hex(text, verb == 'X')),
            ('v' | 's' | 'q', _) => own(&format!("%{precision}{verb}"), argument)?,
            ('d', _) if integer => own("%v", argument)?,
            ('b' | 'c' | 'o' | 'O' | 'x' | 'X', _) if integer => signed(&format!("%{verb}"), argument)?,
            ('e' | 'E' | 'f' | 'F', _) if number => own(&format!("%{precision}{verb}"), argument)?,
            ('g' | 'G', _) if number => signed(&format!("%{precision}{verb}"), argument)?,
            _ => None,
        };
        let Some(mut text) = own else { return Ok(format!("%!{verb}({})", described(argument)?)) };
        let has = |flag| self.flags.contains(flag);
        if number && has('+') && !text.starts_with('-') {
            text.insert(0, '+');
        } else if number && has(' ') && !text.starts_with('-') {
            text.insert(0, ' ');
        }
        let missing = self.width.unwrap_or_default().saturating_sub(text.chars().count());
        if has('-') {
            text.extend(std::iter::repeat_n(' ', missing));
        } else if has('0') {
            let sign = usize::from(number && text.starts_with(['-', '+', ' ']));
            text.insert_str(sign, &"0".repeat(missing));
        } else {
            text.insert_str(0, &" ".repeat(missing));
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(format: &str, arguments: serde_json::Value) -> Result<String, String> {
        let value = sprintf(vec![format.into(), arguments.into()]).map_err(|error| error.to_string())?;
        Ok(value.as_string().map(ToString::to_string).unwrap_or_default())
    }

    #[test]
    fn a_message_has_a_text_whatever_its_arguments_are() {
        // As OPA 1.22 has them.
        for (pattern, arguments, expected) in [
            ("%s of %s", serde_json::json!(["a"]), "a of %!s(MISSING)"),
            ("%s", serde_json::json!(["a", "b", 1]), "a%!(EXTRA string=b, int=1)"),
            ("%v% is used", serde_json::json!([95]), "95%!i(MISSING)s used"),
            ("100%", serde_json::json!([]), "100%!(NOVERB)"),
            ("%z", serde_json::json!(["a"]), "%!z(string=a)"),
            ("%d", serde_json::json!(["a"]), "%!d(string=a)"),
            ("%5d|%-5d|%05d|%+d", serde_json::json!([7, 7, -7, 7]), "    7|7    |-0007|+7"),
            ("%6.2f|%.0f", serde_json::json!([1.25, 2]), "  1.25|2"),
            ("%5s|%-5s|", serde_json::json!(["é", "b"]), "    é|b    |"),
            ("%x|%X|%T", serde_json::json!(["jk", "jk", [1]]), "6a6b|6A6B|string"),
            ("%x|%d", serde_json::json!([-255, -255]), "-ff|-255"),
            ("%t", serde_json::json!([true]), "%!t(string=true)"),
            ("%%", serde_json::json!([]), "%"),
        ] {
            assert_eq!(format(pattern, arguments).as_deref(), Ok(expected), "{pattern}");
        }
        for pattern in ["%99999999999d", "%.1001f"] {
            assert!(format(pattern, serde_json::json!([1])).unwrap_err().contains("1000 characters"));
        }
        assert_eq!(format("%٣d", serde_json::json!([1])).as_deref(), Ok("%!٣(int=1)d"));
    }
}
