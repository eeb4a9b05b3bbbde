//! Merges the patches of several denials into one JSON Patch ([RFC
//! 6902](https://www.rfc-editor.org/rfc/rfc6902)).

use json_patch::Patch;
use serde_json::Value;

use super::denial::{Denial, ResourceRef, sorted_unique};
use super::operation::Operation;
use super::review_query::at;
use policy_sync_rego::embedded::Embedded;
use policy_sync_rego::queries::expected;

/// Maximum number of operations in a review.
const OPERATIONS: usize = 1_000;
/// Maximum size of the merged patch, in bytes of JSON. The API server accepts objects of up to 3 MiB, and etcd up to
/// 1.5 MiB.
const BYTES: usize = 1 << 20;
/// The expected format of samples, for error messages.
const SAMPLE: &str = "{\"reviewed\": [kind, namespace, name, object]}";

/// Merges the patches of `denials` for `object`, in the order of the denials. Equal operations are applied
/// once.
///
/// # Errors
///
/// If two operations conflict (same path, nested paths, or list indexes shifted by one of the operations), if an
/// operation fails, or if the patch exceeds the limits.
pub fn merge(denials: &[&Denial], object: &Value) -> Result<Patch, String> {
    let operations = operations(denials.iter().copied().enumerate());
    if operations.len() > OPERATIONS {
        return Err(format!(
            "patches with {} operations, at most {OPERATIONS} are allowed",
            operations.len()
        ));
    }
    conflict(&operations, object).map_or(Ok(()), |clash| Err(clash.text))?;
    let (mut patched, mut patch) = (object.clone(), Patch(Vec::new()));
    for (denial, operation) in &operations {
        let is_equal =
            |(other, of): &&(usize, &Operation)| other < denial && of.operation == operation.operation;
        if operations.iter().any(|of| is_equal(&of)) {
            continue;
        }
        let done = json_patch::patch(&mut patched, std::slice::from_ref(&operation.operation));
        done.map_err(|error| format!("{}: {} failed: {}", operation.id, operation.text(), error.kind))?;
        patch.0.push(operation.operation.clone());
    }
    let size = serde_json::to_vec(&patch).map_or(usize::MAX, |text| text.len());
    if size > BYTES {
        return Err(format!("patches of {size} bytes, at most {BYTES} are allowed"));
    }
    Ok(patch)
}

/// All operations of `denials`, each with the index of its denial.
fn operations<'d>(denials: impl Iterator<Item = (usize, &'d Denial)>) -> Vec<(usize, &'d Operation)> {
    let of = |(number, denial): (usize, &'d Denial)| {
        denial.patches.iter().map(move |operation| (number, operation))
    };
    denials.flat_map(of).collect()
}

/// Two Rego policies with conflicting patches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Conflict<'d> {
    /// The Rego modules of the two Rego policies.
    pub policies: [&'d str; 2],
    /// A description of the two operations.
    pub text: String,
}

/// The first conflict between the patches of two Rego policies for `object`. Conflicts within one policy, and
/// denials that name no module, are ignored.
pub(super) fn conflicting<'d>(denials: &[&'d Denial], object: &Value) -> Option<Conflict<'d>> {
    let policies: Vec<&str> = denials.iter().filter_map(|denial| denial.policy.as_deref()).collect();
    let number = |denial: &Denial| policies.iter().position(|of| denial.policy.as_deref() == Some(*of));
    let operations = operations(denials.iter().filter_map(|denial| Some((number(denial)?, *denial))));
    // A patch with too many operations is rejected anyway, so the search for conflicts is skipped.
    let clash = (operations.len() <= OPERATIONS).then(|| conflict(&operations, object)).flatten()?;
    Some(Conflict { policies: clash.between.map(|number| policies[number]), text: clash.text })
}

/// Two conflicting operations.
struct OperationConflict {
    /// The indexes of the two denials to which the operations belong.
    between: [usize; 2],
    /// A description of both operations.
    text: String,
}

/// The first conflict between operations of different denials.
fn conflict(operations: &[(usize, &Operation)], object: &Value) -> Option<OperationConflict> {
    let describe = |(of, one): (usize, &Operation), (by, other): (usize, &Operation)| OperationConflict {
        between: [of, by],
        text: format!("{}: {} conflicts with {}: {}", one.id, one.text(), other.id, other.text()),
    };
    // The paths are sorted, so that nested paths follow their parent.
    let mut paths: Vec<(String, usize, &Operation)> = operations
        .iter()
        .flat_map(|(denial, of)| of.paths().map(move |path| (path + "/", *denial, *of)))
        .collect();
    paths.sort_by(|(one, of, _), (other, by, _)| (one, of).cmp(&(other, by)));
    let mut open: Vec<(&str, usize, &Operation)> = Vec::new();
    for (path, denial, operation) in &paths {
        open.retain(|(outer, ..)| path.starts_with(outer));
        let other = open.iter().find(|(_, of, other)| of != denial && other.operation != operation.operation);
        if let Some((_, of, other)) = other {
            return Some(describe((*of, other), (*denial, operation)));
        }
        open.push((path, *denial, operation));
    }
    for (denial, operation) in operations {
        let Some((list, place)) = operation.shifts(object) else { continue };
        let moved = operations.iter().find(|(other, of)| {
            let at = of.paths().find_map(|path| {
                let rest = path.strip_prefix(&list)?.strip_prefix('/')?.to_owned();
                rest.split('/').next()?.parse::<usize>().ok()
            });
            other != denial && of.operation != operation.operation && at.is_some_and(|at| at >= place)
        });
        if let Some((by, other)) = moved {
            return Some(describe((*denial, operation), (*by, other)));
        }
    }
    None
}

/// Checks a sample of a review in a Rego test. Evaluates the package `admission` of `engine` for the sample `input`,
/// `{"reviewed": [kind, namespace, name, object]}`, and merges the patches of all denials.
///
/// # Errors
///
/// If the sample is malformed, the evaluation fails, or the patches conflict or cannot be applied.
pub fn check_patches(engine: &Embedded, admission: &str, input: &regorus::Value) -> Result<(), String> {
    let reviewed = input["reviewed"].as_array().map_err(|_| expected(SAMPLE, input))?;
    let [kind, namespace, name, object] = reviewed.as_slice() else { return Err(expected(SAMPLE, input)) };
    let [kind, namespace, name] = [kind, namespace, name].map(|part| part.as_string().map(AsRef::as_ref));
    let (Ok(kind), Ok(namespace), Ok(name)) = (kind, namespace, name) else {
        return Err(expected(SAMPLE, input));
    };
    let query = format!("data.{admission}.deny{}", at(kind, namespace, name));
    let evaluated = engine.evaluate(&query, input).map_err(|failure| failure.to_string())?;
    let Some(value) = evaluated.into_value() else { return Ok(()) };
    let denials = sorted_unique(Denial::read(&value, ResourceRef { kind, namespace, name })?);
    if let Some(fault) = denials.iter().find(|denial| denial.is_fault) {
        return Err(fault.text());
    }
    let denials: Vec<&Denial> = denials.iter().filter(|denial| !denial.patches.is_empty()).collect();
    let object = serde_json::to_value(object).map_err(|error| error.to_string())?;
    merge(&denials, &object).map(drop)
}

#[cfg(test)]
mod tests;
