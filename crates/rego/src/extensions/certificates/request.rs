//! Parses certificate requests ([RFC 2986](https://www.rfc-editor.org/rfc/rfc2986)) like Go's package
//! [crypto/x509](https://pkg.go.dev/crypto/x509).

use std::collections::BTreeSet;

use regorus::Value;

use super::asn1::{BOOLEAN, Fields, OCTET_STRING};
use super::certificate::Extension;
use super::cryptobyte;
use super::extensions::AlternativeNames;
use super::json::{self, Writer};
use super::keys::{PublicKey, signature_number};
use super::names::{Attribute, Name};

const EXTENSION_REQUEST: &[u32] = &[1, 2, 840, 113_549, 1, 9, 14];
const SUBJECT_ALTERNATIVE_NAME: &[u32] = &[2, 5, 29, 17];

/// The fields of Go's `CertificateRequest` for the request `der`; `None` if it is invalid.
pub(super) fn value(der: &[u8], writer: &mut Writer) -> Option<Value> {
    let mut rest = Fields(der);
    let (raw, mut outer) = rest.full_sequence().filter(|_| rest.0.is_empty())?;
    let (to_be_signed, mut fields) = outer.full_sequence()?;
    let version = fields.small()?;
    let raw_subject = fields.raw()?.full;
    let (raw_key, mut key) = fields.full_sequence()?;
    let (key_algorithm, key_bits) = (key.algorithm()?, key.bits()?);
    let attributes = fields.context(0)?.all(|attributes| attributes.raw().map(|attribute| attribute.full))?;
    let signature_algorithm = signature_number(&outer.algorithm()?);
    let signature = outer.bits()?.right_aligned();

    let public_key = PublicKey::parse(&key_algorithm, key_bits)?;
    let subject = name(raw_subject, writer)?;
    let extensions = requested_extensions(&attributes)?;
    let names = extensions.iter().find(|extension| extension.name == SUBJECT_ALTERNATIVE_NAME);
    let names = match names {
        Some(extension) => AlternativeNames::parse(extension.value)?,
        None => AlternativeNames::default(),
    };
    // Only attributes whose values are sequences of other attributes are returned.
    let attributes: Vec<Value> =
        attributes.iter().filter_map(|attribute| attribute_set(attribute, writer)).collect();
    let attributes = if attributes.is_empty() { Value::Null } else { attributes.into() };
    let [raw, to_be_signed, raw_key, raw_subject] =
        [raw, to_be_signed, raw_key, raw_subject].map(|bytes| writer.bytes(bytes));
    let own = [
        ("Raw", raw),
        ("RawTBSCertificateRequest", to_be_signed),
        ("RawSubjectPublicKeyInfo", raw_key),
        ("RawSubject", raw_subject),
        ("Version", version.into()),
        ("Signature", writer.bytes(&signature)),
        ("SignatureAlgorithm", signature_algorithm.into()),
        ("PublicKeyAlgorithm", public_key.number().into()),
        ("PublicKey", public_key.value(writer)),
        ("Subject", subject.value(writer)),
        ("Attributes", attributes),
        ("Extensions", json::list(&extensions, |extension| extension.value(writer))),
        ("ExtraExtensions", Value::Null),
    ];
    let names = names.fields(writer);
    Some(writer.fields(own.into_iter().chain(names)))
}

/// The name in `der`. The values of its attributes need not be texts.
fn name(der: &[u8], writer: &mut Writer) -> Option<Name> {
    let mut rest = Fields(der);
    let mut sets = rest.sequence().filter(|_| rest.0.is_empty())?;
    let mut attributes = Vec::new();
    while !sets.0.is_empty() {
        let mut set = sets.set()?;
        while !set.0.is_empty() {
            attributes.push(attribute(set.sequence()?, writer)?);
        }
    }
    Some(Name(attributes))
}

fn attribute(mut fields: Fields<'_>, writer: &mut Writer) -> Option<Attribute> {
    Some(Attribute { kind: fields.oid()?, value: fields.raw()?.attribute_value(writer)? })
}

/// The attribute `der`, if its values are sequences of other attributes.
fn attribute_set(der: &[u8], writer: &mut Writer) -> Option<Value> {
    let mut rest = Fields(der);
    let mut fields = rest.sequence().filter(|_| rest.0.is_empty())?;
    let kind = fields.oid()?;
    let mut values = Vec::new();
    for list in fields.set()?.sequences()? {
        let mut attributes = Vec::new();
        for fields in list.sequences()? {
            attributes.push(attribute(fields, writer)?.value(writer));
        }
        values.push(Value::from(attributes));
    }
    Some(writer.object([("Type", json::oid(&kind)), ("Value", values.into())]))
}

/// The extensions in `attributes`, without duplicates.
fn requested_extensions<'d>(attributes: &[&'d [u8]]) -> Option<Vec<Extension<'d>>> {
    let mut extensions = Vec::new();
    let mut names = BTreeSet::new();
    for attribute in attributes {
        let Some(requested) = first_request(attribute) else { continue };
        for mut fields in Fields(requested).sequence()?.sequences()? {
            let name = fields.oid()?;
            let is_critical = match fields.optional(BOOLEAN)? {
                Some(contents) => cryptobyte::boolean(contents)?,
                None => false,
            };
            let value = fields.contents(OCTET_STRING)?;
            if !names.insert(name.clone()) {
                return None;
            }
            extensions.push(Extension { name, is_critical, value });
        }
    }
    Some(extensions)
}

/// The first value of the attribute `der`, if it requests extensions. Other attributes are ignored, even if they are
/// invalid.
fn first_request(der: &[u8]) -> Option<&[u8]> {
    let mut rest = Fields(der);
    let mut fields = rest.sequence().filter(|_| rest.0.is_empty())?;
    let kind = fields.oid().filter(|kind| kind == EXTENSION_REQUEST);
    let values = fields.set()?.all(|values| values.raw().map(|value| value.full))?;
    values.first().copied().filter(|_| kind.is_some())
}
