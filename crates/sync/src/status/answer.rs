//! Whether what a spoke's agent says is for the copy as it is planned.
//!
//! An agent can report a new generation as applied with the old object's answer beside it. So an answer counts only
//! where the revision of the copy that it was read from is the planned one.

use crate::desired::Outcome;
use crate::feedback::{Ancestors, Answer, AnsweredCondition};
use crate::rows::work::Work;

/// The revision that an answer of `work` has to be for; `None` where the work does not hold what is planned.
pub(super) fn expected<'p>(outcome: Option<&'p Outcome>, work: &'p Work) -> Option<&'p str> {
    match outcome {
        Some(Outcome::Kept(_)) => work.revision.as_deref(),
        Some(Outcome::Work(planned) | Outcome::Held(planned, _)) => {
            (planned.content.spec == work.content.spec).then_some(&*planned.revision)
        }
        None => None,
    }
}

/// Whether the answer is for the present generation: by what each condition says, by what the status says where a
/// condition says nothing. Where nothing says for which generation it was written, the revision suffices.
pub(super) fn is_current(answer: &Answer) -> bool {
    let current = |observed: Option<i64>| observed.is_none() || observed == answer.generation;
    let own = |condition: &AnsweredCondition| condition.observed_generation.or(answer.observed_generation);
    let of_ancestors = match &answer.ancestors {
        None => &[][..],
        // One object has said both, or what it says does not belong together.
        Some(Ancestors::Reported(reported))
            if answer.revision.as_ref() == Some(&reported.revision)
                && answer.generation == Some(reported.generation) =>
        {
            &reported.conditions
        }
        Some(_) => return false,
    };
    let of_ancestors = of_ancestors.iter().map(|ancestor| &ancestor.condition);
    let mut conditions = answer.conditions.iter().chain(of_ancestors).peekable();
    if conditions.peek().is_none() {
        return current(answer.observed_generation);
    }
    conditions.all(|condition| current(own(condition)))
}
