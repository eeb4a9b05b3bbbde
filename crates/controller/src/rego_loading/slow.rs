//! Finds the modules that make queries exceed the time or memory limit. Reports them in the status of their carrier and
//! in an Event.

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
use policy_sync_api::text::with_causes;
use policy_sync_hub::reconcile::Events;
use policy_sync_rego::culprits::{Culprit, ExceededQuery, Excess};
use policy_sync_rego::embedded::LIMIT;
use policy_sync_rego::memory::OverLimit;
use policy_sync_rego::module::ModuleId;

/// The reason of the Event about a module that takes too much time.
const SLOW: &str = "PolicySlow";
/// The reason of the Event about a module that takes too much memory.
const LARGE: &str = "PolicyOverMemory";
/// The minimum pause between two searches.
const MIN_PAUSE: Duration = Duration::from_secs(10);
/// The minimum pause after a search, as a multiple of its duration. Searches thus use at most a fifth of a processor.
const SHARE: u32 = 4;

/// A module that takes too much time or memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SlowModule {
    /// The module's text. Another text of the same module may stay within the limits.
    text: Arc<str>,
    /// How the module exceeds the limits.
    excess: Excess,
    /// The explanation for the status of the carrier.
    pub(super) why: String,
}

impl SlowModule {
    pub(super) fn new(text: Arc<str>, excess: Excess) -> Self {
        Self { text, excess, why: describe(excess) }
    }

    /// Whether the excess of this module is new, or worse than the `known` excess.
    fn is_new_or_worse_than(&self, known: Option<&Self>) -> bool {
        known.is_none_or(|known| self.text != known.text || self.excess.is_worse_than(known.excess))
    }

    /// The reason of the Event.
    fn reason(&self) -> &'static str {
        if self.excess == Excess::Memory { LARGE } else { SLOW }
    }

    /// Whether the text is still in force.
    pub(super) fn is_in_force(&self, module: &ModuleId, verdicts: &Verdicts) -> bool {
        let in_force = verdicts.modules.get(module).and_then(|verdict| verdict.in_force.as_ref());
        in_force.is_some_and(|in_force| in_force.text == self.text)
    }
}

/// For each query that exceeded a limit, searches for the modules that caused the excess. Never returns. The channel
/// may drop queries during a search, because later queries lead to the same modules.
pub(super) async fn report_slow_modules(
    shared: Arc<Shared>,
    mut exceeded: mpsc::Receiver<ExceededQuery>,
    events: Events,
) {
    while let Some(query) = exceeded.recv().await {
        let began = Instant::now();
        // The search runs at normal priority, because a search that gets no processor time finds nothing. The pause
        // limits its use of the processor.
        match spawn_blocking(move || query.culprits()).await {
            Ok(culprits) => {
                for (carrier, uid, reason, note) in shared.slow(culprits) {
                    events.warn(carrier.reference(&uid), reason, note);
                }
            }
            Err(error) => {
                let error = with_causes(&error);
                warn!(error, "cannot find the modules that exceed the limits of an evaluation");
            }
        }
        sleep(MIN_PAUSE.max(began.elapsed() * SHARE)).await;
    }
}

impl Shared {
    /// Records the modules in `culprits`. For each module that is new, or worse than before, returns the data for an
    /// Event: the carrier, its uid, the reason and the note.
    fn slow(&self, culprits: Vec<Culprit>) -> Vec<(CarrierKey, String, &'static str, String)> {
        let (verdicts, mut new) = (self.verdicts(), Vec::new());
        self.registered.send_if_modified(|known| {
            let before = known.slow.len();
            known.slow.retain(|module, slow| slow.is_in_force(module, &verdicts));
            for Culprit { module, text, excess } in culprits {
                let slow = SlowModule::new(text, excess);
                if slow.is_in_force(&module, &verdicts) && slow.is_new_or_worse_than(known.slow.get(&module))
                {
                    info!(%module, why = slow.why, "a module exceeds the limits of an evaluation");
                    new.push((module.clone(), slow.clone()));
                    known.slow.insert(module, slow);
                }
            }
            !new.is_empty() || known.slow.len() != before
        });
        let guard = self.mirror.read();
        let view = guard.view(self.clock.now());
        let events = new.into_iter().filter_map(|(module, slow)| {
            let key = CarrierKey::of(&module)?;
            let uid = view.carrier(&key)?.uid.clone();
            Some((key, uid, slow.reason(), format!("{module}: {}", slow.why)))
        });
        events.collect()
    }
}

/// The number of modules in `slow` that are in force.
pub(super) fn count(slow: &BTreeMap<ModuleId, SlowModule>, verdicts: &Verdicts) -> usize {
    slow.iter().filter(|(module, slow)| slow.is_in_force(module, verdicts)).count()
}

fn describe(excess: Excess) -> String {
    let limit = LIMIT.as_secs();
    match excess {
        Excess::Memory => format!("takes more than {} by itself for one review", OverLimit.limit()),
        Excess::Time => {
            format!(
                "takes more than {limit} s by itself, which is the limit for all modules of its package together"
            )
        }
        Excess::MostTime(took) => format!(
            "takes {} ms of the {limit} s that all modules of its package may take together, more than any other",
            took.as_millis()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_worse_finding_about_the_same_text_is_news() {
        let slow = |text: &str, excess| SlowModule::new(text.into(), excess);
        let most = |ms| Excess::MostTime(Duration::from_millis(ms));
        for (known, found, expected) in [
            (most(600), most(900), false),
            (most(600), Excess::Time, true),
            (Excess::Time, Excess::Memory, true),
            (Excess::Memory, Excess::Time, false),
            (Excess::Memory, Excess::Memory, false),
        ] {
            let (known, found) = (slow("a", known), slow("a", found));
            assert_eq!(found.is_new_or_worse_than(Some(&known)), expected, "{found:?}");
        }
        assert!(slow("b", most(600)).is_new_or_worse_than(Some(&slow("a", Excess::Memory))));
        assert!(slow("a", most(600)).is_new_or_worse_than(None));
    }
}
