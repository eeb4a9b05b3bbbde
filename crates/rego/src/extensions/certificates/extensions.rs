//! The certificate extensions that Go supports.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use regorus::Value;

use super::certificate::Extension;
use super::cryptobyte::{BOOLEAN, INTEGER, OCTET_STRING, Oid, Reader, SEQUENCE, constructed, context};
use super::hosts::{Mailbox, is_domain};
use super::json::{self, Writer};
use super::names::LargeOid;
use super::urls::Url;

/// Object identifiers of extensions: the numbers after 2.5.29.
pub(super) const SUBJECT_ALTERNATIVE_NAME: u32 = 17;
pub(super) const NAME_CONSTRAINTS: u32 = 30;
const AUTHORITY_INFORMATION: &[u32] = &[1, 3, 6, 1, 5, 5, 7, 1, 1];
const OCSP: &[u32] = &[1, 3, 6, 1, 5, 5, 7, 48, 1];
const ISSUERS: &[u32] = &[1, 3, 6, 1, 5, 5, 7, 48, 2];

/// Tags of alternative names.
const EMAIL: u8 = context(1);
const DNS: u8 = context(2);
const URI: u8 = context(6);
const IP: u8 = context(7);

/// The bit of the key usage for signatures of certificates.
pub(super) const CERTIFICATE_SIGN: i64 = 1 << 5;
/// Go's number of the extended key usage that includes all others.
pub(super) const ANY_USAGE: i64 = 0;
/// Go's number of the extended key usage of TLS servers.
pub(super) const SERVER_AUTHENTICATION: i64 = 1;

/// Go's number of the extended key usage with this object identifier.
fn extended_usage(name: &[u32]) -> Option<i64> {
    Some(match name {
        [2, 5, 29, 37, 0] => ANY_USAGE,
        [1, 3, 6, 1, 5, 5, 7, 3, usage @ 1..=9] => i64::from(*usage),
        [1, 3, 6, 1, 4, 1, 311, 10, 3, 3] => 10,
        [2, 16, 840, 1, 113_730, 4, 1] => 11,
        [1, 3, 6, 1, 4, 1, 311, 2, 1, 22] => 12,
        [1, 3, 6, 1, 4, 1, 311, 61, 1, 1] => 13,
        _ => return None,
    })
}

/// The alternative names of a subject.
#[derive(Debug, Default)]
pub(super) struct AlternativeNames<'d> {
    pub(super) dns: Vec<&'d str>,
    pub(super) emails: Vec<&'d str>,
    /// Addresses of four or 16 bytes.
    pub(super) ips: Vec<&'d [u8]>,
    /// Valid URIs.
    uris: Vec<&'d str>,
}

impl<'d> AlternativeNames<'d> {
    pub(super) fn parse(der: &'d [u8]) -> Option<Self> {
        let mut found = Self::default();
        let mut names = Reader(der).read(SEQUENCE)?;
        while !names.is_empty() {
            let name = names.any()?;
            match name.tag {
                EMAIL => found.emails.push(ascii(name.contents)?),
                DNS => found.dns.push(ascii(name.contents)?),
                URI => {
                    let text = ascii(name.contents)?;
                    let url = Url::parse(text)?;
                    if !is_domain(&url.host, false) {
                        return None;
                    }
                    found.uris.push(text);
                }
                IP => {
                    if !matches!(name.contents.len(), 4 | 16) {
                        return None;
                    }
                    found.ips.push(name.contents);
                }
                _ => {}
            }
        }
        Some(found)
    }

    fn is_empty(&self) -> bool {
        self.dns.is_empty() && self.emails.is_empty() && self.ips.is_empty() && self.uris.is_empty()
    }

    pub(super) fn urls(&self) -> impl Iterator<Item = Url> {
        self.uris.iter().filter_map(|uri| Url::parse(uri))
    }

