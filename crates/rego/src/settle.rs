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

mod alive;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use self::alive::Slowest;
use super::asked::Packages;
use super::bundle::Bundle;
use super::confined::{CheckError, Checked};
use super::enforcement;
use super::fault::{Fault, Faults};
use super::loaded_module::LoadedModule;
use super::module::{ModuleId, Text};
use super::secrets::SecretReads;
use policy_sync_api::rego_policy::Enforcement;

/// The text and the enforcement that a module has in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InForce {
    /// The text.
    pub text: Arc<str>,
    /// The effect of its denials.
    pub enforcement: Enforcement,
}

/// A text on the hub, with the last good text of its module.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The text as written.
    pub text: Text,
    /// The effect of its denials, or the error in its setting.
    pub enforcement: Result<Enforcement, String>,
    /// The last good text.
    pub in_force: Option<InForce>,
    /// The known faults of the text, if any, and their cause.
    pub refused: Option<(Faults, Cause)>,
}

impl Candidate {
    fn id(&self) -> &ModuleId {
        &self.text.id
    }

    pub(super) fn is_change(&self) -> bool {
        let same = |good: &InForce| good.text == self.text.text && Ok(good.enforcement) == self.enforcement;
        !self.in_force.as_ref().is_some_and(same)
    }
}

/// Something that a text waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Awaited {
    /// A kind or a module: `pods`, `shop/lib/main.rego`.
    pub what: String,
    /// The reason for the wait, unless the wait is short.
    pub why: Option<String>,
}

impl fmt::Display for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.why {
            Some(why) => write!(f, "{} ({why})", self.what),
            None => f.write_str(&self.what),
        }
    }
}

/// The result for one text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The text is in force.
    Loaded,
    /// The text is valid and waits for these.
    Pending(Vec<Awaited>),
    /// The text is not checked yet, because too many others end the check process.
    Unchecked,
    /// The text has faults.
    Refused {
        /// The faults.
        faults: Faults,
        /// The cause, which decides when the text is checked again.
        cause: Cause,
    },
}

/// Why a text is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It has faults, possibly only in combination with others. It is checked again in each load.
    Faults,
    /// It ends the check process on its own. It is checked again once its object changes.
    EndsCheck,
    /// It ends the check process together with the texts in force. It is checked again once its object or one of these
    /// texts changes, and every ten minutes.
    TooLarge,
}

/// The selected texts and the result for each candidate.
#[derive(Clone, Debug, Default)]
pub struct Settled {
    /// The result for each text.
    pub outcomes: BTreeMap<ModuleId, Outcome>,
    /// The text in force for each module that has one.
    pub in_force: BTreeMap<ModuleId, InForce>,
    /// The package of each module whose text parses.
    pub packages: BTreeMap<ModuleId, String>,
    /// All modules in force.
    pub bundle: Bundle,
    /// The places where the bundle reads the contents of Secrets.
    pub secrets: SecretReads,
    /// The plurals of all kinds that texts which passed the check read, whether or not these texts are in force.
    pub reads: BTreeSet<String>,
    /// The largest bundle that was parsed, including pending modules.
    pub known: Bundle,
    /// Whether texts remain to be checked, because too many others ended the check process.
    pub is_partial: bool,
}

/// Checks bundles for [`settle`].
pub trait Judge: Sync {
    /// Checks `texts` as one bundle and returns the faults.
    ///
    /// # Errors
    ///
    /// When the check cannot run.
    fn check(&self, texts: &[Text]) -> impl Future<Output = Result<Checked, CheckError>> + Send;

    /// The queried packages.
    fn packages(&self) -> Packages {
        Packages::default()
    }

    /// The bundle that was parsed before. Its unchanged modules are not parsed again.
    fn known(&self) -> Bundle {
        Bundle::default()
    }

