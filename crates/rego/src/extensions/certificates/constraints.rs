//! Checks the name constraints of the authorities in a chain, as Go does.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::net::IpAddr;

use super::certificate::Certificate;
use super::extensions::{NAME_CONSTRAINTS, Network, SUBJECT_ALTERNATIVE_NAME, Subtrees};
use super::hosts::{Mailbox, is_domain};
use super::urls::Url;

/// Whether the names of all certificates in `chain` satisfy the constraints of the certificates after them.
pub(super) fn are_met(chain: &[&Certificate<'_>]) -> bool {
    let constraints: Vec<(usize, Constraints<'_>)> = chain
        .iter()
        .enumerate()
        .filter(|(_, certificate)| certificate.extension(NAME_CONSTRAINTS).is_some())
        .map(|(at, certificate)| (at, Constraints::of(certificate)))
        .collect();
    chain.iter().enumerate().all(|(at, certificate)| {
        let mut later = constraints.iter().filter(|(of, _)| *of > at).peekable();
        if certificate.extension(SUBJECT_ALTERNATIVE_NAME).is_none() || later.peek().is_none() {
            return true;
        }
        let names = &certificate.details.names;
        let domains = names.urls().map(|url| domain_of(&url)).collect::<Option<Vec<_>>>();
        let mailboxes = names.emails.iter().map(|email| Mailbox::parse(email)).collect::<Option<Vec<_>>>();
        let Some((domains, mailboxes)) = domains.zip(mailboxes) else { return false };
        later.all(|(_, constraints)| constraints.allow(&names.dns, &domains, &mailboxes, &names.ips))
    })
}

/// The domain of a URI; `None` if the URI has none.
fn domain_of(url: &Url) -> Option<String> {
    let host = str::from_utf8(&url.host).ok().filter(|host| !host.is_empty())?;
    let domain = if host.contains(':') && !host.ends_with(']') { without_port(host)? } else { host };
    let is_address = domain.parse::<IpAddr>().is_ok() || is_address_with_zone(domain);
    let is_literal = domain.starts_with('[') && domain.ends_with(']');
    (!is_address && !is_literal).then(|| domain.to_owned())
}

fn is_address_with_zone(host: &str) -> bool {
    host.split_once('%').is_some_and(|(address, zone)| {
        !zone.is_empty() && address.parse::<IpAddr>().is_ok_and(|address| address.is_ipv6())
    })
}

/// The host in `host:port`.
fn without_port(text: &str) -> Option<&str> {
    let (host, port) = text.rsplit_once(':')?;
    let host = match host.strip_prefix('[') {
        Some(address) => address.strip_suffix(']').filter(|address| !address.contains(']'))?,
        None => Some(host).filter(|host| !host.contains(':'))?,
    };
    (!host.contains(['[', ']']) && !port.contains(['[', ']'])).then_some(host)
}

/// The names that an authority permits and excludes.
struct Constraints<'d> {
    permitted: Names<'d>,
    excluded: Names<'d>,
}

impl<'d> Constraints<'d> {
    fn of(certificate: &Certificate<'d>) -> Self {
        let details = &certificate.details;
        Self { permitted: Names::of(&details.permitted, false), excluded: Names::of(&details.excluded, true) }
    }

    fn allow(&self, dns: &[&str], domains: &[String], mailboxes: &[Mailbox], ips: &[&[u8]]) -> bool {
        let (permitted, excluded) = (&self.permitted, &self.excluded);
        let is_allowed = |permitted: Option<bool>, excluded: Option<bool>| {
            permitted.unwrap_or(true) && !excluded.unwrap_or(false)
        };
        let is_ip = |ip: &&[u8]| is_allowed(permitted.has_ip(ip), excluded.has_ip(ip));
        let is_name = |permitted: &Option<Domains<'d>>, excluded: &Option<Domains<'d>>, name: &str| {
            let has = |domains: &Option<Domains<'d>>| domains.as_ref().map(|domains| domains.has(name));
            is_domain(name.as_bytes(), false) && is_allowed(has(permitted), has(excluded))
        };
        let is_mailbox = |mailbox: &Mailbox| {
            let has = |emails: &Option<Emails<'d>>| emails.as_ref().map(|emails| emails.has(mailbox));
            is_domain(mailbox.domain.as_bytes(), false)
                && is_allowed(has(&permitted.emails), has(&excluded.emails))
        };
        ips.iter().all(is_ip)
            && dns.iter().all(|name| is_name(&permitted.dns, &excluded.dns, name))
            && domains.iter().all(|name| is_name(&permitted.uris, &excluded.uris, name))
            && mailboxes.iter().all(is_mailbox)
    }
}

/// The constraints on each type of names; `None` if there is no constraint on the type.
struct Names<'d> {
    /// The networks of IPv4, and the networks of IPv6.
    ips: Option<[Vec<Network<'d>>; 2]>,
    dns: Option<Domains<'d>>,
    uris: Option<Domains<'d>>,
    emails: Option<Emails<'d>>,
}

impl<'d> Names<'d> {
    fn of(trees: &Subtrees<'d>, are_excluded: bool) -> Self {
        let networks = |size: usize| {
            let mut networks: Vec<_> =
                trees.ips.iter().copied().filter(|network| network.ip.len() == size).collect();
            networks.sort_by_key(|network| (network.ip, network.mask));
            pruned(networks, is_subnetwork)
        };
        Self {
            ips: (!trees.ips.is_empty()).then(|| [networks(4), networks(16)]),
            dns: Domains::of(&trees.dns, are_excluded),
            uris: Domains::of(&trees.uris, are_excluded),
            emails: Emails::of(&trees.emails, are_excluded),
        }
    }

    fn has_ip(&self, ip: &[u8]) -> Option<bool> {
        let networks = &self.ips.as_ref()?[usize::from(ip.len() != 4)];
        Some(found(networks, |network| network.ip.cmp(ip), |network| contains(*network, ip)))
    }
}

/// Removes each item that the item before it contains. `items` are sorted.
fn pruned<T: Copy>(items: Vec<T>, is_in: impl Fn(T, T) -> bool) -> Vec<T> {
    let mut pruned: Vec<T> = Vec::with_capacity(items.len());
    for item in items {
        if pruned.last().is_none_or(|last| !is_in(*last, item)) {
            pruned.push(item);
        }
    }
    pruned
}

/// Whether a name matches one of `items`, which are sorted. True if an item equals the name, or if `matches` holds for
/// the last item before the name. If no item is before the name, the first item is tried.
fn found<T>(items: &[T], compare: impl Fn(&T) -> Ordering, matches: impl Fn(&T) -> bool) -> bool {
    let at = items.partition_point(|item| compare(item) == Ordering::Less);
    if items.get(at).is_some_and(|item| compare(item) == Ordering::Equal) {
        return true;
    }
    items.get(at.saturating_sub(1)).is_some_and(matches)
}

/// The bytes of an address. An IPv4 address that is mapped into IPv6 is returned as IPv4.
fn canonical(ip: &[u8]) -> &[u8] {
    ip.strip_prefix(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]).filter(|ip| ip.len() == 4).unwrap_or(ip)
}

