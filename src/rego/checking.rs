//! What is wrong with modules that count together.

use regorus::Value;

use super::asked::query;
use super::bundle::Bundle;
use super::check::check;
use super::embedded::Embedded;
use super::evaluated_by::EvaluatedBy;
use super::fault::{Fault, Faults};
use super::module::Module;
use super::secrets::{SecretReads, names};

/// Checks `modules`, one bundle, of which others are `unread`; where the embedded engine is to evaluate it, it evaluates each of its
/// packages once, of an empty review.
///
/// It may take minutes and all memory, and may end the process: see [`confined`](super::confined).
///
/// # Errors
///
/// All that is wrong.
pub(super) fn checked(
    modules: Vec<Module>,
    unread: Vec<Fault>,
    evaluator: EvaluatedBy,
) -> Result<Bundle, Faults> {
    let bundle = Bundle::of(modules, unread).map_err(Faults::new)?;
    let (modules, mut faults) = bundle.edited();
    faults.extend(check(&modules, evaluator));
    if !faults.is_empty() {
        return Err(Faults::new(faults.into_iter().map(|fault| bundle.original_of_edited(fault)).collect()));
    }
    // The result depends on --replicate, which is unknown here. This run applies the limits of the check to the analysis, which
    // later runs without limits.
    drop(SecretReads::of_modules(&modules, &names(&Default::default())));
    let faults = if evaluator == EvaluatedBy::Embedded { tried(&bundle) } else { Vec::new() };
    if faults.is_empty() { Ok(bundle) } else { Err(Faults::new(faults)) }
}

/// What evaluating each package once finds.
fn tried(bundle: &Bundle) -> Vec<Fault> {
    let engine = match Embedded::new(bundle, Value::new_object()) {
        Ok(engine) => engine,
        Err(fault) => return vec![fault],
    };
    let input: Value = serde_json::json!({"request": {}, "reviewed": ["", "", "", {}]}).into();
    let queries = bundle.packages().into_iter().map(|package| query(&package));
    queries.filter_map(|query| engine.evaluate(&query, &input).err()).map(|failure| failure.fault).collect()
}
