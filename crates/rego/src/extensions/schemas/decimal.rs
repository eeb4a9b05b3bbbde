//! Exact decimal numbers.

use std::cmp::Ordering;

use num_bigint::{BigInt, BigUint, Sign};
use regorus::Value;

/// The number `digits * 10^exponent`. The last digit is not 0, unless the number is 0.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Decimal {
    digits: BigInt,
    exponent: i32,
}

impl Decimal {
    /// `value` as a decimal; `None` if it is not a number.
    pub(super) fn of(value: &Value) -> Option<Self> {
        let Value::Number(number) = value else { return None };
        if let Some(big) = number.as_big() {
            return Some(Self::new(&big.to_string(), 0));
        }
        let text = format!("{:e}", number.as_f64()?);
        let (mantissa, exponent) = text.split_once('e')?;
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let exponent = exponent.parse::<i32>().ok()? - i32::try_from(fraction.len()).ok()?;
        Some(Self::new(&format!("{whole}{fraction}"), exponent))
    }

    /// The number `digits * 10^exponent`. `digits` may have a sign.
    fn new(digits: &str, exponent: i32) -> Self {
        let zeros = digits.len() - digits.trim_end_matches('0').len();
        let number = digits[..digits.len() - zeros].parse::<BigInt>();
        match (number, i32::try_from(zeros)) {
            (Ok(digits), Ok(zeros)) => Self { digits, exponent: exponent + zeros },
            // All digits are 0.
            _ => Self { digits: BigInt::default(), exponent: 0 },
        }
    }

    pub(super) fn is_integer(&self) -> bool {
        self.exponent >= 0
    }

    pub(super) fn is_positive(&self) -> bool {
        self.digits.sign() == Sign::Plus
    }

    /// The number as an integer; `None` unless it is an integer of 64 bits.
    pub(super) fn as_i64(&self) -> Option<i64> {
        let exponent = u32::try_from(self.exponent).ok()?;
        i64::try_from(&self.digits).ok()?.checked_mul(10_i64.checked_pow(exponent)?)
    }

    /// The nearest floating-point number; `None` if it is not finite.
    pub(super) fn as_f64(&self) -> Option<f64> {
        format!("{}e{}", self.digits, self.exponent).parse().ok().filter(|float: &f64| float.is_finite())
    }

    /// The digits of both numbers, scaled to the smaller of their exponents.
    fn aligned(&self, other: &Self) -> (BigInt, BigInt) {
        let exponent = self.exponent.min(other.exponent);
        let digits = |number: &Self| &number.digits * power(number.exponent - exponent);
        (digits(self), digits(other))
    }

    pub(super) fn compare(&self, other: &Self) -> Ordering {
        let (one, other) = self.aligned(other);
        one.cmp(&other)
    }

    /// Whether the number is a multiple of `other`, which is not 0.
    pub(super) fn is_multiple_of(&self, other: &Self) -> bool {
        let (one, other) = self.aligned(other);
        (one % other).sign() == Sign::NoSign
    }

    /// The number as Go writes a `big.Float`, such as `1.5` and `1e+06`.
    pub(super) fn go_text(&self) -> String {
        let digits = self.digits.magnitude().to_string();
        let sign = if self.digits.sign() == Sign::Minus { "-" } else { "" };
        // The number is `0.digits * 10^point`.
        let point = i64::from(self.exponent) + digits.len() as i64;
        if digits == "0" {
            return digits;
        }
        let exponent = point - 1;
        if !(-4..6).contains(&exponent) {
            let (first, rest) = digits.split_at(1);
            let dot = if rest.is_empty() { "" } else { "." };
            let exponent_sign = if exponent < 0 { '-' } else { '+' };
            return format!("{sign}{first}{dot}{rest}e{exponent_sign}{:02}", exponent.abs());
        }
        match usize::try_from(point) {
            Ok(point @ 1..) if point >= digits.len() => {
                format!("{sign}{digits}{}", "0".repeat(point - digits.len()))
            }
            Ok(point @ 1..) => format!("{sign}{}.{}", &digits[..point], &digits[point..]),
            _ => format!("{sign}0.{}{digits}", "0".repeat(point.unsigned_abs() as usize)),
        }
    }
}

fn power(exponent: i32) -> BigInt {
    BigUint::from(10_u8).pow(exponent.unsigned_abs()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Decimal {
        Decimal::of(&Value::from_json_str(text).unwrap()).unwrap()
    }

    #[test]
    fn numbers_are_written_as_in_go() {
        for (text, expected) in [
            ("0", "0"),
            ("1.50", "1.5"),
            ("-0.25", "-0.25"),
            ("0.0001", "0.0001"),
            ("0.00001", "1e-05"),
            ("100000", "100000"),
            ("1000000", "1e+06"),
            ("-1234567", "-1.234567e+06"),
            ("123.456", "123.456"),
            ("18446744073709551615", "1.8446744073709551615e+19"),
        ] {
            assert_eq!(decimal(text).go_text(), expected, "{text}");
        }
    }

    #[test]
    fn multiples_are_exact() {
        assert!(decimal("0.3").is_multiple_of(&decimal("0.1")));
        assert!(!decimal("0.35").is_multiple_of(&decimal("0.1")));
        assert!(decimal("0").is_multiple_of(&decimal("7")));
        assert!(decimal("1e300").is_multiple_of(&decimal("1e-300")));
        assert_eq!(decimal("-2").compare(&decimal("-1.5")), Ordering::Less);
    }
}
