//! The syntax of names in Kubernetes ([Object Names and
//! IDs](https://kubernetes.io/docs/concepts/overview/working-with-objects/names/),
//! [Labels](https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set)).
//!
//! Names are used in request paths and selectors, so invalid names must be rejected first.

/// The maximum length of a DNS label, of a label value, of the name part of a label key, and of a kind.
pub const LABEL_LIMIT: usize = 63;
/// The maximum length of a DNS subdomain.
pub const SUBDOMAIN_LIMIT: usize = 253;

fn is_lowercase(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit()
}

/// Whether `text` is not empty, its first and last characters satisfy `edge`, and all characters satisfy `inner`.
fn is_made_of(text: &str, edge: fn(char) -> bool, inner: impl Fn(char) -> bool) -> bool {
    text.starts_with(edge) && text.ends_with(edge) && text.chars().all(inner)
}

fn is_part(text: &str) -> bool {
    is_made_of(text, is_lowercase, |c| is_lowercase(c) || c == '-')
}

/// Whether `text` is a DNS label (RFC 1123), as the names of namespaces and clusters must be.
#[must_use]
pub fn is_dns_label(text: &str) -> bool {
    text.len() <= LABEL_LIMIT && is_part(text)
}

/// Whether `text` is a DNS subdomain (RFC 1123), as the names of most objects, API groups and listeners must be.
#[must_use]
pub fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= SUBDOMAIN_LIMIT && text.split('.').all(is_part)
}

/// Whether `text` is a valid label value, which may be empty.
#[must_use]
pub fn is_label_value(text: &str) -> bool {
    let alphanumeric = |c: char| c.is_ascii_alphanumeric();
    let inner = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    text.len() <= LABEL_LIMIT && (text.is_empty() || is_made_of(text, alphanumeric, inner))
}

/// Whether `text` is a valid label key: a name, optionally prefixed by a DNS subdomain and `/`.
#[must_use]
pub fn is_label_key(text: &str) -> bool {
    let (prefix, name) = text.split_once('/').map_or((None, text), |(prefix, name)| (Some(prefix), name));
    prefix.is_none_or(is_dns_subdomain) && !name.is_empty() && is_label_value(name)
}

/// Whether `text` is a valid kind, for example `HTTPRoute`.
#[must_use]
pub fn is_kind(text: &str) -> bool {
    let letters = text.starts_with(|c: char| c.is_ascii_alphabetic());
    let inner = |c: char| c.is_ascii_alphanumeric() || c == '-';
    text.len() <= LABEL_LIMIT && letters && is_made_of(text, |c| c.is_ascii_alphanumeric(), inner)
}

#[cfg(test)]
mod tests;
