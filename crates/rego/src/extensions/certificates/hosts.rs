//! Parses and compares names of hosts and mailboxes in certificates.

use std::net::IpAddr;

/// Whether Go accepts `name` as a domain name. A leading dot is valid only in a constraint.
pub(super) fn is_domain(name: &[u8], is_constraint: bool) -> bool {
    if name.is_empty() {
        return true;
    }
    let name = if is_constraint { name.strip_prefix(b".").unwrap_or(name) } else { name };
    name.split(|byte| *byte == b'.').all(|label| !label.is_empty() && label.iter().all(u8::is_ascii_graphic))
}

/// A mailbox ([RFC 2821](https://www.rfc-editor.org/rfc/rfc2821)).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Mailbox {
    local: Vec<u8>,
    /// The domain in lowercase.
    pub(super) domain: String,
}

impl Mailbox {
    /// Parses a mailbox in `text`, which is ASCII; `None` if it is invalid.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let (local, rest) = match bytes.strip_prefix(b"\"") {
            Some(quoted) => quoted_local(quoted)?,
            None => local(bytes)?,
        };
        let domain = str::from_utf8(rest.strip_prefix(b"@")?).ok()?;
        let are_labels = domain.is_empty()
            || domain
                .split('.')
                .all(|label| !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_graphic()));
        are_labels.then(|| Self { local, domain: domain.to_ascii_lowercase() })
    }
}

/// The quoted local part of a mailbox after its opening quote, and the rest.
fn quoted_local(mut rest: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut local = Vec::new();
    loop {
        let (byte, after) = rest.split_first()?;
        rest = after;
        match byte {
            b'"' => return Some((local, rest)),
            b'\\' => {
                let (byte, after) = rest.split_first()?;
                matches!(byte, 1..=9 | 11 | 12 | 14..=127).then(|| local.push(*byte))?;
                rest = after;
            }
            1..=8 | 11 | 12 | 14..=33 | 35..=91 | 93..=127 => local.push(*byte),
            _ => return None,
        }
    }
}

/// The unquoted local part of a mailbox, and the rest.
fn local(mut rest: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut local = Vec::new();
    while let Some((byte, after)) = rest.split_first() {
        let (byte, after) = match byte {
            b'\\' => after.split_first()?,
            byte if byte.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~.".contains(byte) => (byte, after),
            _ => break,
        };
        local.push(*byte);
        rest = after;
    }
    let is_invalid = local.is_empty()
        || local.starts_with(b".")
        || local.ends_with(b".")
        || local.windows(2).any(|pair| pair == b"..");
    (!is_invalid).then_some((local, rest))
}

/// Whether `bytes`, an address of four or 16 bytes, equal this address. IPv4 may be mapped into IPv6.
fn is_address(address: IpAddr, bytes: &[u8]) -> bool {
    let found = match (<[u8; 4]>::try_from(bytes), <[u8; 16]>::try_from(bytes)) {
        (Ok(bytes), _) => IpAddr::from(bytes),
        (_, Ok(bytes)) => IpAddr::from(bytes),
        _ => return false,
    };
    found.to_canonical() == address.to_canonical()
}

/// Whether a certificate with these names and addresses is valid for `host`.
pub(super) fn is_for_host(host: &str, names: &[&str], addresses: &[&[u8]]) -> bool {
    let inner =
        host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).filter(|host| !host.is_empty());
    if let Ok(address) = inner.unwrap_or(host).parse::<IpAddr>() {
        return addresses.iter().any(|bytes| is_address(address, bytes));
    }
    let host = host.to_ascii_lowercase();
    let without_dot = host.strip_suffix('.').unwrap_or(&host);
    let is_valid = is_host(without_dot, false);
    names.iter().any(|name| {
        let name = name.to_ascii_lowercase();
        if is_valid && is_host(&name, true) {
            matches(&name, without_dot)
        } else {
            !matches!(name.as_str(), "" | ".") && !matches!(host.as_str(), "" | ".") && name == host
        }
    })
}

/// Whether `host` is a valid name. A name whose first label is `*` is valid only if `is_pattern`.
fn is_host(host: &str, is_pattern: bool) -> bool {
    let is_label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    host != "*"
        && host
            .split('.')
            .enumerate()
            .all(|(at, label)| is_label(label) || is_pattern && at == 0 && label == "*")
}

/// Whether `host` matches `pattern`, whose first label may be `*`.
fn matches(pattern: &str, host: &str) -> bool {
    let (pattern, host): (Vec<&str>, Vec<&str>) = (pattern.split('.').collect(), host.split('.').collect());
    let is_label =
        |(at, (pattern, label)): (usize, (&&str, &&str))| at == 0 && *pattern == "*" || pattern == label;
    pattern.len() == host.len() && pattern.iter().zip(&host).enumerate().all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mailboxes_have_a_local_part_and_a_domain() {
        for text in ["a@b", "a.b@c.d", "\"a b\"@c", "a\\@b@c", "\"\\\"\"@c", "a@"] {
            assert!(Mailbox::parse(text).is_some(), "{text}");
        }
        for text in ["", "a", "@b", ".a@b", "a.@b", "a..b@c", "a@b.", "a@.b", "a@b c", "\"a@b", "a b@c"] {
            assert!(Mailbox::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn hosts_match_names_and_addresses() {
        let is = |host: &str, name: &str| is_for_host(host, &[name], &[&[10, 0, 0, 1]]);
        for (host, name) in [
            ("a.example.com", "*.example.com"),
            ("A.example.com.", "a.Example.com"),
            ("10.0.0.1", ""),
            ("[::ffff:10.0.0.1]", ""),
            ("a b", "A B"),
        ] {
            assert!(is(host, name), "{host} {name}");
        }
        for (host, name) in [
            ("a.b.example.com", "*.example.com"),
            ("example.com", "*.example.com"),
            ("10.0.0.2", "10.0.0.2"),
            ("", ""),
            (".", "."),
            ("a", "*"),
            ("a", "a."),
        ] {
            assert!(!is(host, name), "{host} {name}");
        }
    }
}
