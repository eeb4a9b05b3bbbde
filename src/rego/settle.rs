//! Which texts count, of all that are there.
//!
//! ```text
//! in force ──┐
//!            ├──▶ check ──▶ all fit: they count
//! changes ───┘      └─────▶ what is to blame is refused, its last good text stays; again
//! ```
//!
//! What is in force fits by itself. So where something does not, a change is to blame: the one whose own text is at fault, or
//! the first, by age, with which something else begins to be. A change that goes leaves all others be.

mod alive;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use super::asked::Packages;
use super::bundle::Bundle;
use super::confined::{CheckError, Checked};
use super::enforcement;
use super::fault::{Fault, Faults};
use super::module::{ModuleId, Text};
use super::secrets::SecretReads;
use crate::api::rego_policy::Enforcement;

/// What is in force of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InForce {
    /// Its text.
    pub text: Arc<str>,
    /// What its denials come to.
    pub enforcement: Enforcement,
}

/// A text that is there, and what is in force of its module.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// What is written.
    pub text: Text,
    /// What its denials come to, or why nobody knows.
    pub enforcement: Result<Enforcement, String>,
    /// Its last good text.
    pub in_force: Option<InForce>,
    /// That it is not in order, where that is known already, and whether because it ends a check by itself.
    pub refused: Option<(Faults, bool)>,
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

/// What a text waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Awaited {
    /// A kind or a module: `pods`, `shop/lib/main.rego`.
    pub what: String,
    /// Why it is not there, where that is more than a moment's.
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

/// What becomes of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is in force.
    Loaded,
    /// It is in order, and waits for this.
    Pending(Vec<Awaited>),
    /// It is not in order.
    Refused {
        /// Why.
        faults: Faults,
        /// Whether it ends the check by itself.
        deadly: bool,
    },
}

/// What counts.
#[derive(Clone, Debug, Default)]
pub struct Settled {
    /// What becomes of each text.
    pub outcomes: BTreeMap<ModuleId, Outcome>,
    /// What is in force of each module, where something is.
    pub in_force: BTreeMap<ModuleId, InForce>,
    /// The package of each module whose text parses.
    pub packages: BTreeMap<ModuleId, String>,
    /// All that is in force.
    pub bundle: Bundle,
    /// Where that reads the contents of Secrets.
    pub secrets: SecretReads,
    /// The kinds that all of them read that have passed the check, by their plurals: whether or not they count.
    pub reads: BTreeSet<String>,
}

/// Who judges texts.
pub trait Judge: Sync {
    /// What is wrong with `texts`, one bundle.
    ///
    /// # Errors
    ///
    /// Where that cannot be found out.
    fn check(&self, texts: &[Text]) -> impl Future<Output = Result<Checked, CheckError>> + Send;

    /// Which packages are asked.
    fn packages(&self) -> Packages {
        Packages::default()
    }

    /// What was read before: modules of it that have not changed are not read again.
    fn known(&self) -> Bundle {
        Bundle::default()
    }

    /// What else is wrong with modules of a bundle that has passed the check, which found these reads of `secrets`.
    fn faults(&self, bundle: &Bundle, secrets: &SecretReads) -> Vec<Fault>;

    /// What modules of it wait for.
    fn awaited(&self, bundle: &Bundle) -> BTreeMap<ModuleId, Vec<Awaited>>;
}

/// Finds out which of `candidates`, the oldest first, count.
///
/// # Errors
///
/// Where that cannot be found out.
pub async fn settle(candidates: &[Candidate], judge: &impl Judge) -> Result<Settled, CheckError> {
    let base = candidates.iter().filter(|candidate| candidate.in_force.is_some()).map(Candidate::id);
    let base = base.collect();
    let mut settling =
        Settling { candidates, judge, settled: Settled::default(), base, known: judge.known() };
    let mut changes = Vec::new();
    for change in candidates.iter().filter(|candidate| candidate.is_change()) {
        if settling.may_be_tried(change).await? {
            changes.push(change);
        }
    }
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

/// The faults that were found with the first changes, by how many these are.
type Probes = BTreeMap<usize, Vec<Fault>>;

struct Settling<'c, J> {
    candidates: &'c [Candidate],
    judge: &'c J,
    settled: Settled,
    /// The modules whose last good text can count.
    base: BTreeSet<&'c ModuleId>,
    /// The largest bundle that was read.
    known: Bundle,
}

