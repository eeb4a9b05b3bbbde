//! Abstract evaluation of assignments and patterns.

use regorus::unstable::{AssignOp, BoolOp, Expr};

use super::flow::Flow;
use super::frame::{Frame, Root};
use super::part::{Key, Part};
use crate::tree;

impl<'m> Flow<'m> {
    pub(super) fn assignment(
        &mut self,
        op: &AssignOp,
        lhs: &'m Expr,
        rhs: &'m Expr,
        frame: &mut Frame<'m>,
    ) -> Part {
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

    /// Binds the variables of `pattern` to the fields of `part`; undefined if it cannot match.
    pub(super) fn bind(&mut self, pattern: &'m Expr, part: Part, frame: &mut Frame<'m>) -> Part {
        if part == Part::NOTHING {
            return part;
        }
        match pattern {
            Expr::Var { .. } => match self.root(pattern, frame) {
                Some(Root::Variable(name)) => {
                    if name != "_" {
                        frame.bind(name, part);
                    }
                    Part::OTHER
                }
                _ => self.compared(pattern, part, frame),
            },
            Expr::Array { items, .. } => {
                let items = items.iter().enumerate();
                let bound = items.map(|(number, item)| {
                    let part = self.step(pattern, part, Key::Number(number), frame);
                    self.bind(item, part, frame)
                });
                bound.fold(Part::OTHER, |all, one| if one == Part::NOTHING { one } else { all })
            }
            Expr::Object { fields, .. } => {
                let mut all = Part::OTHER;
                for (_, key, value) in fields {
                    let key = tree::constant(key).map_or(Key::Any, Key::Text);
                    let part = self.step(pattern, part, key, frame);
                    if self.bind(value, part, frame) == Part::NOTHING {
                        all = Part::NOTHING;
                    }
                }
                all
            }
            _ => self.compared(pattern, part, frame),
        }
    }

    /// Compares `expr` with a value that is `part`.
    fn compared(&mut self, expr: &'m Expr, part: Part, frame: &mut Frame<'m>) -> Part {
        if part.holds() && !matches!(expr, Expr::String { .. } | Expr::Null { .. } | Expr::Bool { .. }) {
            frame.reads(expr);
        }
        self.whole(expr, frame)
    }
}
