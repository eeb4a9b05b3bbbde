//! The real Open Policy Agent, as a server of its own.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use http::{Request, StatusCode};
use kube::Client;
use kube::client::Body;
use kube::config::{AuthInfo, Config};
use serde_json::Value;

use crate::binaries;
use crate::ports::Port;
use crate::process::{Server, Workplace};
use crate::wait;

/// How long it may take to start on a busy machine.
const STARTS_WITHIN: Duration = Duration::from_secs(30);

/// An OPA on 127.0.0.1. Dropping it stops it.
#[derive(Debug)]
pub struct Opa {
    program: PathBuf,
    workplace: Workplace,
    arguments: Vec<String>,
    port: Port,
    is_secure: bool,
    token: Option<String>,
    server: Option<Server>,
}

impl Opa {
    /// One that reads both syntaxes, with nothing in it.
    ///
    /// # Errors
    ///
    /// Where it does not start.
    pub async fn start() -> Result<Self> {
        Self::with(&[], None).await
    }

    /// One with `more` arguments, which wants this token where they say that it wants one.
    ///
    /// # Errors
    ///
    /// Where it does not start.
    pub async fn with(more: &[String], token: Option<&str>) -> Result<Self> {
        let (program, port) = (binaries::opa().await?, Port::reserve()?);
        let address = format!("127.0.0.1:{}", port.number());
        let arguments = ["run", "--server", "--v0-compatible", "--disable-telemetry", "--log-level=error"];
        let arguments = arguments.map(str::to_owned).into_iter();
        let arguments = arguments.chain([format!("--addr={address}")]).chain(more.iter().cloned()).collect();
        let mut opa = Self {
            program,
            workplace: Workplace::temporary("opa")?,
            arguments,
            port,
            is_secure: more.iter().any(|argument| argument.starts_with("--tls-cert-file")),
            token: token.map(str::to_owned),
            server: None,
        };
        opa.start_again().await?;
        Ok(opa)
    }

    /// Where it listens.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}://127.0.0.1:{}", if self.is_secure { "https" } else { "http" }, self.port.number())
    }

    /// Kills it.
    pub fn kill(&mut self) {
        self.server = None;
    }

    /// Starts it again, empty, where it was.
    ///
    /// # Errors
    ///
    /// Where it does not start.
    pub async fn start_again(&mut self) -> Result<()> {
        self.server = None;
        let server = self.server.insert(self.workplace.spawn("opa", &self.program, &self.arguments)?);
        let address = ("127.0.0.1", self.port.number());
        let opened = wait::until("OPA listens", STARTS_WITHIN, || async {
            tokio::net::TcpStream::connect(address).await.context("nobody listens").map(drop)
        });
        opened.await.map_err(|error| server.failure(&format!("did not start: {error:#}")))
    }

    /// Its process id, 0 while it does not run.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.server.as_ref().map_or(0, Server::pid)
    }

    /// A client of its own API.
    ///
    /// # Errors
    ///
    /// Where none can be made.
    pub fn client(&self) -> Result<Client> {
        let mut config = Config::new(self.url().parse()?);
        // What a test asks here is whether the controller trusts it.
        config.accept_invalid_certs = true;
        config.auth_info = AuthInfo { token: self.token.clone().map(Into::into), ..AuthInfo::default() };
        Ok(Client::try_from(config)?)
    }

    /// What it answers to `method` at `path` with this body, and how.
    ///
    /// # Errors
    ///
    /// Where there is no answer, or one that is no JSON.
    pub async fn ask(&self, method: &str, path: &str, body: Vec<u8>) -> Result<(StatusCode, Value)> {
        let request = Request::builder().method(method).uri(path).body(Body::from(body))?;
        let response = self.client()?.send(request).await?;
        let (head, body) = response.into_parts();
        let body = http_body_util::BodyExt::collect(body).await?.to_bytes();
        let value = if body.is_empty() { Value::Null } else { serde_json::from_slice(&body)? };
        Ok((head.status, value))
    }
}
