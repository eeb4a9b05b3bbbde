//! Parses and formats URIs in certificates like Go's package [net/url](https://pkg.go.dev/net/url).

use std::net::Ipv6Addr;

use regorus::Value;

use super::json::Writer;
use crate::extensions::uris::{Hierarchy, port_of, scheme};

/// A part of a URI. The part determines which characters need no encoding.
#[derive(Clone, Copy, PartialEq, Eq)]
enum UrlComponent {
    Path,
    Host,
    /// The zone of an IPv6 address. Unlike in hosts, most characters may be encoded.
    Zone,
    User,
    Fragment,
}

impl UrlComponent {
    /// Whether `byte` needs no encoding in this part.
    fn has(self, byte: u8) -> bool {
        let more: &[u8] = match self {
            Self::Path => b"$&+,/:;=@",
            Self::Host | Self::Zone => b"!$&'()*+,;=:[]<>\"",
            Self::User => b"$&+,;=",
            Self::Fragment => b"$&+,/:;=?@!()*",
        };
        byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) || more.contains(&byte)
    }

    fn escaped(self, text: &[u8]) -> Vec<u8> {
        let mut escaped = Vec::with_capacity(text.len());
        for byte in text {
            if self.has(*byte) {
                escaped.push(*byte);
            } else {
                escaped.extend(format!("%{byte:02X}").bytes());
            }
        }
        escaped
    }

    fn unescaped(self, text: &[u8]) -> Option<Vec<u8>> {
        let mut unescaped = Vec::with_capacity(text.len());
        let is_host = matches!(self, Self::Host | Self::Zone);
        let mut rest = text;
        while let Some((&byte, after)) = rest.split_first() {
            rest = after;
            if byte != b'%' {
                if is_host && byte < 0x80 && !self.has(byte) {
                    return None;
                }
                unescaped.push(byte);
                continue;
            }
            let (digits, after) = rest.split_at_checked(2)?;
            let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
            let byte = digit(digits[0])? << 4 | digit(digits[1])?;
            let is_allowed = match self {
                Self::Host => byte >= 0x80 || byte == b'%',
                Self::Zone => byte == b'%' || byte == b' ' || Self::Host.has(byte),
                _ => true,
            };
            if !is_allowed {
                return None;
            }
            unescaped.push(byte);
            rest = after;
        }
        Some(unescaped)
    }
}

/// A URI.
#[derive(Debug, Default)]
pub(super) struct Url {
    scheme: String,
    opaque: Vec<u8>,
    user: Option<User>,
    /// The host, with the port.
    pub(super) host: Vec<u8>,
    path: Vec<u8>,
    /// The path as written, if Go would write it in another way.
    raw_path: Vec<u8>,
    omit_host: bool,
    force_query: bool,
    raw_query: Vec<u8>,
    fragment: Vec<u8>,
    raw_fragment: Vec<u8>,
}

#[derive(Debug)]
struct User {
    name: Vec<u8>,
    password: Option<Vec<u8>>,
}

impl Url {
    /// Parses `text`, which is ASCII; `None` if it is invalid.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (text, fragment) = text.split_once('#').unwrap_or((text, ""));
        let mut url = Self::without_fragment(text)?;
        url.fragment = UrlComponent::Fragment.unescaped(fragment.as_bytes())?;
        if UrlComponent::Fragment.escaped(&url.fragment) != fragment.as_bytes() {
            url.raw_fragment = fragment.into();
        }
        Some(url)
    }

    fn without_fragment(text: &str) -> Option<Self> {
        if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
            return None;
        }
        if text == "*" {
            return Some(Self { path: b"*".into(), ..Self::default() });
        }
        let (scheme, rest) = scheme(text)?;
        let mut url = Self { scheme: scheme.to_ascii_lowercase(), ..Self::default() };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        url.force_query = query.is_empty() && text.ends_with('?');
        url.raw_query = query.into();
        let (authority, path) = match Hierarchy::parse(scheme, rest)? {
            Hierarchy::Opaque => {
                url.opaque = rest.into();
                return Some(url);
            }
            Hierarchy::Path { authority, path } => (authority, path),
        };
        match authority {
            Some(authority) => (url.user, url.host) = authority_parts(&url.scheme, authority)?,
            None => url.omit_host = !scheme.is_empty() && rest.starts_with('/'),
        }
        url.path = UrlComponent::Path.unescaped(path.as_bytes())?;
        if UrlComponent::Path.escaped(&url.path) != path.as_bytes() {
            url.raw_path = path.into();
        }
        Some(url)
    }

    /// The fields of Go's `URL`. The user is an empty object, because the fields of Go's `Userinfo` are private.
    pub(super) fn value(&self, writer: &mut Writer) -> Value {
        let user = self.user.as_ref().map_or(Value::Null, |_| Value::new_object());
        let [opaque, host, path, raw_path, raw_query, fragment, raw_fragment] = [
            &self.opaque,
            &self.host,
            &self.path,
            &self.raw_path,
            &self.raw_query,
            &self.fragment,
            &self.raw_fragment,
        ]
        .map(|part| writer.lossy(part));
        let scheme = writer.text(&self.scheme);
        writer.object([
            ("Scheme", scheme),
            ("Opaque", opaque),
            ("User", user),
            ("Host", host),
            ("Path", path),
            ("RawPath", raw_path),
            ("OmitHost", self.omit_host.into()),
            ("ForceQuery", self.force_query.into()),
            ("RawQuery", raw_query),
            ("Fragment", fragment),
            ("RawFragment", raw_fragment),
        ])
    }

    /// The URI as Go writes it.
    pub(super) fn text(&self) -> Vec<u8> {
        let mut text = Vec::new();
        if !self.scheme.is_empty() {
            text.extend(self.scheme.bytes());
            text.push(b':');
        }
        if self.opaque.is_empty() {
            self.hierarchy(&mut text);
        } else {
            text.extend(&self.opaque);
        }
        if self.force_query || !self.raw_query.is_empty() {
            text.push(b'?');
            text.extend(&self.raw_query);
        }
        if !self.fragment.is_empty() {
            text.push(b'#');
            text.extend(encoded(UrlComponent::Fragment, &self.raw_fragment, &self.fragment));
        }
        text
    }

    /// Writes the authority and the path.
    fn hierarchy(&self, text: &mut Vec<u8>) {
        let has_authority = !self.host.is_empty() || self.user.is_some();
        let may_have_authority = !self.scheme.is_empty() || has_authority;
        if may_have_authority && (has_authority || !self.omit_host) {
            if has_authority || !self.path.is_empty() {
                text.extend(b"//");
            }
            if let Some(user) = &self.user {
                text.extend(UrlComponent::User.escaped(&user.name));
                if let Some(password) = &user.password {
                    text.push(b':');
                    text.extend(UrlComponent::User.escaped(password));
                }
                text.push(b'@');
            }
            text.extend(UrlComponent::Host.escaped(&self.host));
        }
        let path = encoded(UrlComponent::Path, &self.raw_path, &self.path);
        if !path.is_empty() && path[0] != b'/' && !self.host.is_empty() {
            text.push(b'/');
        }
        let is_first = text.is_empty();
        if is_first && path.split(|byte| *byte == b'/').next().is_some_and(|segment| segment.contains(&b':'))
        {
            text.extend(b"./");
        }
        text.extend(path);
    }
}

