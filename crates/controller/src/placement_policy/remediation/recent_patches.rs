//! Counts recent patches of objects. This limits repeated patches if another writer undoes each of them.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;

use super::key::Object;
use policy_sync_api::moment::Moment;
use policy_sync_api::shrink::shrink_if_sparse;

/// The time after which a patch no longer counts.
const PATCH_WINDOW: Duration = Duration::from_secs(600);
/// The maximum number of patches of one object within [`PATCH_WINDOW`].
const MAX_PATCHES: usize = 3;
/// Expired entries are not removed while there are at most this many objects.
const MIN_CLEANUP_SIZE: usize = 1_024;

/// The times of recent patches, by object.
#[derive(Debug)]
pub(super) struct RecentPatches(Mutex<PatchHistory>);

#[derive(Debug)]
struct PatchHistory {
    patches: HashMap<Object, Vec<Moment>>,
    /// The number of objects at which expired entries are removed next.
    limit: usize,
}

impl Default for RecentPatches {
    fn default() -> Self {
        Self(Mutex::new(PatchHistory { patches: HashMap::new(), limit: MIN_CLEANUP_SIZE }))
    }
}

impl RecentPatches {
    /// The time until `object` may be patched again, if it has to wait.
    pub(super) fn wait(&self, object: &Object, now: Moment) -> Option<Duration> {
        let state = self.0.lock();
        let mut counting = state.patches.get(object)?.iter().filter(|at| at.after(PATCH_WINDOW) > now);
        let first = counting.next()?;
        (counting.count() + 1 >= MAX_PATCHES).then(|| first.after(PATCH_WINDOW).since(now))
    }

    /// Records a patch of `object`.
    pub(super) fn record(&self, object: &Object, now: Moment) {
        let mut state = self.0.lock();
        let patches = state.patches.entry(object.clone()).or_default();
        patches.retain(|at| at.after(PATCH_WINDOW) > now);
        patches.push(now);
        if state.patches.len() > state.limit {
            state.patches.retain(|_, patches| patches.iter().any(|at| at.after(PATCH_WINDOW) > now));
            shrink_if_sparse(&mut state.patches);
            state.limit = MIN_CLEANUP_SIZE.max(2 * state.patches.len());
        }
    }

    /// Forgets `object`, which was deleted.
    pub(super) fn forget(&self, object: &Object) {
        let mut state = self.0.lock();
        if state.patches.remove(object).is_some() {
            shrink_if_sparse(&mut state.patches);
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
        let (recent_patches, app) = (RecentPatches::default(), object("app"));
        let at = |seconds: u64| Moment(0).after(Duration::from_secs(seconds));
        for second in [0, 10, 20] {
            assert_eq!(recent_patches.wait(&app, at(second)), None);
            recent_patches.record(&app, at(second));
        }
        assert_eq!(recent_patches.wait(&app, at(30)), Some(Duration::from_secs(570)));
        assert_eq!(recent_patches.wait(&object("other"), at(30)), None);
        assert_eq!(recent_patches.wait(&app, at(600)), None, "the first has passed");
        recent_patches.record(&app, at(600));
        assert_eq!(recent_patches.wait(&app, at(601)), Some(Duration::from_secs(9)));
        recent_patches.forget(&app);
        assert_eq!(recent_patches.wait(&app, at(601)), None);
        assert!(recent_patches.0.lock().patches.is_empty());
    }

    #[test]
    fn expired_patches_are_removed() {
        let recent_patches = RecentPatches::default();
        for number in 0..3 * MIN_CLEANUP_SIZE {
            // Each patch is one second after the previous one.
            let now = Moment(0).after(Duration::from_secs(u64::try_from(number).unwrap()));
            recent_patches.record(&object(&number.to_string()), now);
        }
        assert!(recent_patches.0.lock().patches.len() <= 2 * MIN_CLEANUP_SIZE);
    }
}