    /// Further faults in a bundle that has passed the check; `secrets` holds the reads of Secrets which the check
    /// found.
    fn faults(&self, bundle: &Bundle, secrets: &SecretReads) -> Vec<Fault>;

    /// The objects and kinds that each module waits for.
    fn awaited(&self, bundle: &Bundle) -> BTreeMap<ModuleId, Vec<Awaited>>;
}

/// Decides which of `candidates` are in force. `candidates` are sorted from the oldest to the newest.
///
/// # Errors
///
/// When the check cannot run.
pub async fn settle(candidates: &[Candidate], judge: &impl Judge) -> Result<Settled, CheckError> {
    let base = candidates.iter().filter(|candidate| candidate.in_force.is_some()).map(Candidate::id);
    let base = base.collect();
    let mut settling =
        Settling { candidates, judge, settled: Settled::default(), base, known: judge.known() };
    let mut changes = settling.triable().await?;
    let mut fit = settling.until_fit(&mut changes, None).await?;
    let awaited = judge.awaited(&fit.0);
    let waits = changes.iter().filter_map(|change| Some((change.id(), awaited.get(change.id())?)));
    let waits: BTreeMap<_, _> = waits.map(|(id, kinds)| (id.clone(), kinds.clone())).collect();
    if !waits.is_empty() {
        for (id, kinds) in &waits {
            settling.settled.outcomes.insert(id.clone(), Outcome::Pending(kinds.clone()));
        }
        changes.retain(|change| !waits.contains_key(change.id()));
        let why = |kinds: &[Awaited]| kinds.iter().find_map(|awaited| awaited.why.clone());
        let waited =
            waits.iter().map(|(id, kinds)| Awaited { what: id.to_string(), why: why(kinds) }).collect();
        fit = settling.until_fit(&mut changes, Some(waited)).await?;
    }
    Ok(settling.settle(&changes, fit))
}

/// The faults found with the first n changes, by n.
type Probes = BTreeMap<usize, Vec<Fault>>;

struct Settling<'c, J> {
    candidates: &'c [Candidate],
    judge: &'c J,
    settled: Settled,
    /// The modules whose last good text can be in force.
    base: BTreeSet<&'c ModuleId>,
    /// The largest bundle parsed so far.
    known: Bundle,
}

