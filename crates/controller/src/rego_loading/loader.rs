//! The reconciler of the loader: checks and loads modules, publishes them with their data, and writes the
//! status of carriers.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::discriminant;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tracing::{info, warn};

use super::key::{CarrierKey, Key};
use super::plan;
use super::plan::reading;
use super::plan::status::{CarrierState, desired_status, status_due_at, status_request};
use super::shared::{ComponentKinds, LoadResults, Shared};
use super::verdict::{Verdict, Verdicts};
use policy_sync_api::moment::Moment;
use policy_sync_hub::reconcile::{
    Capability, Events, Expectations, LastWrite, Leadership, Queue, ReconcileError, RequestError, Requests,
    Slot, WriteThrottle, apply, namespace_reference,
};
use policy_sync_hub::tasks::send_if_changed;
use policy_sync_mirror::WatchedSources;
use policy_sync_rego::confined::CheckError;
use policy_sync_rego::fault::Fault;
use policy_sync_rego::module::{ModuleId, Text};
use policy_sync_rego::queries::PLACEMENT;
use policy_sync_rego::secrets::{SecretContents, SecretReads};
use policy_sync_rego::selection::{Candidate, LoadOutcome, SelectedModules, select_modules};

/// The time for which a kind is not watched after it had too many objects.
const RETRY_INTERVAL: Duration = Duration::from_secs(600);
/// The delay before the next check after a check that did not cover all modules.
const RECHECK_DELAY: Duration = Duration::from_secs(1);
/// The reason of the Event about a rejected Rego policy.
const REFUSED: &str = "PolicyRefused";
/// The reason of the Event about conflicting patches.
const CONFLICT: &str = "PatchConflict";
/// The reason of the Event on a Namespace with left-out documents.
const LEFT_OUT: &str = "DocumentsLeftOut";
/// The maximum number of left-out objects, as a multiple of the limit for objects. Rows of left-out objects need little
/// memory.
const LEFT_OUT_FACTOR: usize = 4;

/// Loads Rego policies.
pub(super) struct Loader {
    pub(super) shared: Arc<Shared>,
    pub(super) requests: Requests,
    pub(super) leadership: Leadership,
    pub(super) events: Events,
    pub(super) queue: Arc<Queue<Key>>,
    pub(super) written: Expectations<Key, LastWrite>,
    pub(super) repeats: WriteThrottle<Key, String>,
    pub(super) wanted: watch::Sender<WatchedSources>,
    pub(super) plurals: watch::Sender<BTreeSet<String>>,
}

/// A failed load or status update. It is retried with backoff.
#[derive(Debug, thiserror::Error)]
pub(super) enum LoadError {
    #[error(transparent)]
    Check(#[from] CheckError),
    #[error("the engine rejected the checked modules: {0}")]
    Engine(#[from] Fault),
    #[error("cannot write the status of {object}")]
    Write { object: String, source: RequestError },
}

impl ReconcileError for LoadError {
    fn category(&self) -> &'static str {
        match self {
            Self::Check(_) => "check",
            Self::Engine(_) => "engine",
            Self::Write { source, .. } => source.category(),
        }
    }

    fn is_expected(&self) -> bool {
        matches!(self, Self::Write { source, .. } if source.is_expected())
    }
}

impl Capability for Loader {
    type Key = Key;
    type Error = LoadError;

    fn all_keys(&self) -> BTreeSet<Key> {
        let guard = self.shared.mirror.read();
        let view = guard.view(self.shared.clock.now());
        let carriers = view.carriers(&self.shared.settings).map(|(key, _)| Key::Status(key));
        carriers.chain([Key::Watches, Key::Bundle]).collect()
    }

    /// Each process loads Rego policies and serves reviews; only the leader writes status.
    fn runs_on_followers(&self, key: &Key) -> bool {
        !matches!(key, Key::Status(_))
    }

