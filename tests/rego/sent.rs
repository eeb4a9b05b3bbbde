//! Sends raw HTTP requests to the port of the webhooks.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use policy_sync_testenv::webhooks::Webhooks;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Connects to `webhooks`, whose certificate is in files.
pub(crate) async fn connect(webhooks: &Webhooks) -> Result<TlsStream<TcpStream>> {
    connect_from(webhooks, Ipv4Addr::LOCALHOST).await
}

/// Connects from the local address `from`.
pub(crate) async fn connect_from(webhooks: &Webhooks, from: Ipv4Addr) -> Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(webhooks.authority()?.as_bytes())?)?;
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let socket = TcpSocket::new_v4()?;
    socket.bind((from, 0).into())?;
    let stream = socket.connect((Ipv4Addr::LOCALHOST, webhooks.port()).into()).await?;
    let name = ServerName::try_from("localhost")?;
    Ok(TlsConnector::from(Arc::new(config)).connect(name, stream).await?)
}

/// The code and the text of the response to a request with this head and body.
pub(crate) async fn ask(webhooks: &Webhooks, head: &str, body: &[u8]) -> Result<(u16, String)> {
    let mut stream = connect(webhooks).await?;
    stream.write_all(format!("{head}\r\nHost: localhost\r\nConnection: close\r\n\r\n").as_bytes()).await?;
    // The server may reject the head and close the connection before the body is sent.
    let _ = stream.write_all(body).await;
    let _ = stream.flush().await;
    read(stream).await
}

/// The response to a request with this head and a body that is sent slowly.
pub(crate) async fn drip(webhooks: &Webhooks, head: &str) -> Result<(u16, String)> {
    let (answers, mut sends) = tokio::io::split(connect(webhooks).await?);
    let head = format!("{head}\r\nContent-Length: 1000\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    sends.write_all(head.as_bytes()).await?;
    let dripping = async move {
        let mut every = tokio::time::interval(Duration::from_millis(500));
        while sends.write_all(b" ").await.is_ok() && sends.flush().await.is_ok() {
            every.tick().await;
        }
        // The server may close the connection after its response.
        std::future::pending().await
    };
    tokio::select! {
        answer = read(answers) => answer,
        () = dripping => bail!("the client has stopped sending"),
    }
}

async fn read(mut stream: impl AsyncRead + Unpin) -> Result<(u16, String)> {
    let mut answer = Vec::new();
    // An error after the response is ignored.
    let _ = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").context("no response")?;
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok()).context("no status code")?;
    Ok((code, body.to_owned()))
}

/// The review of a dry run that creates `object`. `plural` is the name of the object's resource.
pub(crate) fn review(plural: &str, object: &Value) -> Vec<u8> {
    let (group, version) =
        object["apiVersion"].as_str().unwrap_or_default().rsplit_once('/').unwrap_or(("", "v1"));
    let request = json!({"uid": "u", "operation": "CREATE", "dryRun": true, "object": object,
        "kind": {"group": group, "version": version, "kind": object["kind"]},
        "resource": {"group": group, "version": version, "resource": plural},
        "name": object["metadata"]["name"], "namespace": object["metadata"]["namespace"],
        "userInfo": {"username": "somebody"}});
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
    review.to_string().into_bytes()
}

/// A connection for several requests.
pub(crate) struct Connection(TlsStream<TcpStream>);

impl Connection {
    /// Connects to `webhooks`, whose certificate is in files.
    pub(crate) async fn open(webhooks: &Webhooks) -> Result<Self> {
        connect(webhooks).await.map(Self)
    }

    /// The response to a POST of `body` to `path`, including the head.
    pub(crate) async fn post(&mut self, path: &str, body: &[u8]) -> Result<String> {
        let length = body.len();
        let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json");
        let head = format!("{head}\r\nContent-Length: {length}\r\n\r\n").into_bytes();
        self.0.write_all(&[&head, body].concat()).await?;
        self.0.flush().await?;
        let mut text = Vec::new();
        loop {
            let head = text.windows(4).position(|window| window == b"\r\n\r\n");
            if let Some(head) = head {
                let headers = String::from_utf8_lossy(&text[..head]).to_lowercase();
                let length = headers
                    .lines()
                    .find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
                if text.len() >= head + 4 + length.context("no Content-Length")? {
                    return Ok(String::from_utf8_lossy(&text).into_owned());
                }
            }
            let mut part = [0; 8 * 1024];
            match tokio::time::timeout(Duration::from_secs(60), self.0.read(&mut part)).await?? {
                0 => bail!("the connection ended"),
                read => text.extend(&part[..read]),
            }
        }
    }
}
