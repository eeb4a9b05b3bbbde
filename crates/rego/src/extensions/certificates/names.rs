//! Parses distinguished names in certificates, and their texts.

use regorus::Value;

use super::cryptobyte::{OID, Oid, Reader, SEQUENCE, SET};
use super::json::{self, Writer};

pub(super) const UTF8_STRING: u8 = 0x0c;
pub(super) const NUMERIC_STRING: u8 = 0x12;
pub(super) const PRINTABLE_STRING: u8 = 0x13;
pub(super) const T61_STRING: u8 = 0x14;
pub(super) const IA5_STRING: u8 = 0x16;
pub(super) const BMP_STRING: u8 = 0x1e;

/// Object identifiers of attribute types: the numbers after 2.5.4.
const COMMON_NAME: u32 = 3;
const SERIAL_NUMBER: u32 = 5;
const LISTS: [(u32, &str); 7] = [
    (6, "Country"),
    (10, "Organization"),
    (11, "OrganizationalUnit"),
    (7, "Locality"),
    (8, "Province"),
    (9, "StreetAddress"),
    (17, "PostalCode"),
];

/// An attribute of a name.
#[derive(Debug)]
pub(super) struct Attribute {
    pub(super) kind: Oid,
    pub(super) value: AttributeValue,
}

#[derive(Debug)]
pub(super) enum AttributeValue {
    Text(String),
    Other(Value),
}

impl Attribute {
    pub(super) fn value(&self, writer: &mut Writer) -> Value {
        let value = match &self.value {
            AttributeValue::Text(text) => writer.text(text),
            AttributeValue::Other(value) => value.clone(),
        };
        writer.object([("Type", json::oid(&self.kind)), ("Value", value)])
    }
}

/// A distinguished name, without the grouping of its attributes.
#[derive(Debug, Default)]
pub(super) struct Name(pub(super) Vec<Attribute>);

impl Name {
    /// Parses the name in `der` as Go does in a certificate.
    pub(super) fn parse(der: &[u8]) -> Option<Self> {
        let mut attributes = Vec::new();
        let mut sets = Reader(der).read(SEQUENCE)?;
        while !sets.is_empty() {
            let mut set = sets.read(SET)?;
            while !set.is_empty() {
                let mut attribute = set.read(SEQUENCE)?;
                let kind = attribute.oid()?;
                let value = attribute.any()?;
                let value = AttributeValue::Text(text(value.tag, value.contents)?);
                attributes.push(Attribute { kind, value });
            }
        }
        Some(Self(attributes))
    }

    /// The texts of the attributes of the type 2.5.4.`kind`.
    fn texts(&self, kind: u32) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(move |attribute| match &attribute.value {
            AttributeValue::Text(text) if attribute.kind == [2, 5, 4, kind] => Some(text.as_str()),
            _ => None,
        })
    }

    pub(super) fn value(&self, writer: &mut Writer) -> Value {
        let lists = LISTS.map(|(kind, name)| {
            let texts: Vec<&str> = self.texts(kind).collect();
            (name, json::list(&texts, |text| writer.text(text)))
        });
        let [country, organization, unit, locality, province, street, code] = lists;
        let serial_number = writer.text(self.texts(SERIAL_NUMBER).last().unwrap_or_default());
        let common_name = writer.text(self.texts(COMMON_NAME).last().unwrap_or_default());
        let names = json::list(&self.0, |attribute| attribute.value(writer));
        writer.object([
            country,
            organization,
            unit,
            locality,
            province,
            street,
            code,
            ("SerialNumber", serial_number),
            ("CommonName", common_name),
            ("Names", names),
            ("ExtraNames", Value::Null),
        ])
    }
}

/// Decodes a text with this ASN.1 tag and these contents.
pub(super) fn text(tag: u8, contents: &[u8]) -> Option<String> {
    let ascii = |is_valid: fn(&u8) -> bool| {
        contents.iter().all(is_valid).then(|| contents.iter().copied().map(char::from).collect())
    };
    match tag {
        // Latin-1.
        T61_STRING => Some(contents.iter().copied().map(char::from).collect()),
        PRINTABLE_STRING => ascii(is_printable),
        UTF8_STRING => str::from_utf8(contents).ok().map(str::to_owned),
        BMP_STRING => bmp(contents),
        IA5_STRING => ascii(u8::is_ascii),
        NUMERIC_STRING => ascii(|byte| byte.is_ascii_digit() || *byte == b' '),
        _ => None,
    }
}

