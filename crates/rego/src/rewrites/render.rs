//! Formats a part of the tree on one line, with all rewrites of its text.

use std::rc::Rc;

use regorus::unstable::{ArithOp, BinOp, Expr, Literal, LiteralStmt, Query, Ref, WithModifier};

use super::divisors::{self, DIVISOR};
use super::memberships::{MEMBER, MEMBER_WITH_KEY};
use super::negations::{self, Lifted};
use super::quantified::Meanings;
use super::walks::{self, WALK, is_generator};
use super::{Defined, aliases, declarations, members, objects, orders, outputs, terms, wildcards};
use crate::module::{Negation, name_of};
use crate::tree;

/// Formats expressions.
pub(super) struct Renderer<'d> {
    /// The names that are bound.
    pub(super) defined: &'d Defined<'d>,
    /// The kind of negation, and the indexes to rewrite.
    meanings: Rc<Meanings>,
    /// Whether each `_` gets a name.
    names_wildcards: bool,
    /// The expressions `y` in [assignments](aliases) that must become `[y][0]`.
    sources: Vec<&'d Expr>,
}

/// The precedence of an operator, from comparisons (the lowest) to terms (the highest).
type Level = u8;

const COMPARISON: Level = 1;
const UNION: Level = 2;
const INTERSECTION: Level = 3;
const SUM: Level = 4;
const PRODUCT: Level = 5;
const TERM: Level = 6;

impl<'d> Renderer<'d> {
    pub(super) fn new(defined: &'d Defined<'d>, meanings: &Rc<Meanings>) -> Self {
        Self { defined, meanings: meanings.clone(), names_wildcards: false, sources: Vec::new() }
    }

    pub(super) fn expr(&self, expr: &Expr) -> String {
        self.at(COMPARISON, expr, &Lifted::default())
    }

