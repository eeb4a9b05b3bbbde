//! Runs `policy-sync web` and requests its pages.

use std::process::Command;

use anyhow::{Context, Result};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;

use crate::http::{Response, request, send};
use crate::running::Running;

/// A running web server, with the key of its pages.
#[derive(Debug)]
pub struct Pages {
    /// The server's process.
    pub process: Running,
    /// The address of the server, `127.0.0.1:<port>`.
    pub host: String,
    /// The key in the printed address, after `?key=`.
    pub key: String,
}

/// The host and the key in an address that the server printed.
///
/// # Errors
///
/// Returns an error if the address has another form.
pub fn parts(address: &str) -> Result<(&str, &str)> {
    let parts = address.strip_prefix("http://").and_then(|rest| rest.split_once("/?key="));
    parts.with_context(|| format!("{address:?} is not an address with a key"))
}

/// The cookie header with the key.
pub fn cookie(host: &str, key: &str) -> String {
    let port = host.split_once(':').map_or("", |(_, port)| port);
    format!("Cookie: policy-sync-{port}={key}")
}

impl Pages {
    /// Starts `command`, which must print an address.
    ///
    /// # Panics
    ///
    /// If the command prints no address.
    #[allow(clippy::unwrap_used)]
    pub async fn start(command: Command) -> Self {
        let process = Running::start(command);
        let lines = process.prints("the address is printed", |line| line.starts_with("http://")).await;
        let (host, key) = parts(lines.last().unwrap()).unwrap();
        Self { host: host.to_owned(), key: key.to_owned(), process }
    }

    /// The address that the server printed.
    pub fn address(&self) -> String {
        format!("http://{}/?key={}", self.host, self.key)
    }

    /// The cookie header with the key.
    pub fn cookie(&self) -> String {
        cookie(&self.host, &self.key)
    }

    /// The `Host` header.
    pub fn host_line(&self) -> String {
        format!("Host: {}", self.host)
    }

    /// Requests a page.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no response.
    pub async fn get(&self, path: &str) -> Result<Response> {
        let request = request(&format!("GET {path}"), &[&self.host_line(), &self.cookie()]);
        send(&self.host, &request).await
    }

    /// Subscribes to the changes of pages (`/events`).
    ///
    /// # Errors
    ///
    /// Returns an error if there is no response.
    pub async fn events(&self) -> Result<Events> {
        let mut stream = TcpStream::connect(&self.host).await.context("connecting")?;
        let request = request("GET /events", &[&self.host_line(), &self.cookie()]);
        stream.write_all(&request).await.context("requesting events")?;
        let mut events = Events(BufReader::new(stream).lines());
        // Skips the response's head.
        while !events.line().await?.is_empty() {}
        Ok(events)
    }
}

/// A stream of server-sent events.
#[derive(Debug)]
pub struct Events(Lines<BufReader<TcpStream>>);

impl Events {
    async fn line(&mut self) -> Result<String> {
        self.0.next_line().await.context("reading events")?.context("the event stream ended")
    }

    /// The data of the next event: the paths of changed pages.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection ends.
    pub async fn next(&mut self) -> Result<String> {
        loop {
            if let Some(event) = self.line().await?.strip_prefix("data: ") {
                return Ok(event.to_owned());
            }
        }
    }
}
