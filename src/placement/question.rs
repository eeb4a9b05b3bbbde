//! What policies are asked of an object, and what they make of it.

use regorus::Value as Rego;
use serde_json::Value;

use super::answer::Answer;
use super::place::place;
use crate::api::annotations::LAST_APPLIED;
use crate::rego::snapshot::{Snapshot, Unanswered};

/// What the package is asked for.
pub use crate::rego::asked::PLACEMENT as PACKAGE;

/// What policies make of an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    /// It is stored like this.
    Placed(Value),
    /// It may not be, in their words.
    Refused(String),
    /// What they answer cannot be used, and why.
    Unusable(String),
}

/// What policies of `snapshot` make of `object`, of which its developer wants `wish`; without any of them, it is as its developer
/// wants it. It takes the time of one evaluation.
///
/// # Errors
///
/// Where they cannot be asked.
pub fn ask(snapshot: &Snapshot, object: &Value, wish: &Value) -> Result<Said, Unanswered> {
    let query = snapshot.query(PACKAGE);
    let answer = match snapshot.is_asked(PACKAGE) {
        false => Ok(Answer::default()),
        true => match snapshot.ask(PACKAGE, &query, &question(wish))? {
            None => return Ok(Said::Unusable(format!("{query} is undefined"))),
            Some(answer) => Answer::read(&answer),
        },
    };
    let said = answer.and_then(|answer| {
        if !answer.errors.is_empty() {
            return Ok(Said::Refused(answer.errors.join("; ")));
        }
        place(object, wish, &answer).map(Said::Placed)
    });
    Ok(said.unwrap_or_else(|fault| Said::Unusable(format!("{query}: {fault}"))))
}

/// What a policy is asked of: the object, without its status, without who wrote which field, and without what `kubectl` keeps of what
/// was applied: the same object gives the same answer, whether it is written or stands.
fn question(wish: &Value) -> Rego {
    let mut input = wish.clone();
    if let Some(fields) = input.as_object_mut() {
        fields.remove("status");
    }
    let metadata = input.get_mut("metadata").and_then(Value::as_object_mut);
    if let Some(metadata) = metadata {
        metadata.remove("managedFields");
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove(LAST_APPLIED);
            if annotations.is_empty() {
                metadata.remove("annotations");
            }
        }
    }
    input.into()
}
