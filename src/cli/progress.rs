//! A line on a terminal that says what is waited for, once that takes longer than a moment. It goes before anything is printed.

use std::io::{IsTerminal, Write, stderr};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::AbortHandle;

/// After this time somebody may ask themselves whether anything goes on.
const AFTER: Duration = Duration::from_secs(1);
const LINE: &str = "waiting for the hub…";

/// Whether the line is there, or may still come.
static STATE: Mutex<State> = Mutex::new(State::Ended);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It may come.
    Awaited,
    /// It is there.
    Shown,
    /// It comes no more.
    Ended,
}

/// The hub is waited for until this is dropped, or something is printed.
#[derive(Debug)]
pub(super) struct Waiting(Option<AbortHandle>);

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(timer) = &self.0 {
            timer.abort();
        }
        end();
    }
}

/// Says after a moment that the hub is waited for, where standard error is a terminal.
pub(super) fn begin() -> Waiting {
    if !stderr().is_terminal() {
        return Waiting(None);
    }
    *STATE.lock() = State::Awaited;
    let timer = tokio::spawn(async {
        tokio::time::sleep(AFTER).await;
        let mut state = STATE.lock();
        if *state == State::Awaited {
            *state = State::Shown;
            write(LINE);
        }
    });
    Waiting(Some(timer.abort_handle()))
}

/// Takes the line away, if it is there.
pub(super) fn end() {
    let mut state = STATE.lock();
    if *state == State::Shown {
        // Not every terminal knows how to erase a line.
        write(&format!("\r{:width$}\r", "", width = LINE.chars().count()));
    }
    *state = State::Ended;
}

fn write(text: &str) {
    // Nobody may be left to see it.
    let _ = stderr().write_all(text.as_bytes()).and_then(|()| stderr().flush());
}
