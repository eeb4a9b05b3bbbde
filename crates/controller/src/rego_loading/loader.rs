//! The reconciler of the loader: checks and loads modules, publishes them with their data, and writes the
//! status of carriers.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::discriminant;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use tokio::sync::watch;
use tracing::{info, warn};

use super::key::{CarrierKey, Key};
use super::plan;
use super::plan::reading;
use super::plan::status::{Fare, desired_status, status_due};
use super::shared::{Found, Kept, Shared};
use super::status_request::status_request;
use super::verdict::{Verdict, Verdicts};
use policy_sync_api::moment::Moment;
use policy_sync_hub::reconcile::{
    Capability, Events, Expectations, Failure, LastWrite, Leadership, Queue, Repeats, RequestError, Requests,
    Slot, apply,
};
use policy_sync_hub::tasks::announce;
use policy_sync_mirror::Wanted;
use policy_sync_rego::asked::PLACEMENT;
use policy_sync_rego::confined::CheckError;
use policy_sync_rego::fault::Fault;
use policy_sync_rego::module::{ModuleId, Text};
use policy_sync_rego::secrets::{Contents, SecretReads};
use policy_sync_rego::settle::{Candidate, Outcome, Settled, settle};

/// How long a kind with too many objects is not watched.
const LEFT_ALONE: Duration = Duration::from_secs(600);
/// The delay before the next check of modules that the last check skipped.
const CHECK_AGAIN: Duration = Duration::from_secs(1);
/// The reason of the Event about a rejected Rego policy.
const REFUSED: &str = "PolicyRefused";
/// The reason of the Event about conflicting patches.
const CONFLICT: &str = "PatchConflict";
/// The reason of the Event on a Namespace with left-out documents.
const LEFT_OUT: &str = "DocumentsLeftOut";
/// How many left-out objects are allowed, as a multiple of the limit. Their rows take little memory.
const LEFT_OUT_LIMITS: usize = 4;

/// Loads Rego policies.
pub(super) struct Loader {
    pub(super) shared: Arc<Shared>,
    pub(super) requests: Requests,
    pub(super) leadership: Leadership,
    pub(super) events: Events,
    pub(super) queue: Arc<Queue<Key>>,
    pub(super) written: Expectations<Key, LastWrite>,
    pub(super) repeats: Repeats<Key, String>,
    pub(super) wanted: watch::Sender<Wanted>,
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

impl Failure for LoadError {
    fn category(&self) -> &'static str {
        match self {
            Self::Check(_) => "check",
            Self::Engine(_) => "engine",
            Self::Write { source, .. } => source.category(),
        }
    }

    fn is_routine(&self) -> bool {
        matches!(self, Self::Write { source, .. } if source.is_routine())
    }
}

impl Capability for Loader {
    type Key = Key;
    type Error = LoadError;

    fn everything(&self) -> BTreeSet<Key> {
        let guard = self.shared.mirror.read();
        let view = guard.view(self.shared.clock.now());
        let carriers = view.carriers(&self.shared.settings).map(|(key, _)| Key::Status(key));
        carriers.chain([Key::Watches, Key::Bundle]).collect()
    }

    /// Each process loads Rego policies and serves reviews; only the leader writes status.
    fn is_for_followers(&self, key: &Key) -> bool {
        !matches!(key, Key::Status(_))
    }

    async fn carry_out(&self, key: &Key, _slot: Slot) -> Result<(), LoadError> {
        match key {
            Key::Watches => self.watch(),
            Key::Bundle => self.load().await?,
            Key::Documents => {
                self.limit();
                self.relist();
                self.shared.publish()?;
                self.tell_left_out();
                self.look_again();
            }
            Key::Status(carrier) => self.tell(key, carrier).await?,
        }
        Ok(())
    }
}

impl Loader {
    fn watch(&self) {
        let (guard, found) = (self.shared.mirror.read(), self.shared.found.lock());
        let view = guard.view(self.shared.clock.now());
        let settings = &self.shared.settings;
        let Kept { kinds, named } = Kept::of_all(&self.shared.kept.borrow());
        let plurals = plan::plurals(settings, &found.verdicts, kinds.union(&named));
        let wanted =
            plan::watches(view, settings, &found.verdicts, &kinds, &found.too_large, &found.relisted);
        announce(&self.plurals, plurals);
        announce(&self.wanted, wanted);
    }

