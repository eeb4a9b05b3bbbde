//! Selects the texts to load from all candidates.
//!
//! ```text
//! in force ──┐
//!            ├──▶ check ──▶ without faults: the changes are loaded
//! changes ───┘      └─────▶ the culprits are rejected, their last good texts stay; check again
//! ```
//!
//! The texts in force have passed the check together, so each new fault comes from a change. The culprit is the change
//! whose own text has the fault, or the oldest change with which the fault first appears. Only the culprit is rejected;
//! the other changes stay.

mod crashes;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use self::crashes::SlowModules;
use super::bundle::Bundle;
use super::confined::{CheckError, CheckResult};
use super::enforcement;
use super::fault::{Fault, Faults};
use super::loaded_module::LoadedModule;
use super::module::{ModuleId, Text, declared_package};
use super::queries::QueriedPackages;
use super::secrets::SecretReads;
use policy_sync_api::rego_policy::EnforcementAction;

/// The text and the enforcement that a module has in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedText {
    /// The text.
    pub text: Arc<str>,
    /// The effect of the module's denials.
    pub enforcement: EnforcementAction,
}

/// A text on the hub, with the last good text of its module.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The text as written.
    pub text: Text,
    /// The effect of the module's denials, or the error in the setting of the effect.
    pub enforcement: Result<EnforcementAction, String>,
    /// The last good text of the module, with its enforcement.
    pub in_force: Option<LoadedText>,
    /// The known faults of the text, if any, and their cause.
    pub rejected: Option<(Faults, RejectionCause)>,
}

impl Candidate {
    fn id(&self) -> &ModuleId {
        &self.text.id
    }

    pub(super) fn is_change(&self) -> bool {
        let same =
            |good: &LoadedText| good.text == self.text.text && Ok(good.enforcement) == self.enforcement;
        !self.in_force.as_ref().is_some_and(same)
    }
}

/// A kind or a module for which a text waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingDependency {
    /// The name of the kind or the id of the module: `pods`, `shop/lib/main.rego`.
    pub what: String,
    /// The reason for the wait, unless the wait is short.
    pub why: Option<String>,
}

impl fmt::Display for PendingDependency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.why {
            Some(why) => write!(f, "{} ({why})", self.what),
            None => f.write_str(&self.what),
        }
    }
}

/// The result for one text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadOutcome {
    /// The text is in force.
    Loaded,
    /// The text is valid and waits for these kinds and modules.
    Pending(Vec<PendingDependency>),
    /// The text is not checked yet, because too many other texts end the check process.
    Unchecked,
    /// The text has faults.
    Rejected {
        /// The faults.
        faults: Faults,
        /// The cause, which decides when the text is checked again.
        cause: RejectionCause,
    },
}

/// Why a text is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectionCause {
    /// The text has faults, possibly only in combination with other texts. It is checked again in each load.
    Faults,
    /// The text alone ends the check process. It is checked again once its object changes.
    CrashesCheck,
    /// The text ends the check process together with the texts in force. It is checked again once its object or one of
    /// the texts in force changes, and every ten minutes.
    TooLarge,
}

/// The selected texts and the result for each candidate.
#[derive(Clone, Debug, Default)]
pub struct SelectedModules {
    /// The result for each text.
    pub outcomes: BTreeMap<ModuleId, LoadOutcome>,
    /// The text in force for each module that has one.
    pub in_force: BTreeMap<ModuleId, LoadedText>,
    /// The package of each module whose text parses, or that is too large for the bundle.
    pub packages: BTreeMap<ModuleId, String>,
    /// All modules in force.
    pub bundle: Bundle,
    /// The places where the bundle reads the contents of Secrets.
    pub secrets: SecretReads,
    /// The plurals of the kinds that checked texts read. A text counts if it passed the check, even if it is not in
    /// force.
    pub reads: BTreeSet<String>,
    /// The largest bundle that was parsed, including pending modules.
    pub known: Bundle,
    /// Whether texts remain to be checked, because too many other texts ended the check process.
    pub is_partial: bool,
}

/// Checks bundles for [`select_modules`].
pub trait BundleChecker: Sync {
    /// Checks `texts` as one bundle and returns the faults.
    ///
    /// # Errors
    ///
    /// When the check cannot run.
    fn check(&self, texts: &[Text]) -> impl Future<Output = Result<CheckResult, CheckError>> + Send;

    /// The queried packages.
    fn packages(&self) -> QueriedPackages {
        QueriedPackages::default()
    }

    /// The bundle that was parsed before. Its unchanged modules are not parsed again.
    fn known(&self) -> Bundle {
        Bundle::default()
    }

    /// Further faults in a bundle that has passed the check; `secrets` holds the reads of Secrets that the check found.
    fn faults(&self, bundle: &Bundle, secrets: &SecretReads) -> Vec<Fault>;