    pub(super) fn uri_strings(&self, writer: &mut Writer) -> Value {
        json::list(&self.uris, |uri| {
            let text = Url::parse(uri).unwrap_or_default().text();
            writer.lossy(&text)
        })
    }

    pub(super) fn fields(&self, writer: &mut Writer) -> [(&'static str, Value); 4] {
        [
            ("DNSNames", json::list(&self.dns, |name| writer.text(name))),
            ("EmailAddresses", json::list(&self.emails, |name| writer.text(name))),
            ("IPAddresses", json::list(&self.ips, |ip| address(ip))),
            ("URIs", json::list(&self.uris, |uri| Url::parse(uri).unwrap_or_default().value(writer))),
        ]
    }
}

/// An address range.
#[derive(Clone, Copy, Debug)]
pub(super) struct Network<'d> {
    /// The address, of four or 16 bytes. The mask has the same length.
    pub(super) ip: &'d [u8],
    pub(super) mask: &'d [u8],
}

/// The names that a certificate authority may or may not use.
#[derive(Debug, Default)]
pub(super) struct Subtrees<'d> {
    pub(super) dns: Vec<&'d str>,
    pub(super) ips: Vec<Network<'d>>,
    pub(super) emails: Vec<&'d str>,
    pub(super) uris: Vec<&'d str>,
    has_others: bool,
}

impl<'d> Subtrees<'d> {
    fn parse(mut trees: Reader<'d>) -> Option<Self> {
        let mut found = Self::default();
        while !trees.is_empty() {
            let base = trees.read(SEQUENCE)?.any()?;
            match base.tag {
                DNS => found.dns.push(ascii(base.contents).filter(|name| is_domain(name.as_bytes(), true))?),
                IP => {
                    let (ip, mask) = match base.contents.len() {
                        length @ (8 | 32) => base.contents.split_at(length / 2),
                        _ => return None,
                    };
                    if !is_mask(mask) {
                        return None;
                    }
                    found.ips.push(Network { ip, mask });
                }
                EMAIL => {
                    let email = ascii(base.contents)?;
                    let is_valid = if email.contains('@') {
                        Mailbox::parse(email).is_some()
                    } else {
                        is_domain(email.as_bytes(), true)
                    };
                    found.emails.push(Some(email).filter(|_| is_valid)?);
                }
                URI => {
                    let domain = ascii(base.contents)?;
                    let is_valid = domain.parse::<IpAddr>().is_err() && is_domain(domain.as_bytes(), true);
                    found.uris.push(Some(domain).filter(|_| is_valid)?);
                }
                _ => found.has_others = true,
            }
        }
        Some(found)
    }
}

/// Whether `mask` consists of ones followed by zeros.
fn is_mask(mask: &[u8]) -> bool {
    let end = mask.iter().position(|byte| *byte != 0xff).unwrap_or(mask.len());
    let is_last = |byte: &u8| byte.leading_ones() + byte.trailing_zeros() >= 8;
    match &mask[end..] {
        [] => true,
        [last, zeros @ ..] => is_last(last) && zeros.iter().all(|byte| *byte == 0),
    }
}

