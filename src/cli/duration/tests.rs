use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn read(text: &str) -> Result<Duration, String> {
    parse(text, SECOND, &(SECOND..=3600 * SECOND))
}

#[test]
fn durations_are_parsed_in_the_format_of_kubernetes() {
    for (text, milliseconds) in [
        ("15s", 15_000),
        ("1500ms", 1_500),
        ("1.5s", 1_500),
        ("1m30s", 90_000),
        ("1h", 3_600_000),
        ("15", 15_000),
    ] {
        assert_eq!(read(text), Ok(Duration::from_millis(milliseconds)), "{text}");
    }
}

#[test]
fn invalid_duration_is_rejected() {
    for text in [
        "", "s", "15 s", "15d", "-15s", "+15s", "1e3s", "infs", "nans", "ms15", "1s,", "15s ", "0x1s",
        "1s-5s", "1s+5s",
    ] {
        assert_eq!(read(text), Err("expected a duration such as 15s or 500ms".to_owned()), "{text:?}");
    }
    // All of these are out of range.
    for text in ["999999999h", "999999999999h", "9999999999999999h", "4294967295", "0s", "999ms"] {
        assert!(read(text).is_err(), "{text}");
    }
    assert_eq!(read("2h"), Err("expected a duration between 1s and 3600s".to_owned()));
}
