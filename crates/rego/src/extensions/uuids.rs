//! Implements `uuid.parse`, see [RFC 9562](https://www.rfc-editor.org/rfc/rfc9562).

use std::collections::BTreeMap;

use anyhow::Result;
use regorus::Value;
use uuid::Uuid;

use super::text;

/// The time from the start of the Gregorian calendar to the Unix epoch, in 100 ns.
const GREGORIAN: i64 = 0x01B2_1DD2_1381_4000;

/// Parses a UUID with or without dashes, enclosed in any two characters, or as a URN.
fn read(text: &str) -> Option<[u8; 16]> {
    let digits = match text.len() {
        32 | 36 => text,
        38 => text.get(1..37)?,
        45 => text.get(9..).filter(|_| text[..9].eq_ignore_ascii_case("urn:uuid:"))?,
        _ => return None,
    };
    Some(Uuid::try_parse(digits).ok()?.into_bytes())
}

fn variant(bytes: [u8; 16]) -> &'static str {
    match bytes[8] >> 5 {
        0b100 | 0b101 => "RFC4122",
        0b110 => "Microsoft",
        0b111 => "Future",
        _ => "Reserved",
    }
}

/// The scope of a MAC address with this first byte.
fn scope(first: u8) -> &'static str {
    match first & 0b11 {
        0b11 => "local:multicast",
        0b10 => "local:unicast",
        0b01 => "global:multicast",
        _ => "global:unicast",
    }
}

pub(super) fn parse(values: Vec<Value>) -> Result<Value> {
    let Some(bytes) = text(&values[0]).and_then(read) else {
        return Ok(Value::Undefined);
    };
    let number = |range: std::ops::Range<usize>| {
        bytes[range].iter().fold(0_i64, |number, byte| number << 8 | i64::from(*byte))
    };
    let version = bytes[6] >> 4;
    let mut parts = vec![("version", u64::from(version).into()), ("variant", variant(bytes).into())];
    if version == 1 || version == 2 {
        let time = number(0..4) | number(4..6) << 32 | (number(6..8) & 0xfff) << 48;
        let node: Vec<String> = bytes[10..].iter().map(|byte| format!("{byte:02x}")).collect();
        parts.extend([
            ("time", (time - GREGORIAN).wrapping_mul(100).into()),
            ("nodeid", node.join("-").into()),
            ("macvariables", scope(bytes[10]).into()),
            ("clocksequence", (number(8..10) & 0x3fff).into()),
        ]);
    }
    if version == 2 {
        let domain = match bytes[9] {
            0 => "Person".to_owned(),
            1 => "Group".to_owned(),
            2 => "Org".to_owned(),
            other => format!("Domain{other}"),
        };
        parts.extend([("id", number(0..4).into()), ("domain", domain.into())]);
    }
    Ok(parts.into_iter().map(|(name, part)| (name.into(), part)).collect::<BTreeMap<Value, Value>>().into())
}
