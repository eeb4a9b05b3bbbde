//! Reports modules that make queries run out of time: in the status of their carrier and in an Event about it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tracing::{info, warn};

use super::key::CarrierKey;
use super::shared::Shared;
use super::verdict::Verdicts;
use crate::api::text::with_causes;
use crate::reconcile::Events;
use crate::rego::culprits::{Culprit, TimedOut};
use crate::rego::embedded::LIMIT;
use crate::rego::module::ModuleId;

/// The reason of an Event.
const SLOW: &str = "PolicySlow";
/// The minimum pause between two searches.
const PAUSE: Duration = Duration::from_secs(10);
/// The pause as a multiple of the search's duration. So searches use at most a fifth of a processor.
const SHARE: u32 = 4;

/// A module that takes too long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Slow {
    /// The slow text. Another text of the same module may be fast.
    text: Arc<str>,
    /// The explanation for the status.
    pub(super) why: String,
}

impl Slow {
    pub(super) fn new(text: Arc<str>, took: Option<Duration>) -> Self {
        Self { text, why: words(took) }
    }

    /// Whether the slow text is still in force.
    pub(super) fn counts(&self, module: &ModuleId, verdicts: &Verdicts) -> bool {
        let in_force = verdicts.modules.get(module).and_then(|verdict| verdict.in_force.as_ref());
        in_force.is_some_and(|in_force| in_force.text == self.text)
    }
}

/// Searches culprits for each query that ran out of time; never returns. The channel may drop queries during a search, because the culprits
/// of later queries are found too.
pub(super) async fn name_slow(shared: Arc<Shared>, mut timed_out: mpsc::Receiver<TimedOut>, events: Events) {
    while let Some(query) = timed_out.recv().await {
        let began = Instant::now();
        // At normal priority: a search without processor time finds nothing. The pause bounds its share.
        match spawn_blocking(move || query.culprits()).await {
            Ok(culprits) => {
                for (carrier, uid, note) in shared.slow(culprits) {
                    events.warn(carrier.reference(&uid), SLOW, note);
                }
            }
            Err(error) => {
                let error = with_causes(&error);
                warn!(error, "cannot find the modules that take too long");
            }
        }
        sleep(PAUSE.max(began.elapsed() * SHARE)).await;
    }
}

impl Shared {
    /// Records these modules as slow. For each new one returns the carrier, the uid of the carrier and the note for the Event.
    fn slow(&self, culprits: Vec<Culprit>) -> Vec<(CarrierKey, String, String)> {
        let (verdicts, mut new) = (self.verdicts(), Vec::new());
        self.registered.send_if_modified(|known| {
            let before = known.slow.len();
            known.slow.retain(|module, slow| slow.counts(module, &verdicts));
            for Culprit { module, text, took } in culprits {
                let slow = Slow::new(text, took);
                if slow.counts(&module, &verdicts) && !known.slow.contains_key(&module) {
                    info!(%module, why = slow.why, "a module takes too long");
                    new.push((module.clone(), slow.why.clone()));
                    known.slow.insert(module, slow);
                }
            }
            !new.is_empty() || known.slow.len() != before
        });
        let guard = self.mirror.read();
        let view = guard.view(self.clock.now());
        let told = new.into_iter().filter_map(|(module, why)| {
            let key = CarrierKey::of(&module)?;
            let uid = view.carrier(&key)?.uid.clone();
            Some((key, uid, format!("{module}: {why}")))
        });
        told.collect()
    }
}

/// The number of slow modules in force.
pub(super) fn count(slow: &BTreeMap<ModuleId, Slow>, verdicts: &Verdicts) -> usize {
    slow.iter().filter(|(module, slow)| slow.counts(module, verdicts)).count()
}

fn words(took: Option<Duration>) -> String {
    let limit = LIMIT.as_secs();
    match took {
        None => {
            format!("takes more than {limit} s by itself, which all modules of its package may take together")
        }
        Some(took) => format!(
            "takes {} ms of the {limit} s that all modules of its package may take together, more than any other",
            took.as_millis()
        ),
    }
}
