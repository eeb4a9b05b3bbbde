//! The page of the documentation that says what bad input gets. Each section is a table whose rows tests find;
//! `POLICY_SYNC_UPDATE=1` writes what they found.

use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, ensure};

/// One file, several tests.
static PAGE: Mutex<()> = Mutex::new(());

/// `text` as code in a table's cell, nothing where it is empty.
#[must_use]
pub fn code(text: &str) -> String {
    match text {
        "" => String::new(),
        text => {
            let text = text.replace('|', "\\|").replace('\n', " ");
            if text.contains('`') { format!("`` {text} ``") } else { format!("`{text}`") }
        }
    }
}

/// Checks that the section `name` of the page is this table.
///
/// # Errors
///
/// Where it is another, or there is no such section.
pub fn holds(name: &str, table: &str) -> Result<()> {
    let _one = PAGE.lock().unwrap_or_else(PoisonError::into_inner);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/bad-input.md");
    let page = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let (start, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->"));
    let (before, rest) = page.split_once(&start).with_context(|| format!("no section {start}"))?;
    let (section, after) = rest.split_once(&end).with_context(|| format!("no {end}"))?;
    let found = format!("\n{table}\n");
    if std::env::var_os("POLICY_SYNC_UPDATE").is_some() {
        fs::write(&path, format!("{before}{start}{found}{end}{after}"))?;
        return Ok(());
    }
    ensure!(section == found, "docs/bad-input.md, {name}: the page says{section}but the tests found{found}");
    Ok(())
}
