//! Sections of the page on bad input whose rows the tests find on a real hub.

use anyhow::Result;
use policy_sync_testenv::bad_input::code;

const HEAD: &str = "| input | reported in, effect | reason | message |\n|---|---|---|---|\n";

/// What one bad input gets.
pub(super) struct Row {
    /// What is wrong, in words.
    pub(super) input: &'static str,
    /// Where it is told, and what happens: Markdown.
    pub(super) place: &'static str,
    /// A word for programs; empty where nothing is told.
    pub(super) reason: String,
    /// What is told; empty where nothing is.
    pub(super) message: String,
}

impl Row {
    fn markdown(&self) -> String {
        format!("| {} | {} | {} | {} |\n", self.input, self.place, code(&self.reason), code(&self.message))
    }
}

/// Checks that the section `name` of the page has these rows and no others.
pub(super) fn holds(name: &str, rows: &[Row]) -> Result<()> {
    let rows: String = rows.iter().map(Row::markdown).collect();
    policy_sync_testenv::bad_input::holds(name, &format!("{HEAD}{rows}"))
}