/// The extensions of a certificate that Go parses.
#[derive(Debug)]
pub(super) struct Details<'d> {
    pub(super) key_usage: i64,
    pub(super) unhandled: Vec<Oid>,
    /// The extended key usages that Go supports, as Go's numbers.
    pub(super) extended_usages: Vec<i64>,
    pub(super) unknown_usages: Vec<Oid>,
    /// Whether the certificate belongs to an authority, if stated.
    pub(super) is_authority: Option<bool>,
    /// The path length: -1 without a limit, and 0 without the extension.
    pub(super) path_length: i64,
    pub(super) subject_key: Option<&'d [u8]>,
    pub(super) authority_key: Option<&'d [u8]>,
    ocsp_servers: Vec<&'d [u8]>,
    issuers: Vec<&'d [u8]>,
    pub(super) names: AlternativeNames<'d>,
    are_constraints_critical: bool,
    pub(super) permitted: Subtrees<'d>,
    pub(super) excluded: Subtrees<'d>,
    revocation_lists: Vec<&'d [u8]>,
    /// The certificate policies, if the certificate has the extension for them.
    pub(super) policies: Option<Vec<LargeOid<'d>>>,
    /// For this field and the two fields below: the number of further certificates in the chain to which the constraint
    /// does not apply yet. `None` if the certificate lacks the constraint.
    pub(super) inhibit_any_policy: Option<i64>,
    pub(super) inhibit_policy_mapping: Option<i64>,
    pub(super) require_explicit_policy: Option<i64>,
    /// Pairs of the policy of the issuer and that of the subject.
    pub(super) policy_mappings: Vec<[LargeOid<'d>; 2]>,
}

