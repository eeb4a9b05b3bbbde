//! G4: an audit of all objects. Measures its memory and its effect on concurrent reviews, and compares its
//! duration with OPA's.

use anyhow::{Context, Result, ensure};
use policy_sync_testenv::Controller;
use tokio::time::Instant;

use super::auditing::AuditReader;
use super::corpus::{self, Corpus};
use super::pods;
use crate::Options;
use crate::asking::in_opa;
use crate::documents::{self, PODS, Variety};
use crate::hub::MeasuredHub;
use crate::modules::{self, DENYING};
use crate::pace::{self, CompletedRequest};
use crate::rego_policies::{self, Reviewer};
use crate::report::{Measure, against, progress};
use crate::sample::Sample;
use crate::usage::Memory;

/// The namespace whose pods are reviewed during audits.
const NAMESPACE: &str = "standing";
/// Goal for the duration of an audit on one core, in seconds.
const SECONDS_GOAL: f64 = 2.0;
/// Goal for the duration as a fraction of OPA's.
const OPA_GOAL: f64 = 0.3;
/// Goal for the additional memory, in MiB.
const MEMORY_GOAL: f64 = 5.0;
/// Goal for the duration of a create during an audit, as a multiple of the duration without an audit.
const MEANWHILE_GOAL: f64 = 1.5;

/// Measures audits in memory and on a hub.
pub(crate) async fn measure(hub: &MeasuredHub, options: &Options) -> Result<Vec<Measure>> {
    let mut measures = alone(options).await?;
    measures.extend(on_hub(hub, options).await?);
    Ok(measures)
}

/// Audits in memory, by the embedded engine and by OPA in turn.
async fn alone(options: &Options) -> Result<Vec<Measure>> {
    progress("audits by the embedded engine and by OPA");
    let embedded = corpus::embedded(DENYING)?;
    let bundle = modules::bundle(&modules::denying(DENYING))?;
    let (_server, in_opa) = in_opa(&bundle, serde_json::json!({})).await?;
    let (documents, runs) = (options.documents, options.runs);
    let audited = tokio::task::spawn_blocking(move || {
        let corpus = Corpus::new(documents);
        let (mut one, mut other) = (Vec::new(), Vec::new());
        for _ in 0..runs {
            let (took, found) = corpus.audit(&embedded)?;
            let (took_opa, found_by_opa) = corpus.audit(&in_opa)?;
            ensure!(found == found_by_opa && found > 0, "{found} violations, {found_by_opa} by OPA");
            one.push(took);
            other.push(took_opa);
        }
        Ok((Sample::seconds(&one), Sample::seconds(&other)))
    });
    let (embedded, by_opa) = audited.await.context("the audit panicked")??;
    let what = format!("audit of {documents} objects by {DENYING} policies");
    Ok(vec![
        Measure::at_most("G4", what.clone(), embedded.median(), "s", SECONDS_GOAL).detail("on one thread"),
        Measure::at_most(
            "G4",
            format!("{what}, over OPA's"),
            embedded.median() / by_opa.median(),
            "×",
            OPA_GOAL,
        )
        .detail(against(&embedded, &by_opa)),
    ])
}

/// Audits by a controller.
async fn on_hub(hub: &MeasuredHub, options: &Options) -> Result<Vec<Measure>> {
    rego_policies::set(hub).await?;
    documents::fill(&hub.client, options.documents, Variety::Different).await?;
    // With this interval, audits run only on request.
    let reviewer =
        Reviewer::start(hub, NAMESPACE, options.documents, &["--audit-interval=0".to_owned()]).await?;
    let mut reader = AuditReader::new(hub, &reviewer, NAMESPACE).await?;
    pods::until_denied(&hub.client, NAMESPACE).await?;
    tokio::time::sleep(options.settles).await;
    let mut memory = Vec::new();
    for _ in 0..options.runs {
        memory.push(taken(&reviewer.controller, &mut reader).await?);
    }
    let (mut quiet, mut meanwhile) = (Vec::new(), Vec::new());
    for turn in 0..=pace::turns(options) {
        let (before, during) = creates(hub, &mut reader, turn, options).await?;
        if turn > 0 {
            quiet.push(before.quantile(0.99));
            meanwhile.push(during.quantile(0.99));
        }
        progress(&format!("creates during audits: turn {turn} of {}", pace::turns(options)));
    }
    reviewer.stop(hub).await?;
    documents::clear(&hub.client, PODS, documents::namespaces()).await?;
    let (memory, quiet, meanwhile) = (Sample::new(memory), Sample::new(quiet), Sample::new(meanwhile));
    // Uses the medians of the turns, because the hub itself stalls in some turns of both arms.
    let ratio = meanwhile.median() / quiet.median();
    Ok(vec![
        Measure::at_most("G4", "memory of an audit", memory.median(), "MiB", MEMORY_GOAL).detail(format!(
            "{:.1} to {:.1} MiB",
            memory.min(),
            memory.max()
        )),
        Measure::at_most(
            "G4",
            format!("p99 of creates at {} a second beside an audit", options.rate),
            ratio,
            "×",
            MEANWHILE_GOAL,
        )
        .detail(format!("of turns: {}", against(&meanwhile, &quiet))),
    ])
}

/// The additional memory of `controller` during an audit, in MiB.
async fn taken(controller: &Controller, reader: &mut AuditReader) -> Result<f64> {
    reader.until_stale().await;
    let pid = controller.pid();
    Memory::reset_peak(pid)?;
    let before = Memory::of_process(pid)?.resident;
    let found = reader.read().await?;
    ensure!(found["message"] != "total violations:0", "no violations");
    Ok(Memory::of_process(pid)?.peak - before)
}

/// Durations of creates without an audit and during an audit, in seconds. The second sample contains only creates that
/// are due before the audit ends. The first sample contains creates from a period of the same length, so that both
/// samples have the same size.
async fn creates(
    hub: &MeasuredHub,
    reader: &mut AuditReader,
    turn: usize,
    options: &Options,
) -> Result<(Sample, Sample)> {
    let (path, count) = (PODS.within(NAMESPACE), pace::turn(options));
    let create = async |number: usize| {
        let numbers = number * count..(number + 1) * count;
        let pod = |index| pods::fine(NAMESPACE, index);
        let (began, completed) =
            (Instant::now(), pace::create(&hub.client, &path, options.rate, numbers, pod).await?);
        anyhow::Ok((began, completed))
    };
    let clear = || documents::clear(&hub.client, PODS, [NAMESPACE.to_owned()].into_iter());
    reader.until_stale().await;
    let audit = async {
        let began = Instant::now();
        reader.read().await?;
        anyhow::Ok(began.elapsed())
    };
    let (during, span) = tokio::try_join!(create(2 * turn), audit)?;
    clear().await?;
    let quiet = create(2 * turn + 1).await?;
    clear().await?;
    let within = |(began, completed): (Instant, Vec<CompletedRequest<()>>)| {
        let first = completed.into_iter().filter(|completed| completed.due <= began + span);
        Sample::new(first.map(|completed| completed.took.as_secs_f64()))
    };
    Ok((within(quiet), within(during)))
}
