//! Parses DER like Go's package [encoding/asn1](https://pkg.go.dev/encoding/asn1). Go uses that package for certificate
//! requests, private keys and parameters of signatures. Elements after the fields of a sequence are ignored.

use super::cryptobyte::{self, Bits, Oid};
use super::json;
use super::names::{self, AttributeValue};
use super::time::Time;

/// The classes of tags.
const UNIVERSAL: u8 = 0;
const CONTEXT: u8 = 2;

pub(super) const BOOLEAN: u32 = 1;
pub(super) const INTEGER: u32 = 2;
pub(super) const BIT_STRING: u32 = 3;
pub(super) const OCTET_STRING: u32 = 4;
pub(super) const OID: u32 = 6;
const SEQUENCE: u32 = 16;
const SET: u32 = 17;
const UTC_TIME: u32 = 23;
const GENERALIZED_TIME: u32 = 24;

/// The header of an element: its tag and its length.
#[derive(Clone, Copy)]
struct Header {
    class: u8,
    is_constructed: bool,
    tag: u32,
    length: usize,
    /// The number of bytes of the tag and the length.
    size: usize,
}

/// An element of any type.
#[derive(Clone, Copy)]
pub(super) struct Raw<'d> {
    class: u8,
    is_constructed: bool,
    tag: u32,
    contents: &'d [u8],
    pub(super) full: &'d [u8],
}

/// The elements of DER that are not parsed yet.
#[derive(Clone, Copy)]
pub(super) struct Fields<'d>(pub(super) &'d [u8]);

impl<'d> Fields<'d> {
    fn header(self) -> Option<Header> {
        let (&first, mut rest) = self.0.split_first()?;
        let mut tag = u32::from(first & 0x1f);
        if tag == 0x1f {
            let end = rest.iter().position(|byte| *byte < 0x80)? + 1;
            let (digits, after) = rest.split_at(end);
            if digits.len() > 5 || digits[0] == 0x80 {
                return None;
            }
            let number = digits.iter().fold(0_u64, |number, digit| number << 7 | u64::from(digit & 0x7f));
            tag = u32::try_from(number).ok().filter(|tag| *tag >= 0x1f && i32::try_from(*tag).is_ok())?;
            rest = after;
        }
        let (&length, mut rest) = rest.split_first()?;
        let length = if length < 0x80 {
            usize::from(length)
        } else {
            let (digits, after) = rest.split_at_checked(usize::from(length & 0x7f))?;
            let mut length = 0_usize;
            for digit in digits {
                length = (length < 1 << 23).then_some(length << 8 | usize::from(*digit))?;
                if length == 0 {
                    return None;
                }
            }
            rest = after;
            (length >= 0x80).then_some(length)?
        };
        let size = self.0.len() - rest.len();
        Some(Header { class: first >> 6, is_constructed: first & 0x20 != 0, tag, length, size })
    }

    /// The contents of the element with this header, and the elements after it.
    fn split(self, header: Header) -> Option<(&'d [u8], Self)> {
        let (contents, rest) = self.0.get(header.size..)?.split_at_checked(header.length)?;
        Some((contents, Self(rest)))
    }

