//! Builtins for IP networks. As in Go, an IPv4 address that is mapped into IPv6 equals that IPv4 address.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anyhow::{Result, ensure};
use regorus::Value;

use super::bounded::check_list;
use super::{ELEMENTS, or_undefined, text};

/// The maximum number of pairs that `net.cidr_contains_matches` compares.
const PAIRS: usize = 1_000_000;
/// The number of bits of an address, and the IPv6 prefix of mapped IPv4 addresses.
const BITS: u32 = 128;
const MAPPED_BITS: u32 = 96;
const MAPPED: u128 = 0xffff << 32;

/// An address in IPv6 form; IPv4 addresses are mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Address(u128);

impl Address {
    /// Parses an address without a zone.
    fn parse(text: &str) -> Option<Self> {
        Some(match text.parse().ok()? {
            IpAddr::V4(address) => Self(MAPPED | u128::from(u32::from(address))),
            IpAddr::V6(address) => Self(address.into()),
        })
    }

    fn as_v4(self) -> Option<Ipv4Addr> {
        (self.0 >> 32 == MAPPED >> 32).then_some(Ipv4Addr::from(self.0 as u32))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.as_v4() {
            Some(address) => address.fmt(f),
            None => Ipv6Addr::from(self.0).fmt(f),
        }
    }
}

/// A network.
#[derive(Clone, Copy, Debug)]
struct Network {
    first: Address,
    /// The length of the prefix, out of 128 bits.
    prefix: u32,
}

impl Network {
    fn new(address: Address, prefix: u32) -> Self {
        Self { first: Address(address.0 & mask(prefix)), prefix }
    }

    /// Parses CIDR notation, for example `10.0.0.0/8`.
    fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = text.split_once('/')?;
        let skipped = if address.contains(':') { 0 } else { MAPPED_BITS };
        let address = Address::parse(address)?;
        let is_number = !prefix.is_empty() && prefix.bytes().all(|digit| digit.is_ascii_digit());
        let prefix: u32 = prefix.parse().ok().filter(|_| is_number)?;
        (prefix <= BITS - skipped).then(|| Self::new(address, skipped + prefix))
    }

    /// Parses an IPv4 address as the network of its class, or an address in CIDR notation. Returns the network and its
    /// text. As in OPA, the text of a classful network has the original address.
    fn parse_classful(text: &str) -> Option<(Self, String)> {
        let Some(address) = Address::parse(text) else {
            let network = Self::parse(text)?;
            return Some((network, network.to_string()));
        };
        let prefix = match address.as_v4()?.octets()[0] {
            ..128 => 8,
            128..192 => 16,
            192.. => 24,
        };
        Some((Self::new(address, MAPPED_BITS + prefix), format!("{address}/{prefix}")))
    }

    fn is_v4(self) -> bool {
        self.prefix >= MAPPED_BITS && self.first.as_v4().is_some()
    }

    fn last(self) -> Address {
        Address(self.first.0 | !mask(self.prefix))
    }

    fn has(self, address: Address) -> bool {
        self.is_v4() == address.as_v4().is_some() && address.0 & mask(self.prefix) == self.first.0
    }

    fn contains(self, other: Self) -> bool {
        if self.is_v4() || other.is_v4() {
            return self.has(other.first) && self.has(other.last());
        }
        self.prefix <= other.prefix && other.first.0 & mask(self.prefix) == self.first.0
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let skipped = if self.is_v4() { MAPPED_BITS } else { 0 };
        write!(f, "{}/{}", self.first, self.prefix - skipped)
    }
}

/// The mask of a prefix of this length.
fn mask(prefix: u32) -> u128 {
    u128::MAX.checked_shl(BITS - prefix).unwrap_or(0)
}

/// Whether `network` contains the address or network `other`.
fn contained(network: &str, other: &str) -> Option<bool> {
    let network = Network::parse(network)?;
    match Address::parse(other) {
        Some(address) => Some(network.has(address)),
        None => Some(network.contains(Network::parse(other)?)),
    }
}

pub(super) fn contains(values: Vec<Value>) -> Result<Value> {
    let found = text(&values[0]).zip(text(&values[1])).and_then(|(network, other)| contained(network, other));
    Ok(or_undefined(found))
}

pub(super) fn intersects(values: Vec<Value>) -> Result<Value> {
    let network = |value: &Value| Network::parse(text(value)?);
    let networks = network(&values[0]).zip(network(&values[1]));
    Ok(or_undefined(networks.map(|(one, other)| one.has(other.first) || other.has(one.first))))
}

pub(super) fn is_valid(values: Vec<Value>) -> Result<Value> {
    Ok(text(&values[0]).is_some_and(|text| Network::parse(text).is_some()).into())
}

pub(super) fn expand(values: Vec<Value>) -> Result<Value> {
    let Some(network) = text(&values[0]).and_then(Network::parse) else { return Ok(Value::Undefined) };
    let addresses = 1_u128.checked_shl(BITS - network.prefix).unwrap_or(u128::MAX);
    ensure!(
        addresses <= u128::from(ELEMENTS),
        "net.cidr_expand: {network} has more than {ELEMENTS} addresses"
    );
    let addresses = (network.first.0..=network.last().0).map(|address| Address(address).to_string().into());
    Ok(addresses.collect::<BTreeSet<Value>>().into())
}

