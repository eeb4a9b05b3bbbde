//! Parses DER like Go's [cryptobyte](https://pkg.go.dev/golang.org/x/crypto/cryptobyte), which Go uses for
//! certificates.

use num_bigint::{BigInt, Sign};

use super::time::Time;

pub(super) const BOOLEAN: u8 = 0x01;
pub(super) const INTEGER: u8 = 0x02;
pub(super) const BIT_STRING: u8 = 0x03;
pub(super) const OCTET_STRING: u8 = 0x04;
pub(super) const OID: u8 = 0x06;
pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// The context tag `number` for a primitive value.
pub(super) const fn context(number: u8) -> u8 {
    0x80 | number
}

/// The context tag `number` for a constructed value.
pub(super) const fn constructed(number: u8) -> u8 {
    0xa0 | number
}

/// An object identifier with components of at most 31 bits.
pub(super) type Oid = Vec<u32>;

/// An element of DER.
pub(super) struct Element<'d> {
    pub(super) tag: u8,
    pub(super) contents: &'d [u8],
    /// The tag, the length and the contents.
    pub(super) full: &'d [u8],
}

/// The bits of a `BIT STRING`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bits<'d> {
    pub(super) bytes: &'d [u8],
    /// The unused bits of the last byte: at most 7.
    pub(super) unused: u8,
}

impl<'d> Bits<'d> {
    /// The bits of the contents of a `BIT STRING`. Unused bits are zero.
    pub(super) fn of_contents(contents: &'d [u8]) -> Option<Self> {
        let (unused, bytes) = contents.split_first()?;
        let is_valid = match bytes.last() {
            Some(last) => *unused < 8 && last & ((1 << *unused) - 1) == 0,
            None => *unused == 0,
        };
        is_valid.then_some(Self { bytes, unused: *unused })
    }

    /// Whether the bit with this number is set. The first bit has the number 0.
    pub(super) fn is_set(self, bit: usize) -> bool {
        let is_used = bit + usize::from(self.unused) < 8 * self.bytes.len();
        is_used && self.bytes[bit / 8] >> (7 - bit % 8) & 1 == 1
    }

    /// The bits as a number, without the unused bits.
    pub(super) fn right_aligned(self) -> Vec<u8> {
        if self.unused == 0 {
            return self.bytes.to_vec();
        }
        let before = std::iter::once(0).chain(self.bytes.iter().copied());
        let shifted = before.zip(self.bytes);
        shifted.map(|(before, byte)| before << (8 - self.unused) | byte >> self.unused).collect()
    }
}

/// The elements of DER that are not parsed yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'d>(pub(super) &'d [u8]);

impl<'d> Reader<'d> {
    pub(super) fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The next element.
    pub(super) fn any(&mut self) -> Option<Element<'d>> {
        let bytes = self.0;
        let (&tag, rest) = bytes.split_first()?;
        let (&length, rest) = rest.split_first()?;
        if tag & 0x1f == 0x1f {
            return None;
        }
        let (length, rest) = match length {
            short @ 0..0x80 => (usize::from(short), rest),
            long => {
                let count = usize::from(long & 0x7f);
                let (digits, rest) = (1..=4).contains(&count).then(|| rest.split_at_checked(count))??;
                let length = digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit));
                // Only the shortest encoding is valid.
                (digits[0] != 0 && length >= 0x80).then_some((length, rest))?
            }
        };
        let (contents, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some(Element { tag, contents, full: &bytes[..bytes.len() - rest.len()] })
    }

    /// The contents of the next element, if it has this tag.
    pub(super) fn contents(&mut self, tag: u8) -> Option<&'d [u8]> {
        self.any().filter(|element| element.tag == tag).map(|element| element.contents)
    }

    /// The elements in the next element, if it has this tag.
    pub(super) fn read(&mut self, tag: u8) -> Option<Self> {
        self.contents(tag).map(Self)
    }

    /// The whole next element, if it has this tag.
    pub(super) fn full(&mut self, tag: u8) -> Option<&'d [u8]> {
        self.any().filter(|element| element.tag == tag).map(|element| element.full)
    }

    /// Whether the next element has this tag.
    pub(super) fn has(self, tag: u8) -> bool {
        self.0.first() == Some(&tag)
    }

    /// The elements in the next element, or `Some(None)` if it has another tag. `None` if the element is invalid.
    pub(super) fn optional(&mut self, tag: u8) -> Option<Option<Self>> {
        if self.has(tag) { self.read(tag).map(Some) } else { Some(None) }
    }

    pub(super) fn boolean(&mut self) -> Option<bool> {
        boolean(self.contents(BOOLEAN)?)
    }

    pub(super) fn integer(&mut self) -> Option<BigInt> {
        integer(self.contents(INTEGER)?)
    }

    /// The next element as an integer of 64 bits.
    pub(super) fn small(&mut self) -> Option<i64> {
        self.small_with(INTEGER)
    }

    /// The next element as an integer of 64 bits, if it has this tag.
    pub(super) fn small_with(&mut self, tag: u8) -> Option<i64> {
        small(self.contents(tag)?)
    }

    pub(super) fn oid(&mut self) -> Option<Oid> {
        oid(self.contents(OID)?)
    }

    pub(super) fn bits(&mut self) -> Option<Bits<'d>> {
        Bits::of_contents(self.contents(BIT_STRING)?)
    }

    pub(super) fn time(&mut self) -> Option<Time> {
        let element = self.any()?;
        match element.tag {
            UTC_TIME => Time::utc(element.contents),
            GENERALIZED_TIME => Time::generalized(element.contents, false),
            _ => None,
        }
    }
}

