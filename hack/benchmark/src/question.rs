//! R1: one question among many documents, to the embedded engine and to OPA, which has the same modules and documents.

use anyhow::{Context, Result};
use policy_sync::json_client::{Files, JsonClient};
use policy_sync::rego::engine::{Engine, Evaluator};
use policy_sync::rego::opa::{Opa, push};
use policy_sync_testenv::Opa as Server;

use super::Options;
use super::asking::{Arm, Question, spread, take_turns};
use super::documents;
use super::modules::{self, DENYING};
use super::report::{Measure, progress};

/// How long a question takes beside one to OPA.
pub(super) async fn measure(options: &Options) -> Result<Vec<Measure>> {
    let server = Server::start().await?;
    let bundle = modules::bundle(&modules::with_placement(DENYING))?;
    let data = documents::data(options.documents);
    let opa = Opa::new(JsonClient::new(server.url().parse()?, Files::default())?, false, None);
    let embedded = Evaluator::Embedded.engine(&bundle)?.with_data(data.clone().into())?;
    let in_opa = Evaluator::Opa(opa.clone()).engine(&bundle)?.with_data(data.into())?;
    let contents = in_opa.in_opa().context("it is not OPA that evaluates")?.contents().clone();
    push(&opa, &bundle, None, &contents).await.context("filling OPA")?;
    progress("questions to the embedded engine and to OPA");
    let arms = [Question::Placement, Question::Deny].map(|question| {
        let arm = |engine: &Engine| Arm::new(engine.clone(), question);
        [arm(&embedded), arm(&in_opa)]
    });
    let turns = options.turns;
    let asked = tokio::task::spawn_blocking(move || {
        arms.iter().try_for_each(|[embedded, in_opa]| embedded.agrees(in_opa))?;
        take_turns(&arms.into_iter().flatten().collect::<Vec<_>>(), turns)
    });
    let samples = asked.await.context("asking ended early")??;
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
