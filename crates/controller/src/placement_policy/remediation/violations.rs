//! The objects that do not comply, with the last reported message of each. An unchanged message is not reported again.

use std::sync::Arc;

use dashmap::DashMap;
use dashmap::mapref::multiple::RefMulti;

use super::key::Object;
use policy_sync_api::shrink::{shrink_concurrent, take};
use policy_sync_api::text::truncate_bytes;

/// The maximum number of remembered bytes of a message.
const MAX_TEXT_BYTES: usize = 1 << 10;

/// The reason why an object does not comply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ViolationReason {
    /// Placement policies reject the object.
    Violated,
    /// The owner applies changes by hand.
    Manual,
    /// The object was patched too often, or a document is flapping.
    Unsettled,
    /// The hub rejects or undoes the patch.
    Failed,
}

impl ViolationReason {
    pub(super) const ALL: [Self; 4] = [Self::Violated, Self::Manual, Self::Unsettled, Self::Failed];

    /// The value of the metric's label.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Violated => "violated",
            Self::Manual => "manual",
            Self::Unsettled => "unsettled",
            Self::Failed => "failed",
        }
    }

    /// The reason of an Event.
    pub(super) fn event_reason(self) -> &'static str {
        match self {
            Self::Violated | Self::Failed => "PlacementViolated",
            Self::Manual => "PlacementDiffers",
            Self::Unsettled => "PlacementUnsettled",
        }
    }
}

/// The objects that do not comply.
#[derive(Debug, Default)]
pub(super) struct Violations(DashMap<Object, (ViolationReason, Arc<str>)>);

impl Violations {
    /// Records that `object` does not comply. Returns whether the reason or the message is new.
    pub(super) fn note(&self, object: &Object, reason: ViolationReason, text: &str) -> bool {
        let violation = (reason, Arc::from(&*truncate_bytes(text, MAX_TEXT_BYTES)));
        self.0.insert(object.clone(), violation.clone()) != Some(violation)
    }

    /// Whether this reason and message are recorded for `object`.
    pub(super) fn is_noted(&self, object: &Object, reason: ViolationReason, text: &str) -> bool {
        self.0.get(object).is_some_and(|violation| {
            violation.0 == reason && *violation.1 == *truncate_bytes(text, MAX_TEXT_BYTES)
        })
    }

    /// Forgets `object`, which complies or was deleted.
    pub(super) fn forget(&self, object: &Object) {
        take(&self.0, object);
    }

    /// Keeps only the objects for which `is` returns true.
    pub(super) fn retain(&self, is: impl Fn(&Object) -> bool) {
        self.0.retain(|object, _| is(object));
        shrink_concurrent(&self.0);
    }

    /// All objects with reason and message.
    pub(super) fn all(&self) -> Vec<(Object, ViolationReason, Arc<str>)> {
        let of = |violation: RefMulti<'_, Object, (ViolationReason, Arc<str>)>| {
            let (reason, text) = violation.value();
            (violation.key().clone(), *reason, text.clone())
        };
        self.0.iter().map(of).collect()
    }

    /// The number of objects with this reason.
    pub(super) fn count(&self, reason: ViolationReason) -> usize {
        self.0.iter().filter(|violation| violation.value().0 == reason).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy_sync_api::names::{GroupResource, ObjectKey};

    #[test]
    fn unchanged_violations_are_not_new_and_compliant_objects_are_forgotten() {
        let violations = Violations::default();
        let app =
            Object { kind: GroupResource::new("apps", "deployments"), key: ObjectKey::new("shop", "app") };
        assert!(
            violations.note(&app, ViolationReason::Violated, "no")
                && violations.is_noted(&app, ViolationReason::Violated, "no")
        );
        assert!(!violations.note(&app, ViolationReason::Violated, "no"));
        assert!(violations.note(&app, ViolationReason::Violated, "not here"), "in other words");
        assert_eq!(violations.all(), [(app.clone(), ViolationReason::Violated, Arc::from("not here"))]);
        assert!(violations.note(&app, ViolationReason::Manual, "not here"), "for another reason");
        assert_eq!(
            (violations.count(ViolationReason::Manual), violations.count(ViolationReason::Violated)),
            (1, 0)
        );
        violations.forget(&app);
        assert!(violations.0.is_empty());
    }

    #[test]
    fn reasons_and_states_are_documented() {
        let (events, metrics) = (
            include_str!("../../../../../docs/reference/events.md"),
            include_str!("../../../../../docs/metrics.md"),
        );
        let row = metrics.lines().find(|line| line.contains("`policy_sync_placement_objects`")).unwrap();
        for reason in ViolationReason::ALL {
            assert!(
                events.contains(&format!("| `{}` |", reason.event_reason())),
                "{}",
                reason.event_reason()
            );
            assert!(row.contains(&format!("`{}`", reason.label())), "{}", reason.label());
        }
    }
}