impl<'c, J: Judge> Settling<'c, J> {
    /// Whether `change` is worth a check with the others. Of one that is not, the package is found out all the same.
    async fn may_be_tried(&mut self, change: &Candidate) -> Result<bool, CheckError> {
        if let Some((faults, deadly)) = &change.refused {
            self.refuse(change.id(), faults.clone(), *deadly);
        } else if let Err(fault) = &change.enforcement {
            let checked = self.judge.check(std::slice::from_ref(&change.text)).await?;
            self.settled.packages.extend(checked.packages);
            self.refuse(change.id(), Faults::of(Fault::new(change.id(), None, fault)), false);
        } else {
            return Ok(true);
        }
        Ok(false)
    }

    fn refuse(&mut self, id: &ModuleId, faults: Faults, deadly: bool) {
        self.settled.outcomes.insert(id.clone(), Outcome::Refused { faults, deadly });
    }

    /// What is in force once `changes` are.
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

    /// Takes what is to blame out of `changes` until all that is left fits, and returns that, and where it reads Secrets; what is `waited` for is no fault of theirs.
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
                // All together, or what is in force: a text that was in order is so still.
                if changes.is_empty() {
                    return Err(CheckError::Died(how.clone()));
                }
                self.until_alive(changes, how).await?;
                continue;
            }
            let changed: BTreeSet<&ModuleId> = changes.iter().map(|change| change.id()).collect();
            if let Some(id) = checked.deadly.iter().find(|id| !changed.contains(id)) {
                return Err(CheckError::Died(format!("{id} was in order before")));
            }
            let before = (changes.len(), self.base.len());
            let blamed = self.blamed(&checked, changes).await?;
            changes.retain(|change| !blamed.contains_key(change.id()));
            for (id, faults) in blamed {
                match &waited {
                    // It did fit, with what waits.
                    Some(waited) => {
                        self.settled.outcomes.insert(id, Outcome::Pending(waited.clone()));
                    }
                    None => {
                        let deadly = checked.deadly.contains(&id);
                        self.refuse(&id, faults, deadly);
                    }
                }
            }
            if before == (changes.len(), self.base.len()) {
                // A fault of no module: nobody knows what goes with what.
                changes.clear();
                self.base.clear();
                let all = self.candidates.iter().map(Candidate::id);
                all.for_each(|id| self.refuse(id, checked.faults.clone(), false));
            }
        }
    }

    /// What the check, and then the judge, find in `texts`.
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

    /// Who is to blame for what `checked` finds: each with what is wrong of it. There is always one.
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
            // What ends a check by itself, or does not parse, is not tried once more.
            let is_own = until == high || checked.deadly.contains(id) || checked.unread.contains(id);
            if is_own || self.has(&found, changes, until, &mut probes).await? {
                if own.is_none() {
                    // Something that it needs is gone.
                    self.base.remove(id);
                }
                blamed.insert(id.clone(), Faults::new(found));
                continue;
            }
            // With the first `low` changes it is not there, with the first `high` it is.
            while high - low > 1 {
                let middle = low.midpoint(high);
                if self.has(&found, changes, middle, &mut probes).await? {
                    high = middle;
                } else {
                    low = middle;
                }
            }
            let culprit = changes[high - 1].id();
            let text = format!("does not go with what was there before: {}", found[0]);
            blamed.entry(culprit.clone()).or_insert_with(|| Faults::of(Fault::new(culprit, None, text)));
        }
        Ok(blamed)
    }

    /// Whether any of `faults` is there with the first `count` of `changes` alone. What was found with as many is in `probes`.
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
        Settled { bundle, secrets, ..self.settled }
    }
}

#[cfg(test)]
mod tests;
