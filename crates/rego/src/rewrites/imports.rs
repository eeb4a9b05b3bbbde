//! Removes `import rego.v1`. In the embedded engine, `v1` is the name of the import, so no variable could have that
//! name.

use super::Changes;
use crate::edit::Edit;
use crate::module::Syntax;
use crate::tree;

/// Removes the import if the text after it contains `v1`. Offsets of rules do not change.
pub(super) fn rewrite(text: &mut Changes<'_>) {
    for import in &text.module.tree.imports {
        let (start, end) = (import.span.start, import.span.end);
        let is_newer = text.module.syntax == Syntax::V1 && tree::constants(&import.refr) == ["rego", "v1"];
        if is_newer && text.module.text[end as usize..].contains("v1") {
            text.edits.push(Edit { start, end, text: " ".repeat((end - start) as usize) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::of_text;

    #[test]
    fn variable_may_have_the_name_of_the_import() {
        for (text, expected) in [
            (
                "package a\nimport rego.v1 # new\nimport data.b\np if { v1 := b.c; v1 }",
                "package a\n               # new\nimport data.b\np if { v1 := b.c; v1 }",
            ),
            (
                "package a\nimport rego.v1\np if { v2 := 1; v2 }",
                "package a\nimport rego.v1\np if { v2 := 1; v2 }",
            ),
            ("package a\nimport data.rego.v1\np { v1.a }", "package a\nimport data.rego.v1\np { v1.a }"),
        ] {
            assert_eq!(of_text(text), expected);
        }
    }
}