fn contains(network: Network<'_>, ip: &[u8]) -> bool {
    let (base, ip) = (canonical(network.ip), canonical(ip));
    let mask = &network.mask[network.mask.len() - base.len()..];
    base.len() == ip.len() && base.iter().zip(ip).zip(mask).all(|((base, ip), mask)| base & mask == ip & mask)
}

/// Whether `network` has all addresses of `other`.
fn is_subnetwork(network: Network<'_>, other: Network<'_>) -> bool {
    let last: Vec<u8> = other.ip.iter().zip(other.mask).map(|(ip, mask)| ip | !mask).collect();
    contains(network, other.ip) && contains(network, &last)
}

/// Constraints on names of domains.
enum Domains<'d> {
    /// All domains.
    All,
    Of {
        /// The names, sorted by their characters from the last to the first.
        sorted: Vec<&'d str>,
        /// For excluded names: each name in lowercase, without its first label. An excluded name such as
        /// `a.example.com` also excludes `*.example.com`.
        parents: BTreeSet<String>,
    },
}

impl<'d> Domains<'d> {
    fn of(names: &[&'d str], are_excluded: bool) -> Option<Self> {
        if names.is_empty() {
            return None;
        }
        if names.contains(&"") {
            return Some(Self::All);
        }
        let mut sorted = names.to_vec();
        sorted.sort_by(|one, other| compare(one, other));
        let sorted = pruned(sorted, has_suffix);
        let parent = |name: &&str| without_first_label(&name.to_ascii_lowercase()).map(str::to_owned);
        let parents = if are_excluded { sorted.iter().filter_map(parent).collect() } else { BTreeSet::new() };
        Some(Self::Of { sorted, parents })
    }

    fn has(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Of { sorted, parents } => {
                let is_pattern_of = || {
                    let name = name.to_ascii_lowercase();
                    name.starts_with('*')
                        && without_first_label(&name).is_some_and(|name| parents.contains(name))
                };
                found(sorted, |domain| compare(domain, name), |domain| has_suffix(domain, name))
                    || is_pattern_of()
            }
        }
    }
}

/// The part of `name` that begins at its first dot; `None` without a dot.
fn without_first_label(name: &str) -> Option<&str> {
    name.find('.').map(|dot| &name[dot..])
}

/// Compares names from their end, ignoring case. A dot sorts first.
fn compare(one: &str, other: &str) -> Ordering {
    let key = |byte: u8| if byte == b'.' { 0 } else { byte.to_ascii_lowercase() };
    one.bytes().rev().map(key).cmp(other.bytes().rev().map(key))
}

/// Whether `name` is `domain` or below it.
fn has_suffix(domain: &str, name: &str) -> bool {
    let (domain, name) = (domain.as_bytes(), name.as_bytes());
    let Some(at) = name.len().checked_sub(domain.len()) else { return false };
    name[at..].eq_ignore_ascii_case(domain) && (at == 0 || domain.starts_with(b".") || name[at - 1] == b'.')
}

/// Constraints on mailboxes.
struct Emails<'d> {
    mailboxes: BTreeSet<Mailbox>,
    domains: Option<Domains<'d>>,
}

impl<'d> Emails<'d> {
    fn of(emails: &[&'d str], are_excluded: bool) -> Option<Self> {
        let domains: Vec<&str> = emails.iter().copied().filter(|email| !email.contains('@')).collect();
        (!emails.is_empty()).then(|| Self {
            mailboxes: emails.iter().filter_map(|email| Mailbox::parse(email)).collect(),
            domains: Domains::of(&domains, are_excluded),
        })
    }

    fn has(&self, mailbox: &Mailbox) -> bool {
        self.mailboxes.contains(mailbox)
            || self.domains.as_ref().is_some_and(|domains| domains.has(&mailbox.domain))
    }
}