/// The encoded text of a part: `raw`, the original encoding, if it is valid; otherwise `text`, encoded anew.
fn encoded(part: UrlComponent, raw: &[u8], text: &[u8]) -> Vec<u8> {
    let is_valid =
        !raw.is_empty() && raw.iter().all(|byte| b"!$&'()*+,;=:@[]%".contains(byte) || part.has(*byte));
    if is_valid {
        return raw.to_vec();
    }
    // Go writes the path `*` unchanged.
    if part == UrlComponent::Path && text == b"*" {
        return text.to_vec();
    }
    part.escaped(text)
}

/// The user, and the host with the port.
fn authority_parts(scheme: &str, authority: &str) -> Option<(Option<User>, Vec<u8>)> {
    let Some((user, host)) = authority.rsplit_once('@') else {
        return Some((None, host_and_port(scheme, authority)?));
    };
    let host = host_and_port(scheme, host)?;
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
    if !user.bytes().all(is_valid) {
        return None;
    }
    let unescaped = |text: &str| UrlComponent::User.unescaped(text.as_bytes());
    let user = match user.split_once(':') {
        Some((name, password)) => User { name: unescaped(name)?, password: Some(unescaped(password)?) },
        None => User { name: unescaped(user)?, password: None },
    };
    Some((Some(user), host))
}

fn host_and_port(scheme: &str, host: &str) -> Option<Vec<u8>> {
    match host.rfind('[') {
        Some(0) => {
            let (address, port) = host[1..].rsplit_once(']')?;
            let port = Some(port).filter(|port| port_of(port).is_some())?;
            let (address, zone) = address.split_at(address.find("%25").unwrap_or(address.len()));
            let address = UrlComponent::Host.unescaped(address.as_bytes())?;
            let zone = UrlComponent::Zone.unescaped(zone.as_bytes())?;
            // The zone must have a name. As in Go, a `%` in the decoded address begins a zone, too.
            let whole = [address, zone].concat();
            let (parsed, name) = match whole.iter().position(|byte| *byte == b'%') {
                Some(at) => (&whole[..at], Some(&whole[at + 1..])),
                None => (&whole[..], None),
            };
            str::from_utf8(parsed).ok()?.parse::<Ipv6Addr>().ok()?;
            if name.is_some_and(<[u8]>::is_empty) {
                return None;
            }
            Some([b"[", &whole[..], b"]", port.as_bytes()].concat())
        }
        Some(_) => None,
        None => {
            let is_web = scheme == "http" || scheme == "https";
            let colon = if is_web { host.find(':') } else { host.rfind(':') };
            port_of(&host[colon.unwrap_or(host.len())..])?;
            UrlComponent::Host.unescaped(host.as_bytes())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_are_written_as_in_go() {
        let written = |text: &str| Url::parse(text).map(|url| String::from_utf8(url.text()).unwrap());
        for (text, expected) in [
            ("spiffe://example.com/a", "spiffe://example.com/a"),
            ("HTTP://u:p%40@Example.com:80/a%2Fb?q#f", "http://u:p%40@Example.com:80/a%2Fb?q#f"),
            ("urn:a:b", "urn:a:b"),
            ("file:///a", "file:///a"),
            ("file:/a", "file:/a"),
            ("a?", "a?"),
            ("", ""),
            ("*", "*"),
            ("a b", "a%20b"),
            ("//a/b", "//a/b"),
            ("http://[::1]:80/", "http://[::1]:80/"),
            ("http://[fe80::1%25en0]/", "http://[fe80::1%25en0]/"),
            ("x:///a", "x:///a"),
            ("a#%zz", ""),
        ] {
            let expected = (!expected.is_empty() || text.is_empty()).then(|| expected.to_owned());
            assert_eq!(written(text), expected, "{text}");
        }
        for text in
            [":a", "a:b/c d\u{7f}", "1a:b", "http://a:b:1", "http://[1.2.3.4]", "http://a]:x", "http://%41"]
        {
            assert_eq!(written(text), None, "{text}");
        }
    }
}
