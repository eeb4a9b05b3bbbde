//! Formats fractions like Go's `strconv.FormatFloat`.

use anyhow::{Result, bail};

/// The default precision of `%e` and `%f`.
const PRECISION: usize = 6;
/// The smallest positive exponent that `%g` without a precision writes as an exponent.
const EXPONENT: i64 = 6;
/// The number of stored mantissa bits, and the exponent of the last bit.
const MANTISSA: u32 = 52;
const LAST: i64 = -1075;

/// Formats `float` with this verb: `e`, `f`, `g`, `b`, `x` or one of these in uppercase.
pub(super) fn formatted(float: f64, verb: char, precision: Option<usize>) -> Result<String> {
    Ok(match verb {
        'e' | 'E' => {
            let (digits, exponent) = digits(float, Some(precision.unwrap_or(PRECISION) + 1));
            scientific(float, &digits, exponent, verb)
        }
        'f' | 'F' => format!("{float:.*}", precision.unwrap_or(PRECISION)),
        'g' => general(float, precision, 'e'),
        'G' => general(float, precision, 'E'),
        'b' => binary(float),
        _ => match precision {
            Some(_) => bail!("sprintf: %{verb} with a precision is not supported for fractions"),
            None if verb == 'X' => hexadecimal(float).to_uppercase(),
            None => hexadecimal(float),
        },
    })
}

/// Formats `float` for `%g`: with an exponent if the number is small or large. Without a precision, the result has as
/// many digits as necessary.
pub(super) fn general(float: f64, precision: Option<usize>, letter: char) -> String {
    let (mut digits, exponent) = digits(float, precision.map(|precision| precision.max(1)));
    let kept = digits.trim_end_matches('0').len().max(1);
    digits.truncate(kept);
    let count = i64::try_from(digits.len()).unwrap_or(i64::MAX);
    let most = match precision {
        None => EXPONENT,
        Some(precision) => {
            let most = i64::try_from(precision.max(1)).unwrap_or(i64::MAX);
            if most > count && count > exponent { count } else { most }
        }
    };
    if exponent < -4 || exponent >= most {
        return scientific(float, &digits, exponent, letter);
    }
    let sign = if float.is_sign_negative() { "-" } else { "" };
    let zeros = |count: i64| "0".repeat(usize::try_from(count).unwrap_or_default());
    match exponent {
        ..0 => format!("{sign}0.{}{digits}", zeros(-exponent - 1)),
        _ if exponent >= count - 1 => format!("{sign}{digits}{}", zeros(exponent - count + 1)),
        _ => {
            let (whole, fraction) = digits.split_at(usize::try_from(exponent + 1).unwrap_or_default());
            format!("{sign}{whole}.{fraction}")
        }
    }
}

/// Applies the flag `#`: adds a decimal point to `number` and, for `%g` and `%x`, trailing zeros.
pub(super) fn with_point(number: &str, verb: char, precision: Option<usize>) -> String {
    if verb == 'b' {
        return number.to_owned();
    }
    let is_hex = verb.eq_ignore_ascii_case(&'x');
    let exponent = if is_hex { ['p', 'P'] } else { ['e', 'E'] };
    let (mantissa, tail) = number.split_at(number.find(exponent).unwrap_or(number.len()));
    let digits = mantissa.trim_start_matches('-');
    let significant = digits.chars().filter(|char| *char != '.').skip_while(|char| *char == '0').count();
    let counted = if digits == "0" { 1 } else { significant };
    let missing = match verb {
        'v' | 'g' | 'G' | 'x' => precision.unwrap_or(PRECISION).saturating_sub(counted),
        _ => 0,
    };
    let point = if mantissa.contains('.') { "" } else { "." };
    format!("{mantissa}{point}{}{tail}", "0".repeat(missing))
}

/// The significant digits of `float`, and its decimal exponent. Without a `count`, there are as many digits as
/// necessary.
fn digits(float: f64, count: Option<usize>) -> (String, i64) {
    let text = match count {
        Some(count) => format!("{:.*e}", count - 1, float.abs()),
        None => format!("{:e}", float.abs()),
    };
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    (mantissa.replace('.', ""), exponent.parse().unwrap_or_default())
}

fn scientific(float: f64, digits: &str, exponent: i64, letter: char) -> String {
    let sign = if float.is_sign_negative() { "-" } else { "" };
    let (first, rest) = digits.split_at(1);
    let point = if rest.is_empty() { "" } else { "." };
    format!("{sign}{first}{point}{rest}{letter}{}", signed(exponent))
}

/// `exponent` with a sign and at least two digits.
fn signed(exponent: i64) -> String {
    format!("{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.unsigned_abs())
}

/// The mantissa as an integer, and its binary exponent.
fn parts(float: f64) -> (u64, i64) {
    let bits = float.to_bits();
    let stored = bits & ((1 << MANTISSA) - 1);
    match i64::try_from((bits >> MANTISSA) & 0x7ff).unwrap_or_default() {
        0 => (stored, LAST + 1),
        exponent => (stored | (1 << MANTISSA), LAST + exponent),
    }
}

fn binary(float: f64) -> String {
    let (mantissa, exponent) = parts(float);
    format!("{}{mantissa}p{exponent:+}", if float.is_sign_negative() { "-" } else { "" })
}

fn hexadecimal(float: f64) -> String {
    let (mantissa, exponent) = parts(float);
    // The first bit is the digit before the point.
    let shift = mantissa.leading_zeros().saturating_sub(u64::BITS - 1 - MANTISSA);
    let (mantissa, exponent) = if mantissa == 0 {
        (0, 0)
    } else {
        (mantissa << shift, exponent - i64::from(shift) + i64::from(MANTISSA))
    };
    let fraction = format!("{:013x}", mantissa & ((1 << MANTISSA) - 1));
    let fraction = fraction.trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    let sign = if float.is_sign_negative() { "-" } else { "" };
    format!("{sign}0x{}{point}{fraction}p{}", mantissa >> MANTISSA, signed(exponent))
}
