//! Runs commands on a terminal, by `script` from util-linux.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use anyhow::{Context, ensure};
use policy_sync_testenv::tenant::LIMIT;
use policy_sync_testenv::wait;

use crate::run::{CommandOutput, finish};

/// `command` on a terminal with this number of columns. The terminal shows standard output and standard error.
fn script(columns: u16, command: &Command) -> Command {
    let words = [command.get_program()].into_iter().chain(command.get_args());
    let words = words.map(quoted).collect::<Vec<_>>().join(" ");
    // Restore SIGHUP, which the parent of the tests may ignore, so that the command ends with its terminal.
    let mut script = Command::new("env");
    script.args(["--default-signal=HUP", "script", "--quiet", "--return", "--command"]);
    script.arg(format!("stty cols {columns} rows 40 && exec {words}")).arg("/dev/null");
    script.env("SHELL", "/bin/sh").env("TERM", "xterm").env_remove("NO_COLOR");
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => script.env(name, value),
            None => script.env_remove(name),
        };
    }
    if let Some(directory) = command.get_current_dir() {
        script.current_dir(directory);
    }
    script
}

fn quoted(word: &OsStr) -> String {
    format!("'{}'", word.to_str().unwrap().replace('\'', r"'\''"))
}

/// Runs `command` on a terminal with this number of columns until it ends. `stdout` contains all output.
pub(crate) fn on_terminal(columns: u16, command: &Command) -> CommandOutput {
    let ran = finish(script(columns, command), "");
    CommandOutput { stdout: ran.stdout.replace("\r\n", "\n"), ..ran }
}

/// Panics if this machine lacks `program` from Debian's `package`.
pub(crate) fn needs(program: &str, package: &str) {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&paths).any(|folder| folder.join(program).is_file());
    assert!(found, "{program} is missing: on Debian and Ubuntu, apt-get install {package}");
}

/// A terminal with keyboard input. Dropping the terminal kills its process.
pub(crate) struct Terminal {
    child: Child,
    keys: ChildStdin,
    screen: Arc<Mutex<String>>,
}

impl Terminal {
    /// Starts `command` on a terminal with this number of columns.
    pub(crate) fn start(columns: u16, command: &Command) -> Self {
        needs("script", "bsdutils");
        let mut script = script(columns, command);
        script.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = script.spawn().unwrap();
        let (keys, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, keys, screen: screen(output) }
    }

    /// Types `keys`.
    pub(crate) fn types(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).and_then(|()| self.keys.flush()).unwrap();
    }

    /// Waits until the output contains `text`, and returns the output so far.
    pub(crate) async fn shows(&self, text: &str) -> String {
        let what = format!("the terminal shows {text:?}");
        let shown = wait::until(&what, LIMIT, || {
            let shown = self.screen.lock().unwrap().clone();
            async move {
                ensure!(shown.contains(text), "{shown:?}");
                Ok(shown)
            }
        });
        shown.await.unwrap()
    }

    /// Waits until the process ends, and returns its exit code.
    pub(crate) async fn ends(&mut self) -> Option<i32> {
        let ended = wait::until("the process ends", LIMIT, || {
            let ended = self.child.try_wait();
            async move { ended?.context("the process still runs") }
        });
        ended.await.unwrap().code()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn screen(mut output: impl Read + Send + 'static) -> Arc<Mutex<String>> {
    let screen = Arc::<Mutex<String>>::default();
    let shown = screen.clone();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let mut more = [0; 4096];
        while let Ok(read @ 1..) = output.read(&mut more) {
            bytes.extend_from_slice(&more[..read]);
            *shown.lock().unwrap() = String::from_utf8_lossy(&bytes).into_owned();
        }
    });
    screen
}

/// A folder for a `PATH`, with the program under each of its names and the `linked` programs.
pub(crate) fn on_path(linked: &[(&str, &Path)]) -> (tempfile::TempDir, std::ffi::OsString) {
    let folder = tempfile::tempdir().unwrap();
    let binary = Path::new(env!("CARGO_BIN_EXE_policy-sync"));
    let names = ["policy-sync", "kubectl-policy_sync", "kubectl_complete-policy_sync"];
    for (name, program) in names.map(|name| (name, binary)).iter().chain(linked) {
        std::os::unix::fs::symlink(program, folder.path().join(name)).unwrap();
    }
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let paths = [folder.path().to_owned()].into_iter().chain(std::env::split_paths(&paths));
    let path = std::env::join_paths(paths).unwrap();
    (folder, path)
}
