//! R1: the duration of a query with many documents. The embedded engine and OPA have the same modules and
//! documents.

use anyhow::{Context, Result};
use policy_sync_rego::engine::{Engine, Evaluator};

use super::Options;
use super::asking::{Query, QueryArm, in_opa, spread, take_turns};
use super::documents;
use super::modules::{self, DENYING};
use super::report::{Measure, progress};

/// Measures queries in comparison with OPA.
pub(super) async fn measure(options: &Options) -> Result<Vec<Measure>> {
    let bundle = modules::bundle(&modules::with_placement(DENYING))?;
    let data = documents::data(options.documents);
    let embedded = Evaluator::Embedded.engine(&bundle)?.with_data(data.clone().into())?;
    let (_server, in_opa) = in_opa(&bundle, data).await?;
    progress("queries of the embedded engine and of OPA");
    let arms = [Query::Placement, Query::Deny].map(|question| {
        let arm = |engine: &Engine| QueryArm::new(engine.clone(), question);
        [arm(&embedded), arm(&in_opa)]
    });
    let turns = options.turns;
    let measurement = tokio::task::spawn_blocking(move || {
        arms.iter().try_for_each(|[embedded, in_opa]| embedded.agrees(in_opa))?;
        take_turns(&arms.into_iter().flatten().collect::<Vec<_>>(), turns)
    });
    let samples = measurement.await.context("the measurement panicked")??;
    let mut measures = Vec::new();
    let rows = [("placement over 100 clusters", 0.6), ("deny of 20 policies", 0.3)];
    for ((what, goal), took) in rows.into_iter().zip(samples.chunks(2)) {
        let [embedded, in_opa] = took else { continue };
        let detail = format!("{} against {}", spread(embedded), spread(in_opa));
        for (quantile, part, goal) in [("p50", 0.5, goal), ("p99", 0.99, 0.3)] {
            let ratio = embedded.quantile(part) / in_opa.quantile(part);
            let measure = Measure::at_most("R1", format!("{what}, {quantile} over OPA's"), ratio, "×", goal);
            measures.push(measure.detail(&detail));
        }
    }
    Ok(measures)
}
