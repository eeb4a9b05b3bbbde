//! Shows a progress message on a terminal while a command waits for the hub. The message is erased before any output.

use std::io::{IsTerminal, Write, stderr};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::AbortHandle;

/// The delay before the message appears.
const DELAY: Duration = Duration::from_secs(1);
const LINE: &str = "waiting for the hub…";

/// The state of the message. This state is global, because any output has to erase the message first.
static STATE: Mutex<ProgressState> = Mutex::new(ProgressState::Ended);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProgressState {
    /// The timer is running.
    TimerRunning,
    /// The message is on the terminal.
    Shown,
    /// There is no message, and none will appear.
    Ended,
}

/// Shows the message after a delay, until the guard is dropped or something is printed.
#[derive(Debug)]
pub(super) struct ProgressGuard(Option<AbortHandle>);

impl Drop for ProgressGuard {
    fn drop(&mut self) {
        if let Some(timer) = &self.0 {
            timer.abort();
        }
        end();
    }
}

/// Starts the timer, if standard error is a terminal.
pub(super) fn begin() -> ProgressGuard {
    if !stderr().is_terminal() {
        return ProgressGuard(None);
    }
    *STATE.lock() = ProgressState::TimerRunning;
    let timer = tokio::spawn(async {
        tokio::time::sleep(DELAY).await;
        let mut state = STATE.lock();
        if *state == ProgressState::TimerRunning {
            *state = ProgressState::Shown;
            write(LINE);
        }
    });
    ProgressGuard(Some(timer.abort_handle()))
}

/// Erases the message if it is shown, and ensures that it does not appear later.
pub(super) fn end() {
    let mut state = STATE.lock();
    if *state == ProgressState::Shown {
        // Spaces are portable; not all terminals can erase a line.
        write(&format!("\r{:width$}\r", "", width = LINE.chars().count()));
    }
    *state = ProgressState::Ended;
}

fn write(text: &str) {
    // A write error is ignored, because the message is optional.
    let _ = stderr().write_all(text.as_bytes()).and_then(|()| stderr().flush());
}
