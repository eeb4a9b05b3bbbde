//! Counts recent patches of objects, to limit patches that another writer undoes each time.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;

use super::key::Object;
use policy_sync_api::moment::Moment;
use policy_sync_api::shrink::give_back;

/// The period in which a patch counts.
const WITHIN: Duration = Duration::from_secs(600);
/// The maximum number of patches of one object in that period.
const PATCHES: usize = 3;
/// Up to this number of objects, expired entries are not removed.
const FEW: usize = 1_024;

/// Recent patches.
#[derive(Debug)]
pub(super) struct Recent(Mutex<State>);

#[derive(Debug)]
struct State {
    patches: HashMap<Object, Vec<Moment>>,
    /// The number of objects at which expired entries are removed next.
    limit: usize,
}

impl Default for Recent {
    fn default() -> Self {
        Self(Mutex::new(State { patches: HashMap::new(), limit: FEW }))
    }
}

impl Recent {
    /// The time until `object` may be patched again, if it has to wait.
    pub(super) fn wait(&self, object: &Object, now: Moment) -> Option<Duration> {
        let state = self.0.lock();
        let mut counting = state.patches.get(object)?.iter().filter(|at| at.after(WITHIN) > now);
        let first = counting.next()?;
        (counting.count() + 1 >= PATCHES).then(|| first.after(WITHIN).since(now))
    }

    /// Records a patch of `object`.
    pub(super) fn noted(&self, object: &Object, now: Moment) {
        let mut state = self.0.lock();
        let patches = state.patches.entry(object.clone()).or_default();
        patches.retain(|at| at.after(WITHIN) > now);
        patches.push(now);
        if state.patches.len() > state.limit {
            state.patches.retain(|_, patches| patches.iter().any(|at| at.after(WITHIN) > now));
            give_back(&mut state.patches);
            state.limit = FEW.max(2 * state.patches.len());
        }
    }

    /// Forgets `object`, which was deleted.
    pub(super) fn forget(&self, object: &Object) {
        let mut state = self.0.lock();
        if state.patches.remove(object).is_some() {
            give_back(&mut state.patches);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy_sync_api::names::{GroupResource, ObjectKey};

    fn object(name: &str) -> Object {
        Object { kind: GroupResource::new("apps", "deployments"), key: ObjectKey::new("shop", name) }
    }

    #[test]
    fn fourth_patch_waits_until_the_first_expires() {
        let (recent, app) = (Recent::default(), object("app"));
        let at = |seconds: u64| Moment(0).after(Duration::from_secs(seconds));
        for second in [0, 10, 20] {
            assert_eq!(recent.wait(&app, at(second)), None);
            recent.noted(&app, at(second));
        }
        assert_eq!(recent.wait(&app, at(30)), Some(Duration::from_secs(570)));
        assert_eq!(recent.wait(&object("other"), at(30)), None);
        assert_eq!(recent.wait(&app, at(600)), None, "the first has passed");
        recent.noted(&app, at(600));
        assert_eq!(recent.wait(&app, at(601)), Some(Duration::from_secs(9)));
        recent.forget(&app);
        assert_eq!(recent.wait(&app, at(601)), None);
        assert!(recent.0.lock().patches.is_empty());
    }

    #[test]
    fn expired_patches_are_removed() {
        let recent = Recent::default();
        for number in 0..3 * FEW {
            // Each patch is one second after the previous one.
            let now = Moment(0).after(Duration::from_secs(u64::try_from(number).unwrap()));
            recent.noted(&object(&number.to_string()), now);
        }
        assert!(recent.0.lock().patches.len() <= 2 * FEW);
    }
}
