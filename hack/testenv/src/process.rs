//! Servers as child processes that never outlive this process.
//!
//! ```text
//! this process ──spawns──▶ server, server, …
//!       └──pipe──▶ watchdog (sh): kills the servers and removes the directory when the pipe closes
//! ```
//!
//! Dropping a [`Server`] stops it. If nothing is dropped (Ctrl-C, `kill -9`, a value in a `static`), the kernel still
//! closes the pipe to the watchdog, which then kills the servers. Servers are killed without shutdown, because their
//! data is temporary. A restarted etcd finds its writes, which are in the page cache.

use std::fs;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};

/// Reads lines `watch PID` and `forget PID`. At the end of input, kills all watched processes.
const WATCHDOG: &str = r#"
directory=$1 pids=
while read -r word pid; do
    others=
    for other in $pids; do [ "$other" = "$pid" ] || others="$others $other"; done
    pids=$others
    [ "$word" = watch ] && pids="$pids $pid"
done
for pid in $pids; do kill -KILL "$pid" 2>/dev/null; done
[ -z "$directory" ] || rm -rf -- "$directory"
"#;

/// Reports its own process id and then executes the server. So the watchdog watches every running server.
const LAUNCHER: &str = r#"
log=$1
shift
echo "watch $$"
exec "$@" >>"$log" 2>&1
"#;

/// Number of log lines quoted in an error.
const LOG_LINES_IN_ERRORS: usize = 15;

/// A directory for servers' files, with the watchdog that stops the servers and removes the directory.
#[derive(Debug, Clone)]
pub struct RuntimeDirectory {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    watchdog: Mutex<Watchdog>,
}

#[derive(Debug)]
struct Watchdog {
    process: Child,
    orders: Option<ChildStdin>,
}

impl RuntimeDirectory {
    /// A new temporary directory. It is removed with the last server, unless `POLICY_SYNC_TESTENV_KEEP` is set to
    /// keep the logs.
    pub fn temporary(name: &str) -> Result<Self> {
        let path = tempfile::Builder::new()
            .prefix(&format!("policy-sync-{name}-"))
            .tempdir()
            .context("creating a temporary directory")?
            .keep();
        Self::with(path, std::env::var_os("POLICY_SYNC_TESTENV_KEEP").is_none())
    }

    /// The directory `path`, which is kept.
    pub fn lasting(path: &Path) -> Result<Self> {
        fs::create_dir_all(path).with_context(|| format!("creating {}", path.display()))?;
        let path = path.canonicalize().with_context(|| format!("resolving {}", path.display()))?;
        Self::with(path, false)
    }

    fn with(path: PathBuf, remove: bool) -> Result<Self> {
        let mut process = Command::new("sh")
            .args(["-c", WATCHDOG, "policy-sync-watchdog"])
            .arg(if remove { path.as_os_str() } else { "".as_ref() })
            // A separate process group: Ctrl-C signals the terminal's group, and the watchdog must outlive this
            // process.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("starting the watchdog")?;
        let orders = process.stdin.take();
        Ok(Self { inner: Arc::new(Inner { path, watchdog: Mutex::new(Watchdog { process, orders }) }) })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Starts `program`, and appends its output to `<name>.log` in the directory.
    pub fn spawn(&self, name: &str, program: &Path, arguments: &[String]) -> Result<Server> {
        self.spawn_with(name, program, arguments, &[])
    }

    /// Like [`RuntimeDirectory::spawn`], with additional environment variables.
    pub fn spawn_with(
        &self,
        name: &str,
        program: &Path,
        arguments: &[String],
        environment: &[(&str, &str)],
    ) -> Result<Server> {
        let log = self.path().join(format!("{name}.log"));
        anyhow::ensure!(program.is_file(), "{} is not a file", program.display());
        let child = Command::new("sh")
            .args(["-c", LAUNCHER, name])
            .arg(&log)
            .arg(program)
            .args(arguments)
            .envs(environment.iter().copied())
            .current_dir(self.path())
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(self.orders()?)
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("starting {}", program.display()))?;
        Ok(Server { name: name.to_owned(), log, child, runtime_directory: self.clone() })
    }

    /// The write end of the watchdog's pipe, for a launcher.
    fn orders(&self) -> Result<Stdio> {
        let watchdog = self.watchdog();
        let orders = watchdog.orders.as_ref().context("the watchdog has ended")?;
        Ok(orders.as_fd().try_clone_to_owned().context("duplicating the watchdog's pipe")?.into())
    }

    fn forget(&self, pid: u32) -> std::io::Result<()> {
        match &mut self.watchdog().orders {
            Some(orders) => writeln!(orders, "forget {pid}"),
            None => Ok(()),
        }
    }

    fn watchdog(&self) -> MutexGuard<'_, Watchdog> {
        self.inner.watchdog.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let watchdog = self.watchdog.get_mut().unwrap_or_else(PoisonError::into_inner);
        drop(watchdog.orders.take());
        // The watchdog ends now. Waiting for its end avoids a zombie process and a leftover directory.
        let _ = watchdog.process.wait();
    }
}

/// A running server. Dropping it kills the process and waits for its end.
#[derive(Debug)]
pub struct Server {
    name: String,
    log: PathBuf,
    child: Child,
    runtime_directory: RuntimeDirectory,
}

impl Server {
    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Path of the log file.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// The exit status, or `None` while the server runs.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().with_context(|| format!("reading the state of {}", self.name))
    }

    /// Returns an error with the end of the log if the server is not running.
    pub fn check(&mut self) -> Result<()> {
        match self.ended()? {
            None => Ok(()),
            Some(status) => Err(self.failure(&format!("ended: {}", describe(status)))),
        }
    }

    /// An error with the server's name, `what`, and the end of the log.
    pub fn failure(&self, what: &str) -> anyhow::Error {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines[lines.len().saturating_sub(LOG_LINES_IN_ERRORS)..].join("\n  ");
        anyhow::anyhow!("{} {what}; the end of {}:\n  {tail}", self.name, self.log.display())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Kills the process before the watchdog removes the id. The kernel does not reuse the id before `wait`.
        let _ = self.child.kill();
        let _ = self.runtime_directory.forget(self.pid());
        let _ = self.child.wait();
    }
}

fn describe(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("exit code {code}"),
        None => status.to_string(),
    }
}
