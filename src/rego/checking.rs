//! What is wrong with modules that count together.

use std::collections::BTreeSet;

use regorus::Value;

use super::asked::query;
use super::bundle::Bundle;
use super::check::check;
use super::embedded::Embedded;
use super::evaluated_by::EvaluatedBy;
use super::fault::{Fault, Faults};
use super::module::Module;
use super::secrets::SecretReads;

/// How many packages are evaluated by one query: each query takes time by the number of all modules, and has a limit.
const QUERIES: usize = 100;

/// Checks `modules`, one bundle, of which others are `unread`; where the embedded engine is to evaluate it, it evaluates each of its
/// packages once, of an empty review. Also returns where they read the contents of Secrets, which have the names `secrets`: that is found
/// in their syntax trees, which the bundle does not keep.
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
    secrets: &BTreeSet<String>,
) -> Result<(Bundle, SecretReads), Faults> {
    let (mut edited, mut faults) = (Vec::new(), Vec::new());
    let bundle = Bundle::of(modules, unread, |read| match read {
        Ok(module) => edited.push(module),
        Err(fault) => faults.push(fault),
    });
    let bundle = bundle.map_err(Faults::new)?;
    faults.extend(check(&edited, evaluator));
    if !faults.is_empty() {
        return Err(Faults::new(faults.into_iter().map(|fault| bundle.original_of_edited(fault)).collect()));
    }
    let reads = SecretReads::of(&bundle, &edited, secrets);
    drop(edited);
    let faults = if evaluator == EvaluatedBy::Embedded { tried(&bundle) } else { Vec::new() };
    if faults.is_empty() { Ok((bundle, reads)) } else { Err(Faults::new(faults)) }
}

/// What evaluating each package once finds.
fn tried(bundle: &Bundle) -> Vec<Fault> {
    let engine = match Embedded::new(bundle, Value::new_object()) {
        Ok(engine) => engine,
        Err(fault) => return vec![fault],
    };
    let (input, packages) = (empty_review(), bundle.packages());
    let queries: Vec<String> = packages.iter().map(|package| query(package)).collect();
    let mut faults = Vec::new();
    for queries in queries.chunks(QUERIES) {
        let all: String = queries.iter().map(|query| format!("[true | {query}],\n")).collect();
        if engine.evaluate(&format!("count([\n{all}])"), &input).is_err() {
            let failures = queries.iter().filter_map(|query| engine.evaluate(query, &input).err());
            faults.extend(failures.map(|failure| failure.fault));
        }
    }
    faults
}

/// The input of a review of nothing.
pub(super) fn empty_review() -> Value {
    serde_json::json!({"request": {}, "reviewed": ["", "", "", {}]}).into()
}
