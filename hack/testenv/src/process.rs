//! Servers as child processes that never outlive us.
//!
//! ```text
//! this process ──spawns──▶ server, server, …
//!       └──pipe──▶ watchdog (sh): knows their process ids; when the pipe closes, it kills them and removes the directory
//! ```
//!
//! Dropping a [`Server`] stops it. Where nothing is dropped (Ctrl-C, `kill -9`, a value in a `static`), the kernel closes
//! the pipe all the same. Servers are killed, not asked: their data lives as long as they do, and what etcd has written
//! is in the page cache, so that a restart after a kill finds it.

use std::fs;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};

/// Lines `watch PID` and `forget PID` come in; the end of input is the end of all.
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

/// A server begins as this shell, which reports its own process id before it becomes the server: there is no moment at
/// which the server runs and the watchdog does not know of it.
const LAUNCHER: &str = r#"
log=$1
shift
echo "watch $$"
exec "$@" >>"$log" 2>&1
"#;

/// How much of a server's log goes into an error.
const LOG_LINES_IN_ERRORS: usize = 15;

/// A directory for the files of some servers, and the watchdog that ends both.
#[derive(Debug, Clone)]
pub struct Workplace {
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

impl Workplace {
    /// A new directory under the system's temporary one. It goes with the last server, unless
    /// `POLICY_SYNC_TESTENV_KEEP` is set, for those who want to read the logs afterwards.
    pub fn temporary(name: &str) -> Result<Self> {
        let path = tempfile::Builder::new()
            .prefix(&format!("policy-sync-{name}-"))
            .tempdir()
            .context("creating a temporary directory")?
            .keep();
        Self::with(path, std::env::var_os("POLICY_SYNC_TESTENV_KEEP").is_none())
    }

    /// `path`, which stays when the servers are gone.
    pub fn lasting(path: &Path) -> Result<Self> {
        fs::create_dir_all(path).with_context(|| format!("creating {}", path.display()))?;
        let path = path.canonicalize().with_context(|| format!("resolving {}", path.display()))?;
        Self::with(path, false)
    }

    fn with(path: PathBuf, remove: bool) -> Result<Self> {
        let mut process = Command::new("sh")
            .args(["-c", WATCHDOG, "policy-sync-watchdog"])
            .arg(if remove { path.as_os_str() } else { "".as_ref() })
            // A group of its own: Ctrl-C in a terminal goes to the whole group, and the watchdog must outlive us.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("starting sh to watch over the servers")?;
        let orders = process.stdin.take();
        Ok(Self { inner: Arc::new(Inner { path, watchdog: Mutex::new(Watchdog { process, orders }) }) })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Starts `program`; what it prints goes to `<name>.log` here, after what is there already.
    pub fn spawn(&self, name: &str, program: &Path, arguments: &[String]) -> Result<Server> {
        self.spawn_with(name, program, arguments, &[])
    }

    /// The same, with these environment variables besides our own.
    pub fn spawn_with(
        &self,
        name: &str,
        program: &Path,
        arguments: &[String],
        environment: &[(&str, &str)],
    ) -> Result<Server> {
        let log = self.path().join(format!("{name}.log"));
        anyhow::ensure!(program.is_file(), "{} is no program", program.display());
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
        Ok(Server { name: name.to_owned(), log, child, workplace: self.clone() })
    }

    /// The watchdog's pipe, for a launcher to write to.
    fn orders(&self) -> Result<Stdio> {
        let watchdog = self.watchdog();
        let orders = watchdog.orders.as_ref().context("the watchdog has ended")?;
        Ok(orders.as_fd().try_clone_to_owned().context("sharing the watchdog's pipe")?.into())
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
        // It ends by itself now; waiting for it leaves no zombie, and no directory behind a test that has ended.
        let _ = watchdog.process.wait();
    }
}

/// A running server. Dropping it kills it and waits until it is gone.
#[derive(Debug)]
pub struct Server {
    name: String,
    log: PathBuf,
    child: Child,
    workplace: Workplace,
}

impl Server {
    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The file that holds what it prints.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// How it ended, `None` while it runs.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().with_context(|| format!("asking for the state of {}", self.name))
    }

    /// Fails, with the end of its log, where the server is no longer running.
    pub fn check(&mut self) -> Result<()> {
        match self.ended()? {
            None => Ok(()),
            Some(status) => Err(self.failure(&format!("ended: {}", describe(status)))),
        }
    }

    /// An error that names this server, says `what`, and quotes the end of its log.
    pub fn failure(&self, what: &str) -> anyhow::Error {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines[lines.len().saturating_sub(LOG_LINES_IN_ERRORS)..].join("\n  ");
        anyhow::anyhow!("{} {what}; the end of {}:\n  {tail}", self.name, self.log.display())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Killed before it is forgotten: until it is waited for, its process id cannot become another's.
        let _ = self.child.kill();
        let _ = self.workplace.forget(self.pid());
        let _ = self.child.wait();
    }
}

fn describe(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("exit code {code}"),
        None => status.to_string(),
    }
}