    async fn reconcile(&self, key: &Key, _slot: Slot) -> Result<(), LoadError> {
        match key {
            Key::Watches => self.watch(),
            Key::Bundle => self.load().await?,
            Key::Documents => {
                self.limit();
                self.relist();
                self.shared.publish()?;
                self.report_left_out();
                self.schedule_retries();
            }
            Key::Status(carrier) => self.write_status(key, carrier).await?,
        }
        Ok(())
    }
}

impl Loader {
    fn watch(&self) {
        let (guard, results) = (self.shared.mirror.read(), self.shared.results.lock());
        let view = guard.view(self.shared.clock.now());
        let settings = &self.shared.settings;
        let ComponentKinds { kinds, named } = ComponentKinds::of_all(&self.shared.kept.borrow());
        let plurals = plan::plurals(settings, &results.verdicts, kinds.union(&named));
        let wanted =
            plan::watches(view, settings, &results.verdicts, &kinds, &results.too_large, &results.relisted);
        send_if_changed(&self.plurals, plurals);
        send_if_changed(&self.wanted, wanted);
    }

    /// Checks the modules and publishes the result.
    async fn load(&self) -> Result<(), LoadError> {
        self.rewatch_paused_kinds();
        self.relist();
        let before = self.shared.verdicts();
        let candidates = {
            let guard = self.shared.mirror.read();
            let view = guard.view(self.shared.clock.now());
            // After the first load, a source that cannot be listed does not block the modules of other sources.
            let is_unread = !before.is_whole && view.unread(&self.shared.settings).is_some();
            let candidates = || match self.shared.settings.evaluator.external() {
                // An external engine ignores the texts.
                Some(_) => Vec::new(),
                None => {
                    let is_due = self.is_retry_due(view.now);
                    plan::candidates(view, &self.shared.settings, &before, is_due)
                }
            };
            (!is_unread).then(candidates)
        };
        let Some(candidates) = candidates else { return Ok(self.shared.publish()?) };
        let texts = candidates.iter().map(|candidate| candidate.text.clone()).collect();
        self.shared.results.lock().rejected_by_opa.set_texts(texts);
        let mut settled = select_modules(&candidates, &*self.shared).await?;
        let engine = self.shared.settings.evaluator.engine(&settled.bundle)?;
        let (read, is_partial) = (std::mem::take(&mut settled.known), settled.is_partial);
        let verdicts = self.build_verdicts(settled, candidates, &before);
        if verdicts.modules != before.modules {
            let in_force = verdicts.modules.values().filter(|verdict| verdict.in_force.is_some()).count();
            info!(modules = verdicts.modules.len(), in_force, "loaded policies");
        }
        let changed: BTreeSet<CarrierKey> = verdicts
            .modules
            .iter()
            .filter(|(id, verdict)| before.modules.get(id) != Some(verdict))
            .filter_map(|(id, _)| CarrierKey::of(id))
            .collect();
        let engine_changed = verdicts.external_engine != before.external_engine;
        {
            let mut results = self.shared.results.lock();
            results.verdicts = Arc::new(verdicts);
            results.engine = engine;
            results.read = read;
        }
        self.watch();
        self.shared.publish()?;
        self.queue.enqueue(changed.into_iter().map(Key::Status));
        if is_partial {
            // The next check skips the modules that crashed this check, and covers the rest.
            self.queue.add_after(Key::Bundle, RECHECK_DELAY);
        }
        if engine_changed {
            let all = self.all_keys();
            self.queue.enqueue(all.into_iter().filter(|key| matches!(key, Key::Status(_))));
        }
        self.schedule_retries();
        Ok(())
    }

