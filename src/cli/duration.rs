//! Parses durations in the format of Kubernetes: `15s`, `500ms`, `1m30s`.

use std::ops::RangeInclusive;
use std::time::Duration;

/// The maximum length of a duration in bytes. The library that parses durations overflows on longer numbers.
const LIMIT: usize = 12;

/// Parses a duration within `range`. A number without a unit is multiplied by `unit`, so that older command lines
/// remain valid.
///
/// # Errors
///
/// The text is no duration, or out of range.
pub(super) fn parse(
    text: &str,
    unit: Duration,
    range: &RangeInclusive<Duration>,
) -> Result<Duration, String> {
    let plain = text.parse::<u32>().ok().map(|number| unit.saturating_mul(number));
    let duration = plain.or_else(|| with_unit(text)).ok_or("expected a duration such as 15s or 500ms")?;
    if range.contains(&duration) {
        Ok(duration)
    } else {
        Err(format!("expected a duration between {:?} and {:?}", range.start(), range.end()))
    }
}

fn with_unit(text: &str) -> Option<Duration> {
    // The library would accept signs, even between two parts.
    let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.');
    if text.is_empty() || text.len() > LIMIT || !is_plain {
        return None;
    }
    text.parse::<kube::core::Duration>().ok().map(Duration::from)
}

#[cfg(test)]
mod tests;
