//! What is wrong with modules that count together.

use regorus::Value;

use super::asked::query;
use super::bundle::Bundle;
use super::check::check;
use super::embedded::Embedded;
use super::evaluated_by::EvaluatedBy;
use super::fault::{Fault, Faults};
use super::module::Module;

/// Checks `modules`, one bundle, of which others are `unread`; where the embedded engine is to evaluate it, it evaluates each of its
/// packages once, of an empty review.
///
/// It may take minutes and all memory, and may end the process: see [`confined`](super::confined).
///
/// # Errors
///
/// All that is wrong.
pub(super) fn checked(
    modules: impl IntoIterator<Item = Module>,
    unread: Vec<Fault>,
    evaluator: EvaluatedBy,
) -> Result<Bundle, Faults> {
    let (mut edited, mut faults) = (Vec::new(), Vec::new());
    let bundle = Bundle::of(modules, unread, |read| match read {
        Ok(module) => edited.push(module),
        Err(fault) => faults.push(fault),
    });
    let bundle = bundle.map_err(Faults::new)?;
    faults.extend(check(&edited, evaluator));
    drop(edited);
    if !faults.is_empty() {
        return Err(Faults::new(faults.into_iter().map(|fault| bundle.original_of_edited(fault)).collect()));
    }
    let faults = if evaluator == EvaluatedBy::Embedded { tried(&bundle) } else { Vec::new() };
    if faults.is_empty() { Ok(bundle) } else { Err(Faults::new(faults)) }
}

/// What evaluating each package once finds.
fn tried(bundle: &Bundle) -> Vec<Fault> {
    let engine = match Embedded::new(bundle, Value::new_object()) {
        Ok(engine) => engine,
        Err(fault) => return vec![fault],
    };
    let (input, packages) = (empty_review(), bundle.packages());
    let queries: Vec<String> = packages.iter().map(|package| query(package)).collect();
    // Each query costs time by the number of modules, so all are one unless one fails.
    let all: String = queries.iter().map(|query| format!("[true | {query}],\n")).collect();
    if engine.ask(&format!("count([\n{all}])"), &input).is_ok() {
        return Vec::new();
    }
    queries.iter().filter_map(|query| engine.ask(query, &input).err()).map(|failure| failure.fault).collect()
}

/// The input of a review of nothing.
pub(super) fn empty_review() -> Value {
    serde_json::json!({"request": {}, "reviewed": ["", "", "", {}]}).into()
}
