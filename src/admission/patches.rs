//! The patches of denials, as one JSON Patch ([RFC 6902](https://www.rfc-editor.org/rfc/rfc6902)).

use json_patch::Patch;
use serde_json::Value;

use super::denial::Denial;
use super::operation::Operation;

/// The most operations of a review.
const OPERATIONS: usize = 1_000;
/// The most bytes of them: the API server takes objects of 3 MiB, and etcd of 1.5.
const BYTES: usize = 1 << 20;
/// What `denials` make of `object`, one after the other by their ids, as one patch. Equal operations count once.
///
/// # Errors
///
/// Where two of them change the same, one below the other, or places in a list that the other moves; where one cannot be carried
/// out; and where they are too many.
pub fn merge(denials: &[&Denial], object: &Value) -> Result<Patch, String> {
    let operations = operations(denials.iter().copied().enumerate());
    if operations.len() > OPERATIONS {
        return Err(format!("{} operations of patches, {OPERATIONS} are allowed", operations.len()));
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
        done.map_err(|error| {
            format!("{}: {} cannot be done: {}", operation.id, operation.text(), error.kind)
        })?;
        patch.0.push(operation.operation.clone());
    }
    let size = serde_json::to_vec(&patch).map_or(usize::MAX, |text| text.len());
    if size > BYTES {
        return Err(format!("patches of {size} bytes, {BYTES} are allowed"));
    }
    Ok(patch)
}

/// All operations of `denials`, each with the number that its denial has.
fn operations<'d>(denials: impl Iterator<Item = (usize, &'d Denial)>) -> Vec<(usize, &'d Operation)> {
    let of = |(number, denial): (usize, &'d Denial)| {
        denial.patches.iter().map(move |operation| (number, operation))
    };
    denials.flat_map(of).collect()
}

/// Two policies that cannot both have what they want.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Conflict<'d> {
    /// Their modules.
    pub policies: [&'d str; 2],
    /// What they want, in words.
    pub text: String,
}

/// Two policies of which `denials` cannot both be mended in `object`, where there are any; what one policy wants, or one that names
/// no module, is left out.
pub(super) fn conflicting<'d>(denials: &[&'d Denial], object: &Value) -> Option<Conflict<'d>> {
    let policies: Vec<&str> = denials.iter().filter_map(|denial| denial.policy.as_deref()).collect();
    let number = |denial: &Denial| policies.iter().position(|of| denial.policy.as_deref() == Some(*of));
    let operations = operations(denials.iter().filter_map(|denial| Some((number(denial)?, *denial))));
    // So many are refused whatever they are.
    let clash = (operations.len() <= OPERATIONS).then(|| conflict(&operations, object)).flatten()?;
    Some(Conflict { policies: clash.between.map(|number| policies[number]), text: clash.text })
}

/// Two operations that cannot both be done.
struct Clash {
    /// The numbers that they have.
    between: [usize; 2],
    /// What they do, in words.
    text: String,
}

/// Two operations of different numbers that cannot both be done.
fn conflict(operations: &[(usize, &Operation)], object: &Value) -> Option<Clash> {
    let said = |(of, one): (usize, &Operation), (by, other): (usize, &Operation)| Clash {
        between: [of, by],
        text: format!("{}: {} conflicts with {}: {}", one.id, one.text(), other.id, other.text()),
    };
    // By path, so that whatever is below one follows it.
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
            return Some(said((*of, other), (*denial, operation)));
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
            return Some(said((*denial, operation), (*by, other)));
        }
    }
    None
}

#[cfg(test)]
mod tests;
