//! R2: the duration of a query to the embedded engine. Measures its growth with the number of documents, and with
//! the number of policies.

use anyhow::{Context, Result};
use policy_sync_rego::engine::{Engine, Evaluator};

use super::Options;
use super::asking::{Query, QueryArm, spread, take_turns};
use super::documents;
use super::modules::{self, DENYING};
use super::report::{Measure, progress};

/// Factor between the two numbers of documents.
const GROWTH: usize = 10;
/// The two numbers of deny policies.
const POLICIES: [usize; 2] = [5, 50];
/// Goal for the duration with the larger number of documents, as a multiple of the duration with the smaller number.
const DOCUMENTS_GOAL: f64 = 1.2;
/// Goal for the duration with the larger number of policies, as a multiple of the duration with the smaller number.
const POLICIES_GOAL: f64 = 10.0;

/// Measures how the duration grows with the number of documents, and with the number of policies.
pub(super) async fn measure(options: &Options) -> Result<Vec<Measure>> {
    let counts = [options.documents / GROWTH, options.documents];
    let [few, many] = counts.map(documents::data);
    let engine = |modules: &[(String, String)], data: &serde_json::Value| -> Result<Engine> {
        Ok(Evaluator::Embedded.engine(&modules::bundle(modules)?)?.with_data(data.clone().into())?)
    };
    let usual = modules::with_placement(DENYING);
    let by_documents = [engine(&usual, &few)?, engine(&usual, &many)?];
    let by_policies =
        [engine(&modules::denying(POLICIES[0]), &many)?, engine(&modules::denying(POLICIES[1]), &many)?];
    let arms = [(&by_documents, Query::Placement), (&by_documents, Query::Deny), (&by_policies, Query::Deny)];
    let arms: Vec<QueryArm> = arms
        .into_iter()
        .flat_map(|(engines, question)| {
            engines.iter().map(move |engine| QueryArm::new(engine.clone(), question))
        })
        .collect();
    progress("queries with more documents and with more policies");
    let turns = options.turns;
    let measurement = tokio::task::spawn_blocking(move || take_turns(&arms, turns));
    let samples = measurement.await.context("the measurement panicked")??;
    let documents = format!("{} documents over {}, p50", counts[1], counts[0]);
    let rows = [
        (format!("placement, {documents}"), DOCUMENTS_GOAL),
        (format!("deny of {DENYING} policies, {documents}"), DOCUMENTS_GOAL),
        (format!("deny, {} policies over {}, p50", POLICIES[1], POLICIES[0]), POLICIES_GOAL),
    ];
    let measures = rows.into_iter().zip(samples.chunks(2)).filter_map(|((what, goal), took)| {
        let [few, many] = took else { return None };
        let detail = format!("{} against {}", spread(many), spread(few));
        Some(Measure::at_most("R2", what, many.median() / few.median(), "×", goal).detail(detail))
    });
    Ok(measures.collect())
}
