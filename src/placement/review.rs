//! The review of an object that is written: whether it may be, and what of it policies set.

use regorus::Value as Rego;
use serde_json::Value;

use super::answer::Answer;
use super::place::place;
use super::placed::Placed;
use crate::api::admission::{Request, Verdict};
use crate::rego::snapshot::{Snapshot, Unanswered};

/// What the package is asked for.
pub use crate::rego::asked::PLACEMENT as PACKAGE;
/// Reviews what `request` writes, by the policies of `snapshot`. It takes the time of one evaluation.
///
/// # Errors
///
/// Where they cannot be asked.
pub fn review(snapshot: &Snapshot, request: &Request) -> Result<Verdict, Unanswered> {
    let object = &request.object;
    // What is on its way out is nobody's wish any more, and must not be kept from going.
    if !object["metadata"]["deletionTimestamp"].is_null() || !snapshot.is_asked(PACKAGE) {
        return Ok(Verdict::allowed());
    }
    let query = snapshot.query(PACKAGE);
    let wish = Placed::stored(&request.old_object).wish(object);
    let Some(answer) = snapshot.ask(PACKAGE, &query, &question(&wish))? else {
        return Ok(Verdict::failed(format!("{query} is undefined")));
    };
    let placed = Answer::read(&answer).and_then(|answer| {
        if answer.errors.is_empty() { place(object, &wish, &answer).map(Ok) } else { Ok(Err(answer.errors)) }
    });
    Ok(match placed {
        Ok(Ok(placed)) => Verdict::allowed().with_patch(json_patch::diff(object, &placed)),
        Ok(Err(errors)) => Verdict::denied(errors.join("; ")),
        Err(fault) => Verdict::failed(format!("{query}: {fault}")),
    })
}

/// What a policy is asked of: the object, without its status and without who wrote which field.
fn question(wish: &Value) -> Rego {
    let mut input = wish.clone();
    if let Some(fields) = input.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = input["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    input.into()
}

#[cfg(test)]
mod tests;
