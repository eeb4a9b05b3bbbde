//! Plans the works of a Gateway.

mod secrets;

use std::sync::Arc;

use secrets::Secrets;
use serde_json::{Map, json};

use super::copy::{copied_entries, copy, read_spec, rewrite_namespaces};
use super::eligibility::{GatewayEligibility, of_gateway};
use super::placement::{Placed, grace, placed};
use super::work::{CopyOf, WorkTemplate, schema};
use super::{KeepReason, Outcome, PlannedWork, WorksPlan, keep_on_paused_clusters, pauses};
use crate::rows::gateway::Gateway;
use crate::{Problem, Settings, View, feedback};
use policy_sync_api::annotations::MANAGED;
use policy_sync_api::names::{ObjectKey, Origin, WorkName};
use policy_sync_api::params::{Params, TlsSecrets};
use policy_sync_api::selector::ClusterSelector;

/// Plans the works of the Gateway `key`. The waits for its policies are added later.
pub(super) fn desired(view: View<'_>, settings: &Settings, key: &ObjectKey) -> WorksPlan {
    let origin = Origin::Gateway(key.clone());
    let name = WorkName::planned(view.controller(), "Gateway", &origin);
    let mut plan = WorksPlan { name: Some(name.clone()), ..WorksPlan::default() };
    let eligibility = of_gateway(view, key);
    let Some(gateway) = view.gateway(key).filter(|_| eligibility.is_ours()) else {
        return plan;
    };
    let Placed { clusters, unplaced, deselected, settles, .. } = placed(view, key);
    plan.targeted = true;
    plan.unplaced = unplaced;
    plan.deselected = deselected;
    plan.recheck = settles;
    plan.problems.extend(grace(view, gateway).1);
    let planned = match eligibility {
        GatewayEligibility::Ours(params) => ClusterSelector::read(&gateway.annotations)
            .map_err(Problem::from)
            .and_then(|_| work(view, settings, &origin, &name, gateway, &params)),
        GatewayEligibility::Frozen(problem) => Err(problem),
        GatewayEligibility::NotOurs => return plan,
    };
    let mut freezing = pauses(view, &gateway.annotations, Some(&gateway.class));
    let outcome = match planned {
        Ok((work, problems)) if freezing.is_empty() => {
            plan.problems.extend(problems);
            Outcome::Work(Arc::new(work))
        }
        planned => {
            freezing.extend(planned.err());
            let kept = KeepReason::by(&freezing);
            plan.problems.extend(freezing);
            Outcome::Kept(kept)
        }
    };
    plan.outcomes = clusters.into_iter().map(|cluster| (cluster, outcome.clone())).collect();
    keep_on_paused_clusters(view, &mut plan.outcomes);
    plan
}

fn work(
    view: View<'_>,
    settings: &Settings,
    origin: &Origin,
    name: &WorkName,
    gateway: &Gateway,
    params: &Params,
) -> Result<(PlannedWork, Vec<Problem>), Problem> {
    let key = origin.object();
    let downstream_namespace = settings.downstream_namespace(&key.namespace)?;
    let mut spec = read_spec(&gateway.spec)?;
    let Secrets { companions, problems } = match params.tls_secrets {
        TlsSecrets::Copy => secrets::planned(view, settings, key, &spec, params)?,
        TlsSecrets::None => Secrets::default(),
    };
    rewrite_namespaces(&mut spec, &settings.downstream_namespace_prefix);
    let fields = spec.as_object_mut().ok_or_else(|| Problem::BadSpec("expected an object".to_owned()))?;
    fields.insert("gatewayClassName".to_owned(), json!(params.downstream_class));
    let feedback = feedback::of_gateway(&spec, params);
    let skip = &params.metadata_to_skip;
    let mut labels = copied_entries(&gateway.labels, skip);
    labels.insert(MANAGED.to_owned(), "true".to_owned());
    let copy = copy(
        ("gateway.networking.k8s.io/v1", "Gateway"),
        (&downstream_namespace, &key.name),
        &labels,
        copied_entries(&gateway.annotations, skip),
        Map::from_iter([("spec".to_owned(), spec)]),
    );
    let template = WorkTemplate {
        controller: view.controller(),
        name,
        origin,
        downstream_namespace: &downstream_namespace,
        copy_of: CopyOf::Gateway,
        schema: schema(view),
    };
    let work = template.build(copy, companions, &[&key.name], feedback, params.conflicts)?;
    Ok((work, problems))
}
