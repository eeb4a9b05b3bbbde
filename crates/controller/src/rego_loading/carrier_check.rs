//! Checks an object with Rego policies (a carrier) in the webhook, before the object is stored.
//!
//! Modules that are invalid on their own are rejected. Problems that depend on other modules are only warnings, so that
//! a user can change two objects one after the other.

use super::key::CarrierKey;
use super::loaded::Loaded;
use super::rows::Carrier;
use policy_sync_api::object::HubObject;
use policy_sync_mirror::ObjectRow;
use policy_sync_rego::confined::{CheckError, Lane};
use policy_sync_rego::fault::{Fault, Faults};
use policy_sync_rego::limit::Size;
use policy_sync_rego::module::Text;

/// The result of the check.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CarrierCheck {
    /// The reasons to reject the carrier.
    pub faults: Faults,
    /// Warnings for the author of the carrier.
    pub warnings: Vec<Fault>,
}

impl Loaded {
    /// Checks `object`, which is to replace `before`. May take seconds. Modules are parsed in a separate
    /// process.
    ///
    /// # Errors
    ///
    /// If the check cannot run.
    pub async fn check(
        &self,
        object: &HubObject,
        before: Option<&HubObject>,
    ) -> Result<CarrierCheck, CheckError> {
        let shared = &self.0;
        let key = CarrierKey(object.key());
        let controller = shared.mirror.read().view(shared.clock.now()).controller().clone();
        let carried = |object: &HubObject| Carrier::prune(object, &controller).carried;
        let is_ours = key.is_rego_policy() || shared.settings.namespaces.contains(&*key.0.namespace);
        let Some(carrier) = carried(object).filter(|_| is_ours) else { return Ok(CarrierCheck::default()) };
        if before.and_then(carried).as_ref() == Some(&carrier) {
            return Ok(CarrierCheck::default());
        }
        let unread = |text: &&Text| carrier.fault_of(&text.id).is_none();
        let own: Vec<Text> = carrier.texts.iter().filter(unread).cloned().collect();
        let mut faults = carrier.faults.clone();
        if let Err(fault) = &carrier.enforcement {
            faults.extend(own.first().map(|text| Fault::new(&text.id, None, fault)));
        }
        let mut outcome = CarrierCheck { warnings: carrier.ignored.clone(), ..CarrierCheck::default() };
        let of_others = self.others(&key);
        let size = |texts: &[Text]| Size::of(texts.iter().map(|text| &*text.text));
        let texts_before = before.and_then(carried).map(|before| before.texts).unwrap_or_default();
        if let Some(why) = size(&carrier.texts).rejection_reason(size(&texts_before), size(&of_others)) {
            let first = carrier.texts.first().map(|text| Fault::new(&text.id, None, why));
            return Ok(CarrierCheck { faults: Faults::new(first.into_iter().collect()), ..outcome });
        }
        if !own.is_empty() {
            // Check the object's own modules first, so that a crash is attributed to it.
            let alone = (shared.check)(own.clone(), Lane::Write).await?;
            let mut all = own.clone();
            all.extend(of_others);
            let is_alive = alone.crashing.is_empty() && alone.termination.is_none();
            let beside = if is_alive && all.len() > own.len() {
                (shared.check)(all, Lane::Write).await?
            } else {
                alone.clone()
            };
            if let (true, Some(how), Some(first)) = (is_alive, &beside.termination, own.first()) {
                // The object passed the check alone, and the other modules passed without it. Only all modules together
                // exceed a limit.
                let fault = Fault::new(&first.id, None, format!("{how}, together with all other modules"));
                faults.push(fault);
                return Ok(CarrierCheck { faults: Faults::new(faults), ..outcome });
            }
            for fault in beside.faults.listed {
                if alone.faults.listed.contains(&fault) {
                    faults.push(fault);
                } else {
                    outcome.warnings.push(fault);
                }
            }
        }
        Ok(CarrierCheck { faults: Faults::new(faults), ..outcome })
    }

    /// The texts in force in all carriers except `key`.
    fn others(&self, key: &CarrierKey) -> Vec<Text> {
        let verdicts = self.0.verdicts();
        let others = verdicts.modules.iter().filter(|(id, _)| CarrierKey::of(id).as_ref() != Some(key));
        let in_force = others.filter_map(|(id, verdict)| Some((id, verdict.in_force.as_ref()?)));
        in_force.map(|(id, in_force)| Text { id: id.clone(), text: in_force.text.clone() }).collect()
    }
}

#[cfg(test)]
mod tests;
