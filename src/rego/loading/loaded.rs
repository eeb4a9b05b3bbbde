//! What is loaded, for whoever asks: what is in force, and how that fares.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use parking_lot::Mutex;
use regorus::Value;
use tokio::sync::watch;

use super::index::Index;
use super::metrics::RegoMetrics;
use super::plan;
use super::settings::Settings;
use super::verdict::{Verdict, Verdicts};
use super::view::View;
use crate::api::moment::Moment;
use crate::api::names::{ControllerName, GroupResource};
use crate::clock::Clock;
use crate::hub::Mirror;
use crate::rego::embedded::Embedded;
use crate::rego::fault::Fault;
use crate::rego::settle::{Awaited, Outcome};
use crate::rego::snapshot::Snapshot;

/// What is loaded. Clones are the same.
#[derive(Clone, Debug)]
pub struct Loaded(pub(super) Arc<Shared>);

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) mirror: Arc<Mirror<Index>>,
    pub(super) settings: Settings,
    pub(super) clock: Clock,
    pub(super) found: Mutex<Found>,
    snapshot: watch::Sender<Arc<Snapshot>>,
}

/// What this process has found out.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) verdicts: Arc<Verdicts>,
    /// The modules that are in force, without data.
    pub(super) engine: Embedded,
    /// Kinds that are not watched because they have so many objects, each since when.
    pub(super) too_large: BTreeMap<GroupResource, (usize, Moment)>,
    /// The objects that were published last, by plural: a kind that is listed anew has these meanwhile.
    pub(super) known: BTreeMap<String, Value>,
    /// Whether there are nearly too many objects.
    pub(super) is_near: bool,
}

impl Loaded {
    /// Nothing yet.
    ///
    /// # Errors
    ///
    /// Where no engine can be made.
    pub(super) fn new(controller: ControllerName, settings: Settings, clock: Clock) -> Result<Self, Fault> {
        let engine = Embedded::new(&Default::default(), Value::new_object())?;
        let nothing = Snapshot::new(engine.clone(), BTreeMap::new());
        let (snapshot, _) = watch::channel(Arc::new(nothing.starting("nothing is listed".to_owned())));
        let found = Found {
            verdicts: Arc::default(),
            engine,
            too_large: BTreeMap::new(),
            known: BTreeMap::new(),
            is_near: false,
        };
        let mirror = Arc::new(Mirror::new(controller));
        Ok(Self(Arc::new(Shared { mirror, settings, clock, found: Mutex::new(found), snapshot })))
    }

    /// What is asked now.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.0.snapshot.borrow().clone()
    }

    /// Whether everything that was there at the start was loaded, and in any case what is missing.
    #[must_use]
    pub fn health(&self) -> (bool, String) {
        let guard = self.0.mirror.read();
        let view = guard.view(self.0.clock.now());
        let mut text = String::new();
        for (source, fault) in view.failing() {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "[!]rego: {source} failing: {fault}");
        }
        let verdicts = self.0.verdicts();
        let is_refused = |verdict: &&Verdict| matches!(verdict.outcome, Outcome::Refused { .. });
        let refused = verdicts.modules.values().filter(is_refused).count();
        if refused > 0 {
            let _ = writeln!(text, "[!]rego: {refused} of {} modules are refused", verdicts.modules.len());
        }
        let _ = match self.0.starting(view, &verdicts) {
            None => writeln!(text, "[+]rego ok"),
            Some(why) => writeln!(text, "[-]rego: policies are not loaded yet: {why}"),
        };
        (verdicts.is_whole, text)
    }

    /// Whether each source is up, by its resource.
    #[must_use]
    pub fn watches(&self) -> BTreeMap<String, bool> {
        let (guard, found) = (self.0.mirror.read(), self.0.found.lock());
        let view = guard.view(self.0.clock.now());
        let wanted = plan::watches(view, &self.0.settings, &found.verdicts, &found.too_large);
        let mut watches = BTreeMap::new();
        for source in wanted.keys() {
            let is_up = view.is_listed(source) && view.failure(source).is_none();
            *watches.entry(source.label()).or_insert(true) &= is_up;
        }
        watches
    }

    /// Has `metrics` say it.
    pub fn measure(&self, metrics: &RegoMetrics) {
        let guard = self.0.mirror.read();
        metrics.measure(guard.view(self.0.clock.now()), &self.0.settings, &self.0.verdicts());
    }
}

impl Shared {
    pub(super) fn verdicts(&self) -> Arc<Verdicts> {
        self.found.lock().verdicts.clone()
    }

    /// Why nothing can be asked yet.
    fn starting(&self, view: View<'_>, verdicts: &Verdicts) -> Option<String> {
        if verdicts.is_whole {
            return None;
        }
        let waits = verdicts.modules.values().find_map(|verdict| match &verdict.outcome {
            Outcome::Pending(awaited) => awaited.first(),
            Outcome::Loaded | Outcome::Refused { .. } => None,
        });
        let unread = view.unread(&self.settings);
        let waits = || match waits {
            Some(Awaited { what, why: None }) => format!("{what} are not listed"),
            Some(Awaited { what, why: Some(why) }) => format!("{what} are not listed: {why}"),
            None => "they are not checked".to_owned(),
        };
        Some(unread.unwrap_or_else(waits))
    }

    /// Publishes what is in force with the data of this moment.
    ///
    /// # Errors
    ///
    /// Where the engine takes no such data.
    pub(super) fn publish(&self) -> Result<(), Fault> {
        let guard = self.mirror.read();
        // Always locked after the mirror.
        let mut found = self.found.lock();
        let (view, verdicts) = (guard.view(self.clock.now()), found.verdicts.clone());
        let objects = plan::objects(view, &self.settings, &verdicts, &found.known);
        let engine = found.engine.with_data(plan::data(view, &self.settings, &objects))?;
        found.known = objects;
        let snapshot = Snapshot::new(engine, plan::denials::denials(&verdicts, view.now));
        let snapshot = match self.starting(view, &verdicts) {
            None => snapshot,
            Some(why) => snapshot.starting(why),
        };
        self.snapshot.send_replace(Arc::new(snapshot));
        Ok(())
    }
}
