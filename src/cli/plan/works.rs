//! Plans the works of all objects in a mirror, with the controller's own planning code.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context;
use serde_json::Value;

use super::fill::FilledMirror;
use policy_sync_api::names::{ClusterName, Origin, WorkName};
use policy_sync_api::object::HubObject;
use policy_sync_api::params::Role;
use policy_sync_hub::clock::Clock;
use policy_sync_sync::desired::{PlannedWork, WorksPlan, access, plan_works};
use policy_sync_sync::dry_run::{Diagnostic, Regarding, incomplete};
use policy_sync_sync::kinds::WORKS;
use policy_sync_sync::{OfflineMirror, Settings, View};

/// Planned works, by cluster and name.
type Works = BTreeMap<(ClusterName, WorkName), Arc<PlannedWork>>;

/// Plans all works. If a work cannot be planned, a diagnostic gives the reason.
///
/// # Errors
///
/// If a planned work cannot be parsed again, which is an internal error.
pub(super) fn plan(
    filled: FilledMirror,
    settings: &Settings,
) -> anyhow::Result<(Vec<Value>, Vec<Diagnostic>)> {
    let FilledMirror { mirror, origins, mut diagnostics, .. } = filled;
    let mut works = Works::new();
    {
        let guard = mirror.read();
        let view = guard.view(OfflineMirror::settled(Clock::start().now()));
        for (origin, regarding) in &origins {
            let plan = plan_works(view, settings, origin);
            diagnostics.extend(plan_diagnostics(view, origin, &plan, regarding));
            take(&mut works, plan);
        }
    }
    // The access rights of an agent depend on the works of its cluster.
    let created: Vec<HubObject> = works
        .iter()
        .map(|((cluster, _), work)| anyhow::Ok(serde_json::from_value(work.object(&cluster.0)?)?))
        .collect::<Result<_, _>>()
        .context("cannot parse a planned work")?;
    mirror.list(&WORKS.all(), &created, Clock::start().now());
    let guard = mirror.read();
    let view = guard.view(OfflineMirror::settled(Clock::start().now()));
    let clusters: Vec<ClusterName> = works.keys().map(|(cluster, _)| cluster.clone()).collect();
    for cluster in &clusters {
        take(&mut works, access::plan(view, cluster));
    }
    let objects = works.iter().map(|((cluster, _), work)| work.object(&cluster.0));
    Ok((objects.collect::<Result<_, _>>().context("cannot serialize a planned work")?, diagnostics))
}

fn take(works: &mut Works, plan: WorksPlan) {
    for (cluster, outcome) in plan.outcomes {
        if let Some(work) = outcome.work() {
            works.insert((cluster, work.name.clone()), work.clone());
        }
    }
}

/// The diagnostics for the plan of `origin`.
fn plan_diagnostics(
    view: View<'_>,
    origin: &Origin,
    plan: &WorksPlan,
    regarding: &Regarding,
) -> Vec<Diagnostic> {
    let mut diagnostics: Vec<Diagnostic> = plan
        .problems
        .iter()
        .map(|problem| if problem.freezes() { regarding.error(problem) } else { regarding.warning(problem) })
        .collect();
    if !plan.problems.iter().any(policy_sync_sync::Problem::freezes) {
        // Parameters do not list Gateways.
        let role = origin.as_gateway().is_none().then(|| view.role(origin.kind())).flatten();
        let note = match (plan.targeted, plan.outcomes.is_empty(), role) {
            (true, false, _) => None,
            (false, _, None) => Some("not synced: its GatewayClass belongs to another controller"),
            (false, _, Some(Role::Policy)) => Some(
                "not synced: it targets no Gateway whose class belongs to this controller and lists its kind",
            ),
            (false, _, Some(Role::Resource)) => Some(
                "not synced: no Placement is named for it, or the controller of another object creates it",
            ),
            (true, true, Some(Role::Policy)) => {
                Some("none of its Gateways is placed on a cluster that it selects")
            }
            (true, true, None | Some(Role::Resource)) => Some("placed on no cluster"),
        };
        diagnostics.extend(note.map(|note| regarding.note(note)));
    }
    if let Origin::Gateway(key) = origin
        && plan.targeted
    {
        diagnostics.extend(incomplete(view, key).map(|text| regarding.warning(text)));
    }
    diagnostics
}