    fn build_verdicts(
        &self,
        settled: SelectedModules,
        candidates: Vec<Candidate>,
        before: &Verdicts,
    ) -> Verdicts {
        let SelectedModules { mut outcomes, mut in_force, mut packages, bundle, secrets, reads, .. } =
            settled;
        let guard = self.shared.mirror.read();
        let view = guard.view(self.shared.clock.now());
        let secrets = self.shared.settings.withholds_secrets().then_some(secrets);
        let mut advice: BTreeMap<ModuleId, Vec<Fault>> = BTreeMap::new();
        let all = bundle.advice().into_iter().chain(reading::advice(view, &self.shared.settings, &bundle));
        for fault in all.chain(secrets.iter().flat_map(SecretReads::advice)) {
            advice.entry(fault.module.clone()).or_default().push(fault);
        }
        let mut modules = BTreeMap::new();
        for Candidate { text: Text { id, text }, enforcement, .. } in candidates {
            let Some(outcome) = outcomes.remove(&id) else { continue };
            let known = before.modules.get(&id);
            // If a module was pending and is still pending, `since` stays unchanged, even if the module now waits for
            // other kinds.
            let same = known
                .filter(|known| known.text == text && discriminant(&known.outcome) == discriminant(&outcome));
            let notes = bundle.module(&id).map(|module| reading::notes(&self.shared.settings, module));
            let verdict = Verdict {
                since: same.map_or(view.now, |same| same.since),
                package: packages.remove(&id).or_else(|| same?.package.clone()),
                enforcement: enforcement.ok(),
                in_force: in_force.remove(&id),
                is_new: known.is_none_or(|known| known.ignored_until().is_some()),
                advice: advice.remove(&id).unwrap_or_default(),
                notes: notes.unwrap_or_default(),
                text,
                outcome,
            };
            modules.insert(id, verdict);
        }
        let waits = modules.values().any(|verdict| matches!(verdict.outcome, LoadOutcome::Pending(_)));
        let settings = &self.shared.settings;
        let mut placing = bundle.reachable(settings.packages.of(PLACEMENT));
        if placing.any {
            placing.kinds.extend(settings.replicate.union(&reads).cloned());
        }
        let external_engine = settings.evaluator.external().map(|external| external.address().into());
        if external_engine.is_some() {
            placing.kinds.extend(settings.replicate.iter().cloned());
        }
        Verdicts {
            modules,
            denies: bundle.denied_kinds(),
            secrets: secrets.map_or(SecretContents::Readable, |secrets| secrets.withheld()),
            placing,
            bundle,
            reads,
            packages: before.packages.clone(),
            external_engine,
            is_whole: before.is_whole || !waits,
        }
    }

    /// Stops watching a kind if there are too many cluster-scoped objects or too many left-out objects. Before that
    /// limit is reached, excess namespaced objects are left out.
    fn limit(&self) {
        let limit = self.shared.settings.limit;
        let (readable, largest) = {
            let guard = self.shared.mirror.read();
            let view = guard.view(self.shared.clock.now());
            let (left_out, cluster_scoped) = (view.left_out_by_kind(), view.cluster_scoped());
            let read = plan::read(&self.shared.settings, &self.shared.verdicts());
            let read: BTreeSet<_> = read.iter().filter_map(|plural| view.resource(plural)).collect();
            let of_cluster: usize = cluster_scoped.values().sum();
            let largest = if of_cluster > limit {
                // Kinds that no Rego policy reads are chosen first.
                cluster_scoped.into_iter().max_by_key(|(kind, count)| (!read.contains(kind), *count))
            } else if left_out.values().sum::<usize>() > limit.saturating_mul(LEFT_OUT_FACTOR) {
                left_out.into_iter().max_by_key(|(_, count)| *count)
            } else {
                None
            };
            let namespaced = view.readable().values().sum::<usize>().saturating_sub(of_cluster);
            (of_cluster.max(namespaced), largest.map(|(kind, count)| (kind.clone(), count)))
        };
        let is_near_limit = reading::is_near_limit(readable, limit);
        if std::mem::replace(&mut self.shared.results.lock().is_near_limit, is_near_limit) != is_near_limit {
            self.queue.add(Key::Bundle);
        }
        let Some((kind, count)) = largest else { return };
        warn!(%kind, count, limit, "too many objects: stopped watching the kind");
        let now = self.shared.clock.now();
        self.shared.results.lock().too_large.insert(kind, (count, now));
        self.watch();
        self.queue.add(Key::Bundle);
    }

    /// Schedules retries for states that end after some time: kinds that are not watched, texts that are too large,
    /// left-out documents, and pending modules.
    fn schedule_retries(&self) {
        let now = self.shared.clock.now();
        let results = self.shared.results.lock();
        if let Some(since) = results.too_large.values().map(|(_, since)| *since).min() {
            self.queue.add_after(Key::Bundle, since.after(RETRY_INTERVAL).since(now));
        }
        if results.verdicts.modules.values().any(Verdict::is_too_large) {
            self.queue.add_after(Key::Bundle, results.retried.after(RETRY_INTERVAL).since(now));
        }
        if let Some(at) = plan::left_out::recheck(&results.left_out) {
            self.queue.add_after(Key::Documents, at.since(now));
        }
        let waiting = results.verdicts.modules.values().filter_map(Verdict::ignored_until);
        if let Some(until) = waiting.filter(|until| *until > now).min() {
            self.queue.add_after(Key::Documents, until.since(now));
        }
    }

