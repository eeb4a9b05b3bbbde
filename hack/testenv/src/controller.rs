//! Runs the controller under test as a separate process, with a separate user on the hub.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::ControlPlane;
use crate::audit::{self, Request};
use crate::certificates::User;
use crate::metrics::Metrics;
use crate::ports::Port;
use crate::process::Server;
use crate::proxy::Proxy;
use crate::wait;

/// Time limit for a start or a stop on a busy machine.
const LIMIT: Duration = Duration::from_secs(180);

/// Period without writes after which the controller counts as settled. This period is longer than the batching window
/// and the delay for rewritten PlacementDecisions together.
const QUIET: Duration = Duration::from_secs(7);
/// Time limit for settling.
const SETTLED_WITHIN: Duration = Duration::from_secs(60);
/// Flag for the duration of the Lease. After a crash, the next controller waits for this duration.
const LEASE: &str = "--leader-elect-lease-duration";
/// A lease duration in seconds that is shorter than the default, for fast takeovers.
const LEASE_SECONDS: u32 = 3;

/// A running controller. Dropping it kills the process.
#[derive(Debug)]
pub struct Controller {
    server: Server,
    user: User,
    probes: Port,
    metrics: Port,
}

impl Controller {
    /// Starts `binary` (`policy-sync`) on `hub` as an administrator, and waits until it is ready and the leader.
    ///
    /// # Errors
    ///
    /// Returns an error with the end of the log if the controller does not start, or is not ready and the leader in
    /// time.
    pub async fn start(binary: &Path, hub: &ControlPlane, arguments: &[&str]) -> Result<Self> {
        let mut controller = Self::launch(binary, hub, arguments, None)?;
        controller.ready().await?;
        controller.leads().await?;
        Ok(controller)
    }

    /// Starts `binary` with the rights of `user`, by default an administrator. Does not wait until the controller is
    /// ready.
    ///
    /// # Errors
    ///
    /// Returns an error if the process cannot be started.
    pub fn launch(binary: &Path, hub: &ControlPlane, arguments: &[&str], user: Option<User>) -> Result<Self> {
        let name = name();
        let user = user.unwrap_or_else(|| User::new(&name).in_group("system:masters"));
        let kubeconfig: PathBuf = hub.kubeconfig_for(&user)?;
        Self::spawn(binary, hub, arguments, (&name, user, &kubeconfig), &[])
    }

    /// Starts `binary` as an administrator with trace logs of the controller and its libraries. Does not wait until the
    /// controller is ready.
    ///
    /// # Errors
    ///
    /// Returns an error if the process cannot be started.
    pub fn launch_traced(binary: &Path, hub: &ControlPlane, arguments: &[&str]) -> Result<Self> {
        let name = name();
        let user = User::new(&name).in_group("system:masters");
        let kubeconfig: PathBuf = hub.kubeconfig_for(&user)?;
        Self::spawn(binary, hub, arguments, (&name, user, &kubeconfig), &[("RUST_LOG", "trace")])
    }

    /// Starts `binary` with a connection to `hub` through a proxy. Does not wait until the controller is ready.
    ///
    /// # Errors
    ///
    /// Returns an error if the process cannot be started.
    pub fn launch_behind(
        proxy: &Proxy,
        binary: &Path,
        hub: &ControlPlane,
        arguments: &[&str],
    ) -> Result<Self> {
        Self::spawn(binary, hub, arguments, (&name(), proxy.user().clone(), proxy.kubeconfig()), &[])
    }

    fn spawn(
        binary: &Path,
        hub: &ControlPlane,
        arguments: &[&str],
        (name, user, kubeconfig): (&str, User, &Path),
        environment: &[(&str, &str)],
    ) -> Result<Self> {
        let (probes, metrics) = (Port::reserve()?, Port::reserve()?);
        let mut all = vec![
            "controller".to_owned(),
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--health-probe-bind-address=127.0.0.1:{}", probes.number()),
            format!("--metrics-bind-address=127.0.0.1:{}", metrics.number()),
        ];
        if !arguments.iter().any(|argument| argument.starts_with(LEASE)) {
            all.push(format!("{LEASE}={LEASE_SECONDS}s"));
        }
        // By default, controllers store no topology: all controllers of a hub would write the same ConfigMap.
        if !arguments.iter().any(|argument| argument.starts_with("--topology")) {
            all.push("--topology=false".to_owned());
        }
        all.extend(arguments.iter().map(|argument| (*argument).to_owned()));
        let server = hub.runtime_directory().spawn_with(name, binary, &all, environment)?;
        Ok(Self { server, user, probes, metrics })
    }

    /// Waits until the controller is ready.
    ///
    /// # Errors
    ///
    /// Returns an error if the process ends or is not ready in time.
    pub async fn ready(&mut self) -> Result<()> {
        let port = self.probes.number();
        let mut ended = Ok(());
        wait::until("the controller is ready", LIMIT, || {
            ended = self.server.check();
            let has_ended = ended.is_err();
            async move {
                // The process has ended: stop waiting.
                if has_ended {
                    return Ok(());
                }
                let (code, text) = get(port, "/readyz").await?;
                ensure!(code == 200, "{text}");
                Ok(())
            }
        })
        .await?;
        ended
    }

