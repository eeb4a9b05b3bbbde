//! Parses and formats the times in certificates.

/// A time as written, with the offset of its zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Time {
    year: i64,
    month: u32,
    day: u32,
    hour: u32,
    minute: u32,
    second: u32,
    nanoseconds: u32,
    /// The offset of the zone in minutes.
    offset: i64,
}

impl Time {
    /// A `UTCTime`. Its year has two digits: 00 to 49 mean 2000 to 2049, and 50 to 99 mean 1950 to 1999.
    pub(super) fn utc(text: &[u8]) -> Option<Self> {
        let (date, zone) = split(text);
        let seconds = match date.len() {
            10 => [date, b"00"].concat(),
            12 => date.to_vec(),
            _ => return None,
        };
        let century = if number(&seconds[..2])? >= 50 { b"19" } else { b"20" };
        Self::parse(&[century, &seconds[..]].concat(), b"", zone)
    }

    /// A `GeneralizedTime`; with a fraction of a second only if `may_have_fraction`.
    pub(super) fn generalized(text: &[u8], may_have_fraction: bool) -> Option<Self> {
        let (date, zone) = split(text);
        let (date, fraction) = date.split_at_checked(14)?;
        let fraction = match fraction {
            [] => fraction,
            // Only the shortest fraction is valid.
            [b'.', digits @ .., b'1'..=b'9'] if may_have_fraction && digits.len() < 9 => &fraction[1..],
            _ => return None,
        };
        Self::parse(date, fraction, zone)
    }

    fn parse(date: &[u8], fraction: &[u8], zone: &[u8]) -> Option<Self> {
        let field = |from: usize, to: usize| number(date.get(from..to)?);
        let nanoseconds = fraction.iter().chain([b'0'; 9].iter()).take(9).copied().collect::<Vec<_>>();
        let offset = match zone {
            b"Z" => 0,
            [sign @ (b'+' | b'-'), digits @ ..] if digits.len() == 4 => {
                let (hours, minutes) = (number(&digits[..2])?, number(&digits[2..])?);
                // An offset of zero must be written as `Z`.
                let offset = Some(i64::from(60 * hours + minutes)).filter(|offset| *offset > 0)?;
                if hours > 24 || minutes > 59 {
                    return None;
                }
                if *sign == b'-' { -offset } else { offset }
            }
            _ => return None,
        };
        let time = Self {
            year: i64::from(field(0, 4)?),
            month: field(4, 6)?,
            day: field(6, 8)?,
            hour: field(8, 10)?,
            minute: field(10, 12)?,
            second: field(12, 14)?,
            nanoseconds: number(&nanoseconds)?,
            offset,
        };
        let is_leap = time.year % 4 == 0 && (time.year % 100 != 0 || time.year % 400 == 0);
        let days = match time.month {
            1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
            4 | 6 | 9 | 11 => 30,
            2 if is_leap => 29,
            2 => 28,
            _ => return None,
        };
        let is_valid =
            (1..=days).contains(&time.day) && time.hour < 24 && time.minute < 60 && time.second < 60;
        is_valid.then_some(time)
    }

    /// The time in nanoseconds since the epoch.
    pub(super) fn nanoseconds(self) -> i128 {
        // Days are counted in the civil calendar, with years that begin in March.
        let year = self.year - i64::from(self.month <= 2);
        let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
        let month = i64::from((self.month + 9) % 12);
        let of_year = (153 * month + 2) / 5 + i64::from(self.day) - 1;
        let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
        let minutes = (days * 24 + i64::from(self.hour)) * 60 + i64::from(self.minute) - self.offset;
        i128::from(minutes * 60 + i64::from(self.second)) * 1_000_000_000 + i128::from(self.nanoseconds)
    }

    /// The time as Go writes it in JSON ([RFC 3339](https://www.rfc-editor.org/rfc/rfc3339)). `None` if the offset of
    /// its zone is a day or more, which Go cannot write.
    pub(super) fn text(self) -> Option<String> {
        let Self { year, month, day, hour, minute, second, .. } = self;
        let fraction = match self.nanoseconds {
            0 => String::new(),
            nanoseconds => format!(".{nanoseconds:09}").trim_end_matches('0').to_owned(),
        };
        let zone = match self.offset {
            0 => "Z".to_owned(),
            offset => {
                let sign = if offset < 0 { '-' } else { '+' };
                let offset = offset.abs();
                if offset >= 24 * 60 {
                    return None;
                }
                format!("{sign}{:02}:{:02}", offset / 60, offset % 60)
            }
        };
        Some(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}{zone}"))
    }
}

/// Splits `text` into the date and the zone.
fn split(text: &[u8]) -> (&[u8], &[u8]) {
    text.split_at(text.iter().position(|byte| matches!(byte, b'Z' | b'+' | b'-')).unwrap_or(text.len()))
}

fn number(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0_u32, |number, digit| {
        let digit = digit.is_ascii_digit().then(|| u32::from(digit - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_valid_and_have_one_encoding() {
        let utc = |text: &str| Time::utc(text.as_bytes()).and_then(Time::text);
        assert_eq!(utc("490101000000Z").as_deref(), Some("2049-01-01T00:00:00Z"));
        assert_eq!(utc("500228235959Z").as_deref(), Some("1950-02-28T23:59:59Z"));
        assert_eq!(utc("0002290000Z").as_deref(), Some("2000-02-29T00:00:00Z"));
        assert_eq!(utc("200101000000+0530").as_deref(), Some("2020-01-01T00:00:00+05:30"));
        assert_eq!(utc("200101000000-2400"), None);
        for text in [
            "010229000000Z",
            "200101000000+0000",
            "200101240000Z",
            "20010100000Z",
            "200101000000",
            "a00101000000Z",
        ] {
            assert_eq!(Time::utc(text.as_bytes()), None, "{text}");
        }
        let generalized =
            |text: &str, fraction| Time::generalized(text.as_bytes(), fraction).and_then(Time::text);
        assert_eq!(generalized("99991231235959Z", false).as_deref(), Some("9999-12-31T23:59:59Z"));
        assert_eq!(generalized("20200101000000.25Z", true).as_deref(), Some("2020-01-01T00:00:00.25Z"));
        assert_eq!(generalized("20200101000000.25Z", false), None);
        assert_eq!(generalized("20200101000000.250Z", true), None);
    }

    #[test]
    fn times_are_counted_from_the_epoch() {
        let seconds =
            |text: &str| Time::generalized(text.as_bytes(), false).unwrap().nanoseconds() / 1_000_000_000;
        assert_eq!(seconds("19700101000000Z"), 0);
        assert_eq!(seconds("20000301000000+0100"), 951_865_200);
        assert_eq!(seconds("19691231235959Z"), -1);
        assert_eq!(seconds("99991231235959Z"), 253_402_300_799);
    }
}
