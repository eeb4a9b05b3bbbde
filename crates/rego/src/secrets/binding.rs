//! Statically evaluates assignments and unification patterns, for any Secret under review.

use regorus::unstable::{AssignOp, BoolOp, Expr};

use super::flow::Flow;
use super::frame::{Frame, Root};
use super::review_parts::{Key, ReviewParts};
use crate::tree;

impl<'m> Flow<'m> {
    pub(super) fn assignment(
        &mut self,
        op: &AssignOp,
        lhs: &'m Expr,
        rhs: &'m Expr,
        frame: &mut Frame<'m>,
    ) -> ReviewParts {
        let takes = |expr: &Expr, frame: &Frame<'m>, flow: &Self| match expr {
            Expr::Var { .. } => matches!(flow.root(expr, frame), Some(Root::Variable(_))),
            Expr::Array { .. } | Expr::Object { .. } => true,
            _ => false,
        };
        let (left, right) = (takes(lhs, frame, self), *op == AssignOp::Eq && takes(rhs, frame, self));
        match (left || *op == AssignOp::ColEq, right) {
            (true, false) => {
                let part = self.expression(rhs, frame);
                self.bind(lhs, part, frame)
            }
            (false, true) => {
                let part = self.expression(lhs, frame);
                self.bind(rhs, part, frame)
            }
            (true, true) => {
                let part = self.expression(rhs, frame);
                self.bind(lhs, part, frame);
                let part = self.expression(lhs, frame);
                self.bind(rhs, part, frame)
            }
            (false, false) => self.comparison(&BoolOp::Eq, lhs, rhs, frame),
        }
    }

    /// Binds the variables of `pattern` to the fields of `part`. The result is undefined if the pattern cannot match.
    pub(super) fn bind(
        &mut self,
        pattern: &'m Expr,
        part: ReviewParts,
        frame: &mut Frame<'m>,
    ) -> ReviewParts {
        if part == ReviewParts::NOTHING {
            return part;
        }
        match pattern {
            Expr::Var { .. } => match self.root(pattern, frame) {
                Some(Root::Variable(name)) => {
                    if name != "_" {
                        frame.bind(name, part);
                    }
                    ReviewParts::OTHER
                }
                _ => self.compared(pattern, part, frame),
            },
            Expr::Array { items, .. } => {
                let items = items.iter().enumerate();
                let bound = items.map(|(number, item)| {
                    let part = self.step(pattern, part, Key::Number(number), frame);
                    self.bind(item, part, frame)
                });
                bound.fold(ReviewParts::OTHER, |all, one| if one == ReviewParts::NOTHING { one } else { all })
            }
            Expr::Object { fields, .. } => {
                let mut all = ReviewParts::OTHER;
                for (_, key, value) in fields {
                    let key = tree::constant(key).map_or(Key::Any, Key::Text);
                    let part = self.step(pattern, part, key, frame);
                    if self.bind(value, part, frame) == ReviewParts::NOTHING {
                        all = ReviewParts::NOTHING;
                    }
                }
                all
            }
            _ => self.compared(pattern, part, frame),
        }
    }

    /// Compares `expr` with a value that is one of the parts in `part`.
    fn compared(&mut self, expr: &'m Expr, part: ReviewParts, frame: &mut Frame<'m>) -> ReviewParts {
        if part.holds() && !matches!(expr, Expr::String { .. } | Expr::Null { .. } | Expr::Bool { .. }) {
            frame.reads(expr);
        }
        self.whole(expr, frame)
    }
}
