//! The objects that are not as policies say, and what was said of each, so that no Event says it twice.

use std::sync::Arc;

use dashmap::DashMap;
use dashmap::mapref::multiple::RefMulti;

use super::key::Object;
use crate::api::text::capped;
use crate::shrink::{give_back_shared, take};

/// How many bytes of a text are remembered.
const TEXT: usize = 1 << 10;

/// Why an object is not as policies say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// They do not let it stand.
    Violated,
    /// Its owner wants to be told, and nothing else.
    Manual,
    /// It has been patched too often.
    Unsettled,
    /// The hub does not take the patch.
    Failed,
}

impl Why {
    pub(super) const ALL: [Self; 4] = [Self::Violated, Self::Manual, Self::Unsettled, Self::Failed];

    /// What metrics call it.
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

/// The objects that are not as policies say.
#[derive(Debug, Default)]
pub(super) struct Violations(DashMap<Object, (Why, Arc<str>)>);

impl Violations {
    /// Notes that `object` is not as it should be, and returns whether that is new, or was noted in other words.
    pub(super) fn note(&self, object: &Object, why: Why, text: &str) -> bool {
        let violation = (why, Arc::from(&*capped(text, TEXT)));
        self.0.insert(object.clone(), violation.clone()) != Some(violation)
    }

    /// Whether that was noted of `object`.
    pub(super) fn is_noted(&self, object: &Object, why: Why, text: &str) -> bool {
        self.0.get(object).is_some_and(|violation| violation.0 == why && *violation.1 == *capped(text, TEXT))
    }

    /// Forgets `object`, which is as it should be, or gone.
    pub(super) fn forget(&self, object: &Object) {
        take(&self.0, object);
    }

    /// Forgets all but what `is` so.
    pub(super) fn retain(&self, is: impl Fn(&Object) -> bool) {
        self.0.retain(|object, _| is(object));
        give_back_shared(&self.0);
    }

    /// All of them, each with why, and what was said of it.
    pub(super) fn all(&self) -> Vec<(Object, Why, Arc<str>)> {
        let of = |violation: RefMulti<'_, Object, (Why, Arc<str>)>| {
            let (why, text) = violation.value();
            (violation.key().clone(), *why, text.clone())
        };
        self.0.iter().map(of).collect()
    }

    /// How many objects are so.
    pub(super) fn count(&self, why: Why) -> usize {
        self.0.iter().filter(|violation| violation.value().0 == why).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::names::{GroupResource, ObjectKey};

    #[test]
    fn the_same_is_told_once_and_nothing_is_remembered_of_what_is_as_it_should_be() {
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
    fn every_reason_is_on_the_page_of_events_and_every_state_on_that_of_metrics() {
        let (events, metrics) =
            (include_str!("../../../docs/reference/events.md"), include_str!("../../../docs/metrics.md"));
        let row = metrics.lines().find(|line| line.contains("`policy_sync_placement_objects`")).unwrap();
        for why in Why::ALL {
            assert!(events.contains(&format!("| `{}` |", why.reason())), "{}", why.reason());
            assert!(row.contains(&format!("`{}`", why.word())), "{}", why.word());
        }
    }
}
