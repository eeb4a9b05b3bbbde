//! The works of everything in a mirror, by the controller's own plans.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context;
use serde_json::Value;

use super::fill::Filled;
use super::remark::{Remark, Subject};
use crate::api::names::{ClusterName, ObjectKey, Parent, WorkName};
use crate::api::object::HubObject;
use crate::cli::scratch::Scratch;
use crate::plan::{Outcome, PlannedWork, Settings, WorksPlan, access, plan_works};
use crate::sync::View;
use crate::sync::kinds::WORKS;

/// Planned works, by cluster and name.
type Works = BTreeMap<(ClusterName, WorkName), Arc<PlannedWork>>;

/// Plans all works, and says what keeps others from being planned.
///
/// # Errors
///
/// Where a planned work cannot be read back, which would be a fault of this program.
pub(super) fn plan(filled: Filled, settings: &Settings) -> anyhow::Result<(Vec<Value>, Vec<Remark>)> {
    let Filled { scratch, parents, mut remarks } = filled;
    let mut works = Works::new();
    {
        let guard = scratch.read();
        let view = guard.view(Scratch::settled());
        for (parent, subject) in &parents {
            let plan = plan_works(view, settings, parent);
            remarks.extend(said(view, parent, &plan, subject));
            take(&mut works, plan);
        }
    }
    // What access an agent needs follows from the works that its cluster has.
    let created: Vec<HubObject> = works
        .iter()
        .map(|((cluster, _), work)| anyhow::Ok(serde_json::from_value(work.object(&cluster.0)?)?))
        .collect::<Result<_, _>>()
        .context("cannot read a planned work back")?;
    scratch.list(&WORKS.all(), &created);
    let guard = scratch.read();
    let view = guard.view(Scratch::settled());
    let clusters: Vec<ClusterName> = works.keys().map(|(cluster, _)| cluster.clone()).collect();
    for cluster in &clusters {
        take(&mut works, access::plan(view, cluster));
    }
    let objects = works.iter().map(|((cluster, _), work)| work.object(&cluster.0));
    Ok((objects.collect::<Result<_, _>>().context("cannot make a planned work again")?, remarks))
}

fn take(works: &mut Works, plan: WorksPlan) {
    for (cluster, outcome) in plan.outcomes {
        if let Outcome::Work(work) = outcome {
            works.insert((cluster, work.name.clone()), work);
        }
    }
}

/// What there is to say about the plan of `parent`.
fn said(view: View<'_>, parent: &Parent, plan: &WorksPlan, subject: &Subject) -> Vec<Remark> {
    let mut remarks: Vec<Remark> = plan
        .problems
        .iter()
        .map(|problem| if problem.freezes() { subject.error(problem) } else { subject.warning(problem) })
        .collect();
    if !plan.problems.iter().any(crate::plan::Problem::freezes) {
        let note = match (plan.targeted, plan.outcomes.is_empty(), parent.is_gateway()) {
            (false, _, true) => Some("not synced: its GatewayClass is not ours"),
            (false, _, false) => {
                Some("not synced: it targets no Gateway of a class of ours that lists its kind")
            }
            (true, true, true) => Some("placed on no cluster"),
            (true, true, false) => Some("none of its Gateways is placed on a cluster that it selects"),
            (true, false, _) => None,
        };
        remarks.extend(note.map(|note| subject.note(note)));
    }
    if parent.is_gateway() && plan.targeted {
        remarks.extend(incomplete(view, &parent.object).map(|text| subject.warning(text)));
    }
    remarks
}

/// Whether the decisions are fewer than their Placement says there are.
pub(super) fn incomplete(view: View<'_>, gateway: &ObjectKey) -> Option<String> {
    let placement = ObjectKey::new(&gateway.namespace, view.gateway(gateway)?.placement()?);
    let (selected, decided) = (view.placement(&placement)?.selected, view.decided(&placement).len());
    (decided < selected).then(|| {
        format!("Placement {placement} has chosen {selected} clusters, its PlacementDecisions name {decided}")
    })
}
