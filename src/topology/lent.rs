//! What the sync's view of a hub lends: classes, Gateways, and the policies of the kinds that parameters list.

use std::collections::BTreeMap;

use super::locator::{GATEWAY, GATEWAY_CLASS, Kind, Locator};
use super::objects::Objects;
use super::rows::{Created, Gateway, Policy};
use super::rules::Told;
use super::show::ObjectFault;
use crate::api::names::GroupResource;
use crate::sync::View;
use crate::sync::desired::eligibility::{KindEligibility, of_kind};
use crate::sync::rows::{gateway, policy};

/// The objects of `view`, and those of them that are not as the API has them, which are left out.
#[must_use]
pub fn lent(view: View<'_>) -> (Objects, Vec<ObjectFault>) {
    let mut objects = Objects::of_cluster([GATEWAY_CLASS.to_kind(), GATEWAY.to_kind()].into());
    let mut faults = Vec::new();
    for (key, _) in view.classes() {
        objects.put_class(key.clone());
    }
    for (key, row) in view.gateways() {
        match Gateway::of_spec(&row.spec) {
            Ok(read) => objects.put_gateway(key.clone(), gateway(row, read)),
            Err(fault) => faults.push(ObjectFault::new(Locator::of(GATEWAY, key), &fault)),
        }
    }
    let mut kinds: BTreeMap<GroupResource, Option<Kind>> = BTreeMap::new();
    for (origin, row) in view.policies() {
        let kind = kinds.entry(origin.kind().clone()).or_insert_with_key(|kind| {
            let (KindEligibility::Listed(_, info) | KindEligibility::Frozen(_, Some(info))) =
                of_kind(view, kind)
            else {
                return None;
            };
            let named = Kind { group: kind.group.clone(), kind: info.kind.clone() };
            objects.define(named.clone(), &kind.resource, info.direct);
            Some(named)
        });
        let Some(kind) = kind else { continue };
        match Policy::of_spec(row.spec.clone()) {
            Ok(read) => objects.put_policy(kind.clone(), origin.object().clone(), policy(row, read)),
            Err(fault) => faults.push(ObjectFault::new(Locator::of(kind.as_ref(), origin.object()), &fault)),
        }
    }
    for (resource, merge) in view.merges() {
        objects.tell(resource, Told::from(&merge));
    }
    (objects, faults)
}

fn gateway(row: &gateway::Gateway, read: Gateway) -> Gateway {
    Gateway { created: Created::from(row.created), ..read }
}

fn policy(row: &policy::Policy, read: Policy) -> Policy {
    let policy::Policy { created, deleting, refused, .. } = row;
    Policy { created: Created::from(*created), deleting: *deleting, refused: *refused, ..read }
}
