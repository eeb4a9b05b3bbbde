//! Statically evaluates function calls, for any Secret under review.

use regorus::unstable::Expr;

use super::flow::Flow;
use super::frame::{Call, Frame};
use super::review_parts::{Key, ReviewParts};
use crate::builtins::{Builtin, builtin};
use crate::tree;

/// Builtins whose result does not depend on the fields of an object.
const BLIND: [&str; 9] = [
    "is_array",
    "is_boolean",
    "is_null",
    "is_number",
    "is_object",
    "is_set",
    "is_string",
    "print",
    "type_name",
];

impl<'m> Flow<'m> {
    pub(super) fn call(
        &mut self,
        expr: &'m Expr,
        function: &'m Expr,
        params: &[&'m Expr],
        frame: &mut Frame<'m>,
    ) -> ReviewParts {
        let path = self.names[frame.module].path_of_rule(function);
        let Some((number, arity)) = path.and_then(|path| self.function(&path.constants)) else {
            return self.builtin(expr, function, params, frame);
        };
        let arity = arity.min(params.len());
        let arguments: Vec<ReviewParts> =
            params[..arity].iter().map(|param| self.expression(param, frame)).collect();
        if arguments.contains(&ReviewParts::NOTHING) {
            return ReviewParts::NOTHING;
        }
        let part = self.uses((number, arguments), frame);
        match params.get(arity) {
            Some(output) => self.bind(output, part, frame),
            None => part,
        }
    }

    pub(super) fn uses(&mut self, call: Call, frame: &mut Frame<'m>) -> ReviewParts {
        let outcome = self.outcome(&call);
        frame.uses(call);
        outcome.value | outcome.default.map_or(ReviewParts::NOTHING, |(part, _)| part)
    }

    fn builtin(
        &mut self,
        expr: &'m Expr,
        function: &'m Expr,
        params: &[&'m Expr],
        frame: &mut Frame<'m>,
    ) -> ReviewParts {
        let name = tree::constants(function).join(".");
        let arity = match builtin(&name) {
            Some(Builtin::Known { arity, .. }) => arity.min(params.len()),
            _ => params.len(),
        };
        let (arguments, output) = params.split_at(arity);
        let part = match (name.as_str(), arguments) {
            ("object.get", [object, path, default]) => self.get(expr, object, path, default, frame),
            (name, _) if BLIND.contains(&name) => {
                let parts: Vec<ReviewParts> =
                    arguments.iter().map(|one| self.expression(one, frame)).collect();
                if parts.contains(&ReviewParts::NOTHING) { ReviewParts::NOTHING } else { ReviewParts::OTHER }
            }
            _ => self.all(arguments.iter().copied(), frame),
        };
        match output.first() {
            Some(output) => self.bind(output, part, frame),
            None => part,
        }
    }

    /// Evaluates `object.get` with a key or a list of keys.
    fn get(
        &mut self,
        expr: &'m Expr,
        object: &'m Expr,
        path: &'m Expr,
        default: &'m Expr,
        frame: &mut Frame<'m>,
    ) -> ReviewParts {
        let object = self.expression(object, frame);
        if object == ReviewParts::NOTHING || self.whole(path, frame) == ReviewParts::NOTHING {
            return ReviewParts::NOTHING;
        }
        let key = |expr: &'m Expr| tree::constant(expr).map_or(Key::Any, Key::Text);
        let keys: Vec<Key<'_>> = match path {
            Expr::Array { items, .. } => items.iter().map(|item| key(item)).collect(),
            // The variable may be a list of keys.
            Expr::Var { .. } | Expr::RefDot { .. } | Expr::RefBrack { .. } if object.holds() => {
                frame.reads(expr);
                Vec::new()
            }
            _ => vec![key(path)],
        };
        let found = keys.into_iter().fold(object, |part, key| self.step(expr, part, key, frame));
        found | self.expression(default, frame)
    }
}
