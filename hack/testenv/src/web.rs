//! `policy-sync web` while it runs.

use std::process::Command;

use anyhow::{Context, Result};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;

use crate::http::{Answer, request, send};
use crate::running::Running;

/// The pages, for whoever has their key.
#[derive(Debug)]
pub struct Pages {
    /// What serves them.
    pub process: Running,
    /// `127.0.0.1:<port>`.
    pub host: String,
    /// What the address has behind `?key=`.
    pub key: String,
}

/// The host and the key of an address that was printed.
///
/// # Errors
///
/// Where it is none.
pub fn parts(address: &str) -> Result<(&str, &str)> {
    let parts = address.strip_prefix("http://").and_then(|rest| rest.split_once("/?key="));
    parts.with_context(|| format!("{address:?} is no address with a key"))
}

/// The header that shows the key.
pub fn cookie(host: &str, key: &str) -> String {
    let port = host.split_once(':').map_or("", |(_, port)| port);
    format!("Cookie: policy-sync-{port}={key}")
}

impl Pages {
    /// Starts `command`, which prints an address.
    ///
    /// # Panics
    ///
    /// Where it does not.
    #[allow(clippy::unwrap_used)]
    pub async fn start(command: Command) -> Self {
        let process = Running::start(command);
        let lines = process.prints("its address", |line| line.starts_with("http://")).await;
        let (host, key) = parts(lines.last().unwrap()).unwrap();
        Self { host: host.to_owned(), key: key.to_owned(), process }
    }

    /// The address that it printed.
    pub fn address(&self) -> String {
        format!("http://{}/?key={}", self.host, self.key)
    }

    /// The header that shows the key.
    pub fn cookie(&self) -> String {
        cookie(&self.host, &self.key)
    }

    /// The line of the host.
    pub fn host_line(&self) -> String {
        format!("Host: {}", self.host)
    }

    /// A page.
    ///
    /// # Errors
    ///
    /// Where it does not answer.
    pub async fn get(&self, path: &str) -> Result<Answer> {
        let request = request(&format!("GET {path}"), &[&self.host_line(), &self.cookie()]);
        send(&self.host, &request).await
    }

    /// What is told to a tab, from now on.
    ///
    /// # Errors
    ///
    /// Where it does not answer.
    pub async fn events(&self) -> Result<Events> {
        let mut stream = TcpStream::connect(&self.host).await.context("connecting")?;
        let request = request("GET /events", &[&self.host_line(), &self.cookie()]);
        stream.write_all(&request).await.context("asking for what changes")?;
        let mut events = Events(BufReader::new(stream).lines());
        // The head, which ends once it listens.
        while !events.line().await?.is_empty() {}
        Ok(events)
    }
}

/// Lines that are told.
#[derive(Debug)]
pub struct Events(Lines<BufReader<TcpStream>>);

impl Events {
    async fn line(&mut self) -> Result<String> {
        self.0.next_line().await.context("reading what changes")?.context("nothing more is told")
    }

    /// The next one: the addresses of what has changed.
    ///
    /// # Errors
    ///
    /// Where the connection ends.
    pub async fn next(&mut self) -> Result<String> {
        loop {
            if let Some(told) = self.line().await?.strip_prefix("data: ") {
                return Ok(told.to_owned());
            }
        }
    }
}
