//! Implements `time.parse_duration_ns`, with the units of OPA.

use anyhow::Result;
use regorus::Value;

use super::{or_undefined, text};

/// Go's units in nanoseconds.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];
/// OPA's additional units in hours.
const HOURS: [(&str, f64); 3] = [("d", 24.0), ("w", 168.0), ("y", 8_760.0)];
/// The longest duration in nanoseconds, positive or negative.
const MAX_NANOSECONDS: u64 = 1 << 63;

/// The nanoseconds of a duration such as `-1d2.5h`; `None` if it is invalid or too long.
fn nanoseconds(text: &str) -> Option<i64> {
    let (negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let sum = match rest {
        "0" => 0,
        "" => return None,
        rest => sum(&in_hours(rest)?)?,
    };
    if negative { 0_i64.checked_sub_unsigned(sum) } else { i64::try_from(sum).ok() }
}

/// The parts of a duration without its sign: a number and a unit each.
fn parts(mut text: &str) -> Option<Vec<(&str, &str)>> {
    let is_of_number = |c: char| c.is_ascii_digit() || c == '.';
    let mut parts = Vec::new();
    while !text.is_empty() {
        let (number, rest) = text.split_at(text.find(|c| !is_of_number(c))?);
        let (unit, rest) = rest.split_at(rest.find(is_of_number).unwrap_or(rest.len()));
        parts.push((number, unit));
        text = rest;
    }
    Some(parts)
}

/// Converts the units of [`HOURS`] to hours.
fn in_hours(text: &str) -> Option<String> {
    let mut hours = String::with_capacity(text.len());
    for (number, unit) in parts(text)? {
        match HOURS.iter().find(|(name, _)| *name == unit) {
            Some((_, factor)) => hours.push_str(&format!("{}h", number.parse::<f64>().ok()? * factor)),
            None => hours.extend([number, unit]),
        }
    }
    Some(hours)
}

/// The nanoseconds of a duration in Go's units, rounded as in Go.
fn sum(text: &str) -> Option<u64> {
    let mut sum = 0_u64;
    for (number, name) in parts(text)? {
        let (_, unit) = UNITS.iter().find(|(unit, _)| *unit == name)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let is_number = fraction.bytes().all(|digit| digit.is_ascii_digit());
        if !is_number || (whole.is_empty() && fraction.is_empty()) {
            return None;
        }
        let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        let (mut digits, mut scale) = (0_u64, 1.0);
        for digit in fraction.bytes().map(|digit| u64::from(digit - b'0')) {
            // As in Go, digits that do not fit into 63 bits are ignored.
            match digits.checked_mul(10).and_then(|digits| digits.checked_add(digit)) {
                Some(next) if digits <= (MAX_NANOSECONDS - 1) / 10 && next <= MAX_NANOSECONDS => {
                    digits = next
                }
                _ => break,
            }
            scale *= 10.0;
        }
        let fraction = (digits as f64 * (*unit as f64 / scale)) as u64;
        let part = whole.checked_mul(*unit)?.checked_add(fraction)?;
        sum = sum.checked_add(part).filter(|sum| *sum <= MAX_NANOSECONDS)?;
    }
    Some(sum)
}

pub(super) fn parse(values: Vec<Value>) -> Result<Value> {
    Ok(or_undefined(text(&values[0]).and_then(nanoseconds)))
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
            ("0.29h", Some(1_044_000_000_000)),
            ("19.2d", Some(1_658_879_999_999_999)),
            ("-16.57m", Some(-994_200_000_000)),
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
