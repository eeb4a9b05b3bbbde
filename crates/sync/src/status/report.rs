//! Checks whether a spoke's report is for the planned copy.
//!
//! A work agent can report a new generation as applied together with status values of the old object. So a report
//! counts only if the agent read it from a copy with the planned revision.

use crate::desired::Outcome;
use crate::feedback::{AgentReport, Ancestors, ReportedCondition};
use crate::rows::work::Work;

/// The revision that a report in `work` must have. `None` if the work is not as planned.
pub(super) fn expected<'p>(outcome: Option<&'p Outcome>, work: &'p Work) -> Option<&'p str> {
    match outcome {
        Some(Outcome::Kept(_)) => work.revision.as_deref(),
        Some(Outcome::Work(planned) | Outcome::Deferred(planned, _)) => {
            (planned.content.spec == work.content.spec).then_some(&*planned.revision)
        }
        None => None,
    }
}

/// Whether the report is for the current generation of the copy. Each condition must have observed this generation,
/// according to its own `observedGeneration` or that of the status. If no generation is reported as observed, the
/// matching revision suffices.
pub(super) fn is_current(report: &AgentReport) -> bool {
    let current = |observed: Option<i64>| observed.is_none() || observed == report.generation;
    let own = |condition: &ReportedCondition| condition.observed_generation.or(report.observed_generation);
    let of_ancestors = match &report.ancestors {
        None => &[][..],
        // The ancestors must come from the same object as the rest of the report.
        Some(Ancestors::Reported(reported))
            if report.revision.as_ref() == Some(&reported.revision)
                && report.generation == Some(reported.generation) =>
        {
            &reported.conditions
        }
        Some(_) => return false,
    };
    let of_ancestors = of_ancestors.iter().map(|ancestor| &ancestor.condition);
    let mut conditions = report.conditions.iter().chain(of_ancestors).peekable();
    if conditions.peek().is_none() {
        return current(report.observed_generation);
    }
    conditions.all(|condition| current(own(condition)))
}