    /// Checks the modules and publishes the result.
    async fn load(&self) -> Result<(), LoadError> {
        self.forgive();
        self.relist();
        let before = self.shared.verdicts();
        let candidates = {
            let guard = self.shared.mirror.read();
            let view = guard.view(self.shared.clock.now());
            // After the first load, an unreadable source does not block the others.
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
        self.shared.found.lock().unfit.among(texts);
        let mut settled = settle(&candidates, &*self.shared).await?;
        let engine = self.shared.settings.evaluator.engine(&settled.bundle)?;
        let (read, is_partial) = (std::mem::take(&mut settled.known), settled.is_partial);
        let verdicts = self.judge(settled, candidates, &before);
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
        let is_elsewhere = verdicts.elsewhere != before.elsewhere;
        {
            let mut found = self.shared.found.lock();
            found.verdicts = Arc::new(verdicts);
            found.engine = engine;
            found.read = read;
        }
        self.watch();
        self.shared.publish()?;
        self.queue.affect(changed.into_iter().map(Key::Status));
        if is_partial {
            // The next check skips the modules that ended this one.
            self.queue.add_after(Key::Bundle, CHECK_AGAIN);
        }
        if is_elsewhere {
            let all = self.everything();
            self.queue.affect(all.into_iter().filter(|key| matches!(key, Key::Status(_))));
        }
        self.look_again();
        Ok(())
    }

    fn judge(&self, settled: Settled, candidates: Vec<Candidate>, before: &Verdicts) -> Verdicts {
        let Settled { mut outcomes, mut in_force, mut packages, bundle, secrets, reads, .. } = settled;
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
            // If only the awaited kinds differ, the outcome is the same.
            let same = known
                .filter(|known| known.text == text && discriminant(&known.outcome) == discriminant(&outcome));
            let notes = bundle.module(&id).map(|module| reading::notes(&self.shared.settings, module));
            let verdict = Verdict {
                since: same.map_or(view.now, |same| same.since),
                package: packages.remove(&id).or_else(|| same?.package.clone()),
                enforcement: enforcement.ok(),
                in_force: in_force.remove(&id),
                is_new: known.is_none_or(|known| known.unwritten_until().is_some()),
                advice: advice.remove(&id).unwrap_or_default(),
                notes: notes.unwrap_or_default(),
                text,
                outcome,
            };
            modules.insert(id, verdict);
        }
        let waits = modules.values().any(|verdict| matches!(verdict.outcome, Outcome::Pending(_)));
        let settings = &self.shared.settings;
        let mut placing = bundle.reached(settings.packages.of(PLACEMENT));
        if placing.any {
            placing.kinds.extend(settings.replicate.union(&reads).cloned());
        }
        let elsewhere = settings.evaluator.external().map(|external| external.address().into());
        if elsewhere.is_some() {
            placing.kinds.extend(settings.replicate.iter().cloned());
        }
        Verdicts {
            modules,
            denies: bundle.denies(),
            secrets: secrets.map_or(Contents::Readable, |secrets| secrets.withheld()),
            placing,
            bundle,
            reads,
            packages: before.packages.clone(),
            elsewhere,
            is_whole: before.is_whole || !waits,
        }
    }

