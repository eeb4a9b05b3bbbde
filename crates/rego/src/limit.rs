//! Limits the size of a bundle, so that a check stays within its limits and each replica can keep the bundle in
//! memory.

use std::collections::BTreeMap;

use super::fault::{Fault, Faults};
use super::module::{ModuleId, Text};
use super::selection::{Candidate, RejectionCause};
use policy_sync_api::text::group_digits;

/// The maximum number of modules in a bundle.
pub const MAX_MODULES: usize = 4_000;
/// The maximum number of bytes in the texts of a bundle.
pub const MAX_BYTES: usize = 2 << 20;

/// The number of modules and of bytes in texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    modules: usize,
    bytes: usize,
}

impl Size {
    /// The size of these texts.
    pub fn of<'t>(texts: impl IntoIterator<Item = &'t str>) -> Self {
        texts.into_iter().fold(Self::default(), |size, text| Self {
            modules: size.modules + 1,
            bytes: size.bytes + text.len(),
        })
    }

    fn plus(self, other: Self) -> Self {
        Self { modules: self.modules + other.modules, bytes: self.bytes + other.bytes }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            modules: self.modules.saturating_sub(other.modules),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }

    fn fits(self) -> bool {
        self.modules <= MAX_MODULES && self.bytes <= MAX_BYTES
    }

    /// Whether neither number exceeds the number in `other`.
    fn is_within(self, other: Self) -> bool {
        self.modules <= other.modules && self.bytes <= other.bytes
    }

    /// The reason why a carrier cannot have this size in addition to the modules of `others`; `None` if it can.
    /// `before` is the present size of the carrier; a carrier that does not grow is always accepted.
    #[must_use]
    pub fn rejection_reason(self, before: Self, others: Self) -> Option<String> {
        if others.plus(self).fits() || self.is_within(before) {
            return None;
        }
        let all = others.plus(self);
        let left = Self { modules: MAX_MODULES, bytes: MAX_BYTES }.minus(others);
        let rendered =
            |size: Self| format!("{} of {} bytes", counted(size.modules), group_digits(size.bytes));
        Some(format!(
            "all Rego policies together can have at most {} modules of {} bytes, and would have {}: this object has {}, and {} fit",
            group_digits(MAX_MODULES),
            group_digits(MAX_BYTES),
            rendered(all),
            rendered(self),
            rendered(left)
        ))
    }
}

/// Rejects the texts of a carrier if they would make the bundle too large. Older carriers take precedence. Texts in
/// force stay.
pub fn reject_oversized(candidates: &mut [Candidate]) {
    let mut before: BTreeMap<String, Size> = BTreeMap::new();
    let mut after = before.clone();
    let mut order = Vec::new();
    for candidate in candidates.iter() {
        let carrier = candidate.text.id.carrier();
        if !after.contains_key(carrier) {
            order.push(carrier.to_owned());
        }
        let (text, good) = (&*candidate.text.text, candidate.in_force.as_ref().map(|good| &*good.text));
        add(&mut before, carrier, Size::of(good));
        // The text in force stays while the new text is pending, or if it is rejected. So the larger text counts.
        let larger = good.filter(|good| good.len() > text.len()).unwrap_or(text);
        add(&mut after, carrier, Size::of([larger]));
    }
    let mut all = before.values().fold(Size::default(), |all, size| all.plus(*size));
    let mut rejected: BTreeMap<String, String> = BTreeMap::new();
    for carrier in order {
        let (before, after) = (before[&carrier], after[&carrier]);
        let others = all.minus(before);
        match after.rejection_reason(before, others) {
            Some(why) => drop(rejected.insert(carrier, why)),
            None => all = others.plus(after),
        }
    }
    for candidate in candidates {
        let is_change = candidate.is_change();
        if let Some(why) = rejected.get(candidate.text.id.carrier()).filter(|_| is_change) {
            let fault = Fault::new(&candidate.text.id, None, why);
            candidate.rejected.get_or_insert((Faults::of(fault), RejectionCause::Faults));
        }
    }
}

