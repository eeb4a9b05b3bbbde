//! The terminal that results are printed to, if they are.

use std::io::{IsTerminal, stdout};

/// How many columns it has; `None` where standard output is none, or does not say.
pub(super) fn width() -> Option<usize> {
    let stdout = stdout();
    let size = terminal_size::terminal_size_of(&stdout).filter(|_| stdout.is_terminal());
    size.map(|(width, _)| width.0.into())
}
