//! Makes divisions by zero undefined, as in OPA. In the embedded engine, such divisions are errors. The divisor becomes
//! the argument of a function that is undefined for zero.

use anyhow::Result;
use regorus::Value;
use regorus::unstable::{ArithOp, Expr};

use super::{closed, start};
use crate::edit::Edit;
use crate::module::Module;

/// The function of the embedded engine for divisors.
pub(crate) const DIVISOR: &str = "policysync_divisor";

/// Returns the divisor; undefined if it is zero.
pub(crate) fn unless_zero(values: Vec<Value>) -> Result<Value> {
    Ok(values.into_iter().next().filter(|value| *value != Value::from(0)).unwrap_or(Value::Undefined))
}

/// The divisor of `expr`, if `expr` is a division and the divisor may be zero.
pub(super) fn of(expr: &Expr) -> Option<&Expr> {
    let Expr::ArithExpr { op: ArithOp::Div | ArithOp::Mod, rhs, .. } = expr else { return None };
    let is_safe = matches!(rhs.as_ref(), Expr::Number { value, .. } if *value != Value::from(0));
    (!is_safe).then_some(rhs)
}

/// The edits for a division whose divisor may be zero.
pub(super) fn edits(module: &Module, expr: &Expr) -> Vec<Edit> {
    let Some(divisor) = of(expr) else { return Vec::new() };
    vec![
        Edit::insert(start(module, divisor), format!("{DIVISOR}(")),
        Edit::insert(closed(module, divisor.span().end), ")".to_owned()),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::assert_bodies;

    #[test]
    fn divisors_that_may_be_zero_are_checked_by_a_call() {
        assert_bodies(&[
            ("x := 1 / input.n", "x := 1 / policysync_divisor(input.n)"),
            ("7 % count(input.l) > 2", "7 % policysync_divisor(count(input.l)) > 2"),
            (
                "x := (a / (b / c)) % ((d + 1) * 2)",
                "x := (a / (policysync_divisor(b / policysync_divisor(c)))) % (policysync_divisor((d + 1) * 2))",
            ),
            ("x := a / b / c", "x := a / policysync_divisor(b) / policysync_divisor(c)"),
            ("x := 1 / 0", "x := 1 / policysync_divisor(0)"),
            ("x := 1 / 0.0", "x := 1 / policysync_divisor(0.0)"),
            ("x := [y | y := 1 / input.l[_]]", "x := [y | y := 1 / policysync_divisor(input.l[_])]"),
            ("x := y / 10 % 3", "x := y / 10 % 3"),
            ("x := y * z", "x := y * z"),
        ]);
    }
}
