//! Errors are logged as text with their causes, because the JSON log format omits the causes.

use std::fs;
use std::path::Path;

use crate::files_below;

#[test]
fn errors_are_logged_with_their_causes() {
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
