//! Evaluates operands of `not` before the negation, as OPA does. If `input.x` is undefined, the statement
//! `not f(input.x)` is undefined in OPA. In the embedded engine, the statement would be true.
//!
//! OPA evaluates before the negation:
//! - calls inside of other expressions;
//! - references that are arguments or operands, except for those of `==` and `=`;
//! - references inside of the indexes of references, and inside of arrays, sets and objects.

use std::rc::Rc;

use regorus::unstable::{BoolOp, Expr, Literal, LiteralStmt};

use super::quantified::Meanings;
use super::render::Renderer;
use super::{Defined, closed, may_be_undefined, opened};
use crate::edit::Edit;
use crate::module::{Module, name_of};
use crate::tree::{self, ExprPart};

/// The prefixes of the variables for operands and for values of `with`.
const DEFINED: &str = "policysync_defined";
const WITH: &str = "policysync_with";

/// The parts of a negated statement that are assigned to variables before it.
#[derive(Default)]
pub(super) struct Lifted<'t> {
    /// Operands that OPA evaluates before the negation and that may be undefined.
    operands: Vec<&'t Expr>,
    /// The values of `with`, if there are operands. Each value is then used several times.
    values: Vec<&'t Expr>,
}

/// The parts of `statement` that must be assigned to variables before it.
pub(super) fn lifted<'t>(statement: &'t LiteralStmt, defined: &Defined<'_>) -> Lifted<'t> {
    let mut collector = OperandCollector { defined, operands: Vec::new() };
    if let Literal::NotExpr { expr, .. } = &statement.literal {
        collector.negated(expr);
    }
    let with = statement.with_mods.iter().filter(|_| !collector.operands.is_empty());
    Lifted { values: with.map(|with| with.r#as.as_ref()).collect(), operands: collector.operands }
}

impl Lifted<'_> {
    pub(super) fn is_empty(&self) -> bool {
        self.operands.is_empty()
    }

    /// The variable for `expr`, if it is lifted. The offset of `expr` makes the name unique in a module.
    pub(super) fn name(&self, expr: &Expr) -> Option<String> {
        let is_in = |list: &[&Expr]| list.iter().any(|lifted| std::ptr::eq(*lifted, expr));
        let prefix = if is_in(&self.operands) {
            DEFINED
        } else if is_in(&self.values) {
            WITH
        } else {
            return None;
        };
        Some(format!("{prefix}_{}", expr.span().start))
    }

    /// The assignments of the lifted parts of `statement`, each followed by `; `.
    pub(super) fn assignments(&self, renderer: &Renderer<'_>, statement: &LiteralStmt) -> String {
        let name = |expr| self.name(expr).unwrap_or_default();
        let with: String = statement
            .with_mods
            .iter()
            .map(|with| format!(" with {} as {}", renderer.expr(&with.refr), name(&with.r#as)))
            .collect();
        let values = self.values.iter().map(|value| format!("{} := {}; ", name(value), renderer.expr(value)));
        let operands = self
            .operands
            .iter()
            .map(|operand| format!("{} := {}{with}; ", name(operand), renderer.expr(operand)));
        values.chain(operands).collect()
    }

    /// The edits that assign the lifted parts of `statement` before it, and replace them by the variables.
    pub(super) fn edits(
        &self,
        module: &Module,
        meanings: &Rc<Meanings>,
        statement: &LiteralStmt,
        defined: &Defined<'_>,
    ) -> Vec<Edit> {
        let renderer = Renderer::new(defined, meanings);
        let replace = |start: u32, end: u32, text: String| {
            // No line break may follow a name: the rest of a reference must be on the same line.
            let lines = module.text[start as usize..end as usize].matches('\n').count();
            Edit { start, end, text: "\n".repeat(lines) + &text }
        };
        let mut edits = vec![Edit::insert(statement.span.start, self.assignments(&renderer, statement))];
        edits.extend(self.operands.iter().map(|operand| {
            let span = operand.span();
            replace(
                opened(module, span.start),
                closed(module, span.end),
                self.name(operand).unwrap_or_default(),
            )
        }));
        // The whole modifier is replaced, because the tree has a wrong start for its value if the value is an object.
        edits.extend(statement.with_mods.iter().map(|with| {
            let name = self.name(&with.r#as).unwrap_or_default();
            let text = format!("with {} as {name}", renderer.expr(&with.refr));
            replace(with.span.start, closed(module, with.span.end), text)
        }));
        edits
    }
}

struct OperandCollector<'t, 'd> {
    defined: &'d Defined<'d>,
    operands: Vec<&'t Expr>,
}

impl<'t> OperandCollector<'t, '_> {
    /// Collects the operands of `expr`, which is negated.
    fn negated(&mut self, expr: &'t Expr) {
        match expr {
            Expr::BoolExpr { op: BoolOp::Eq, lhs, rhs, .. } | Expr::AssignExpr { lhs, rhs, .. } => {
                self.compared(lhs);
                self.compared(rhs);
            }
            // `print` also prints undefined arguments.
            Expr::Call { fcn, .. } if name_of(fcn) == Some("print") => {}
            _ => self.parts(expr),
        }
    }

    /// Collects the operands of `expr`, a side of a comparison.
    fn compared(&mut self, expr: &'t Expr) {
        match expr {
            Expr::Var { .. } => {}
            Expr::RefDot { .. } | Expr::RefBrack { .. } => self.parts(expr),
            _ => self.operand(expr),
        }
    }

    fn parts(&mut self, expr: &'t Expr) {
        for part in tree::parts(expr) {
            if let ExprPart::Expr(expr) = part {
                self.operand(expr);
            }
        }
    }

    fn operand(&mut self, expr: &'t Expr) {
        match expr {
            // An array, a set or an object is defined if all its parts are defined.
            Expr::Array { .. } | Expr::Set { .. } | Expr::Object { .. } => self.parts(expr),
            _ if may_be_undefined(expr, self.defined) => self.operands.push(expr),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::of_text;

    /// Negated statements, with the expected assignments and negations. `$0` is the first variable.
    const CASES: &[(&str, &str, &str)] = &[
        ("not f(input.x)", "$0 := input.x; ", "not f($0)"),
        ("not f(x, 1, \"a\", [x])", "", "not f(x, 1, \"a\", [x])"),
        ("not input.x", "", "not input.x"),
        ("not input.x == \"a\"", "", "not input.x == \"a\""),
        ("not input.x = input.y", "", "not input.x = input.y"),
        ("not input.x != \"a\"", "$0 := input.x; ", "not $0 != \"a\""),
        ("not input.x in input.y", "$0 := input.x; $1 := input.y; ", "not policysync_member($0 , $1)"),
        ("not f(x) == 1", "$0 := f(x); ", "not $0 == 1"),
        ("not f(g(x)).y", "$0 := f(g(x)); ", "not $0.y"),
        ("not f(\n\tx # first\n).y", "$0 := f(x); ", "not \n\n$0.y"),
        ("not input.a[input.x].b", "$0 := input.x; ", "not input.a[$0].b"),
        (
            "not {\"k\": input.x, \"l\": [input.y]} == x",
            "$0 := input.x; $1 := input.y; ",
            "not {\"k\": $0, \"l\": [$1]} == x",
        ),
        ("not f((input.a + 1) * 2)", "$0 := (input.a + 1) * 2; ", "not f($0)"),
        (
            "not f(input.x) with input as {\"x\": input.y}",
            "policysync_with := {\"x\": input.y}; $0 := input.x with input as policysync_with; ",
            "not f($0) with input as policysync_with",
        ),
        (
            "not [\"z\" in input.l] == [true]",
            "$0 := policysync_member(\"z\", input.l); ",
            "not [$0] == [true]",
        ),
        ("not print(input.x)", "", "not print(input.x)"),
        ("some x in input.l; not f(x)", "", "some x in input.l; not f(x)"),
        ("not f(y); every y in [1] { y == 1 }", "$0 := y; not f($0); every y in [1] { y == 1 }", ""),
        (
            "not count([1 | not f(input.x)]) > rule",
            "$0 := count([1 | $1 := input.x; not f($1)]); $2 := rule; ",
            "not $0 > $2",
        ),
        ("every y in input.ys { not f(input.x) }", "every y in input.ys { $0 := input.x; not f($0) }", ""),
    ];

    #[test]
    fn operands_under_not_are_evaluated_before_the_negation() {
        for (statement, assignments, negation) in CASES {
            let module =
                |statement: &str| format!("package a\nimport rego.v1\np(x) if {{\n\t{statement} # c\n}}\n");
            let found =
                numbered(&of_text(&module(statement))).replace("policysync_with_65", "policysync_with");
            assert_eq!(found, module(&format!("{assignments}{negation}")));
        }
    }

    #[test]
    fn body_without_braces_is_enclosed() {
        let text = "package a\nimport rego.v1\np := input.y if not f(input.x)\nelse := 2 if not f(input.z)\n";
        let expected = "package a\nimport rego.v1\np := policysync_given_0 if { $0 := input.x; not f($0); policysync_given_0 := input.y }\n\
                        else := 2 if { $1 := input.z; not f($1) }\n";
        assert_eq!(numbered(&of_text(text)), expected);
    }

    /// `text` with its variables numbered in the order in which they occur.
    fn numbered(text: &str) -> String {
        let (mut names, mut numbered) = (Vec::new(), String::new());
        for (nth, part) in text.split("policysync_defined_").enumerate() {
            if nth == 0 {
                numbered.push_str(part);
                continue;
            }
            let digits = part.find(|next: char| !next.is_ascii_digit()).unwrap_or(part.len());
            let name = &part[..digits];
            let known = names.iter().position(|known| *known == name);
            let number = known.unwrap_or_else(|| {
                names.push(name);
                names.len() - 1
            });
            numbered.push_str(&format!("${number}{}", &part[digits..]));
        }
        numbered
    }
}
