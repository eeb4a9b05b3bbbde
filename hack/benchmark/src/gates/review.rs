//! G2: the duration of a review, from request body to response body. Measures its growth with the number of
//! documents. Compares a review that joins all Ingresses with the same review by OPA.

use anyhow::{Context, Result, bail};
use policy_sync_rego::engine::Evaluator;

use crate::Options;
use crate::asking::{Query, QueryArm, in_opa, spread, take_turns};
use crate::documents::{self, INGRESSES};
use crate::modules::{self, DENYING};
use crate::report::{Measure, progress};
use crate::sample::Sample;

/// Factor between the two numbers of documents.
const GROWTH: usize = 10;
/// Goal for the duration with the larger number of documents, as a multiple of the duration with the smaller number.
const DOCUMENTS_GOAL: f64 = 1.2;
/// Goal for a review with a join, as a fraction of OPA's duration.
const JOIN_GOAL: f64 = 0.5;

/// Measures reviews.
pub(crate) async fn measure(options: &Options) -> Result<Vec<Measure>> {
    let counts = [options.documents / GROWTH, options.documents];
    let bundle = modules::bundle(&modules::denying(DENYING))?;
    let [few, many] = counts.map(documents::data);
    let embedded =
        |data: &serde_json::Value| Evaluator::Embedded.engine(&bundle)?.with_data(data.clone().into());
    let [of_few, of_many] = [embedded(&few)?, embedded(&many)?];
    let (_server, in_opa) = in_opa(&bundle, many).await?;
    let ingresses = options.documents / INGRESSES;
    let join = Query::ReviewOfIngress(ingresses);
    let arms = [
        QueryArm::new(of_few, Query::Review),
        QueryArm::new(of_many.clone(), Query::Review),
        QueryArm::new(of_many, join),
        QueryArm::new(in_opa, join),
    ];
    progress("reviews, embedded and by OPA");
    let turns = options.turns;
    let measurement = tokio::task::spawn_blocking(move || {
        arms[0].agrees(&arms[1])?;
        arms[2].agrees(&arms[3])?;
        take_turns(&arms, turns)
    });
    let samples = measurement.await.context("the measurement panicked")??;
    let row = |what: String, one: &Sample, other: &Sample, goal| {
        let detail = format!("{} against {}", spread(one), spread(other));
        Measure::at_most("G2", what, one.median() / other.median(), "×", goal).detail(detail)
    };
    let [of_few, of_many, embedded, by_opa] = &samples[..] else { bail!("an arm is missing") };
    let more = format!("review by {DENYING} policies, {} documents over {}, p50", counts[1], counts[0]);
    let join = format!("review by a join over {ingresses} of {} documents, over OPA's, p50", counts[1]);
    Ok(vec![row(more, of_many, of_few, DOCUMENTS_GOAL), row(join, embedded, by_opa, JOIN_GOAL)])
}
