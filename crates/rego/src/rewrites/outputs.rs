//! Rewrites calls of functions with an argument for the result, such as `count(xs, n)`. The embedded engine supports
//! such calls only for builtins that it implements itself. The statement becomes `count(xs) = n`.

use regorus::unstable::{Expr, Literal, LiteralStmt, Ref};

use super::{after, closed};
use crate::edit::{Edit, offset};
use crate::extensions;
use crate::module::Module;
use crate::tree;

/// The function, the arguments and the result argument, if `statement` is a call of a function of [`extensions`] with
/// an argument for its result.
pub(super) fn with_result(statement: &LiteralStmt) -> Option<(&Expr, &[Ref<Expr>], &Expr)> {
    let Literal::Expr { expr, .. } = &statement.literal else { return None };
    let Expr::Call { fcn, params, .. } = expr.as_ref() else { return None };
    let (result, arguments) = params.split_last()?;
    let arity = extensions::arity(&tree::constants(fcn).join("."))?;
    (arguments.len() == arity).then_some((fcn, arguments, result))
}

/// The edits for a `statement` that is a call [with a result argument](with_result).
pub(super) fn edits(module: &Module, statement: &LiteralStmt) -> Vec<Edit> {
    match (with_result(statement), &statement.literal) {
        (Some((_, [.., last], result)), Literal::Expr { expr, .. }) => {
            last_argument_moved(module, expr, last, result, ") =")
        }
        _ => Vec::new(),
    }
}

/// The edits that move the argument `last` of `call` behind the call. `before` is the preceding argument. `end` is the
/// new text that replaces the comma between `before` and `last`.
pub(super) fn last_argument_moved(
    module: &Module,
    call: &Expr,
    before: &Expr,
    last: &Expr,
    end: &str,
) -> Vec<Edit> {
    let (after_before, call_end) = (closed(module, before.span().end), call.span().end);
    let between = module.text.get(after_before as usize..tree::start(last).start as usize);
    // In the tree, an argument `set()` ends after the comma that follows it.
    let comma = match between.and_then(|between| after(between, ",")) {
        Some(comma) => after_before + comma,
        None => match module.text[..after_before as usize].rfind(',') {
            Some(comma) => offset(comma),
            None => return Vec::new(),
        },
    };
    let mut edits = vec![
        Edit { start: comma, end: comma + 1, text: end.to_owned() },
        Edit { start: call_end - 1, end: call_end, text: String::new() },
    ];
    let after_last = closed(module, last.span().end);
    let rest = module.text.get(after_last as usize..call_end as usize - 1).unwrap_or_default();
    let without_comments = rest.lines().flat_map(|line| line.split('#').next()).collect::<String>();
    if let Some(comma) = after(rest, ",").filter(|_| without_comments.trim() == ",") {
        let start = after_last + comma;
        edits.push(Edit { start, end: start + 1, text: String::new() });
    }
    edits
}

#[cfg(test)]
mod tests {
    use super::super::assert_bodies;

    #[test]
    fn result_is_compared_or_bound() {
        assert_bodies(&[
            ("any([true], x)", "any([true]) = x"),
            ("strings.count(\"a,b\", \",\", n); n > 0", "strings.count(\"a,b\", \",\") = n; n > 0"),
            ("x := [y | any(input, y)]", "x := [y | any(input) = y]"),
            ("any(\n\tinput.a, # ,\n\ty\n)", "any(\n\tinput.a) = # ,\n\ty\n"),
            ("any(\n\tinput.a,\n\t[y, z], # ,\n)", "any(\n\tinput.a) =\n\t[y, z] # ,\n"),
            ("any(input.a, y,)", "any(input.a) = y"),
            ("any(set(), x)", "any(set()) = x"),
            ("any(input.a)", "any(input.a)"),
            ("count(input.a, n)", "count(input.a, n)"),
        ]);
    }
}
