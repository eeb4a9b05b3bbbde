//! Logs as JSON print an error without its causes, so errors go into the log as text that has them.

use std::fs;
use std::path::{Path, PathBuf};

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
}

#[test]
fn no_error_is_logged_without_its_causes() {
    for path in sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")) {
        let text = fs::read_to_string(&path).unwrap();
        for (number, line) in text.lines().enumerate() {
            let without = ["%error", "?error", "as &dyn std::error::Error", "as &dyn Error"];
            let found = without.iter().find(|way| line.contains(*way));
            assert_eq!(found, None, "{}:{}: use with_causes", path.display(), number + 1);
        }
    }
}
