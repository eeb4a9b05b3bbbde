//! Moves a declaration `some x` that follows other statements to the start of its query. The embedded engine may
//! evaluate the declaration again for each value of an earlier statement, and fail. No earlier statement uses `x`,
//! because OPA and the check reject such a use.

use regorus::unstable::{Literal, LiteralStmt, Query};

use super::{Changes, objects, opened};
use crate::edit::Edit;

/// The text of `statement`, if it is a declaration such as `some x, y`.
pub(super) fn of(statement: &LiteralStmt) -> Option<String> {
    let Literal::SomeVars { vars, .. } = &statement.literal else { return None };
    let vars: Vec<&str> = vars.iter().map(|var| var.text()).collect();
    Some(format!("some {}", vars.join(", ")))
}

/// Moves the declarations of `query` to its start. `true` remains in their places.
pub(super) fn rewrite(text: &mut Changes<'_>, query: &Query) {
    let Some(first) = query.stmts.first() else { return };
    let mut moved = String::new();
    for (nth, statement) in query.stmts.iter().enumerate() {
        if let Some(declaration) = objects::declaration(statement) {
            moved.push_str(&(declaration + "; "));
        }
        let Some(declaration) = of(statement).filter(|_| nth > 0) else { continue };
        moved.push_str(&(declaration + "; "));
        let (start, end) = (statement.span.start, statement.span.end);
        let lines = text.module.text[start as usize..end as usize].matches('\n').count();
        text.edits.push(Edit { start, end, text: "\n".repeat(lines) + "true" });
    }
    if !moved.is_empty() {
        text.edits.push(Edit::insert(opened(text.module, first.span.start), moved));
        text.brace(query);
    }
}

#[cfg(test)]
mod tests {
    use super::super::assert_bodies;

    #[test]
    fn declarations_are_first() {
        assert_bodies(&[
            ("[a, b] := input.l[_]; some i; input.l[i]", "some i; [a, b] := input.l[_]; true; input.l[i]"),
            (
                "\"a\" == input.a\n\tsome i, # one\n\t\tj\n\tinput.l[i][j]",
                "some i, j; \"a\" == input.a\n\t\ntrue\n\tinput.l[i][j]",
            ),
            (
                "x := [y | input.a; some y; input.l[y]]; some z; input.l[z]",
                "some z; x := [y | some y; input.a; true; input.l[y]]; true; input.l[z]",
            ),
            ("not input.a.b; some z; input.l[z]", "some z; not input.a.b; true; input.l[z]"),
            ("some i; input.l[i]", "some i; input.l[i]"),
            ("input.a; some x in input.l", "input.a; some x in input.l"),
        ]);
    }
}
