//! Running the binary.

use std::io::Write;
use std::process::{Command, Stdio};

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// The binary, in the directory of the tests' data, without a hub.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_policy-sync"));
    command.args(arguments).current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/data"));
    command.env_remove("KUBECONFIG").env("HOME", "/nonexistent").env("RUST_BACKTRACE", "1");
    command
}

/// Runs the binary with `input` on its standard input.
pub(crate) fn run_with(arguments: &[&str], input: &str) -> Ran {
    finish(command(arguments), input)
}

/// Runs the binary.
pub(crate) fn run(arguments: &[&str]) -> Ran {
    run_with(arguments, "")
}

/// Runs `command` to its end.
pub(crate) fn finish(mut command: Command, input: &str) -> Ran {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that does not read its input may have ended already.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    Ran {
        code: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}
