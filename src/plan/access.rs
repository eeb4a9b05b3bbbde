//! The access work of a cluster: the right of its agent to write Gateways and the kinds that our works there carry.
//!
//! What works *carry*, not what parameters list: a work that is being deleted still needs the right to delete.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::work::{self, schema};
use super::{Outcome, PlannedWork, WorksPlan};
use crate::api::names::{ClusterName, GroupResource, WorkName};
use crate::mirror::View;

/// Plans the access work of `cluster`.
#[must_use]
pub fn plan(view: View<'_>, cluster: &ClusterName) -> WorksPlan {
    let carried = view.carried(cluster);
    let name = Some(WorkName::access(view.controller()));
    if carried.is_empty() {
        return WorksPlan { name, ..WorksPlan::default() };
    }
    let kinds: BTreeSet<GroupResource> = carried.into_iter().chain([GroupResource::gateways()]).collect();
    let work: PlannedWork = work::access(view.controller(), schema(view), kinds);
    WorksPlan {
        name,
        outcomes: [(cluster.clone(), Outcome::Work(Arc::new(work)))].into(),
        ..WorksPlan::default()
    }
}
