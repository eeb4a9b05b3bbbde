//! Logs as JSON print an error without its causes, so errors go into the log as text that has them.

use std::fs;
use std::path::Path;

use crate::files_below;

#[test]
fn no_error_is_logged_without_its_causes() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for path in ["src", "crates"].map(|folder| files_below(&root.join(folder), "rs")).concat() {
        let text = fs::read_to_string(&path).unwrap();
        for (number, line) in text.lines().enumerate() {
            let without = ["%error", "?error", "as &dyn std::error::Error", "as &dyn Error"];
            let found = without.iter().find(|way| line.contains(*way));
            assert_eq!(found, None, "{}:{}: use with_causes", path.display(), number + 1);
        }
    }
}
