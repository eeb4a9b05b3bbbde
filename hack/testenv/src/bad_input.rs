//! Compares the tables in `docs/reference/bad-input` with the tables that tests generate. `POLICY_SYNC_UPDATE=1` writes
//! the generated table instead.

use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail, ensure};

/// Serializes tests that write the same page.
static PAGES: Mutex<()> = Mutex::new(());

/// `text` as code in a table cell; empty text stays empty.
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

/// Compares the section `name` in `docs/reference/bad-input` with `table`, or replaces the section.
///
/// # Errors
///
/// Returns an error if the tables differ or no page has the section.
pub fn holds(name: &str, table: &str) -> Result<()> {
    let _guard = PAGES.lock().unwrap_or_else(PoisonError::into_inner);
    let (start, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->"));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/bad-input");
    for entry in fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        let page = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let Some((before, rest)) = page.split_once(&start) else { continue };
        let (section, after) = rest.split_once(&end).with_context(|| format!("no {end}"))?;
        let found = format!("\n{table}\n");
        if std::env::var_os("POLICY_SYNC_UPDATE").is_some() {
            fs::write(&path, format!("{before}{start}{found}{end}{after}"))?;
            return Ok(());
        }
        let page = path.display();
        ensure!(section == found, "{page}, section {name}: the page has{section}but the tests found{found}");
        return Ok(());
    }
    bail!("no section {name} on the pages in {}", folder.display())
}
