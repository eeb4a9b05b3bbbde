//! The objects that do not comply, with the last reported message of each. An unchanged message is not reported again.

use std::sync::Arc;

use dashmap::DashMap;
use dashmap::mapref::multiple::RefMulti;

use super::key::Object;
use policy_sync_api::shrink::{give_back_shared, take};
use policy_sync_api::text::capped;

/// The maximum number of remembered bytes of a message.
const TEXT: usize = 1 << 10;

/// The reason why an object does not comply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// Placement policies reject the object.
    Violated,
    /// The owner applies changes by hand.
    Manual,
    /// The object was patched too often, or a document is flapping.
    Unsettled,
    /// The hub rejects or undoes the patch.
    Failed,
}

impl Why {
    pub(super) const ALL: [Self; 4] = [Self::Violated, Self::Manual, Self::Unsettled, Self::Failed];

    /// The value of the metric's label.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Violated => "violated",
            Self::Manual => "manual",
            Self::Unsettled => "unsettled",
            Self::Failed => "failed",
        }
    }

    /// The reason of an Event.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Violated | Self::Failed => "PlacementViolated",
            Self::Manual => "PlacementDiffers",
            Self::Unsettled => "PlacementUnsettled",
        }
    }
}

/// The objects that do not comply.
#[derive(Debug, Default)]
pub(super) struct Violations(DashMap<Object, (Why, Arc<str>)>);

impl Violations {
    /// Records that `object` does not comply. Returns whether the reason or the message is new.
    pub(super) fn note(&self, object: &Object, why: Why, text: &str) -> bool {
        let violation = (why, Arc::from(&*capped(text, TEXT)));
        self.0.insert(object.clone(), violation.clone()) != Some(violation)
    }

    /// Whether this reason and message are recorded for `object`.
    pub(super) fn is_noted(&self, object: &Object, why: Why, text: &str) -> bool {
        self.0.get(object).is_some_and(|violation| violation.0 == why && *violation.1 == *capped(text, TEXT))
    }

    /// Forgets `object`, which complies or was deleted.
    pub(super) fn forget(&self, object: &Object) {
        take(&self.0, object);
    }

    /// Keeps only the objects for which `is` returns true.
    pub(super) fn retain(&self, is: impl Fn(&Object) -> bool) {
        self.0.retain(|object, _| is(object));
        give_back_shared(&self.0);
    }

    /// All objects with reason and message.
    pub(super) fn all(&self) -> Vec<(Object, Why, Arc<str>)> {
        let of = |violation: RefMulti<'_, Object, (Why, Arc<str>)>| {
            let (why, text) = violation.value();
            (violation.key().clone(), *why, text.clone())
        };
        self.0.iter().map(of).collect()
    }

    /// The number of objects with this reason.
    pub(super) fn count(&self, why: Why) -> usize {
        self.0.iter().filter(|violation| violation.value().0 == why).count()
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
        assert!(violations.note(&app, Why::Violated, "no") && violations.is_noted(&app, Why::Violated, "no"));
        assert!(!violations.note(&app, Why::Violated, "no"));
        assert!(violations.note(&app, Why::Violated, "not here"), "in other words");
        assert_eq!(violations.all(), [(app.clone(), Why::Violated, Arc::from("not here"))]);
        assert!(violations.note(&app, Why::Manual, "not here"), "for another reason");
        assert_eq!((violations.count(Why::Manual), violations.count(Why::Violated)), (1, 0));
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
        for why in Why::ALL {
            assert!(events.contains(&format!("| `{}` |", why.reason())), "{}", why.reason());
            assert!(row.contains(&format!("`{}`", why.word())), "{}", why.word());
        }
    }
}
