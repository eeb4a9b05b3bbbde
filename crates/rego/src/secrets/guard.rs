//! Statically evaluates guards: conditions such as `input.request.kind.kind == "Pod"`, which no Secret meets.

use regorus::unstable::{AssignOp, BoolOp, Expr, Literal, LiteralStmt, Query};

use super::flow::Flow;
use super::frame::{Frame, Root};
use super::review_parts::{Key, ReviewParts};
use crate::tree;

/// Whether a condition holds for Secrets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Truth {
    /// `true` if the condition holds for all Secrets, `false` if it holds for none, and `None` if this is unknown.
    for_secrets: Option<bool>,
    /// Whether the condition is false for all kinds other than Secrets.
    pub(super) only_secrets: bool,
}

impl Truth {
    const UNKNOWN: Self = Self { for_secrets: None, only_secrets: false };
    pub(super) const ALWAYS: Self = Self { for_secrets: Some(true), only_secrets: false };
    const NEVER: Self = Self { for_secrets: Some(false), only_secrets: false };

    pub(super) fn is_never(self) -> bool {
        self.for_secrets == Some(false)
    }

    pub(super) fn is_always(self) -> bool {
        self.for_secrets == Some(true)
    }

    fn and(self, other: Self) -> Self {
        let for_secrets = match (self.for_secrets, other.for_secrets) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (Some(true), Some(true)) => Some(true),
            _ => None,
        };
        Self { for_secrets, only_secrets: self.only_secrets || other.only_secrets }
    }

    fn not(self) -> Self {
        Self { for_secrets: self.for_secrets.map(|holds| !holds), only_secrets: false }
    }
}

impl<'m> Flow<'m> {
    /// Evaluates all statements of `query`.
    pub(super) fn query(&mut self, query: &'m Query, frame: &mut Frame<'m>) -> Truth {
        query.stmts.iter().fold(Truth::ALWAYS, |all, statement| all.and(self.holds(statement, frame)))
    }

    fn holds(&mut self, statement: &'m LiteralStmt, frame: &mut Frame<'m>) -> Truth {
        let part = self.statement(statement, frame);
        let has_with = !statement.with_mods.is_empty();
        match &statement.literal {
            Literal::SomeVars { .. } => Truth::ALWAYS,
            Literal::NotExpr { .. } if has_with => Truth::UNKNOWN,
            Literal::NotExpr { expr, .. } => self.truth(expr, frame).not(),
            _ if part == ReviewParts::NOTHING => Truth::NEVER,
            Literal::Expr { expr, .. } if !has_with => self.truth(expr, frame),
            Literal::Expr { .. } | Literal::SomeIn { .. } | Literal::Every { .. } => Truth::UNKNOWN,
        }
    }

    /// The truth of `expr`, whose effects are recorded already.
    fn truth(&mut self, expr: &'m Expr, frame: &mut Frame<'m>) -> Truth {
        let before = frame.effects();
        let truth = self.truth_of(expr, frame);
        frame.truncate_effects(before);
        truth
    }

    fn truth_of(&mut self, expr: &'m Expr, frame: &mut Frame<'m>) -> Truth {
        match expr {
            Expr::BoolExpr { op: BoolOp::Eq, lhs, rhs, .. }
            | Expr::AssignExpr { op: AssignOp::Eq, lhs, rhs, .. } => self.equal(lhs, rhs, frame),
            Expr::BoolExpr { op: BoolOp::Ne, lhs, rhs, .. } => self.equal(lhs, rhs, frame).not(),
            Expr::Membership { key: None, value, collection, .. } => {
                let part = self.expression(value, frame);
                self.constants(collection, frame).map_or(Truth::UNKNOWN, |of| self.one_of(part, &of))
            }
            Expr::RefBrack { refr, index, .. } if tree::constant(index).is_none() => {
                let part = self.expression(index, frame);
                self.constants(refr, frame).map_or(Truth::UNKNOWN, |of| self.one_of(part, &of))
            }
            Expr::Var { .. } | Expr::RefDot { .. } => match self.root(expr, frame) {
                Some(Root::Rule(number, below)) if below.is_empty() => {
                    let outcome = self.outcome(&(number, Vec::new()));
                    let is_false = outcome.default.is_none_or(|(_, is_false)| is_false);
                    match (outcome.is_true, outcome.value == ReviewParts::NOTHING && is_false) {
                        (true, _) => Truth::ALWAYS,
                        (_, true) => Truth::NEVER,
                        _ => Truth::UNKNOWN,
                    }
                }
                _ => Truth::UNKNOWN,
            },
            _ => Truth::UNKNOWN,
        }
    }

