//! A command while it runs: what it has printed so far, and how it ends when it is asked to. What does not happen ends the test.

#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use anyhow::{Context, Result, ensure};

use crate::tenant::LIMIT;
use crate::wait;

type Lines = Arc<Mutex<Vec<String>>>;

/// A process that is killed with the test.
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
    /// Where there is no such program.
    pub fn start(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdout = lines(child.stdout.take().unwrap());
        let stderr = lines(child.stderr.take().unwrap());
        Self { child, stdout, stderr }
    }

    /// Waits until it has printed a line for which `is_it`, and returns all that it has printed by then.
    ///
    /// # Panics
    ///
    /// Where it prints none.
    pub async fn prints(&self, what: &str, is_it: impl Fn(&str) -> bool) -> Vec<String> {
        until(what, &self.stdout, is_it).await.with_context(|| format!("{:?}", self.stderr)).unwrap()
    }

    /// The same of what it says on standard error.
    ///
    /// # Panics
    ///
    /// Where it does not say it.
    pub async fn says(&self, what: &str) -> Vec<String> {
        until(what, &self.stderr, |line| line.contains(what)).await.unwrap()
    }

    /// What it has said.
    ///
    /// # Panics
    ///
    /// Never: who keeps what it says does not panic.
    pub fn said(&self) -> Vec<String> {
        self.stderr.lock().unwrap().clone()
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal: `STOP`, `CONT`, `TERM`, `INT`.
    ///
    /// # Panics
    ///
    /// Where it has ended.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").arg(format!("-{name}")).arg(self.child.id().to_string()).status();
        assert!(sent.unwrap().success());
    }

    /// Waits until it ends, and returns its exit code.
    ///
    /// # Panics
    ///
    /// Where it does not end.
    pub async fn ends(&mut self) -> Option<i32> {
        let ended = wait::until("the process ends", LIMIT, || {
            let ended = self.child.try_wait();
            async move { ended?.context("it still runs") }
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