/// Whether Go accepts `byte` in a `PrintableString`. Besides the characters of the standard, Go accepts `*` and `&`.
fn is_printable(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b"'()+,-./ :=?*&".contains(byte)
}

/// Decodes two bytes per character. The text may end with a zero character.
fn bmp(contents: &[u8]) -> Option<String> {
    let contents = contents.strip_suffix(&[0, 0]).unwrap_or(contents);
    let (points, []) = contents.as_chunks() else { return None };
    let point = |point: &[u8; 2]| {
        let point = u32::from(u16::from_be_bytes(*point));
        let is_character = !matches!(point, 0xfdd0..=0xfdef | 0xfffe | 0xffff);
        char::from_u32(point).filter(|_| is_character)
    };
    points.iter().map(point).collect()
}

/// The object identifiers of policies and policy mappings, with components of any size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LargeOid<'d>(pub(super) &'d [u8]);

impl<'d> LargeOid<'d> {
    /// Parses the next element without a check of its components.
    pub(super) fn read(reader: &mut Reader<'d>) -> Option<Self> {
        reader.contents(OID).map(Self)
    }

    /// Whether each component has the shortest encoding.
    pub(super) fn is_valid(self) -> bool {
        let starts = std::iter::once(&0).chain(self.0).zip(self.0);
        self.0.last().is_some_and(|last| *last < 0x80)
            && starts.into_iter().all(|(before, byte)| *before >= 0x80 || *byte != 0x80)
    }

    /// The components, if each has at most 31 bits.
    pub(super) fn components(self) -> Option<Oid> {
        let mut components = Vec::with_capacity(self.0.len() + 1);
        let mut number = 0_u32;
        for byte in self.0 {
            if number >= 1 << 24 {
                return None;
            }
            number = number << 7 | u32::from(byte & 0x7f);
            if *byte >= 0x80 {
                continue;
            }
            if components.is_empty() {
                let first = (number / 40).min(2);
                components.extend([first, number - 40 * first]);
            } else {
                components.push(number);
            }
            number = 0;
        }
        Some(components)
    }

    /// The components, joined by dots.
    pub(super) fn text(self) -> String {
        use num_bigint::BigUint;
        let mut text = String::new();
        let mut rest = self.0;
        while let Some(end) = rest.iter().position(|byte| *byte < 0x80) {
            let (digits, after) = rest.split_at(end + 1);
            let digits: Vec<u8> = digits.iter().map(|digit| digit & 0x7f).collect();
            // Each digit is below 128.
            let mut number = BigUint::from_radix_be(&digits, 128).unwrap_or_default();
            if text.is_empty() {
                let first = if number < 40_u8.into() {
                    0_u8
                } else if number < 80_u8.into() {
                    1
                } else {
                    2
                };
                number -= 40 * first;
                text = format!("{first}.{number}");
            } else {
                text.push('.');
                text.push_str(&number.to_string());
            }
            rest = after;
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_decoded_by_their_tag() {
        assert_eq!(text(T61_STRING, b"M\xfcller").as_deref(), Some("Müller"));
        assert_eq!(text(BMP_STRING, &[0, b'a', 0x20, 0xac, 0, 0]).as_deref(), Some("a€"));
        assert_eq!(text(PRINTABLE_STRING, b"*.a & b").as_deref(), Some("*.a & b"));
        for (tag, contents) in [
            (PRINTABLE_STRING, &b"a_b"[..]),
            (UTF8_STRING, b"\xff"),
            (BMP_STRING, b"a"),
            (BMP_STRING, b"\xd8\x00"),
            (BMP_STRING, b"\xfd\xd0"),
            (IA5_STRING, b"\x80"),
            (NUMERIC_STRING, b"a"),
            (0x1c, b"a"),
        ] {
            assert_eq!(text(tag, contents), None, "{tag}");
        }
    }

    #[test]
    fn policies_have_components_of_any_size() {
        let large = [&[0x2a][..], &[0xff; 12], &[0x7f]].concat();
        assert_eq!(LargeOid(&large).text(), format!("1.2.{}", (1_u128 << 91) - 1));
        assert_eq!(LargeOid(&large).components(), None);
        assert_eq!(LargeOid(&[0x55, 0x1d, 0x20, 0]).text(), "2.5.29.32.0");
        assert_eq!(LargeOid(&[0x88, 0x37, 0x81, 0]).text(), "2.999.128");
        assert!(LargeOid(&large).is_valid());
        for invalid in [&[][..], &[0x80, 1], &[0x2a, 0x80, 1], &[0x2a, 0x81]] {
            assert!(!LargeOid(invalid).is_valid(), "{invalid:?}");
        }
    }
}
