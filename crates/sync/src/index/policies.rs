//! Records when the current generation of each policy was first seen.

use std::sync::Arc;

use super::Index;
use crate::rows::policy::Policy;
use crate::{PolicyKind, kinds};
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ObjectKey, Origin};
use policy_sync_api::params::Role;
use policy_sync_api::shrink;
use policy_sync_mirror::{Source, Tables};

impl Index {
    /// The policy `object` of `source` was created, changed or deleted at `now`; `before` is its old row.
    pub(super) fn policy_changed(
        &mut self,
        tables: &Tables,
        source: &Source,
        kind: &PolicyKind,
        object: &ObjectKey,
        before: Option<&Policy>,
        now: Moment,
    ) {
        let origin = Origin::new(kind.clone(), object.clone());
        let after = tables.row::<Arc<Policy>>(source, object);
        if kinds::role_of(source).is_some_and(|(role, _)| role == Role::Policy) {
            self.same_target.changed(kind, object, before, after.map(|policy| &**policy));
        }
        let Some(after) = after else {
            self.policies_changed.remove(&origin);
            return shrink::shrink_if_sparse(&mut self.policies_changed);
        };
        // Objects of the first listing may have changed at any time before it.
        let is_known = tables.synced(source).is_some();
        let is_same = |before: &Policy| match kinds::role_of(source) {
            Some((Role::Resource, _)) => before.has_same_content(after),
            _ => before.is_generation_of(after),
        };
        if is_known && !before.is_some_and(is_same) {
            self.policies_changed.insert(origin, now);
        }
    }
}

#[cfg(test)]
mod tests;
