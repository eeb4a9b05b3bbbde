//! Parses the values of plain scalars, as go-yaml does.

/// The value of a plain scalar.
#[derive(Debug, PartialEq)]
pub(crate) enum Plain {
    Null,
    Bool(bool),
    Integer(i64),
    Unsigned(u64),
    Float(f64),
    Text,
    /// `<<`
    Merge,
}

pub(crate) fn resolve(text: &str) -> Plain {
    match text {
        "true" | "True" | "TRUE" => return Plain::Bool(true),
        "false" | "False" | "FALSE" => return Plain::Bool(false),
        "" | "~" | "null" | "Null" | "NULL" => return Plain::Null,
        ".nan" | ".NaN" | ".NAN" => return Plain::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => return Plain::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => return Plain::Float(f64::NEG_INFINITY),
        "<<" => return Plain::Merge,
        _ => {}
    }
    let without_underscores = text.replace('_', "");
    let float = || float(&without_underscores);
    match text.as_bytes() {
        // In a number that begins with a point, underscores must be between digits.
        bytes @ [b'.', ..] => {
            let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
            let mut underscores = text.match_indices('_');
            let is_float = underscores.all(|(at, _)| is_digit(at - 1) && is_digit(at + 1));
            float().filter(|_| is_float).map_or(Plain::Text, Plain::Float)
        }
        [b'0'..=b'9' | b'+' | b'-', ..] => {
            integer(&without_underscores).or_else(|| float().map(Plain::Float)).unwrap_or(Plain::Text)
        }
        _ => Plain::Text,
    }
}

/// An integer, with Go's prefixes for other bases.
fn integer(text: &str) -> Option<Plain> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (radix, number) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        [b'0', b'o' | b'O', ..] => (8, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    if !number.chars().all(|digit| digit.is_digit(radix)) {
        return None;
    }
    let number = u64::from_str_radix(number, radix).ok()?;
    if text.starts_with('-') {
        return 0_i64.checked_sub_unsigned(number).map(Plain::Integer);
    }
    match i64::try_from(number) {
        Ok(number) => Some(Plain::Integer(number)),
        Err(_) => (digits.len() == text.len()).then_some(Plain::Unsigned(number)),
    }
}

fn float(text: &str) -> Option<f64> {
    let are_digits = |text: &str| text.bytes().all(|digit| digit.is_ascii_digit());
    let number = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = number.split_once(['e', 'E']).map_or((number, "0"), |(number, exponent)| {
        (number, exponent.strip_prefix(['+', '-']).unwrap_or(exponent))
    });
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let is_empty = (whole.is_empty() && fraction.is_empty()) || exponent.is_empty();
    let is_float = !is_empty && are_digits(whole) && are_digits(fraction) && are_digits(exponent);
    text.parse().ok().filter(|float: &f64| is_float && float.is_finite())
}

/// Whether a text needs no quotes, because YAML 1.1 and 1.2 parse it as text. Words such as `yes`, times and base-60
/// numbers need quotes.
pub(super) fn is_text(text: &str) -> bool {
    const WORDS: [&str; 16] =
        ["y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "n", "N", "no", "No", "NO", "off", "Off", "OFF"];
    let is_other = WORDS.contains(&text) || is_sexagesimal(text) || is_time(text);
    !is_other && matches!(resolve(text), Plain::Text | Plain::Merge)
}

/// Whether go-yaml parses `text` as a time.
pub(crate) fn is_time(text: &str) -> bool {
    time(text).is_some()
}

/// Whether `text` is a base-60 number, for example `1:30:00.5`.
fn is_sexagesimal(text: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || byte == b'_';
    let mut parts = text.strip_prefix(['+', '-']).unwrap_or(text).split(':');
    let first = parts.next().unwrap_or_default();
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return false };
    let (last, fraction) = last.split_once('.').unwrap_or((last, ""));
    let is_sixtieth = |text: &str| matches!(text.as_bytes(), [b'0'..=b'9'] | [b'0'..=b'5', b'0'..=b'9']);
    first.starts_with(|c: char| c.is_ascii_digit())
        && first.bytes().all(is_digit)
        && middle.iter().all(|part| is_sixtieth(part))
        && is_sixtieth(last)
        && fraction.bytes().all(is_digit)
}

