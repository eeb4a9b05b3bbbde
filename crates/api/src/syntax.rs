//! What Kubernetes takes as a name
//! ([Object Names and IDs](https://kubernetes.io/docs/concepts/overview/working-with-objects/names/),
//! [Labels](https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set)).
//!
//! A name stands in the paths of requests and in selectors: whatever is none must not get that far.

/// The most characters of a DNS label, of a label's value and of the name in its key, and of a kind.
pub const LABEL_LIMIT: usize = 63;
/// The most characters of a DNS subdomain.
pub const SUBDOMAIN_LIMIT: usize = 253;

fn is_lowercase(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit()
}

/// Whether all characters of `text` are `inner`, the first and the last are `edge`, and there is at least one.
fn is_made_of(text: &str, edge: fn(char) -> bool, inner: impl Fn(char) -> bool) -> bool {
    text.starts_with(edge) && text.ends_with(edge) && text.chars().all(inner)
}

fn is_part(text: &str) -> bool {
    is_made_of(text, is_lowercase, |c| is_lowercase(c) || c == '-')
}

/// Whether `text` is a DNS label of RFC 1123: the name of a namespace or of a cluster.
#[must_use]
pub fn is_dns_label(text: &str) -> bool {
    text.len() <= LABEL_LIMIT && is_part(text)
}

/// Whether `text` is a DNS subdomain of RFC 1123: the name of most objects, of an API group, of a listener.
#[must_use]
pub fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= SUBDOMAIN_LIMIT && text.split('.').all(is_part)
}

/// Whether `text` can be the value of a label, be it empty.
#[must_use]
pub fn is_label_value(text: &str) -> bool {
    let alphanumeric = |c: char| c.is_ascii_alphanumeric();
    let inner = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    text.len() <= LABEL_LIMIT && (text.is_empty() || is_made_of(text, alphanumeric, inner))
}

/// Whether `text` can be the key of a label: a name, or a DNS subdomain, `/` and a name.
#[must_use]
pub fn is_label_key(text: &str) -> bool {
    let (prefix, name) = text.split_once('/').map_or((None, text), |(prefix, name)| (Some(prefix), name));
    prefix.is_none_or(is_dns_subdomain) && !name.is_empty() && is_label_value(name)
}

/// Whether `text` can be the name of a kind in objects, as in `HTTPRoute`.
#[must_use]
pub fn is_kind(text: &str) -> bool {
    let letters = text.starts_with(|c: char| c.is_ascii_alphabetic());
    let inner = |c: char| c.is_ascii_alphanumeric() || c == '-';
    text.len() <= LABEL_LIMIT && letters && is_made_of(text, |c| c.is_ascii_alphanumeric(), inner)
}

#[cfg(test)]
mod tests;
