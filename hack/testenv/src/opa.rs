//! Runs the real Open Policy Agent as a server.

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
use crate::process::{RuntimeDirectory, Server};
use crate::wait;

/// Time limit for the start on a busy machine.
const STARTS_WITHIN: Duration = Duration::from_secs(30);

/// An OPA server on 127.0.0.1. Dropping it stops the server.
#[derive(Debug)]
pub struct Opa {
    program: PathBuf,
    runtime_directory: RuntimeDirectory,
    arguments: Vec<String>,
    port: Port,
    is_secure: bool,
    token: Option<String>,
    server: Option<Server>,
}

impl Opa {
    /// Starts an empty server that accepts both Rego syntaxes.
    ///
    /// # Errors
    ///
    /// Returns an error if the server does not start.
    pub async fn start() -> Result<Self> {
        Self::with(&[], None).await
    }

    /// Starts a server with additional arguments. Clients send `token`.
    ///
    /// # Errors
    ///
    /// Returns an error if the server does not start.
    pub async fn with(more: &[String], token: Option<&str>) -> Result<Self> {
        let (program, port) = (binaries::opa().await?, Port::reserve()?);
        let address = format!("127.0.0.1:{}", port.number());
        let arguments = ["run", "--server", "--v0-compatible", "--disable-telemetry", "--log-level=error"];
        let arguments = arguments.map(str::to_owned).into_iter();
        let arguments = arguments.chain([format!("--addr={address}")]).chain(more.iter().cloned()).collect();
        let mut opa = Self {
            program,
            runtime_directory: RuntimeDirectory::temporary("opa")?,
            arguments,
            port,
            is_secure: more.iter().any(|argument| argument.starts_with("--tls-cert-file")),
            token: token.map(str::to_owned),
            server: None,
        };
        opa.start_again().await?;
        Ok(opa)
    }

    /// The server's URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}://127.0.0.1:{}", if self.is_secure { "https" } else { "http" }, self.port.number())
    }

    /// Kills the server.
    pub fn kill(&mut self) {
        self.server = None;
    }

    /// Restarts the server at the same address, without its data.
    ///
    /// # Errors
    ///
    /// Returns an error if the server does not start.
    pub async fn start_again(&mut self) -> Result<()> {
        self.server = None;
        let server =
            self.server.insert(self.runtime_directory.spawn("opa", &self.program, &self.arguments)?);
        let address = ("127.0.0.1", self.port.number());
        let opened = wait::until("OPA accepts connections", STARTS_WITHIN, || async {
            tokio::net::TcpStream::connect(address).await.context("connecting to OPA").map(drop)
        });
        opened.await.map_err(|error| server.failure(&format!("did not start: {error:#}")))
    }

    /// The process id, 0 if the server is not running.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.server.as_ref().map_or(0, Server::pid)
    }

    /// A client of OPA's REST API.
    ///
    /// # Errors
    ///
    /// Returns an error if the client cannot be created.
    pub fn client(&self) -> Result<Client> {
        let mut config = Config::new(self.url().parse()?);
        // Tests check how the controller verifies the certificate, not how this client does.
        config.accept_invalid_certs = true;
        config.auth_info = AuthInfo { token: self.token.clone().map(Into::into), ..AuthInfo::default() };
        Ok(Client::try_from(config)?)
    }

    /// Sends a request and returns the response's status and JSON.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no response, or its body is not JSON.
    pub async fn ask(&self, method: &str, path: &str, body: Vec<u8>) -> Result<(StatusCode, Value)> {
        let request = Request::builder().method(method).uri(path).body(Body::from(body))?;
        let response = self.client()?.send(request).await?;
        let (head, body) = response.into_parts();
        let body = http_body_util::BodyExt::collect(body).await?.to_bytes();
        let value = if body.is_empty() { Value::Null } else { serde_json::from_slice(&body)? };
        Ok((head.status, value))
    }
}
