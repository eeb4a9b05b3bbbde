//! The page of the documentation that says what bad input gets. Each section is a table whose rows the tests find
//! on a real hub; `POLICY_SYNC_UPDATE=1` writes what they found.

use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, ensure};

const HEAD: &str = "| input | told in | reason | message |\n|---|---|---|---|\n";

/// One file, several tests.
static PAGE: Mutex<()> = Mutex::new(());

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
        let code = |text: &str| match text {
            "" => String::new(),
            text => format!("`{}`", text.replace('|', "\\|").replace('\n', " ")),
        };
        format!("| {} | {} | {} | {} |\n", self.input, self.place, code(&self.reason), code(&self.message))
    }
}

/// Checks that the section `name` of the page has these rows and no others.
pub(super) fn holds(name: &str, rows: &[Row]) -> Result<()> {
    let _one = PAGE.lock().unwrap_or_else(PoisonError::into_inner);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/bad-input.md");
    let page = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let (start, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->"));
    let (before, rest) = page.split_once(&start).with_context(|| format!("no section {start}"))?;
    let (section, after) = rest.split_once(&end).with_context(|| format!("no {end}"))?;
    let found: String = rows.iter().map(Row::markdown).collect();
    let found = format!("\n{HEAD}{found}\n");
    if std::env::var_os("POLICY_SYNC_UPDATE").is_some() {
        fs::write(&path, format!("{before}{start}{found}{end}{after}"))?;
        return Ok(());
    }
    ensure!(section == found, "docs/bad-input.md, {name}: the page says{section}but the hub was told{found}");
    Ok(())
}