    fn equal(&mut self, lhs: &'m Expr, rhs: &'m Expr, frame: &mut Frame<'m>) -> Truth {
        let one_way = self.equals(lhs, rhs, frame);
        if one_way == Truth::UNKNOWN { self.equals(rhs, lhs, frame) } else { one_way }
    }

    fn equals(&mut self, expr: &'m Expr, written: &'m Expr, frame: &mut Frame<'m>) -> Truth {
        if let Some(text) = tree::constant(written) {
            let part = self.expression(expr, frame);
            return self.one_of(part, &[text]);
        }
        let fields: Vec<(Key<'_>, &'m Expr)> = match written {
            Expr::Array { items, .. } => {
                items.iter().enumerate().map(|(number, item)| (Key::Number(number), item.as_ref())).collect()
            }
            Expr::Object { fields, .. } => {
                let constant = |key: &'m Expr| tree::constant(key).map(Key::Text);
                fields.iter().filter_map(|(_, key, value)| Some((constant(key)?, value.as_ref()))).collect()
            }
            _ => return Truth::UNKNOWN,
        };
        let part = self.expression(expr, frame);
        let mut all = Truth::UNKNOWN;
        for (key, value) in fields {
            if let Some(text) = tree::constant(value) {
                let (part, _) = part.step(key, self.secrets);
                all = all.and(self.one_of(part, &[text]));
            }
        }
        all
    }

    /// Whether `part` equals one of `texts`.
    fn one_of(&self, part: ReviewParts, texts: &[&str]) -> Truth {
        let is_called = |text: &&&str| self.secrets.contains(**text);
        // If policies refer to Secrets by several names, the name in the review is unknown.
        let (matching, is_certain) = match part {
            ReviewParts::KIND => (texts.iter().filter(|text| **text == "Secret").count(), true),
            ReviewParts::PLURAL => (texts.iter().filter(|text| **text == "secrets").count(), true),
            ReviewParts::GROUP => (texts.iter().filter(|text| text.is_empty()).count(), true),
            ReviewParts::SECRET_NAME => (texts.iter().filter(is_called).count(), self.secrets.len() == 1),
            _ => return Truth::UNKNOWN,
        };
        if matching == 0 {
            return Truth::NEVER;
        }
        let only_secrets = matching == texts.len() && part != ReviewParts::GROUP;
        Truth { for_secrets: is_certain.then_some(true), only_secrets }
    }

    /// The strings of a literal array or set, or of a rule whose value is such a literal.
    fn constants(&self, expr: &'m Expr, frame: &Frame<'m>) -> Option<Vec<&'m str>> {
        let written = match expr {
            Expr::Array { .. } | Expr::Set { .. } => expr,
            _ => match self.root(expr, frame)? {
                Root::Rule(number, below) if below.is_empty() => match self.definitions(number) {
                    [(_, rule)] if tree::has_no_body(rule) => tree::head_value(rule)?,
                    _ => return None,
                },
                _ => return None,
            },
        };
        let (Expr::Array { items, .. } | Expr::Set { items, .. }) = written else { return None };
        items.iter().map(|item| tree::constant(item)).collect()
    }
}