    pub(super) fn raw(&mut self) -> Option<Raw<'d>> {
        let header = self.header()?;
        let (contents, rest) = self.split(header)?;
        let full = &self.0[..self.0.len() - rest.0.len()];
        *self = rest;
        let Header { class, is_constructed, tag, .. } = header;
        Some(Raw { class, is_constructed, tag, contents, full })
    }

    /// The next element, or `Some(None)` if there is none. `None` if the element is invalid.
    fn optional_raw(&mut self) -> Option<Option<Raw<'d>>> {
        if self.0.is_empty() { Some(None) } else { self.raw().map(Some) }
    }

    fn element(&mut self, class: u8, is_constructed: bool, tag: u32) -> Option<Raw<'d>> {
        self.optional_element(class, is_constructed, tag)?
    }

    /// The next element, or `Some(None)` if it has another tag. `None` if the element is invalid.
    fn optional_element(&mut self, class: u8, is_constructed: bool, tag: u32) -> Option<Option<Raw<'d>>> {
        if self.0.is_empty() {
            return Some(None);
        }
        let header = self.header()?;
        if (header.class, header.is_constructed, header.tag) == (class, is_constructed, tag) {
            self.raw().map(Some)
        } else {
            Some(None)
        }
    }

    /// The contents of the next element, if it has this universal tag.
    pub(super) fn contents(&mut self, tag: u32) -> Option<&'d [u8]> {
        self.element(UNIVERSAL, false, tag).map(|element| element.contents)
    }

    /// The contents of an optional element with this universal tag.
    pub(super) fn optional(&mut self, tag: u32) -> Option<Option<&'d [u8]>> {
        Some(self.optional_element(UNIVERSAL, false, tag)?.map(|element| element.contents))
    }

    pub(super) fn sequence(&mut self) -> Option<Self> {
        self.full_sequence().map(|(_, fields)| fields)
    }

    /// The bytes of the next element, and its fields, if it is a sequence.
    pub(super) fn full_sequence(&mut self) -> Option<(&'d [u8], Self)> {
        self.element(UNIVERSAL, true, SEQUENCE).map(|element| (element.full, Self(element.contents)))
    }

    /// The sequences in an optional sequence.
    pub(super) fn optional_sequences(&mut self) -> Option<Option<Vec<Self>>> {
        match self.optional_element(UNIVERSAL, true, SEQUENCE)? {
            Some(element) => Self(element.contents).sequences().map(Some),
            None => Some(None),
        }
    }

    /// All remaining elements; `None` unless each of them is a sequence.
    pub(super) fn sequences(self) -> Option<Vec<Self>> {
        self.all(Self::sequence)
    }

    /// The elements in the next element, if it is a set.
    pub(super) fn set(&mut self) -> Option<Self> {
        self.element(UNIVERSAL, true, SET).map(|element| Self(element.contents))
    }

    /// The elements in the next element, if it has this context tag.
    pub(super) fn context(&mut self, tag: u32) -> Option<Self> {
        self.element(CONTEXT, true, tag).map(|element| Self(element.contents))
    }

    /// All remaining elements, each parsed by `read`.
    pub(super) fn all<T>(mut self, read: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let mut items = Vec::new();
        while !self.0.is_empty() {
            items.push(read(&mut self)?);
        }
        Some(items)
    }

    /// The inner element with the universal tag `tag`, in an optional outer element with the context tag `outer`. If
    /// the inner tag differs, the outer element counts as missing. As in Go, the length of the outer element is
    /// ignored.
    fn explicit(&mut self, outer: u32, is_constructed: bool, tag: u32) -> Option<Option<Raw<'d>>> {
        if self.0.is_empty() {
            return Some(None);
        }
        let header = self.header()?;
        let mut inner = Self(self.0.get(header.size..).filter(|rest| !rest.is_empty())?);
        if (header.class, header.tag) != (CONTEXT, outer) || header.length > 0 && !header.is_constructed {
            return Some(None);
        }
        if header.length == 0 {
            return None;
        }
        let found = inner.optional_element(UNIVERSAL, is_constructed, tag)?;
        if found.is_some() {
            *self = inner;
        }
        Some(found)
    }

    /// The contents of the inner element with the universal tag `tag`, in an optional outer element with the context
    /// tag `outer`.
    pub(super) fn explicit_contents(&mut self, outer: u32, tag: u32) -> Option<Option<&'d [u8]>> {
        Some(self.explicit(outer, false, tag)?.map(|element| element.contents))
    }

    /// The algorithm in an element with the context tag `outer`.
    pub(super) fn explicit_algorithm(&mut self, outer: u32) -> Option<Algorithm<'d>> {
        Self(self.explicit(outer, true, SEQUENCE)??.full).algorithm()
    }

    pub(super) fn small(&mut self) -> Option<i64> {
        cryptobyte::small(self.contents(INTEGER)?)
    }

    pub(super) fn oid(&mut self) -> Option<Oid> {
        cryptobyte::oid(self.contents(OID)?)
    }

    pub(super) fn bits(&mut self) -> Option<Bits<'d>> {
        Bits::of_contents(self.contents(BIT_STRING)?)
    }

    pub(super) fn algorithm(&mut self) -> Option<Algorithm<'d>> {
        let mut fields = self.sequence()?;
        let name = fields.oid()?;
        let parameters = fields.optional_raw()?.map_or(&[][..], |parameters| parameters.full);
        Some(Algorithm { name, parameters })
    }
}