impl<'d> Details<'d> {
    /// The details in `extensions`; `None` if an extension is invalid.
    pub(super) fn parse(extensions: &[Extension<'d>]) -> Option<Self> {
        let mut details = Self {
            key_usage: 0,
            unhandled: Vec::new(),
            extended_usages: Vec::new(),
            unknown_usages: Vec::new(),
            is_authority: None,
            path_length: 0,
            subject_key: None,
            authority_key: None,
            ocsp_servers: Vec::new(),
            issuers: Vec::new(),
            names: AlternativeNames::default(),
            are_constraints_critical: false,
            permitted: Subtrees::default(),
            excluded: Subtrees::default(),
            revocation_lists: Vec::new(),
            policies: None,
            inhibit_any_policy: None,
            inhibit_policy_mapping: None,
            require_explicit_policy: None,
            policy_mappings: Vec::new(),
        };
        for extension in extensions {
            let is_handled = match extension.name.as_slice() {
                [2, 5, 29, number] => details.read(*number, extension)?,
                AUTHORITY_INFORMATION => {
                    details.read_authority_information(extension)?;
                    true
                }
                _ => false,
            };
            if extension.is_critical && !is_handled {
                details.unhandled.push(extension.name.clone());
            }
        }
        Some(details)
    }

    /// Reads the extension with the object identifier 2.5.29.`number`. Returns whether Go handles the whole extension.
    fn read(&mut self, number: u32, extension: &Extension<'d>) -> Option<bool> {
        let mut value = Reader(extension.value);
        match number {
            14 => {
                self.subject_key = Some(value.contents(OCTET_STRING).filter(|_| !extension.is_critical)?);
            }
            15 => {
                let bits = value.bits()?;
                self.key_usage = (0..9).filter(|bit| bits.is_set(*bit)).map(|bit| 1 << bit).sum();
            }
            SUBJECT_ALTERNATIVE_NAME => {
                self.names = AlternativeNames::parse(extension.value)?;
                return Some(!self.names.is_empty());
            }
            19 => {
                let mut fields = value.read(SEQUENCE)?;
                let is_authority = if fields.has(BOOLEAN) { fields.boolean()? } else { false };
                self.path_length =
                    if fields.has(INTEGER) { fields.small().filter(|length| *length >= 0)? } else { -1 };
                self.is_authority = Some(is_authority);
            }
            NAME_CONSTRAINTS => return self.read_name_constraints(extension),
            31 => self.read_revocation_lists(value)?,
            32 => self.policies = Some(policies(value)?),
            33 => {
                let mut mappings = value.read(SEQUENCE)?;
                while !mappings.is_empty() {
                    let mut mapping = mappings.read(SEQUENCE)?;
                    let pair = [LargeOid::read(&mut mapping)?, LargeOid::read(&mut mapping)?];
                    self.policy_mappings.push(pair);
                }
            }
            35 => {
                let mut fields = value.read(SEQUENCE).filter(|_| !extension.is_critical)?;
                self.authority_key = fields.optional(context(0))?.map(|key| key.0);
            }
            36 => {
                let mut fields = value.read(SEQUENCE)?;
                if fields.has(context(0)) {
                    self.require_explicit_policy = Some(fields.small_with(context(0))?);
                }
                if fields.has(context(1)) {
                    self.inhibit_policy_mapping = Some(fields.small_with(context(1))?);
                }
            }
            37 => {
                let mut usages = value.read(SEQUENCE)?;
                while !usages.is_empty() {
                    let usage = usages.oid()?;
                    match extended_usage(&usage) {
                        Some(number) => self.extended_usages.push(number),
                        None => self.unknown_usages.push(usage),
                    }
                }
            }
            54 => self.inhibit_any_policy = Some(value.small()?),
            _ => return Some(false),
        }
        Some(true)
    }

    fn read_name_constraints(&mut self, extension: &Extension<'d>) -> Option<bool> {
        let mut value = Reader(extension.value);
        let mut fields = value.read(SEQUENCE).filter(|_| value.is_empty())?;
        let none = Reader(&[]);
        let permitted = fields.optional(constructed(0))?.unwrap_or(none);
        let excluded = fields.optional(constructed(1))?.unwrap_or(none);
        if !fields.is_empty() || permitted.is_empty() && excluded.is_empty() {
            return None;
        }
        self.permitted = Subtrees::parse(permitted)?;
        self.excluded = Subtrees::parse(excluded)?;
        self.are_constraints_critical = extension.is_critical;
        Some(!self.permitted.has_others && !self.excluded.has_others)
    }

    fn read_revocation_lists(&mut self, mut value: Reader<'d>) -> Option<()> {
        let mut points = value.read(SEQUENCE)?;
        while !points.is_empty() {
            let Some(mut name) = points.read(SEQUENCE)?.optional(constructed(0))? else { continue };
            let mut names = name.read(constructed(0))?;
            while names.has(URI) {
                self.revocation_lists.push(names.contents(URI)?);
            }
        }
        Some(())
    }

    fn read_authority_information(&mut self, extension: &Extension<'d>) -> Option<()> {
        let mut list = Reader(extension.value).read(SEQUENCE).filter(|_| !extension.is_critical)?;
        while !list.is_empty() {
            let mut access = list.read(SEQUENCE)?;
            let method = access.oid()?;
            if !access.has(URI) {
                continue;
            }
            let location = access.contents(URI)?;
            match method.as_slice() {
                OCSP => self.ocsp_servers.push(location),
                ISSUERS => self.issuers.push(location),
                _ => {}
            }
        }
        Some(())
    }

    /// The fields of Go's `Certificate` that contain these details.
    pub(super) fn fields(&self, writer: &mut Writer) -> Vec<(&'static str, Value)> {
        let texts = |writer: &mut Writer, texts: &[&[u8]]| json::list(texts, |text| writer.lossy(text));
        let names = |writer: &mut Writer, names: &[&str]| json::list(names, |name| writer.text(name));
        let key = |writer: &mut Writer, key: Option<&[u8]>| json::optional(key, |key| writer.bytes(key));
        let number = |number: Option<i64>| Value::from(number.unwrap_or(0));
        let is_zero = |number: Option<i64>| Value::from(number == Some(0));
        let policies = json::optional(self.policies.as_ref(), |policies| {
            let policies = policies.iter().filter_map(|policy| policy.components());
            policies.map(|policy| json::oid(&policy)).collect::<Vec<_>>().into()
        });
        let mut fields = vec![
            ("KeyUsage", self.key_usage.into()),
            ("UnhandledCriticalExtensions", json::list(&self.unhandled, |name| json::oid(name))),
            ("ExtKeyUsage", json::list(&self.extended_usages, |usage| (*usage).into())),
            ("UnknownExtKeyUsage", json::list(&self.unknown_usages, |usage| json::oid(usage))),
            ("BasicConstraintsValid", self.is_authority.is_some().into()),
            ("IsCA", self.is_authority.unwrap_or(false).into()),
            ("MaxPathLen", self.path_length.into()),
            ("MaxPathLenZero", (self.is_authority.is_some() && self.path_length == 0).into()),
            ("SubjectKeyId", key(writer, self.subject_key)),
            ("AuthorityKeyId", key(writer, self.authority_key)),
            ("OCSPServer", texts(writer, &self.ocsp_servers)),
            ("IssuingCertificateURL", texts(writer, &self.issuers)),
            ("PermittedDNSDomainsCritical", self.are_constraints_critical.into()),
            ("PermittedDNSDomains", names(writer, &self.permitted.dns)),
            ("ExcludedDNSDomains", names(writer, &self.excluded.dns)),
            ("PermittedIPRanges", json::list(&self.permitted.ips, |range| network(writer, *range))),
            ("ExcludedIPRanges", json::list(&self.excluded.ips, |range| network(writer, *range))),
            ("PermittedEmailAddresses", names(writer, &self.permitted.emails)),
            ("ExcludedEmailAddresses", names(writer, &self.excluded.emails)),
            ("PermittedURIDomains", names(writer, &self.permitted.uris)),
            ("ExcludedURIDomains", names(writer, &self.excluded.uris)),
            ("CRLDistributionPoints", texts(writer, &self.revocation_lists)),
            ("PolicyIdentifiers", policies),
            ("Policies", json::list(self.policies.as_deref().unwrap_or(&[]), |policy| policy.text().into())),
            ("InhibitAnyPolicy", number(self.inhibit_any_policy)),
            ("InhibitAnyPolicyZero", is_zero(self.inhibit_any_policy)),
            ("InhibitPolicyMapping", number(self.inhibit_policy_mapping)),
            ("InhibitPolicyMappingZero", is_zero(self.inhibit_policy_mapping)),
            ("RequireExplicitPolicy", number(self.require_explicit_policy)),
            ("RequireExplicitPolicyZero", is_zero(self.require_explicit_policy)),
            (
                "PolicyMappings",
                json::list(&self.policy_mappings, |[issuer, subject]| {
                    let policies = [issuer, subject].map(|policy| writer.text(&policy.text()));
                    let [issuer, subject] = policies;
                    writer.object([("IssuerDomainPolicy", issuer), ("SubjectDomainPolicy", subject)])
                }),
            ),
        ];
        fields.extend(self.names.fields(writer));
        fields
    }
}

/// The policies; `None` if they contain duplicates or are invalid.
fn policies(mut value: Reader<'_>) -> Option<Vec<LargeOid<'_>>> {
    let mut policies = Vec::new();
    let mut seen = BTreeSet::new();
    let mut list = value.read(SEQUENCE)?;
    while !list.is_empty() {
        let policy = LargeOid::read(&mut list.read(SEQUENCE)?)?;
        if !policy.is_valid() || !seen.insert(policy) {
            return None;
        }
        policies.push(policy);
    }
    Some(policies)
}

fn ascii(bytes: &[u8]) -> Option<&str> {
    str::from_utf8(bytes).ok().filter(|text| text.is_ascii())
}

/// The address with these bytes, formatted as in Go.
fn address(bytes: &[u8]) -> Value {
    let mut text = String::new();
    if let Ok(bytes) = <[u8; 4]>::try_from(bytes) {
        text = Ipv4Addr::from(bytes).to_string();
    } else if let Ok(bytes) = <[u8; 16]>::try_from(bytes) {
        let address = Ipv6Addr::from(bytes);
        text = address.to_ipv4_mapped().map_or_else(|| address.to_string(), |address| address.to_string());
    }
    text.into()
}

fn network(writer: &mut Writer, network: Network<'_>) -> Value {
    let mask = writer.bytes(network.mask);
    writer.object([("IP", address(network.ip)), ("Mask", mask)])
}