    /// Whether the texts that together exceeded the size limit are due for another check. If so, records the time.
    fn is_retry_due(&self, now: Moment) -> bool {
        let mut results = self.shared.results.lock();
        let is_due = results.retried.after(RETRY_INTERVAL) <= now;
        if is_due {
            results.retried = now;
        }
        is_due
    }

    /// Starts to watch kinds again once the pause after too many objects is over.
    fn rewatch_paused_kinds(&self) {
        let now = self.shared.clock.now();
        self.shared.results.lock().too_large.retain(|_, (_, since)| since.after(RETRY_INTERVAL) > now);
    }

    /// Lists kinds again if their left-out documents now fit the limits.
    fn relist(&self) {
        let now = self.shared.clock.now();
        let is_changed = {
            let guard = self.shared.mirror.read();
            let (view, mut results) = (guard.view(now), self.shared.results.lock());
            let LoadResults { left_out, relisted, .. } = &mut *results;
            plan::left_out::relist(view, left_out, relisted)
        };
        if is_changed {
            self.watch();
        }
    }

    /// Reports newly left-out documents: in the log, by an Event on their Namespace, and in the status of
    /// carriers.
    fn report_left_out(&self) {
        let newly = std::mem::take(&mut self.shared.results.lock().newly_left_out);
        if newly.is_empty() {
            return;
        }
        {
            let guard = self.shared.mirror.read();
            let view = guard.view(self.shared.clock.now());
            for part in newly {
                let Some(note) = plan::left_out::note(&part, view) else { continue };
                warn!(namespace = %part.namespace, kind = %part.kind, note, "documents are left out");
                if self.leadership.leads() {
                    self.events.warn(namespace_reference(&part.namespace), LEFT_OUT, note);
                }
            }
        }
        // The published data no longer contains the left-out documents, so their memory can be released.
        self.shared.mirror.release_memory();
        self.queue.add(Key::Bundle);
    }

    async fn write_status(&self, key: &Key, carrier: &CarrierKey) -> Result<(), LoadError> {
        let (verdicts, registered) = (self.shared.verdicts(), self.shared.registered.borrow().clone());
        let (status, uid, seen, later, manager) = {
            let guard = self.shared.mirror.read();
            let view = guard.view(self.shared.clock.now());
            let later = status_due_at(view, &verdicts, &registered, carrier).map(|at| at.since(view.now));
            let uid = view.carrier(carrier).map(|carrier| carrier.uid.clone()).unwrap_or_default();
            let manager = view.controller().hub_field_manager();
            (
                desired_status(view, &verdicts, &registered, carrier),
                uid,
                view.version(&carrier.source()),
                later,
                manager,
            )
        };
        let is_visible = self.written.with(key, |last| last.is_visible(seen));
        if let Some(later) = later {
            self.queue.add_after(key.clone(), later);
        }
        if uid.is_empty() {
            self.repeats.forget(key);
        }
        let Some((status, carrier_state)) = status else { return Ok(()) };
        if !is_visible {
            self.queue.add_after_window(key.clone());
            return Ok(());
        }
        let now = self.shared.clock.now();
        if let Some(wait) = self.repeats.wait(key, &status.without_times(), now) {
            // Another writer repeatedly changes the status, so the next write waits.
            self.queue.add_after(key.clone(), wait);
            return Ok(());
        }
        let request = status_request(&manager, carrier, &uid, &status);
        let written = apply::apply(&self.requests, &carrier.gvr(), &carrier.0, &uid, request).await;
        let written = written.map_err(|source| LoadError::Write { object: carrier.to_string(), source })?;
        self.written.note(key, |last| last.wrote(written.version()));
        self.repeats.wrote(key, status.without_times(), now);
        if let Some(note) = carrier_state.as_ref().and_then(CarrierState::note) {
            self.events.warn(carrier.reference(&uid), REFUSED, note);
        }
        if let Some(note) = carrier_state.as_ref().and_then(CarrierState::conflict) {
            self.events.warn(carrier.reference(&uid), CONFLICT, note);
        }
        Ok(())
    }
}
