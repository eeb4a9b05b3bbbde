//! Checks modules that are loaded together.

use std::collections::BTreeSet;

use regorus::Value;

use super::bundle::Bundle;
use super::check::check;
use super::embedded::Embedded;
use super::engine::EngineKind;
use super::fault::{Fault, Faults};
use super::module::Module;
use super::queries::query;
use super::secrets::SecretReads;

/// The number of packages that one query evaluates. The cost of a query grows with the number of all modules, and each
/// query has a limit.
const PACKAGES_PER_QUERY: usize = 100;

/// Checks `modules` as one bundle; `unread` are the faults of modules that do not parse. For the embedded engine,
/// evaluates each package once with an empty review.
///
/// Also returns the places where modules read the contents of Secrets, because only the syntax trees show these places,
/// and the bundle does not keep the trees. `secrets` lists the names by which modules refer to Secrets.
///
/// The check may take minutes and all memory, and may end the process: see [`confined`](super::confined).
///
/// # Errors
///
/// Returns all faults.
pub(super) fn check_bundle(
    modules: impl IntoIterator<Item = Module>,
    unread: Vec<Fault>,
    evaluator: EngineKind,
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
    let faults = if evaluator == EngineKind::Embedded { evaluation_faults(&bundle) } else { Vec::new() };
    if faults.is_empty() { Ok((bundle, reads)) } else { Err(Faults::new(faults)) }
}

/// The faults that an evaluation of each package finds.
fn evaluation_faults(bundle: &Bundle) -> Vec<Fault> {
    let engine = match Embedded::new(bundle, Value::new_object()) {
        Ok(engine) => engine,
        Err(fault) => return vec![fault],
    };
    let (input, packages) = (empty_review(), bundle.packages());
    let queries: Vec<String> = packages.iter().map(|package| query(package)).collect();
    let mut faults = Vec::new();
    for queries in queries.chunks(PACKAGES_PER_QUERY) {
        let all: String = queries.iter().map(|query| format!("[true | {query}],\n")).collect();
        if engine.evaluate(&format!("count([\n{all}])"), &input).is_err() {
            let failures = queries.iter().filter_map(|query| engine.evaluate(query, &input).err());
            faults.extend(failures.map(|failure| failure.fault));
        }
    }
    faults
}

/// The input of an empty review.
pub(super) fn empty_review() -> Value {
    serde_json::json!({"request": {}, "reviewed": ["", "", "", {}]}).into()
}
