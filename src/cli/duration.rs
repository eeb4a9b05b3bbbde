//! Durations as Kubernetes writes them: `15s`, `500ms`, `1m30s`.

use std::ops::RangeInclusive;
use std::time::Duration;

/// The most bytes of a duration: what is longer is none, and the library that reads them would count past its bounds.
const LIMIT: usize = 12;

/// Reads a duration within `range`. A plain number counts so many of `unit`, as it did before durations had units.
///
/// # Errors
///
/// What is wrong with it.
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
        Err(format!("it is not between {:?} and {:?}", range.start(), range.end()))
    }
}

fn with_unit(text: &str) -> Option<Duration> {
    // It has no sign, not even within.
    let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.');
    if text.is_empty() || text.len() > LIMIT || !is_plain {
        return None;
    }
    text.parse::<kube::core::Duration>().ok().map(Duration::from)
}

#[cfg(test)]
mod tests;
