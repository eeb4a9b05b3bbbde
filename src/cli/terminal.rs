//! The width of the terminal.

use std::io::{IsTerminal, stdout};

/// The number of columns; `None` if standard output is no terminal, or its size is unknown.
pub(super) fn width() -> Option<usize> {
    let stdout = stdout();
    let size = terminal_size::terminal_size_of(&stdout).filter(|_| stdout.is_terminal());
    size.map(|(width, _)| width.0.into())
}
