//! Determines which policies override a copy, from the message of the copy's condition `Enforced`.
//!
//! Kuadrant writes `RateLimitPolicy is overridden by [kuadrant-shop/a kuadrant-shop/b]`. These are names on the spoke.
//! Some of them may be copies of hub policies. The spoke may write any text, so a name counts as a copy only if this
//! cluster has a work for the hub policy of that name. The name must also be in the namespace of the overridden copy,
//! because policies of other namespaces cannot have the same target.

use std::collections::BTreeSet;

use crate::View;
use policy_sync_api::annotations::Synced;
use policy_sync_api::generators::{GENERATORS, Generator};
use policy_sync_api::names::{ClusterName, GroupResource, ObjectKey, Origin};
use policy_sync_api::text::LIST_LIMIT;

/// The maximum number of names in a message that are looked up.
const NAMES_LIMIT: usize = 64;

/// The policies that override a copy on one cluster. Each set is limited to [`LIST_LIMIT`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OverridingPolicies {
    /// Policies of the hub of the same kind, whose copies override this copy.
    pub(crate) of_hub: BTreeSet<ObjectKey>,
    /// Policies of the hub of other kinds (kind and name). From their copies, a controller on the cluster generated
    /// policies that override this copy.
    pub(crate) generated: BTreeSet<(&'static str, ObjectKey)>,
    /// Whether the message also names policies of the cluster, or no policy at all.
    pub(crate) of_cluster: bool,
}

impl OverridingPolicies {
    /// The policies that override the copy of `origin` on the cluster of `entry`. If no policy of the hub is
    /// identified, a policy of the cluster is assumed. `None` if the copy is not overridden.
    pub(crate) fn read(view: View<'_>, origin: &Origin, entry: &Synced) -> Option<Self> {
        let condition = entry.conditions.iter().find(|condition| condition.is_overridden())?;
        let message = condition.message.as_deref().unwrap_or_default();
        let mut found = Self::default();
        for name in names(message, &entry.namespace).take(NAMES_LIMIT) {
            found.add(view, origin, &entry.cluster, name);
        }
        // If the message contains no names, no policy of the hub can be identified.
        found.of_cluster |= found.of_hub.is_empty() && found.generated.is_empty();
        Some(found)
    }

    /// Adds the policy `name` on `cluster`. The policy is in the same namespace as the copy of `origin`.
    fn add(&mut self, view: View<'_>, origin: &Origin, cluster: &ClusterName, name: &str) {
        let (kind, own) = (origin.kind(), origin.object());
        let key = ObjectKey { namespace: own.namespace.clone(), name: name.into() };
        let is_copied =
            |kind: &GroupResource| is_copied(view, &Origin::new(kind.clone(), key.clone()), cluster);
        let source = |generator: &&Generator| {
            let Generator { source, generated } = generator;
            (&*kind.group, &*kind.resource) == (generated.group, generated.resource)
                && is_copied(&GroupResource::new(source.group, source.resource))
        };
        if key != *own && is_copied(kind) {
            if self.of_hub.len() < LIST_LIMIT {
                self.of_hub.insert(key);
            }
        } else if let Some(generator) = GENERATORS.iter().find(source) {
            if self.generated.len() < LIST_LIMIT {
                self.generated.insert((generator.source.kind, key));
            }
        } else {
            self.of_cluster = true;
        }
    }
}

/// Whether the object on `cluster` with the name of the copy of `origin` is this copy. If the agent reports a conflict,
/// the object belongs to the cluster.
fn is_copied(view: View<'_>, origin: &Origin, cluster: &ClusterName) -> bool {
    let report = view.work_of(origin, cluster).map(|work| work.report.as_ref());
    report.is_some_and(|report| report.is_none_or(|report| report.applied || report.revision.is_some()))
}

/// The names in `text` that are written as `<namespace>/<name>`.
fn names<'t>(text: &'t str, namespace: &str) -> impl Iterator<Item = &'t str> {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '/');
    let words = text.split(move |c| !is_of_name(c)).map(|word| word.trim_matches('.'));
    words
        .filter_map(move |word| word.split_once('/').filter(|(found, _)| *found == namespace))
        .map(|(_, name)| name)
}