/// The networks of an operand of `net.cidr_contains_matches`, each with its index.
fn indexed(operand: &Value) -> Option<Vec<(&str, Value)>> {
    fn network(value: &Value) -> Option<&str> {
        match value {
            Value::Array(items) => text(items.first()?),
            value => text(value),
        }
    }
    match operand {
        Value::String(text) => Some(vec![(text, operand.clone())]),
        Value::Array(items) => {
            items.iter().enumerate().map(|(index, item)| Some((network(item)?, index.into()))).collect()
        }
        Value::Set(items) => items.iter().map(|item| Some((network(item)?, item.clone()))).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| Some((network(value)?, key.clone()))).collect()
        }
        _ => Some(Vec::new()),
    }
}

pub(super) fn contains_matches(values: Vec<Value>) -> Result<Value> {
    let Some(networks) = indexed(&values[0]) else { return Ok(Value::Undefined) };
    // Without networks, the second operand is not parsed.
    let others = if networks.is_empty() { Some(Vec::new()) } else { indexed(&values[1]) };
    let Some(others) = others else { return Ok(Value::Undefined) };
    let pairs = networks.len().saturating_mul(others.len());
    ensure!(pairs <= PAIRS, "net.cidr_contains_matches: more than {PAIRS} pairs of networks");
    let mut matches = BTreeSet::new();
    for (network, index) in &networks {
        for (other, other_index) in &others {
            match contained(network, other) {
                Some(true) => {
                    check_list(2)?;
                    matches.insert(Value::from(vec![index.clone(), other_index.clone()]));
                }
                Some(false) => {}
                None => return Ok(Value::Undefined),
            }
        }
    }
    Ok(matches.into())
}

/// Consecutive addresses, and the text of the network that has exactly these addresses.
struct Range {
    first: Address,
    last: Address,
    network: Option<String>,
}

pub(super) fn merge(values: Vec<Value>) -> Result<Value> {
    let networks: Option<Vec<(Network, String)>> = match &values[0] {
        Value::Array(items) => items.iter().map(|item| Network::parse_classful(text(item)?)).collect(),
        Value::Set(items) => items.iter().map(|item| Network::parse_classful(text(item)?)).collect(),
        _ => None,
    };
    let Some(networks) = networks else { return Ok(Value::Undefined) };
    let range = |(network, text): (Network, String)| Range {
        first: network.first,
        last: network.last(),
        network: Some(text),
    };
    let mut ranges: Vec<Range> = networks.into_iter().map(range).collect();
    ranges.sort_by_key(|range| (range.last, range.first));
    let mut merged: Vec<Range> = Vec::new();
    while let Some(range) = ranges.pop() {
        match ranges.last_mut() {
            Some(previous) if before(range.first) <= previous.last => {
                *previous = Range { first: previous.first.min(range.first), last: range.last, network: None };
            }
            _ => merged.push(range),
        }
    }
    let networks = merged.into_iter().flat_map(|range| match range.network {
        Some(network) => vec![network],
        None => covering(range.first, range.last).iter().map(Network::to_string).collect(),
    });
    Ok(networks.map(Value::from).collect::<BTreeSet<Value>>().into())
}

/// The address before `address`. For the first address of IPv4 or IPv6, the address itself.
fn before(address: Address) -> Address {
    if address.0 == MAPPED { address } else { Address(address.0.saturating_sub(1)) }
}

/// The fewest networks that cover exactly the addresses from `first` to `last`.
fn covering(mut first: Address, last: Address) -> Vec<Network> {
    let mut networks = Vec::new();
    loop {
        let aligned = if first.0 == 0 { BITS } else { first.0.trailing_zeros() };
        let fits = |bits: &u32| Network::new(first, BITS - bits).last() <= last;
        let network = Network::new(first, BITS - (0..=aligned).rev().find(fits).unwrap_or(0));
        networks.push(network);
        match network.last().0.checked_add(1) {
            Some(next) if next <= last.0 => first = Address(next),
            _ => return networks,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(networks: &[&str]) -> String {
        merge(vec![networks.iter().map(|text| Value::from(*text)).collect::<Vec<_>>().into()])
            .unwrap()
            .to_string()
    }

    #[test]
    fn mapped_addresses_are_those_of_ipv4() {
        assert_eq!(contained("10.0.0.0/8", "::ffff:10.1.2.3"), Some(true));
        assert_eq!(contained("::ffff:10.0.0.0/104", "10.1.2.3"), Some(true));
        assert_eq!(contained("::/0", "10.1.2.3"), Some(false));
        assert_eq!(contained("::/80", "::/80"), Some(true));
        assert_eq!(contained("10.0.0.0/08", "10.1.0.0/16"), Some(true));
        assert_eq!(contained("10.0.0.0/+8", "10.1.0.0/16"), None);
        assert_eq!(contained("10.0.0.0/33", "10.1.0.0"), None);
    }

    #[test]
    fn merged_networks_have_the_same_addresses() {
        assert_eq!(
            merged(&["10.0.0.0/9", "10.128.0.0/10"]),
            r#"["10.0.0.0/9", "10.128.0.0/10"]"#.replace(' ', "")
        );
        assert_eq!(merged(&["192.0.2.0", "192.0.3.0/24"]), r#"["192.0.2.0/23"]"#);
        assert_eq!(merged(&["::/0", "10.0.0.0/8"]), r#"["::/0"]"#);
        assert_eq!(merged(&["255.255.255.0/24", "255.255.254.0/24"]), r#"["255.255.254.0/23"]"#);
    }

    #[test]
    fn many_pairs_are_not_compared() {
        let networks: Vec<Value> = (0..=PAIRS / 1_000).map(|_| "10.0.0.0/8".into()).collect();
        let others: Vec<Value> = (0..1_000).map(|_| "10.0.0.1".into()).collect();
        let error = contains_matches(vec![networks.into(), others.into()]).unwrap_err();
        assert!(error.to_string().contains("more than 1000000 pairs"), "{error}");
    }
}