pub(super) fn boolean(contents: &[u8]) -> Option<bool> {
    match contents {
        [0] => Some(false),
        [0xff] => Some(true),
        _ => None,
    }
}

/// The integer with these contents, which have the shortest encoding.
pub(super) fn integer(contents: &[u8]) -> Option<BigInt> {
    is_shortest(contents).then(|| {
        if contents[0] < 0x80 {
            // Faster than the conversion of a signed integer.
            BigInt::from_bytes_be(Sign::Plus, contents)
        } else {
            BigInt::from_signed_bytes_be(contents)
        }
    })
}

/// The integer of 64 bits with these contents.
pub(super) fn small(contents: &[u8]) -> Option<i64> {
    let is_negative = *contents.first()? >= 0x80;
    let sign = if is_negative { -1 } else { 0 };
    (is_shortest(contents) && contents.len() <= 8)
        .then(|| contents.iter().fold(sign, |number, byte| number << 8 | i64::from(*byte)))
}

fn is_shortest(contents: &[u8]) -> bool {
    match contents {
        [] => false,
        [0, second, ..] => *second >= 0x80,
        [0xff, second, ..] => *second < 0x80,
        _ => true,
    }
}

/// The object identifier with these contents.
pub(super) fn oid(contents: &[u8]) -> Option<Oid> {
    let mut components = Vec::with_capacity(contents.len() + 1);
    let mut rest = contents;
    while !rest.is_empty() {
        let length = rest.iter().position(|byte| *byte < 0x80)? + 1;
        let (digits, after) = rest.split_at(length);
        if length > 5 || digits[0] == 0x80 {
            return None;
        }
        let component = digits.iter().fold(0_u64, |number, digit| number << 7 | u64::from(digit & 0x7f));
        let component =
            u32::try_from(component).ok().filter(|component| i32::try_from(*component).is_ok())?;
        if components.is_empty() {
            let first = (component / 40).min(2);
            components.extend([first, component - 40 * first]);
        } else {
            components.push(component);
        }
        rest = after;
    }
    (!components.is_empty()).then_some(components)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_have_the_shortest_length() {
        let contents = |bytes: &[u8]| Reader(bytes).contents(INTEGER).map(<[u8]>::to_vec);
        assert_eq!(contents(&[2, 1, 5]), Some(vec![5]));
        assert_eq!(
            contents(&[2, 0x81, 0x80].iter().copied().chain([1; 0x80]).collect::<Vec<_>>()),
            Some(vec![1; 0x80])
        );
        for bytes in [
            &[][..],
            &[2],
            &[2, 2, 5],
            &[2, 0x80, 5],
            &[2, 0x81, 1, 5],
            &[2, 0x82, 0, 0x80],
            &[2, 0x84, 0xff, 0xff, 0xff, 0xff],
            &[2, 0x85, 0, 0, 0, 0, 1, 5],
            &[0x1f, 1, 5],
            &[3, 1, 5],
        ] {
            assert_eq!(contents(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn integers_have_the_shortest_encoding() {
        assert_eq!(integer(&[0, 0x80]), Some(128.into()));
        assert_eq!(integer(&[0x80]), Some((-128).into()));
        assert_eq!(small(&[0xff, 0x7f]), Some(-129));
        assert_eq!(small(&[0x7f; 8]), Some(0x7f7f_7f7f_7f7f_7f7f));
        assert_eq!(small(&[1; 9]), None);
        for contents in [&[][..], &[0, 1], &[0xff, 0x80]] {
            assert_eq!((integer(contents), small(contents)), (None, None), "{contents:?}");
        }
    }

    #[test]
    fn object_identifiers_have_components_of_31_bits() {
        assert_eq!(oid(&[0x2a, 3]), Some(vec![1, 2, 3]));
        assert_eq!(oid(&[0x88, 0x37]), Some(vec![2, 999]));
        assert_eq!(oid(&[0x2a, 0x87, 0xff, 0xff, 0xff, 0x7f]), Some(vec![1, 2, i32::MAX as u32]));
        for contents in [&[][..], &[0x80, 1], &[0x2a, 0x80, 1], &[0x81], &[0x2a, 0x88, 0x80, 0x80, 0x80, 0]] {
            assert_eq!(oid(contents), None, "{contents:?}");
        }
    }

    #[test]
    fn bits_are_aligned_to_the_right() {
        let bits = Bits::of_contents(&[3, 0b1010_1010, 0b0110_1000]).unwrap();
        assert_eq!(bits.right_aligned(), [0b0001_0101, 0b0100_1101]);
        assert!(bits.is_set(0) && !bits.is_set(1) && bits.is_set(12) && !bits.is_set(13));
        for contents in [&[][..], &[1], &[8, 0], &[3, 0b100]] {
            assert!(Bits::of_contents(contents).is_none(), "{contents:?}");
        }
    }
}
