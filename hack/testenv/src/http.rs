//! Requests byte by byte: what a browser would never send is asked here.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// What a request was answered.
#[derive(Debug)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its headers, with names in lower case.
    pub headers: BTreeMap<String, String>,
    /// All that follows.
    pub body: String,
}

impl Answer {
    /// The header of this name, in lower case; empty where there is none.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(String::as_str).unwrap_or_default()
    }
}

/// Sends `request` to `host` as it is, and reads all that comes until the end.
///
/// # Errors
///
/// Where nobody answers.
pub async fn send(host: &str, request: &[u8]) -> Result<Answer> {
    let mut stream = TcpStream::connect(host).await.context("connecting")?;
    // One that has read enough answers, and reads no more.
    let _ = stream.write_all(request).await;
    let mut answer = Vec::new();
    let ended = stream.read_to_end(&mut answer).await;
    if answer.is_empty() {
        ended.context("reading an answer")?;
    }
    let text = String::from_utf8_lossy(&answer);
    let (head, body) = text.split_once("\r\n\r\n").with_context(|| format!("no answer: {text:?}"))?;
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).context("no status")?.parse()?;
    let headers = lines.filter_map(|line| line.split_once(": "));
    let headers = headers.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect();
    Ok(Answer { status, headers, body: body.to_owned() })
}

/// A request with these header lines, after which the connection ends.
pub fn request(line: &str, headers: &[&str]) -> Vec<u8> {
    let mut text = format!("{line} HTTP/1.1\r\n");
    for header in headers.iter().chain(&["Connection: close"]) {
        text.push_str(header);
        text.push_str("\r\n");
    }
    (text + "\r\n").into_bytes()
}