    /// The statements of `query`, in which the `more` names are bound as well.
    fn query<'q>(&self, query: &'q Query, more: impl IntoIterator<Item = &'q str>) -> String {
        let mut outer: Defined<'_> = self.defined.iter().copied().collect();
        for name in more {
            outer.insert(name);
        }
        let defined = super::defined(query, &outer);
        let inner = Renderer { sources: aliases::sources(query), ..Renderer::new(&defined, &self.meanings) };
        let late = orders::late(query, &outer);
        let is_late = |statement: &LiteralStmt| late.iter().any(|late| std::ptr::eq(*late, statement));
        let declarations = |statement| [declarations::of(statement), objects::declaration(statement)];
        let declared = query.stmts.iter().flat_map(declarations).flatten();
        let is_other =
            |statement: &&LiteralStmt| declarations::of(statement).is_none() && !is_late(statement);
        let others = query.stmts.iter().filter(is_other).chain(late.iter().copied());
        declared.chain(others.map(|statement| inner.statement(statement))).collect::<Vec<_>>().join("; ")
    }

    /// A comparison of `lhs` and `rhs`, the sides of `statement`, with its modifiers. Each `_` has a name.
    pub(super) fn comparison(&self, statement: &LiteralStmt, lhs: &Expr, rhs: &Expr) -> String {
        let lifted = self.lifted(statement);
        let with = self.modifiers(statement, &lifted);
        let named = self.naming_wildcards();
        let side = |expr| named.at(COMPARISON + 1, expr, &lifted);
        format!("{} == {}{with}", side(lhs), side(rhs))
    }

    /// A renderer like this one that gives each `_` a name.
    fn naming_wildcards(&self) -> Self {
        Self {
            names_wildcards: true,
            sources: self.sources.clone(),
            ..Self::new(self.defined, &self.meanings)
        }
    }

    /// The statements that compare `pattern` with its [value](objects::value).
    pub(super) fn matched(&self, pattern: &Expr) -> String {
        let named = self.naming_wildcards();
        let (pattern, value) = (named.expr(pattern), objects::value(pattern));
        format!("{pattern} = [{value}][0]; {pattern} == {value}")
    }

    fn modifiers(&self, statement: &LiteralStmt, lifted: &Lifted<'_>) -> String {
        let modifier = |with: &WithModifier| {
            format!(" with {} as {}", self.expr(&with.refr), self.at(COMPARISON, &with.r#as, lifted))
        };
        statement.with_mods.iter().map(modifier).collect()
    }

    /// The parts of `statement` that variables replace.
    fn lifted<'s>(&self, statement: &'s LiteralStmt) -> Lifted<'s> {
        match self.meanings.negation {
            Negation::OfExpressions => negations::lifted(statement, self.defined),
            Negation::OfBodies => Lifted::default(),
        }
    }

    pub(super) fn statement(&self, statement: &LiteralStmt) -> String {
        let lifted = self.lifted(statement);
        let with = self.modifiers(statement, &lifted);
        if let Some((lhs, rhs)) = objects::sides(statement) {
            let named = self.naming_wildcards();
            let Literal::Expr { expr, .. } = &statement.literal else { return String::new() };
            let comparison = self.comparison(statement, lhs, rhs);
            return lifted.assignments(self, statement)
                + &named.literal(expr, &lifted)
                + &with
                + "; "
                + &comparison;
        }
        let literal = match &statement.literal {
            Literal::SomeVars { .. } => declarations::of(statement).unwrap_or_default(),
            Literal::SomeIn { key, value, collection, .. } => {
                let item =
                    |expr| if objects::has_object(expr) { objects::value(expr) } else { self.expr(expr) };
                let key = key.as_ref().map(|key| item(key) + ", ").unwrap_or_default();
                let some = format!("some {key}{} in {}", item(value), self.expr(collection));
                return lifted.assignments(self, statement)
                    + &some
                    + &with
                    + &objects::comparisons(self, statement);
            }
            Literal::Every { key, value, domain, query, .. } => {
                let names = key.iter().chain([value]).map(|span| span.text());
                let (domain, query) = (self.expr(domain), self.query(query, names));
                let key = key.as_ref().map(|key| format!("{}, ", key.text())).unwrap_or_default();
                format!("every {key}{} in {domain} {{ {query} }}", value.text())
            }
            Literal::Expr { expr, .. } => {
                if let Some((_, value, pattern)) = walks::with_pattern(statement) {
                    format!("{WALK}({})[_] = {}", self.expr(value), self.expr(pattern))
                } else if let Some((function, arguments, result)) = outputs::with_result(statement) {
                    let arguments: Vec<String> =
                        arguments.iter().map(|argument| self.item(argument, &lifted)).collect();
                    format!("{}({}) = {}", self.expr(function), arguments.join(", "), self.expr(result))
                } else {
                    self.literal(expr, &lifted)
                }
            }
            Literal::NotExpr { expr, .. } => format!("not {}", self.literal(expr, &lifted)),
        };
        lifted.assignments(self, statement) + &literal + &with
    }

    /// The text of `expr`, the expression of a statement. Only the expression of a statement may be an assignment.
    fn literal(&self, expr: &Expr, lifted: &Lifted<'_>) -> String {
        match expr {
            Expr::AssignExpr { lhs, rhs, .. } => {
                let op = if members::is_membership(expr) { "==" } else { symbol(expr) };
                if let Some((name, value)) = wildcards::assigned(expr) {
                    return format!("{name} := {}", self.at(COMPARISON, value, lifted));
                }
                format!("{} {op} {}", self.side(TERM, lhs, lifted), self.side(COMPARISON, rhs, lifted))
            }
            _ => self.at(COMPARISON, expr, lifted),
        }
    }

    /// A side of an assignment.
    fn side(&self, level: Level, side: &Expr, lifted: &Lifted<'_>) -> String {
        let text = self.at(level, side, lifted);
        let is_source = self.sources.iter().any(|source| std::ptr::eq(*source, side));
        if is_source { format!("[{text}][0]") } else { text }
    }

    /// The text of `expr`, in parentheses if its operator is below `level`. Lifted parts are replaced by their
    /// variables.
    pub(super) fn at(&self, level: Level, expr: &Expr, lifted: &Lifted<'_>) -> String {
        if let Some(name) = lifted.name(expr) {
            return name;
        }
        let list = |items: &[Ref<Expr>]| {
            items.iter().map(|item| self.item(item, lifted)).collect::<Vec<_>>().join(", ")
        };
        let index = |expr: &Expr| {
            let text = self.at(COMPARISON, expr, lifted);
            if self.meanings.is_quantified(expr) { format!("[{text}][0]") } else { text }
        };
        let term = |expr: &Expr| self.at(TERM, expr, lifted);
        match expr {
            Expr::String { value, .. } | Expr::RawString { value, .. } => value.to_string(),
            Expr::Var { .. } if self.names_wildcards && name_of(expr) == Some("_") => wildcards::named(expr),
            Expr::Number { span, .. }
            | Expr::Bool { span, .. }
            | Expr::Null { span, .. }
            | Expr::Var { span, .. } => span.text().to_owned(),
            Expr::Array { items, .. } => format!("[{}]", list(items)),
            Expr::Set { items, .. } if items.is_empty() => "set()".to_owned(),
            Expr::Set { items, .. } => format!("{{{}}}", list(items)),
            Expr::Object { fields, .. } => {
                let field = |(_, key, value): &(_, Ref<Expr>, Ref<Expr>)| {
                    format!("{}: {}", self.item(key, lifted), self.item(value, lifted))
                };
                format!("{{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(", "))
            }
            Expr::ArrayCompr { term: value, query, .. } => {
                let (query, [value]) = self.comprehension(query, [value], lifted);
                format!("[{value} | {query}]")
            }
            Expr::SetCompr { term: value, query, .. } => {
                let (query, [value]) = self.comprehension(query, [value], lifted);
                format!("{{{value} | {query}}}")
            }
            Expr::ObjectCompr { key, value, query, .. } => {
                let (query, [key, value]) = self.comprehension(query, [key, value], lifted);
                format!("{{{key}: {value} | {query}}}")
            }
            Expr::Call { params, .. } if is_generator(expr) => format!("{WALK}({})[_]", list(params)),
            Expr::Call { fcn, params, .. } => format!("{}({})", term(fcn), list(params)),
            Expr::UnaryExpr { expr, .. } => format!("-{}", term(expr)),
            Expr::RefDot { refr, field, .. } => format!("{}.{}", term(refr), field.0.text()),
            Expr::RefBrack { refr, index: at, .. } => format!("{}[{}]", term(refr), index(at)),
            Expr::Membership { key, value, collection, .. } => {
                let (function, key) = match key {
                    Some(key) => (MEMBER_WITH_KEY, self.item(key, lifted) + ", "),
                    None => (MEMBER, String::new()),
                };
                format!("{function}({key}{}, {})", self.item(value, lifted), self.item(collection, lifted))
            }
            // Only the expression of a statement can be an assignment.
            Expr::AssignExpr { .. } => self.literal(expr, lifted),
            Expr::BinExpr { lhs, rhs, .. }
            | Expr::BoolExpr { lhs, rhs, .. }
            | Expr::ArithExpr { lhs, rhs, .. } => {
                let (own, operator) = (level_of(expr), symbol(expr));
                let rhs = match divisors::of(expr) {
                    Some(divisor) => format!("{DIVISOR}({})", self.item(divisor, lifted)),
                    None => self.at(own + 1, rhs, lifted),
                };
                let text = format!("{} {operator} {rhs}", self.at(own, lhs, lifted));
                if own < level { format!("({text})") } else { text }
            }
        }
    }

    /// The body of a comprehension, and its terms.
    fn comprehension<const N: usize>(
        &self,
        query: &Query,
        terms: [&Expr; N],
        lifted: &Lifted<'_>,
    ) -> (String, [String; N]) {
        let mut body = self.query(query, []);
        let terms = terms.map(|term| {
            let text = self.at(TERM, term, lifted);
            let Some(name) = terms::variable(term) else { return text };
            body.push_str(&format!("; {name} := {text}"));
            name
        });
        (body, terms)
    }

    /// `expr` as an item of a list. In a list, `a | b` would begin a comprehension.
    fn item(&self, expr: &Expr, lifted: &Lifted<'_>) -> String {
        let text = self.at(COMPARISON, expr, lifted);
        let mut first = expr;
        while lifted.name(first).is_none() {
            match first {
                Expr::BinExpr { op: BinOp::Union, .. } => return format!("({text})"),
                Expr::BoolExpr { lhs, .. } => first = lhs,
                _ => break,
            }
        }
        text
    }
}

