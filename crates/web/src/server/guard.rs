//! Authentication of `policy-sync web`. Requests need the printed key. They must come from the pages of `policy-sync
//! web` on this machine.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use blake3::Hash;
use form_urlencoded::parse;
use rustls::crypto::CryptoProvider;

use crate::address::FLEET;
use policy_sync_connections::ClientConnection;

/// The length of a key, in random bytes.
const KEY_LENGTH: usize = 16;
/// Maximum length of path and query, in bytes. Kubernetes names are short.
const URL_LIMIT: usize = 4 << 10;

/// The headers of every response: only resources of this origin, no caching and no framing.
pub(super) const HEADERS: [(HeaderName, &str); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
         base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

/// The key for the pages. Each run has a new key.
#[derive(Clone)]
pub struct Key(Arc<str>);

impl Key {
    /// Creates a random key.
    ///
    /// # Errors
    ///
    /// If the system provides no random bytes.
    pub fn new() -> Result<Self, NoRandomBytes> {
        let mut bytes = [0; KEY_LENGTH];
        let provider = CryptoProvider::get_default().ok_or(NoRandomBytes)?;
        provider.secure_random.fill(&mut bytes).map_err(|_| NoRandomBytes)?;
        Ok(Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()))
    }

    /// The key in hexadecimal.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

/// The system provides no random bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot get random bytes from the operating system")]
pub struct NoRandomBytes;

/// Checks each request before it is processed.
#[derive(Clone, Debug)]
pub struct Guard {
    /// `127.0.0.1:<port>`. Another `Host` header means DNS rebinding by a foreign page.
    host: Arc<str>,
    /// The name of the cookie. It includes the port, because cookies are shared by all ports of a host.
    cookie: Arc<str>,
    key: Hash,
    text: Key,
}

impl Guard {
    /// Admits requests with `key` at this port of this machine.
    #[must_use]
    pub fn new(key: Key, port: u16) -> Self {
        Self {
            host: format!("127.0.0.1:{port}").into(),
            cookie: format!("policy-sync-{port}").into(),
            key: blake3::hash(key.as_str().as_bytes()),
            text: key,
        }
    }

    /// The URL of the pages, including the key.
    #[must_use]
    pub fn address(&self) -> String {
        format!("http://{}/?key={}", self.host, self.text.as_str())
    }

    /// Checks `request`, handles it if admitted, and adds the security headers.
    pub(super) async fn handle(self, request: Request, next: Next) -> Response {
        let mut response = match self.check(&request) {
            GuardDecision::LogIn => {
                if let Some(caller) = ClientConnection::of(&request) {
                    caller.prefer();
                }
                next.run(request).await
            }
            GuardDecision::Respond(response) => *response,
        };
        let headers = response.headers_mut();
        for (name, value) in HEADERS {
            headers.insert(name, HeaderValue::from_static(value));
        }
        response
    }

    fn check(&self, request: &Request) -> GuardDecision {
        let (uri, headers) = (request.uri(), request.headers());
        let hosts: Vec<_> = headers.get_all(header::HOST).iter().collect();
        let is_ours = matches!(hosts[..], [host] if host.as_bytes() == self.host.as_bytes());
        if !is_ours || uri.authority().is_some_and(|authority| *authority.as_str() != *self.host) {
            return reject(StatusCode::MISDIRECTED_REQUEST, &format!("expected the host {}\n", self.host));
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut response =
                text_response(StatusCode::METHOD_NOT_ALLOWED, "expected GET: these pages are read-only\n");
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            return GuardDecision::Respond(Box::new(response));
        }
        if uri.path_and_query().is_none_or(|path| path.as_str().len() > URL_LIMIT)
            || !is_canonical(uri.path())
        {
            return reject(StatusCode::NOT_FOUND, "no such page\n");
        }
        if !self.is_of_this_origin(headers) {
            return reject(StatusCode::FORBIDDEN, "requests from other sites are not allowed\n");
        }
        let shown = parse(uri.query().unwrap_or_default().as_bytes()).find(|(name, _)| name == "key");
        if let Some((_, key)) = shown.filter(|_| uri.path() == FLEET)
            && self.is_key(&key)
        {
            return self.log_in();
        }
        if cookies(headers).any(|(name, value)| *name == *self.cookie && self.is_key(value)) {
            return GuardDecision::LogIn;
        }
        reject(
            StatusCode::UNAUTHORIZED,
            "A key is required: open the address that policy-sync web printed.\n",
        )
    }

    /// Sets the key as a cookie, and redirects to the address without the key.
    fn log_in(&self) -> GuardDecision {
        let mut response = text_response(StatusCode::SEE_OTHER, "");
        let cookie = format!("{}={}; HttpOnly; SameSite=Strict; Path=/", self.cookie, self.text.as_str());
        let headers = response.headers_mut();
        headers.insert(header::LOCATION, HeaderValue::from_static(FLEET));
        // The cookie consists of valid characters, because the key is hexadecimal.
        if let Ok(cookie) = HeaderValue::from_str(&cookie) {
            headers.insert(header::SET_COOKIE, cookie);
        }
        GuardDecision::Respond(Box::new(response))
    }

    /// Whether `text` is the key. Compares hashes, in constant time.
    fn is_key(&self, text: &str) -> bool {
        blake3::hash(text.as_bytes()) == self.key
    }

    /// Whether no foreign page sent the request. Opening an address or following a link sends no
    /// `Origin`; browsers mark it as navigation.
    fn is_of_this_origin(&self, headers: &HeaderMap) -> bool {
        let origin = headers.get(header::ORIGIN).map(HeaderValue::as_bytes);
        let is_ours = origin.is_none_or(|origin| origin == format!("http://{}", self.host).as_bytes());
        let value_of = |name: &str| headers.get(name).map(HeaderValue::as_bytes);
        let navigates = value_of("sec-fetch-mode") == Some(b"navigate")
            && value_of("sec-fetch-dest") == Some(b"document");
        let is_same = match value_of("sec-fetch-site") {
            None | Some(b"same-origin" | b"none") => true,
            Some(_) => navigates,
        };
        is_ours && is_same
    }
}

enum GuardDecision {
    LogIn,
    Respond(Box<Response>),
}

fn reject(status: StatusCode, why: &str) -> GuardDecision {
    let mut response = text_response(status, why);
    // Unauthenticated clients must not keep connections open.
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    GuardDecision::Respond(Box::new(response))
}

fn text_response(status: StatusCode, text: &str) -> Response {
    let mut response = Response::new(Body::from(text.to_owned()));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// Whether a path has no parts that servers interpret differently.
fn is_canonical(path: &str) -> bool {
    path.starts_with('/')
        && !path.contains("//")
        && path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-._".contains(&byte))
        && path.split('/').all(|element| !matches!(element, "." | ".."))
}

fn cookies(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    let texts = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    texts.flat_map(|text| text.split(';')).filter_map(|cookie| cookie.trim().split_once('='))
}