    /// Stops watching a kind if there are too many cluster-scoped objects or too many left-out objects.
    /// Excess namespaced objects are left out before that.
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
                // Prefer kinds that no Rego policy reads.
                cluster_scoped.into_iter().max_by_key(|(kind, count)| (!read.contains(kind), *count))
            } else if left_out.values().sum::<usize>() > limit.saturating_mul(LEFT_OUT_LIMITS) {
                left_out.into_iter().max_by_key(|(_, count)| *count)
            } else {
                None
            };
            let namespaced = view.readable().values().sum::<usize>().saturating_sub(of_cluster);
            (of_cluster.max(namespaced), largest.map(|(kind, count)| (kind.clone(), count)))
        };
        let is_near = reading::is_near(readable, limit);
        if std::mem::replace(&mut self.shared.found.lock().is_near, is_near) != is_near {
            self.queue.add(Key::Bundle);
        }
        let Some((kind, count)) = largest else { return };
        warn!(%kind, count, limit, "too many objects: stopped watching the kind");
        let now = self.shared.clock.now();
        self.shared.found.lock().too_large.insert(kind, (count, now));
        self.watch();
        self.queue.add(Key::Bundle);
    }

    /// Schedules retries for states that end with time: unwatched kinds, and modules or documents that wait.
    fn look_again(&self) {
        let now = self.shared.clock.now();
        let found = self.shared.found.lock();
        if let Some(since) = found.too_large.values().map(|(_, since)| *since).min() {
            self.queue.add_after(Key::Bundle, since.after(LEFT_ALONE).since(now));
        }
        if found.verdicts.modules.values().any(Verdict::is_too_large) {
            self.queue.add_after(Key::Bundle, found.retried.after(LEFT_ALONE).since(now));
        }
        if let Some(at) = plan::left_out::recheck(&found.left_out) {
            self.queue.add_after(Key::Documents, at.since(now));
        }
        let waiting = found.verdicts.modules.values().filter_map(Verdict::unwritten_until);
        if let Some(until) = waiting.filter(|until| *until > now).min() {
            self.queue.add_after(Key::Documents, until.since(now));
        }
    }

    /// Whether to check texts again that exceeded the total size. If so, records the time.
    fn is_retry_due(&self, now: Moment) -> bool {
        let mut found = self.shared.found.lock();
        let is_due = found.retried.after(LEFT_ALONE) <= now;
        if is_due {
            found.retried = now;
        }
        is_due
    }

    /// Watches kinds again after the pause for too many objects.
    fn forgive(&self) {
        let now = self.shared.clock.now();
        self.shared.found.lock().too_large.retain(|_, (_, since)| since.after(LEFT_ALONE) > now);
    }

    /// Lists kinds again whose left-out documents fit now.
    fn relist(&self) {
        let now = self.shared.clock.now();
        let is_changed = {
            let guard = self.shared.mirror.read();
            let (view, mut found) = (guard.view(now), self.shared.found.lock());
            let Found { left_out, relisted, .. } = &mut *found;
            plan::left_out::relist(view, left_out, relisted)
        };
        if is_changed {
            self.watch();
        }
    }

    /// Reports newly left-out documents: in the log, by an Event on their Namespace, and in the status of
    /// carriers.
    fn tell_left_out(&self) {
        let newly = std::mem::take(&mut self.shared.found.lock().newly_left_out);
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
                    self.events.warn(namespace(&part.namespace), LEFT_OUT, note);
                }
            }
        }
        // The published data no longer contains these documents, so their memory can be released.
        self.shared.mirror.tidy();
        self.queue.add(Key::Bundle);
    }

    async fn tell(&self, key: &Key, carrier: &CarrierKey) -> Result<(), LoadError> {
        let (verdicts, registered) = (self.shared.verdicts(), self.shared.registered.borrow().clone());
        let (status, uid, seen, later, manager) = {
            let guard = self.shared.mirror.read();
            let view = guard.view(self.shared.clock.now());
            let later = status_due(view, &verdicts, &registered, carrier).map(|at| at.since(view.now));
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
        let Some((status, fare)) = status else { return Ok(()) };
        if !is_visible {
            self.queue.add_later(key.clone());
            return Ok(());
        }
        let now = self.shared.clock.now();
        if let Some(wait) = self.repeats.wait(key, &status.words(), now) {
            // Another writer keeps changing the status.
            self.queue.add_after(key.clone(), wait);
            return Ok(());
        }
        let request = status_request(&manager, carrier, &uid, &status);
        let written = apply::apply(&self.requests, &carrier.gvr(), &carrier.0, &uid, request).await;
        let written = written.map_err(|source| LoadError::Write { object: carrier.to_string(), source })?;
        self.written.note(key, |last| last.wrote(written.version()));
        self.repeats.wrote(key, status.words(), now);
        if let Some(note) = fare.as_ref().and_then(Fare::note) {
            self.events.warn(carrier.reference(&uid), REFUSED, note);
        }
        if let Some(note) = fare.as_ref().and_then(Fare::conflict) {
            self.events.warn(carrier.reference(&uid), CONFLICT, note);
        }
        Ok(())
    }
}

/// A reference for Events about a Namespace. They are created in it, where its users can read them.
fn namespace(name: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Namespace".to_owned()),
        name: Some(name.to_owned()),
        namespace: Some(name.to_owned()),
        ..ObjectReference::default()
    }
}