fn symbol(expr: &Expr) -> &'static str {
    tree::operator(expr).map_or("", |(symbol, _)| symbol)
}

/// The precedence of the operator of `expr`.
fn level_of(expr: &Expr) -> Level {
    match expr {
        Expr::BoolExpr { .. } => COMPARISON,
        Expr::BinExpr { op: BinOp::Union, .. } => UNION,
        Expr::BinExpr { op: BinOp::Intersection, .. } => INTERSECTION,
        Expr::ArithExpr { op: ArithOp::Add | ArithOp::Sub, .. } => SUM,
        Expr::ArithExpr { .. } => PRODUCT,
        _ => TERM,
    }
}

#[cfg(test)]
mod tests {
    use super::super::of_text;
    use super::*;
    use crate::module::{Module, ModuleId, Text};

    /// The rendered tree of `expr`.
    fn rendered(expr: &str) -> String {
        let text = format!("package a\nimport rego.v1\np := {expr}\n");
        let module = Module::parse(&Text { id: ModuleId::new("a"), text: text.as_str().into() }).unwrap();
        let rule = &module.tree.policy[0];
        Renderer::new(&Defined::new(), &Rc::new(Meanings::of(&module))).expr(tree::head_value(rule).unwrap())
    }

    #[test]
    fn expressions_are_rendered_on_one_line() {
        for (expr, expected) in [
            ("`a\n\"b`", r#""a\n\"b""#),
            ("\"\\u0001 é\"", r#""\u0001 é""#),
            ("-1 - -2.50e3", "-1 - -2.50e3"),
            ("{\"a\": 1, # one\n\tx: [2, set(), {3}],\n}", "{\"a\": 1, x: [2, set(), {3}]}"),
            ("1 + 2 * 3 > 4", "1 + 2 * 3 > 4"),
            ("(1 + 2) * (3 - (4 - 5)) / 6", "(1 + 2) * (3 - (4 - 5)) / 6"),
            ("1 - 2 - 3", "1 - 2 - 3"),
            ("a % (b / 2)", "a % policysync_divisor(b / 2)"),
            ("(1 > 2) == (3 == 4)", "1 > 2 == (3 == 4)"),
            ("{x} | ({y} & z)", "{x} | {y} & z"),
            ("({x} | y) & z", "({x} | y) & z"),
            ("[(a | b), (a | b) == c, c == (a | b)]", "[(a | b), (a | b == c), c == a | b]"),
            ("{\"k\": (a | b)}", "{\"k\": (a | b)}"),
            ("f((a | b), [1 == [2]])", "f((a | b), [1 == [2]])"),
            ("a.b[\"c-d\"][e.f].g", "a.b[\"c-d\"][e.f].g"),
            ("a.b[\"c-d\"].g(1, x).y[0]", "a.b[\"c-d\"].g(1, x).y[0]"),
            (
                "[x | some x in y; not z\n\tevery k, v in x { v != k } # all\n\ta = b]",
                "[x | some x in y; not z; every k, v in x { v != k }; a = b]",
            ),
            ("{(a | b) | a := {1}; b := {2}}", "{(a | b) | a := {1}; b := {2}}"),
            (
                "{k: v | some k, v in x; some i; y[i] with input.a as {\"b\": 1} with data.c as [2]}",
                "{k: v | some i; some k, v in x; y[i] with input.a as {\"b\": 1} with data.c as [2]}",
            ),
            ("[(1, x in y), x in y]", "[policysync_member_3(1, x, y), policysync_member(x, y)]"),
            ("[v | [_, v] := walk(x)]", "[v | [_, v] := policysync_walk(x)[_]]"),
        ] {
            let found = rendered(expr);
            assert_eq!(found, expected);
            if !expr.contains("walk") && !expr.contains('%') {
                assert_eq!(rendered(&found), found);
            }
        }
    }

    #[test]
    fn long_and_nested_expressions_stay_as_deep_as_they_are() {
        let sum = vec!["input.n"; 100].join(" + ");
        assert_eq!(rendered(&sum), sum);
        let nested = "[1 == ".repeat(20) + "2" + &"]".repeat(20);
        assert_eq!(rendered(&nested), nested);
    }

    #[test]
    fn constants_are_unchanged() {
        let text = "package a\nimport rego.v1\ndefault p := [-1]\np := {\"a\": `b`} if not false\n";
        assert_eq!(of_text(text), text);
    }
}