impl<'c, J: Judge> Settling<'c, J> {
    /// The changes to check together. Rejects the others: those that were rejected before, and those with an invalid
    /// enforcement.
    async fn triable(&mut self) -> Result<Vec<&'c Candidate>, CheckError> {
        let (mut changes, mut unenforced) = (Vec::new(), Vec::new());
        for change in self.candidates.iter().filter(|candidate| candidate.is_change()) {
            if let Some((faults, cause)) = &change.refused {
                self.refuse(change.id(), faults.clone(), *cause);
            } else if let Err(fault) = &change.enforcement {
                self.refuse(change.id(), Faults::of(Fault::new(change.id(), None, fault)), Cause::Faults);
                unenforced.push(change.text.clone());
            } else {
                changes.push(change);
            }
        }
        self.find_packages(unenforced).await?;
        Ok(changes)
    }

    /// Finds the packages of `texts`, which are rejected for another reason than their text. Rejects those that end
    /// this check.
    async fn find_packages(&mut self, texts: Vec<Text>) -> Result<(), CheckError> {
        let mut parts = vec![texts];
        while let Some(mut texts) = parts.pop() {
            if texts.is_empty() {
                continue;
            }
            let checked = self.judge.check(&texts).await?;
            self.settled.packages.extend(checked.packages.clone());
            if let Some(how) = checked.died.as_ref().filter(|_| texts.len() > 1) {
                let slow = Slowest::of(&checked, texts.iter().map(|text| &text.id));
                if slow.times.is_empty() {
                    // All together are too large.
                    parts.push(texts.split_off(texts.len() / 2));
                } else {
                    // A later check tries the unread texts again.
                    self.settled.is_partial = true;
                    texts.retain(|text| match slow.fault(&text.id, &checked, how) {
                        Some(fault) => {
                            self.refuse(&text.id, Faults::of(fault), Cause::TooLarge);
                            false
                        }
                        None => checked.times.contains_key(&text.id),
                    });
                }
                parts.push(texts);
                continue;
            }
            // A later check tries the postponed texts again.
            self.settled.is_partial |= !checked.postponed.is_empty();
            if !checked.deadly.is_empty() {
                texts.retain(|text| {
                    checked.fatal(&text.id).is_none() && !checked.postponed.contains(&text.id)
                });
                parts.push(texts);
            }
            for (id, fault) in checked.deadly.into_iter().chain(checked.skipped) {
                self.refuse(&id, Faults::of(fault), Cause::EndsCheck);
            }
        }
        Ok(())
    }

    fn refuse(&mut self, id: &ModuleId, faults: Faults, cause: Cause) {
        self.settled.outcomes.insert(id.clone(), Outcome::Refused { faults, cause });
    }

    /// The texts in force after `changes`.
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
    /// Secrets. With `waited`, the removed changes become pending instead of rejected.
    async fn until_fit(
        &mut self,
        changes: &mut Vec<&'c Candidate>,
        waited: Option<Vec<Awaited>>,
    ) -> Result<(Bundle, SecretReads), CheckError> {
        loop {
            let texts = self.texts(changes);
            let (checked, bundle) = self.judged(&texts, changes).await?;
            self.settled.packages.extend(checked.packages.clone());
            if checked.faults.is_empty() {
                return Ok((bundle.unwrap_or_default(), checked.secrets));
            }
            if let Some(how) = &checked.died {
                // The texts ended the check only in combination. The texts in force passed before, so a check without
                // changes cannot blame a text.
                if changes.is_empty() {
                    return Err(CheckError::Died(how.clone()));
                }
                if !self.remove_slow(&checked, changes, how) {
                    self.until_alive(changes, how).await?;
                }
                continue;
            }
            if !checked.deadly.is_empty() {
                self.remove_deadly(&checked, changes, waited.as_deref())?;
                continue;
            }
            let before = (changes.len(), self.base.len());
            let blamed = self.blamed(&checked, changes).await?;
            changes.retain(|change| !blamed.contains_key(change.id()));
            for (id, faults) in blamed {
                match &waited {
                    // It passed the check together with the texts that wait.
                    Some(waited) => {
                        self.settled.outcomes.insert(id, Outcome::Pending(waited.clone()));
                    }
                    // It may need a text that is not checked yet.
                    None if self.settled.is_partial && !checked.unread.contains(&id) => {
                        self.settled.outcomes.insert(id, Outcome::Unchecked);
                    }
                    None => self.refuse(&id, faults, Cause::Faults),
                }
            }
            if before == (changes.len(), self.base.len()) {
                // The fault names no module, so no culprit can be found.
                changes.clear();
                self.base.clear();
                let all = self.candidates.iter().map(Candidate::id);
                all.for_each(|id| self.refuse(id, checked.faults.clone(), Cause::Faults));
            }
        }
    }

    /// Removes the changes that end the check process, and those that were not read because of them.
    fn remove_deadly(
        &mut self,
        checked: &Checked,
        changes: &mut Vec<&'c Candidate>,
        waited: Option<&[Awaited]>,
    ) -> Result<(), CheckError> {
        let changed: BTreeSet<&ModuleId> = changes.iter().map(|change| change.id()).collect();
        if let Some(id) = checked.deadly.keys().find(|id| !changed.contains(id)) {
            return Err(CheckError::Died(format!("{id} passed the check before")));
        }
        changes.retain(|change| {
            let outcome = match (checked.fatal(change.id()), waited) {
                (Some(_), Some(waited)) => Outcome::Pending(waited.to_vec()),
                (Some(fault), None) => {
                    Outcome::Refused { faults: Faults::of(fault.clone()), cause: Cause::EndsCheck }
                }
                (None, _) if checked.postponed.contains(change.id()) => {
                    self.settled.is_partial = true;
                    Outcome::Unchecked
                }
                (None, _) => return true,
            };
            self.settled.outcomes.insert(change.id().clone(), outcome);
            false
        });
        Ok(())
    }

    /// Runs the check, then the further tests of the judge.
    async fn judged(
        &mut self,
        texts: &[Text],
        changes: &[&Candidate],
    ) -> Result<(Checked, Option<Bundle>), CheckError> {
        if texts.is_empty() {
            return Ok(Default::default());
        }
        let mut checked = self.judge.check(texts).await?;
        if !checked.faults.is_empty() {
            return Ok((checked, None));
        }
        match Bundle::read_for(texts, &self.judge.packages(), &self.known) {
            Ok(bundle) => {
                self.settled.reads.extend(bundle.reads());
                if bundle.modules().count() >= self.known.modules().count() {
                    self.known = bundle.clone();
                }
                let mut faults = self.judge.faults(&bundle, &checked.secrets);
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
    async fn blamed(
        &mut self,
        checked: &Checked,
        changes: &[&'c Candidate],
    ) -> Result<BTreeMap<ModuleId, Faults>, CheckError> {
        let mut by_module: BTreeMap<&ModuleId, Vec<Fault>> = BTreeMap::new();
        for fault in &checked.faults.told {
            by_module.entry(&fault.module).or_default().push(fault.clone());
        }
        let (mut blamed, mut probes) = (BTreeMap::new(), Probes::new());
        for (id, found) in by_module {
            let own = changes.iter().position(|change| change.id() == id);
            let until = own.map_or(0, |position| position + 1);
            let (mut low, mut high) = (until, changes.len());
            // A text that does not parse needs no second attempt.
            let is_own = until == high || checked.unread.contains(id);
            if is_own || self.has(&found, changes, until, &mut probes).await? {
                if own.is_none() {
                    // A module that it needs no longer exists.
                    self.base.remove(id);
                }
                blamed.insert(id.clone(), Faults::new(found));
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
            blamed.entry(culprit.clone()).or_insert_with(|| Faults::of(Fault::new(culprit, None, text)));
        }
        Ok(blamed)
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
                let (checked, _) = self.judged(&self.texts(changes), changes).await?;
                unknown.insert(checked.faults.told)
            }
        };
        Ok(found.iter().any(|fault| faults.contains(fault)))
    }

    fn settle(mut self, changes: &[&Candidate], (bundle, secrets): (Bundle, SecretReads)) -> Settled {
        let changed: BTreeSet<&ModuleId> = changes.iter().map(|change| change.id()).collect();
        for candidate in self.candidates {
            let id = candidate.id();
            let changed = changed.contains(id);
            let good = candidate.in_force.clone().filter(|_| self.base.contains(id));
            let in_force = match (&candidate.enforcement, changed) {
                (Ok(enforcement), true) => {
                    Some(InForce { text: candidate.text.text.clone(), enforcement: *enforcement })
                }
                _ => good,
            };
            self.settled.in_force.extend(in_force.map(|in_force| (id.clone(), in_force)));
            self.settled.outcomes.entry(id.clone()).or_insert(Outcome::Loaded);
        }
        // Modules of other texts are dropped.
        let is_known = |candidate: &&Candidate| {
            let known = self.known.module(candidate.id()).map(LoadedModule::text);
            let good = candidate.in_force.as_ref().map(|good| &good.text);
            known.is_some_and(|known| *known == candidate.text.text || Some(known) == good)
        };
        let ids = self.candidates.iter().filter(is_known).map(|candidate| candidate.id().clone()).collect();
        Settled { bundle, secrets, known: self.known.of_some(&ids), ..self.settled }
    }
}

#[cfg(test)]
mod tests;
