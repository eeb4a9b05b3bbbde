//! Sends raw HTTP requests, including malformed requests that no HTTP client would send.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// An HTTP response.
#[derive(Debug)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The headers, with names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The rest of the response, not decoded.
    pub body: String,
}

impl Response {
    /// The value of the header with this lowercase name. Empty if the header is missing.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(String::as_str).unwrap_or_default()
    }
}

/// Sends `request` to `host` unchanged, and reads the response until the connection ends.
///
/// # Errors
///
/// Returns an error if the connection fails or the response cannot be parsed.
pub async fn send(host: &str, request: &[u8]) -> Result<Response> {
    let mut stream = TcpStream::connect(host).await.context("connecting")?;
    // The server may respond and close the connection before it has read everything.
    let _ = stream.write_all(request).await;
    let mut response = Vec::new();
    let ended = stream.read_to_end(&mut response).await;
    if response.is_empty() {
        ended.context("reading the response")?;
    }
    let text = String::from_utf8_lossy(&response);
    let (head, body) =
        text.split_once("\r\n\r\n").with_context(|| format!("incomplete response: {text:?}"))?;
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).context("no status code")?.parse()?;
    let headers = lines.filter_map(|line| line.split_once(": "));
    let headers = headers.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect();
    Ok(Response { status, headers, body: body.to_owned() })
}

/// A request with these header lines and `Connection: close`.
pub fn request(line: &str, headers: &[&str]) -> Vec<u8> {
    let mut text = format!("{line} HTTP/1.1\r\n");
    for header in headers.iter().chain(&["Connection: close"]) {
        text.push_str(header);
        text.push_str("\r\n");
    }
    (text + "\r\n").into_bytes()
}
