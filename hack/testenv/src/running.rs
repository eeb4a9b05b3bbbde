//! Runs a command and collects its output. An unexpected result fails the test.

#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use anyhow::{Context, Result, ensure};

use crate::tenant::LIMIT;
use crate::wait;

type Lines = Arc<Mutex<Vec<String>>>;

/// A running process. Dropping it kills the process.
#[derive(Debug)]
pub struct Running {
    child: Child,
    stdout: Lines,
    stderr: Lines,
}

impl Running {
    /// Starts `command`.
    ///
    /// # Panics
    ///
    /// If the program does not exist.
    pub fn start(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdout = lines(child.stdout.take().unwrap());
        let stderr = lines(child.stderr.take().unwrap());
        Self { child, stdout, stderr }
    }

    /// Waits for a line on standard output that `is_it` accepts. Returns all lines so far.
    ///
    /// # Panics
    ///
    /// If there is no such line within the limit.
    pub async fn prints(&self, what: &str, is_it: impl Fn(&str) -> bool) -> Vec<String> {
        until(what, &self.stdout, is_it).await.with_context(|| format!("{:?}", self.stderr)).unwrap()
    }

    /// Waits for a line on standard error that contains `what`. Returns all lines so far.
    ///
    /// # Panics
    ///
    /// If there is no such line within the limit.
    pub async fn says(&self, what: &str) -> Vec<String> {
        until(what, &self.stderr, |line| line.contains(what)).await.unwrap()
    }

    /// All lines on standard error so far.
    ///
    /// # Panics
    ///
    /// Never: the thread that holds the lock does not panic.
    pub fn stderr_lines(&self) -> Vec<String> {
        self.stderr.lock().unwrap().clone()
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal: `STOP`, `CONT`, `TERM`, `INT`.
    ///
    /// # Panics
    ///
    /// If the process has ended.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").arg(format!("-{name}")).arg(self.child.id().to_string()).status();
        assert!(sent.unwrap().success());
    }

    /// Waits for the end of the process. Returns its exit code.
    ///
    /// # Panics
    ///
    /// If the process does not end within the limit.
    pub async fn ends(&mut self) -> Option<i32> {
        let ended = wait::until("the process ends", LIMIT, || {
            let ended = self.child.try_wait();
            async move { ended?.context("the process still runs") }
        });
        ended.await.unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn until(what: &str, lines: &Lines, is_it: impl Fn(&str) -> bool) -> Result<Vec<String>> {
    wait::until(what, LIMIT, || {
        let lines = lines.lock().unwrap().clone();
        let found = lines.iter().any(|line| is_it(line));
        async move {
            ensure!(found, "{lines:#?}");
            Ok(lines)
        }
    })
    .await
}

fn lines(output: impl Read + Send + 'static) -> Lines {
    let lines = Lines::default();
    let kept = lines.clone();
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            kept.lock().unwrap().push(line);
        }
    });
    lines
}