/// The fault if these modules are too large for one bundle. The fault is attributed to the last module.
#[must_use]
pub fn fault(texts: &[Text]) -> Option<Fault> {
    let size = Size::of(texts.iter().map(|text| &*text.text));
    let last = texts.last().map_or_else(|| ModuleId::new("bundle"), |text| text.id.clone());
    Some(Fault::new(&last, None, size.rejection_reason(Size::default(), Size::default())?))
}

fn counted(modules: usize) -> String {
    format!("{} module{}", group_digits(modules), if modules == 1 { "" } else { "s" })
}

fn add(sizes: &mut BTreeMap<String, Size>, carrier: &str, size: Size) {
    let all = sizes.entry(carrier.to_owned()).or_default();
    *all = all.plus(size);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selection::LoadedText;
    use policy_sync_api::rego_policy::EnforcementAction;

    /// Creates a carrier with this number of modules of `bytes` bytes each. The first `in_force` modules have a text in
    /// force.
    fn carrier(name: &str, modules: usize, bytes: usize, in_force: usize) -> Vec<Candidate> {
        let candidate = |number: usize| {
            let text = "b".repeat(bytes);
            let good = LoadedText { text: "a".repeat(bytes).into(), enforcement: EnforcementAction::Deny };
            Candidate {
                text: Text { id: ModuleId::new(&format!("policies/{name}/{number}")), text: text.into() },
                enforcement: Ok(EnforcementAction::Deny),
                in_force: (number < in_force).then_some(good),
                rejected: None,
            }
        };
        (0..modules).map(candidate).collect()
    }

    fn rejected(carriers: &[Vec<Candidate>]) -> Vec<(String, String)> {
        let mut all = carriers.concat();
        reject_oversized(&mut all);
        let mut rejected: Vec<_> = all
            .iter()
            .filter_map(|candidate| {
                let (faults, cause) = candidate.rejected.as_ref()?;
                assert_eq!(*cause, RejectionCause::Faults);
                Some((candidate.text.id.carrier().to_owned(), faults.listed[0].text.clone()))
            })
            .collect();
        rejected.dedup();
        rejected
    }

    #[test]
    fn newest_carriers_of_a_too_large_bundle_are_rejected() {
        let half = MAX_MODULES / 2;
        let (a, b, c) = (carrier("a", half, 10, 0), carrier("b", half, 10, 0), carrier("c", 1, 10, 0));
        assert_eq!(rejected(&[a.clone(), b.clone()]), []);
        let expected = "all Rego policies together can have at most 4,000 modules of 2,097,152 bytes, and would have 4,001 modules of 40,010 bytes: \
                        this object has 1 module of 10 bytes, and 0 modules of 2,057,152 bytes fit";
        assert_eq!(
            rejected(&[a.clone(), b.clone(), c.clone()]),
            [("policies/c".to_owned(), expected.to_owned())]
        );
        // A rejected older carrier leaves room for newer carriers.
        let names = |carriers: &[Vec<Candidate>]| {
            rejected(carriers).into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        };
        let large = carrier("large", MAX_MODULES + 1, 10, 0);
        assert_eq!(names(&[large, a.clone(), b.clone()]), ["policies/large"]);
        // Bytes count as well.
        let (d, e) = (carrier("d", 1, 1 << 20, 0), carrier("e", 2, 1 << 20, 0));
        assert_eq!(names(&[d, e, a]), ["policies/e"]);
    }

    #[test]
    fn texts_in_force_stay_despite_older_carriers() {
        let half = MAX_MODULES / 2;
        let grown = carrier("grown", half + 1, 10, half);
        let other = carrier("other", half, 10, half);
        let names: Vec<_> = rejected(&[grown, other.clone()]).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["policies/grown"]);
        let small = carrier("small", half - 1, 10, half);
        assert_eq!(rejected(&[small, other]), []);
    }

    #[test]
    fn smaller_carrier_is_always_accepted() {
        let (before, others) =
            (Size { modules: 10, bytes: 100 }, Size { modules: MAX_MODULES, bytes: MAX_BYTES });
        assert_eq!(Size { modules: 9, bytes: 100 }.rejection_reason(before, others), None);
        assert!(Size { modules: 9, bytes: 101 }.rejection_reason(before, others).is_some());
        assert!(Size { modules: 1, bytes: 1 }.rejection_reason(Size::default(), others).is_some());
    }
}
