//! The tables of `docs/reference/bad-input` whose rows the tests find on a real hub.

use anyhow::Result;
use policy_sync_testenv::bad_input::code;

const HEAD: &str = "| input | reported in, effect | reason | message |\n|---|---|---|---|\n";

/// The reaction to one invalid input.
pub(super) struct Row {
    /// The input, in words.
    pub(super) input: &'static str,
    /// Markdown that names the place of the message, and the effect of the input.
    pub(super) place: &'static str,
    /// The reason of the Event or condition; empty if nothing is reported.
    pub(super) reason: String,
    /// The message of the Event or condition; empty if nothing is reported.
    pub(super) message: String,
}

impl Row {
    fn markdown(&self) -> String {
        format!("| {} | {} | {} | {} |\n", self.input, self.place, code(&self.reason), code(&self.message))
    }
}

/// Checks that the section `name` of the page has exactly these rows.
pub(super) fn holds(name: &str, rows: &[Row]) -> Result<()> {
    let rows: String = rows.iter().map(Row::markdown).collect();
    policy_sync_testenv::bad_input::holds(name, &format!("{HEAD}{rows}"))
}