/// An `AlgorithmIdentifier` ([RFC 5280](https://www.rfc-editor.org/rfc/rfc5280#section-4.1.1.2)).
#[derive(Debug)]
pub(super) struct Algorithm<'d> {
    pub(super) name: Oid,
    /// The element with the parameters; empty if there are none.
    pub(super) parameters: &'d [u8],
}

impl Raw<'_> {
    /// The value of the element in Go's JSON; `None` if the element is invalid.
    pub(super) fn attribute_value(self, writer: &mut json::Writer) -> Option<AttributeValue> {
        use AttributeValue::{Other, Text};
        if self.is_constructed || self.class != UNIVERSAL {
            return Some(Other(regorus::Value::Null));
        }
        let contents = self.contents;
        Some(match self.tag {
            BOOLEAN => Other(cryptobyte::boolean(contents)?.into()),
            INTEGER => Other(cryptobyte::small(contents)?.into()),
            BIT_STRING => {
                let bits = Bits::of_contents(contents)?;
                let length = 8 * bits.bytes.len() - usize::from(bits.unused);
                let bytes = writer.bytes(bits.bytes);
                Other(writer.object([("Bytes", bytes), ("BitLength", length.into())]))
            }
            OCTET_STRING => Other(writer.bytes(contents)),
            OID => Other(json::oid(&cryptobyte::oid(contents)?)),
            UTC_TIME => Other(writer.time(Time::utc(contents)?)),
            GENERALIZED_TIME => Other(writer.time(Time::generalized(contents, true)?)),
            tag => match u8::try_from(tag) {
                Ok(
                    tag @ (names::UTF8_STRING
                    | names::NUMERIC_STRING
                    | names::PRINTABLE_STRING
                    | names::T61_STRING
                    | names::IA5_STRING
                    | names::BMP_STRING),
                ) => Text(names::text(tag, contents)?),
                _ => Other(regorus::Value::Null),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn optional_fields_are_missing_if_their_tag_is_another() {
        let explicit = |bytes: &[u8]| {
            let mut fields = Fields(bytes);
            let found = fields.explicit_contents(0, INTEGER).map(|found| found.map(<[u8]>::to_vec));
            (found, fields.0.len())
        };
        assert_eq!(explicit(&[0xa0, 3, 2, 1, 5]), (Some(Some(vec![5])), 0));
        assert_eq!(explicit(&[]), (Some(None), 0));
        assert_eq!(explicit(&[0xa1, 3, 2, 1, 5]), (Some(None), 5));
        assert_eq!(explicit(&[0xa0, 3, 3, 1, 5]), (Some(None), 5));
        // The length of the outer element does not matter.
        assert_eq!(explicit(&[0xa0, 9, 2, 1, 5]), (Some(Some(vec![5])), 0));
        assert_eq!(explicit(&[0xa0, 0]), (None, 2));
        assert_eq!(explicit(&[0xa0, 0, 2, 1, 5]), (None, 5));
        assert_eq!(explicit(&[0xa0, 3, 2, 9, 5]), (None, 5));
    }

    #[test]
    fn tags_may_have_several_bytes() {
        let tag = |bytes: &[u8]| Fields(bytes).raw().map(|raw| raw.tag);
        assert_eq!(tag(&[0x1f, 0x1f, 0]), Some(31));
        assert_eq!(tag(&[0x1f, 0x81, 0, 0]), Some(128));
        for bytes in [
            &[0x1f, 0x1e, 0][..],
            &[0x1f, 0x80, 0x1f, 0],
            &[0x1f, 0x81],
            &[2, 0x81, 0x7f],
            &[2, 0x82, 0, 0x80],
        ] {
            assert_eq!(tag(bytes), None, "{bytes:?}");
        }
    }
}
