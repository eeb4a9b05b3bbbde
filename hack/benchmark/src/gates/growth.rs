//! G5: growth of an audit's duration with the number of objects, and with the number of Rego policies.

use anyhow::{Context, Result, ensure};

use super::corpus::{self, Corpus};
use crate::Options;
use crate::growth::{GOAL, exponent};
use crate::modules::DENYING;
use crate::report::{Measure, progress};
use crate::sample::{self, Sample};

/// Numbers of Rego policies to compare.
const POLICIES: [usize; 3] = [5, 16, 50];

/// The exponents of an audit's duration.
pub(crate) async fn measure(options: &Options) -> Result<Vec<Measure>> {
    let (documents, runs) = (options.documents, options.runs);
    progress("audits of more objects, and by more policies");
    let measured = tokio::task::spawn_blocking(move || {
        let counts = [documents.div_ceil(10), documents, 5 * documents];
        let by_objects = counts.map(|objects| (objects, objects, DENYING));
        let by_policies = POLICIES.map(|policies| (policies, documents, policies));
        Ok::<_, anyhow::Error>(vec![
            row("objects", &points(&by_objects, runs)?),
            row("policies", &points(&by_policies, runs)?),
        ])
    });
    measured.await.context("the audit panicked")?
}

/// Measures the duration of audits, in seconds. Each element of `sizes` has the x coordinate of its point, the number
/// of objects, and the number of Rego policies.
fn points(sizes: &[(usize, usize, usize)], runs: usize) -> Result<Vec<(f64, f64)>> {
    let point = |(size, objects, policies): &(usize, usize, usize)| {
        let (corpus, engine) = (Corpus::new(*objects), corpus::embedded(*policies)?);
        let mut took = Vec::new();
        for _ in 0..runs {
            let (time, violations) = corpus.audit(&engine)?;
            ensure!(violations >= corpus.count(), "{violations} violations of {objects} objects");
            took.push(time);
        }
        Ok((sample::count(*size), Sample::seconds(&took).median()))
    };
    sizes.iter().map(point).collect()
}

fn row(what: &str, points: &[(f64, f64)]) -> Measure {
    let detail: Vec<String> =
        points.iter().map(|(size, seconds)| format!("{size}: {seconds:.3} s")).collect();
    let value = exponent(points, f64::MIN_POSITIVE);
    Measure::at_most("G5", format!("growth of an audit with {what}"), value, "", GOAL)
        .detail(detail.join(", "))
}
