//! Plans the access work of a cluster. This work permits the agent to write Gateways and the kinds that the cluster's
//! works contain.
//!
//! The permission covers the kinds that works contain, not the kinds that parameters list. If a kind is no longer
//! listed, the agent still needs the permission to delete its copies. If a ReferenceGrant is removed from a Gateway's
//! work, the agent needs the permission for ReferenceGrants until it has deleted the grant on the spoke. No report
//! shows when that has happened, so the permission remains as long as any Gateway has a work in the cluster.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::work::{self, schema};
use super::{Outcome, PlannedWork, WorksPlan};
use crate::rows::work::Purpose;
use crate::{PolicyKind, View};
use policy_sync_api::names::{ClusterName, GroupResource, WorkName};

/// Plans the access work of `cluster`.
#[must_use]
pub fn plan(view: View<'_>, cluster: &ClusterName) -> WorksPlan {
    let kinds_in_works = view.kinds_in_works(cluster);
    let name = Some(WorkName::access(view.controller()));
    if kinds_in_works.is_empty() {
        return WorksPlan { name, ..WorksPlan::default() };
    }
    let grants = keeps_grants(view, cluster, &kinds_in_works).then(GroupResource::reference_grants);
    let kinds: BTreeSet<GroupResource> =
        kinds_in_works.into_iter().chain([GroupResource::gateways()]).chain(grants).collect();
    let work: PlannedWork = work::access(view.controller(), schema(view), kinds);
    WorksPlan {
        name,
        outcomes: [(cluster.clone(), Outcome::Work(Arc::new(work)))].into(),
        ..WorksPlan::default()
    }
}

/// Whether the agent has permission for ReferenceGrants and may still need it.
fn keeps_grants(view: View<'_>, cluster: &ClusterName, kinds_in_works: &BTreeSet<PolicyKind>) -> bool {
    let access = view.work(&WorkName::access(view.controller()), cluster);
    let granted = access.is_some_and(|work| match &work.purpose {
        Purpose::Access(kinds) => kinds.contains(&GroupResource::reference_grants()),
        _ => false,
    });
    granted && kinds_in_works.contains(&GroupResource::gateways())
}