    /// The kinds and modules that each module waits for.
    fn pending_dependencies(&self, bundle: &Bundle) -> BTreeMap<ModuleId, Vec<PendingDependency>>;
}

/// Decides which of `candidates` are in force. `candidates` are sorted from the oldest to the newest.
///
/// # Errors
///
/// When the check cannot run.
pub async fn select_modules(
    candidates: &[Candidate],
    checker: &impl BundleChecker,
) -> Result<SelectedModules, CheckError> {
    let base = candidates.iter().filter(|candidate| candidate.in_force.is_some()).map(Candidate::id);
    let base = base.collect();
    let mut selector = ModuleSelector {
        candidates,
        checker,
        selected: SelectedModules::default(),
        base,
        known: checker.known(),
    };
    let mut changes = selector.changes_to_check().await?;
    let mut fit = selector.remove_faulty_changes(&mut changes, None).await?;
    let pending_dependencies = checker.pending_dependencies(&fit.0);
    let pending =
        changes.iter().filter_map(|change| Some((change.id(), pending_dependencies.get(change.id())?)));
    let pending: BTreeMap<_, _> = pending.map(|(id, kinds)| (id.clone(), kinds.clone())).collect();
    if !pending.is_empty() {
        for (id, kinds) in &pending {
            selector.selected.outcomes.insert(id.clone(), LoadOutcome::Pending(kinds.clone()));
        }
        changes.retain(|change| !pending.contains_key(change.id()));
        let why = |kinds: &[PendingDependency]| kinds.iter().find_map(|dependency| dependency.why.clone());
        let waited = pending
            .iter()
            .map(|(id, kinds)| PendingDependency { what: id.to_string(), why: why(kinds) })
            .collect();
        fit = selector.remove_faulty_changes(&mut changes, Some(waited)).await?;
    }
    Ok(selector.finish(&changes, fit))
}

/// The faults found with the first n changes, by n.
type Probes = BTreeMap<usize, Vec<Fault>>;

struct ModuleSelector<'c, J> {
    candidates: &'c [Candidate],
    checker: &'c J,
    selected: SelectedModules,
    /// The modules whose last good text can be in force.
    base: BTreeSet<&'c ModuleId>,
    /// The largest bundle parsed so far.
    known: Bundle,
}