    /// Waits until the controller is the leader.
    ///
    /// # Errors
    ///
    /// Returns an error if the controller is not the leader in time.
    pub async fn leads(&self) -> Result<()> {
        wait::until("the controller is the leader", LIMIT, || async {
            ensure!(self.is_leader().await?, "{}", self.server.failure("is not the leader"));
            Ok(())
        })
        .await
    }

    /// Whether the controller is the leader according to its metrics.
    ///
    /// # Errors
    ///
    /// Returns an error if the metrics cannot be read.
    pub async fn is_leader(&self) -> Result<bool> {
        Ok(self.metrics().await?.value("policy_sync_leader", &[])? == 1.0)
    }

    /// Status code and text of `/readyz`.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no response.
    pub async fn readiness(&self) -> Result<(u16, String)> {
        get(self.probes.number(), "/readyz").await
    }

    /// Scrapes `/metrics`.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no response, or if the response cannot be parsed.
    pub async fn metrics(&self) -> Result<Metrics> {
        Metrics::parse(get(self.metrics.number(), "/metrics").await?.1)
    }

    /// The controller's requests to `hub` according to the audit log: writes, gets and lists.
    ///
    /// # Errors
    ///
    /// Returns an error if the audit log cannot be read.
    pub fn requests(&self, hub: &ControlPlane) -> Result<Vec<Request>> {
        audit::requests_of(hub, &self.user.name)
    }

    /// The controller's writes to `hub`, including rejected writes, without Events and Leases.
    ///
    /// # Errors
    ///
    /// Returns an error if the audit log cannot be read.
    pub fn writes(&self, hub: &ControlPlane) -> Result<Vec<Request>> {
        let counts = |request: &Request| {
            request.is_write() && !matches!(request.object().resource.as_str(), "events" | "leases")
        };
        Ok(self.requests(hub)?.into_iter().filter(counts).collect())
    }

    /// Waits until the controller has not written to `hub` for longer than any of the controller's delays. Returns all
    /// writes of the controller.
    ///
    /// # Errors
    ///
    /// Returns an error if the controller does not settle in time.
    pub async fn settled(&self, hub: &ControlPlane) -> Result<Vec<Request>> {
        let mut seen = usize::MAX;
        let mut since = std::time::Instant::now();
        wait::until_seen("the controller stops writing", SETTLED_WITHIN, QUIET / 20, || {
            let writes = self.writes(hub);
            let counted = writes.as_ref().map_or(0, Vec::len);
            if counted != seen {
                seen = counted;
                since = std::time::Instant::now();
            }
            let quiet = since.elapsed();
            async move {
                let writes = writes?;
                ensure!(quiet >= QUIET, "last write {quiet:?} ago: {:?}", writes.last());
                Ok(writes)
            }
        })
        .await
    }

    /// The log file's content.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read.
    pub fn log(&self) -> Result<String> {
        std::fs::read_to_string(self.server.log()).context("reading the controller's log")
    }

    /// The ports of the probes and of the metrics.
    pub fn ports(&self) -> [u16; 2] {
        [self.probes.number(), self.metrics.number()]
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.server.pid()
    }

    /// Sends a signal: `STOP`, `CONT`, `TERM`.
    ///
    /// # Errors
    ///
    /// Returns an error if the process does not exist.
    pub fn signal(&self, name: &str) -> Result<()> {
        let status = Command::new("kill").arg(format!("-{name}")).arg(self.server.pid().to_string()).status();
        ensure!(status.context("sending a signal")?.success(), "the controller does not run");
        Ok(())
    }

    /// Kills the process, as a crash would.
    pub fn kill(self) {
        drop(self);
    }

    /// Sends SIGTERM, waits for the end of the process, and returns the elapsed time.
    ///
    /// # Errors
    ///
    /// Returns an error if the process does not end in time, or ends with a failure.
    pub async fn terminate(mut self) -> Result<Duration> {
        let started = std::time::Instant::now();
        self.signal("TERM")?;
        let ended = wait::until("the controller stops", LIMIT, || {
            let ended = self.server.ended();
            async move { ended?.context("the process still runs") }
        })
        .await?;
        ensure!(ended.success(), "the controller ended with {ended}");
        Ok(started.elapsed())
    }
}

/// A name that is unique in this process.
fn name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("controller-{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

/// A plain HTTP GET to 127.0.0.1, without another dependency.
async fn get(port: u16, path: &str) -> Result<(u16, String)> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.context("connecting")?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.context("sending the request")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.context("reading the response")?;
    let (head, body) = answer.split_once("\r\n\r\n").context("a response without a body")?;
    let code = head
        .split(' ')
        .nth(1)
        .and_then(|code| code.parse().ok())
        .context("a response without a status code")?;
    Ok((code, body.to_owned()))
}
