//! Runs `policy-sync`, and returns its output and exit code.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The timeout of a command, for a busy machine.
const LIMIT: Duration = Duration::from_secs(60);
/// The interval of checks whether a command has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The result of a run.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A command of the program, in the directory of the tests' data and without a hub.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_policy-sync"));
    command.args(arguments).current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/data"));
    command.env_remove("KUBECONFIG").env("HOME", "/nonexistent").env("RUST_BACKTRACE", "1");
    command
}

/// Runs the program with `input` on its standard input.
pub(crate) fn run_with(arguments: &[&str], input: &str) -> CommandOutput {
    finish(command(arguments), input)
}

/// Runs the program without input.
pub(crate) fn run(arguments: &[&str]) -> CommandOutput {
    run_with(arguments, "")
}

/// Runs `command` until it ends.
pub(crate) fn finish(mut command: Command, input: &str) -> CommandOutput {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that does not read its input may have ended already.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    end(child)
}

/// Waits until `child` ends. Stops the process and panics after the timeout.
pub(crate) fn end(mut child: Child) -> CommandOutput {
    let (stdout, stderr) = (read(child.stdout.take()), read(child.stderr.take()));
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if started.elapsed() > LIMIT {
            child.kill().unwrap();
            panic!(
                "the command still runs after {LIMIT:?}: {} {}",
                stdout.join().unwrap(),
                stderr.join().unwrap()
            );
        }
        thread::sleep(POLL_INTERVAL);
    };
    CommandOutput {
        code: status.code().unwrap(),
        stdout: stdout.join().unwrap(),
        stderr: stderr.join().unwrap(),
    }
}

/// Reads in a thread, so that the process does not block on a full pipe.
fn read(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut text = String::new();
        if let Some(mut pipe) = pipe {
            pipe.read_to_string(&mut text).unwrap();
        }
        text
    })
}