impl<'c, J: BundleChecker> ModuleSelector<'c, J> {
    /// The changes to check together. Rejects all other changes: changes that were rejected before, and changes with an
    /// invalid enforcement.
    async fn changes_to_check(&mut self) -> Result<Vec<&'c Candidate>, CheckError> {
        let (mut changes, mut unenforced) = (Vec::new(), Vec::new());
        for change in self.candidates.iter().filter(|candidate| candidate.is_change()) {
            if let Some((faults, cause)) = &change.rejected {
                // A text that would make the bundle too large is not parsed, so its declaration has to show the
                // package. Without a known package, requests for all packages would be denied.
                let package =
                    declared_package(&change.text.text).filter(|_| *cause == RejectionCause::Faults);
                self.selected.packages.extend(package.map(|package| (change.id().clone(), package)));
                self.reject(change.id(), faults.clone(), *cause);
            } else if let Err(fault) = &change.enforcement {
                self.reject(
                    change.id(),
                    Faults::of(Fault::new(change.id(), None, fault)),
                    RejectionCause::Faults,
                );
                unenforced.push(change.text.clone());
            } else {
                changes.push(change);
            }
        }
        self.find_packages(unenforced).await?;
        Ok(changes)
    }

    /// Finds the packages of `texts`, which are rejected for other reasons than their content. Also rejects the texts
    /// that end this check.
    async fn find_packages(&mut self, texts: Vec<Text>) -> Result<(), CheckError> {
        let mut parts = vec![texts];
        while let Some(mut texts) = parts.pop() {
            if texts.is_empty() {
                continue;
            }
            let checked = self.checker.check(&texts).await?;
            self.selected.packages.extend(checked.packages.clone());
            if let Some(how) = checked.termination.as_ref().filter(|_| texts.len() > 1) {
                let slow = SlowModules::of(&checked, texts.iter().map(|text| &text.id));
                if slow.times.is_empty() {
                    // The texts are too large together, so each half is checked separately.
                    parts.push(texts.split_off(texts.len() / 2));
                } else {
                    // A later check tries the unread texts again.
                    self.selected.is_partial = true;
                    texts.retain(|text| match slow.fault(&text.id, &checked, how) {
                        Some(fault) => {
                            self.reject(&text.id, Faults::of(fault), RejectionCause::TooLarge);
                            false
                        }
                        None => checked.times.contains_key(&text.id),
                    });
                }
                parts.push(texts);
                continue;
            }
            // A later check tries the postponed texts again.
            self.selected.is_partial |= !checked.postponed.is_empty();
            if !checked.crashing.is_empty() {
                texts.retain(|text| {
                    checked.fatal(&text.id).is_none() && !checked.postponed.contains(&text.id)
                });
                parts.push(texts);
            }
            for (id, fault) in checked.crashing.into_iter().chain(checked.skipped) {
                self.reject(&id, Faults::of(fault), RejectionCause::CrashesCheck);
            }
        }
        Ok(())
    }

    fn reject(&mut self, id: &ModuleId, faults: Faults, cause: RejectionCause) {
        self.selected.outcomes.insert(id.clone(), LoadOutcome::Rejected { faults, cause });
    }

    /// The texts that would be in force with `changes`.
    fn texts(&self, changes: &[&Candidate]) -> Vec<Text> {
        let changed: BTreeSet<&ModuleId> = changes.iter().map(|change| change.id()).collect();
        let text = |candidate: &Candidate| {
            if changed.contains(candidate.id()) {
                return Some(candidate.text.clone());
            }
            let good = candidate.in_force.as_ref().filter(|_| self.base.contains(candidate.id()))?;
            Some(Text { id: candidate.id().clone(), text: good.text.clone() })
        };
        self.candidates.iter().filter_map(text).collect()
    }

    /// Removes culprits from `changes` until the rest passes the check. Returns the resulting bundle and its reads of
    /// Secrets. If `waited` is set, the removed changes become pending instead of rejected.
    async fn remove_faulty_changes(
        &mut self,
        changes: &mut Vec<&'c Candidate>,
        waited: Option<Vec<PendingDependency>>,
    ) -> Result<(Bundle, SecretReads), CheckError> {
        loop {
            let texts = self.texts(changes);
            let (checked, bundle) = self.check_changes(&texts, changes).await?;
            self.selected.packages.extend(checked.packages.clone());
            if checked.faults.is_empty() {
                return Ok((bundle.unwrap_or_default(), checked.secrets));
            }
            if let Some(how) = &checked.termination {
                // The texts ended the check only in combination. The texts in force passed the check before, so if
                // there are no changes, no text is to blame.
                if changes.is_empty() {
                    return Err(CheckError::Terminated(how.clone()));
                }
                if !self.remove_slow(&checked, changes, how) {
                    self.remove_crashing_combination(changes, how).await?;
                }
                continue;
            }
            if !checked.crashing.is_empty() {
                self.remove_crashing(&checked, changes, waited.as_deref())?;
                continue;
            }
            let before = (changes.len(), self.base.len());
            let culprits = self.find_culprits(&checked, changes).await?;
            changes.retain(|change| !culprits.contains_key(change.id()));
            for (id, faults) in culprits {
                match &waited {
                    // The removed change passed the check together with the texts that wait.
                    Some(waited) => {
                        self.selected.outcomes.insert(id, LoadOutcome::Pending(waited.clone()));
                    }
                    // The change may need a text that is not checked yet.
                    None if self.selected.is_partial && !checked.unread.contains(&id) => {
                        self.selected.outcomes.insert(id, LoadOutcome::Unchecked);
                    }
                    None => self.reject(&id, faults, RejectionCause::Faults),
                }
            }
            if before == (changes.len(), self.base.len()) {
                // The fault names no module, so no culprit can be found.
                changes.clear();
                self.base.clear();
                let all = self.candidates.iter().map(Candidate::id);
                all.for_each(|id| self.reject(id, checked.faults.clone(), RejectionCause::Faults));
            }
        }
    }

    /// Removes the changes that end the check process, and the changes that were therefore not read.
    fn remove_crashing(
        &mut self,
        checked: &CheckResult,
        changes: &mut Vec<&'c Candidate>,
        waited: Option<&[PendingDependency]>,
    ) -> Result<(), CheckError> {
        let changed: BTreeSet<&ModuleId> = changes.iter().map(|change| change.id()).collect();
        if let Some(id) = checked.crashing.keys().find(|id| !changed.contains(id)) {
            return Err(CheckError::Terminated(format!("{id} passed the check before")));
        }
        changes.retain(|change| {
            let outcome = match (checked.fatal(change.id()), waited) {
                (Some(_), Some(waited)) => LoadOutcome::Pending(waited.to_vec()),
                (Some(fault), None) => LoadOutcome::Rejected {
                    faults: Faults::of(fault.clone()),
                    cause: RejectionCause::CrashesCheck,
                },
                (None, _) if checked.postponed.contains(change.id()) => {
                    self.selected.is_partial = true;
                    LoadOutcome::Unchecked
                }
                (None, _) => return true,
            };
            self.selected.outcomes.insert(change.id().clone(), outcome);
            false
        });
        Ok(())
    }

    /// Runs the check. If it finds no faults, parses the bundle and looks for the additional faults of the checker.
    async fn check_changes(
        &mut self,
        texts: &[Text],
        changes: &[&Candidate],
    ) -> Result<(CheckResult, Option<Bundle>), CheckError> {
        if texts.is_empty() {
            return Ok(Default::default());
        }
        let mut checked = self.checker.check(texts).await?;
        if !checked.faults.is_empty() {
            return Ok((checked, None));
        }
        match Bundle::read_for(texts, &self.checker.packages(), &self.known) {
            Ok(bundle) => {
                self.selected.reads.extend(bundle.reads());
                if bundle.modules().count() >= self.known.modules().count() {
                    self.known = bundle.clone();
                }
                let mut faults = self.checker.faults(&bundle, &checked.secrets);
                let enforcements = changes
                    .iter()
                    .filter_map(|change| Some((change.id().clone(), *change.enforcement.as_ref().ok()?)));
                faults.extend(enforcement::faults(&bundle, &enforcements.collect()));
                checked.faults = Faults::new(faults);
                Ok((checked, Some(bundle)))
            }
            Err(faults) => {
                checked.faults = Faults::new(faults);
                Ok((checked, None))
            }
        }
    }

    /// The culprits for the faults in `checked`, each with its faults. The result is never empty.
    async fn find_culprits(
        &mut self,
        checked: &CheckResult,
        changes: &[&'c Candidate],
    ) -> Result<BTreeMap<ModuleId, Faults>, CheckError> {
        let mut by_module: BTreeMap<&ModuleId, Vec<Fault>> = BTreeMap::new();
        for fault in &checked.faults.listed {
            by_module.entry(&fault.module).or_default().push(fault.clone());
        }
        let (mut culprits, mut probes) = (BTreeMap::new(), Probes::new());
        for (id, found) in by_module {
            let own = changes.iter().position(|change| change.id() == id);
            let until = own.map_or(0, |position| position + 1);
            let (mut low, mut high) = (until, changes.len());
            // If the text itself does not parse, other changes are not the cause, so the check is not repeated.
            let is_own = until == high || checked.unread.contains(id);
            if is_own || self.has(&found, changes, until, &mut probes).await? {
                if own.is_none() {
                    // The faulty text is in force, so it needs a module that no longer exists.
                    self.base.remove(id);
                }
                culprits.insert(id.clone(), Faults::new(found));
                continue;
            }
            // The fault is absent with the first `low` changes and present with the first `high`.
            while high - low > 1 {
                let middle = low.midpoint(high);
                if self.has(&found, changes, middle, &mut probes).await? {
                    high = middle;
                } else {
                    low = middle;
                }
            }
            let culprit = changes[high - 1].id();
            let text = format!("conflicts with modules that were loaded before: {}", found[0]);
            culprits.entry(culprit.clone()).or_insert_with(|| Faults::of(Fault::new(culprit, None, text)));
        }
        Ok(culprits)
    }

    /// Whether any of `faults` appears with only the first `count` of `changes`. `probes` caches the faults by count.
    async fn has(
        &mut self,
        faults: &[Fault],
        changes: &[&Candidate],
        count: usize,
        probes: &mut Probes,
    ) -> Result<bool, CheckError> {
        let found = match probes.entry(count) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => {
                let changes = &changes[..count];
                let (checked, _) = self.check_changes(&self.texts(changes), changes).await?;
                unknown.insert(checked.faults.listed)
            }
        };
        Ok(found.iter().any(|fault| faults.contains(fault)))
    }

    fn finish(mut self, changes: &[&Candidate], (bundle, secrets): (Bundle, SecretReads)) -> SelectedModules {
        let changed: BTreeSet<&ModuleId> = changes.iter().map(|change| change.id()).collect();
        for candidate in self.candidates {
            let id = candidate.id();
            let changed = changed.contains(id);
            let good = candidate.in_force.clone().filter(|_| self.base.contains(id));
            let in_force = match (&candidate.enforcement, changed) {
                (Ok(enforcement), true) => {
                    Some(LoadedText { text: candidate.text.text.clone(), enforcement: *enforcement })
                }
                _ => good,
            };
            self.selected.in_force.extend(in_force.map(|in_force| (id.clone(), in_force)));
            self.selected.outcomes.entry(id.clone()).or_insert(LoadOutcome::Loaded);
        }
        // Parsed modules are kept only for texts that are still on the hub or in force.
        let is_known = |candidate: &&Candidate| {
            let known = self.known.module(candidate.id()).map(LoadedModule::text);
            let good = candidate.in_force.as_ref().map(|good| &good.text);
            known.is_some_and(|known| *known == candidate.text.text || Some(known) == good)
        };
        let ids = self.candidates.iter().filter(is_known).map(|candidate| candidate.id().clone()).collect();
        SelectedModules { bundle, secrets, known: self.known.subset(&ids), ..self.selected }
    }
}

#[cfg(test)]
mod tests;