/// Parses a time, for example `2006-1-2`, `2006-1-2 15:4:5.9` or `2006-1-2T15:4:5.9Z`.
fn time(text: &str) -> Option<()> {
    let (year, rest) = number(text, 4, 4, 9_999)?;
    let (month, rest) = number(rest.strip_prefix('-')?, 1, 2, 12)?;
    let (day, rest) = number(rest.strip_prefix('-')?, 1, 2, 31)?;
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    if month == 0 || !(1..=days).contains(&day) {
        return None;
    }
    if rest.is_empty() {
        return Some(());
    }
    let with_zone = rest.strip_prefix(['T', 't']);
    let rest = with_zone.or_else(|| rest.strip_prefix(' ').map(|rest| rest.trim_start_matches(' ')))?;
    let (_, rest) = number(rest, 1, 2, 23)?;
    let (_, rest) = number(rest.strip_prefix(':')?, 1, 2, 59)?;
    let (_, rest) = number(rest.strip_prefix(':')?, 1, 2, 59)?;
    let rest = match rest.strip_prefix(['.', ',']) {
        Some(fraction) => fraction
            .strip_prefix(|c: char| c.is_ascii_digit())?
            .trim_start_matches(|c: char| c.is_ascii_digit()),
        None => rest,
    };
    if with_zone.is_none() {
        return rest.is_empty().then_some(());
    }
    if rest == "Z" {
        return Some(());
    }
    let (_, rest) = number(rest.strip_prefix(['+', '-'])?, 2, 2, 24)?;
    let (_, rest) = number(rest.strip_prefix(':')?, 2, 2, 60)?;
    rest.is_empty().then_some(())
}

/// The number at the start of `text`, and the text after it. The number has `least` to `most` digits and is at most
/// `largest`.
fn number(text: &str, least: usize, most: usize, largest: u32) -> Option<(u32, &str)> {
    let length = text.bytes().take(most).take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at(length);
    let number = number.parse().ok().filter(|number| length >= least && *number <= largest)?;
    Some((number, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_bases_of_go() {
        for (text, expected) in [
            ("10", Plain::Integer(10)),
            ("-1_000", Plain::Integer(-1_000)),
            ("0x1F", Plain::Integer(31)),
            ("-0b11", Plain::Integer(-3)),
            ("0o17", Plain::Integer(15)),
            ("017", Plain::Integer(15)),
            ("08", Plain::Float(8.0)),
            ("18446744073709551615", Plain::Unsigned(u64::MAX)),
            ("+18446744073709551615", Plain::Float(18_446_744_073_709_551_615.0)),
            ("-9223372036854775808", Plain::Integer(i64::MIN)),
            ("1e3", Plain::Float(1_000.0)),
            (".5", Plain::Float(0.5)),
            ("5.", Plain::Float(5.0)),
            ("-.inf", Plain::Float(f64::NEG_INFINITY)),
            (".5_0", Plain::Float(0.5)),
            (".5_", Plain::Text),
            ("._5", Plain::Text),
            (".5__0", Plain::Text),
            (".5_e3", Plain::Text),
            ("1e400", Plain::Text),
            ("0x", Plain::Text),
            (".", Plain::Text),
            ("-", Plain::Text),
            ("1.2.3", Plain::Text),
            ("inf", Plain::Text),
            ("yes", Plain::Text),
        ] {
            assert_eq!(resolve(text), expected, "{text}");
        }
    }

    #[test]
    fn ambiguous_texts_are_quoted() {
        for text in [
            "yes",
            "N",
            "1:30",
            "12:30:45.5",
            "2001-01-01",
            "2001-1-2 3:4:5",
            "2001-12-14t21:59:43.1-05:00",
            "1",
            "~",
        ] {
            assert!(!is_text(text), "{text}");
        }
        for text in [
            "a",
            "1:60",
            "2001-02-29",
            "2001-1-2 ",
            "2001-1-2 3:4:5Z",
            "2001-1-2T3:4:5",
            "2001-1-2T3:4:5.Z",
            "<<",
            "1.2.3",
        ] {
            assert!(is_text(text), "{text}");
        }
    }
}
