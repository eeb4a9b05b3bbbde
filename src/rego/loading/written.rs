//! The check of a carrier as it is written, before it is stored: with all that is in force, as it will be checked when it is loaded.

use std::collections::BTreeSet;

use super::key::CarrierKey;
use super::loaded::Loaded;
use super::plan;
use super::rows::Carrier;
use crate::api::object::HubObject;
use crate::hub::Pruned;
use crate::rego::confined::CheckError;
use crate::rego::fault::{Fault, Faults};
use crate::rego::module::ModuleId;
use crate::rego::settle::{Judge, Outcome, settle};

/// What is found in a carrier as it is written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Written {
    /// Why it will not count.
    pub faults: Faults,
    /// What counts all the same.
    pub warnings: Vec<Fault>,
}

impl Loaded {
    /// Checks `object` as it is written, where `before` is stored. It may take seconds.
    ///
    /// # Errors
    ///
    /// Where the check cannot be made.
    pub async fn check(&self, object: &HubObject, before: Option<&HubObject>) -> Result<Written, CheckError> {
        let shared = &self.0;
        let key = CarrierKey(object.key());
        let verdicts = shared.verdicts();
        let candidates = {
            let guard = shared.mirror.read();
            let view = guard.view(shared.clock.now());
            let is_ours = key.is_rego_policy() || shared.settings.namespaces.contains(&*key.0.namespace);
            let mut carrier = Carrier::prune(object, view.controller());
            let stored = before.map(|before| Carrier::prune(before, view.controller()));
            if !is_ours
                || carrier.carried.is_none()
                || stored.is_some_and(|stored| stored.carried == carrier.carried)
            {
                return Ok(Written::default());
            }
            // One that is not there yet is the youngest.
            carrier.created = carrier.created.or(Some(shared.clock.timestamp()));
            let others = view.carriers(&shared.settings).filter(|(other, _)| *other != key);
            let all = others.chain([(key.clone(), &carrier)]);
            let candidates = plan::candidates_of(all, &verdicts);
            carrier.carried.map(|carried| (candidates, carried))
        };
        let Some((candidates, carried)) = candidates else { return Ok(Written::default()) };
        // What ends a check by itself need not be found among all others.
        let own =
            if carried.texts.is_empty() { Default::default() } else { shared.check(&carried.texts).await? };
        if !own.deadly.is_empty() {
            return Ok(Written { faults: own.faults, ..Written::default() });
        }
        let mut faults = carried.faults.clone();
        let mut more = 0;
        let mut settled = settle(&candidates, &**shared).await?;
        for text in &carried.texts {
            if let Some(Outcome::Refused { faults: found, .. }) = settled.outcomes.remove(&text.id) {
                faults.extend(found.told);
                more += found.more;
            }
        }
        let own: BTreeSet<&ModuleId> = carried.texts.iter().map(|text| &text.id).collect();
        let advice = settled.bundle.advice().into_iter().filter(|fault| own.contains(&fault.module));
        let warnings = carried.ignored.iter().cloned().chain(advice).collect();
        let mut faults = Faults::new(faults);
        faults.more += more;
        Ok(Written { faults, warnings })
    }
}
