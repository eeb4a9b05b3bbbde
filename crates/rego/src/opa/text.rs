//! Prepares modules for OPA. With `--v0-compatible`, OPA assumes the older syntax.

use std::sync::Arc;

use crate::edit::{Edit, EditedText, offset};
use crate::module::{Module, Syntax};
use crate::tree;

/// The import that declares the newer syntax.
const V1_IMPORT: [&str; 2] = ["rego", "v1"];

/// The byte offset of the package of `module`, if OPA needs an import to use the newer syntax. The text before that
/// offset is never edited.
pub(crate) fn v1_import_offset(module: &Module) -> Option<usize> {
    let has_import = module.tree.imports.iter().any(|import| tree::constants(&import.refr) == V1_IMPORT);
    (module.syntax == Syntax::V1 && !has_import)
        .then(|| tree::start(&module.tree.package.refr).start as usize)
}

/// Converts `text` from the form for the embedded engine to the form for OPA. If `v1_import_offset` is set, inserts an
/// import of `rego.v1` after the package declaration at this offset. Replaces the placeholders of keywords by the
/// keywords.
pub(crate) fn for_opa(v1_import_offset: Option<usize>, text: &Arc<str>) -> EditedText {
    let keyword = |(at, _): (usize, &str)| Edit {
        start: offset(at),
        end: offset(at + tree::WORD.len()),
        text: String::new(),
    };
    let mut edits: Vec<Edit> = text.match_indices(tree::WORD).map(keyword).collect();
    // OPA requires the import on a separate line.
    edits.extend(v1_import_offset.map(|package| match text[package..].find('\n') {
        Some(newline) => Edit::insert(offset(package + newline + 1), "import rego.v1\n".to_owned()),
        None => Edit::insert(offset(text.len()), "\nimport rego.v1\n".to_owned()),
    }));
    EditedText::new(text, edits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Position;
    use crate::module::{ModuleId, Text};

    fn edited(text: &str) -> EditedText {
        let module = Module::parse(&Text { id: ModuleId::new("a.rego"), text: text.into() }).unwrap();
        for_opa(v1_import_offset(&module), &text.into())
    }

    #[test]
    fn import_of_the_newer_syntax_is_inserted_and_places_are_mapped() {
        for (text, expected) in [
            ("package a\np := 1", "package a\nimport rego.v1\np := 1"),
            (
                "# of a\npackage a.b[\"c\"] # and more\n\np := 1\n",
                "# of a\npackage a.b[\"c\"] # and more\nimport rego.v1\n\np := 1\n",
            ),
            ("package a", "package a\nimport rego.v1\n"),
            ("package a\nimport rego.v1\np := 1", "package a\nimport rego.v1\np := 1"),
            ("package a\ndeny[x] { x := 1 }", "package a\ndeny[x] { x := 1 }"),
        ] {
            assert_eq!(&**edited(text).text(), expected);
        }
        let module = "package a\nimport rego.v1\nif.x := 1\np if if.x == 1";
        let module = Module::parse(&Text { id: ModuleId::new("a.rego"), text: module.into() }).unwrap();
        assert_eq!(
            for_opa(None, &module.text).text().as_ref(),
            "package a\nimport rego.v1\nif.x := 1\np if data.a.if.x == 1"
        );
        let found = edited("package a\n\np := x").original(Position { line: 4, column: 6 });
        assert_eq!(found, Position { line: 3, column: 6 });
    }
}
