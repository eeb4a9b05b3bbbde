//! `time.parse_duration_ns`, with the units of OPA.

use anyhow::Result;
use regorus::Value;

/// Nanoseconds of the units.
const UNITS: [(&str, u64); 10] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 24 * 3_600_000_000_000),
    ("w", 7 * 24 * 3_600_000_000_000),
];
/// Hours of a year.
const YEAR: u64 = 365 * 24 * 3_600_000_000_000;

/// The nanoseconds of a duration such as `-1d2.5h`; `None` if it is invalid or too long.
fn nanoseconds(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut sum = 0_u64;
    while !rest.is_empty() {
        let (number, after) = rest.split_at(rest.find(|c: char| !(c.is_ascii_digit() || c == '.'))?);
        let unit_end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (name, after) = after.split_at(unit_end);
        let unit = UNITS.iter().chain(&[("y", YEAR)]).find(|(unit, _)| *unit == name)?.1;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        let mut part = whole.checked_mul(unit)?;
        if !fraction.is_empty() {
            let fraction: f64 = format!("0.{fraction}").parse().ok()?;
            part = part.checked_add((fraction * unit as f64) as u64)?;
        }
        sum = sum.checked_add(part).filter(|sum| *sum <= 1 << 63)?;
        rest = after;
    }
    if negative { 0_i64.checked_sub_unsigned(sum) } else { i64::try_from(sum).ok() }
}

pub(super) fn parse(values: Vec<Value>) -> Result<Value> {
    let found = values[0].as_string().ok().and_then(|text| nanoseconds(text));
    Ok(found.map_or(Value::Undefined, Into::into))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_with_each_unit() {
        for (text, expected) in [
            ("0", Some(0)),
            ("1h1m1s", Some(3_661_000_000_000)),
            ("-1.5h", Some(-5_400_000_000_000)),
            ("1.5\u{b5}s", Some(1_500)),
            ("1d", Some(86_400_000_000_000)),
            ("1w", Some(604_800_000_000_000)),
            ("1y", Some(31_536_000_000_000_000)),
            ("1d2h", Some(93_600_000_000_000)),
            ("-9223372036854775808ns", Some(i64::MIN)),
            ("9223372036854775808ns", None),
            ("", None),
            ("1", None),
            ("h", None),
            (".h", None),
            ("1.2.3h", None),
            ("1 h", None),
            ("1x", None),
        ] {
            assert_eq!(nanoseconds(text), expected, "{text}");
        }
    }
}
