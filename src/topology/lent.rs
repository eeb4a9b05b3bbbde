//! What the sync's view of a hub lends: classes, Gateways, and the policies of the kinds that parameters list.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::locator::{GATEWAY, GATEWAY_CLASS, Kind, Locator};
use super::objects::Objects;
use super::rows::{Gateway, Policy};
use super::rules::Configured;
use super::show::ObjectFault;
use crate::api::moment::Moment;
use crate::api::names::{GroupResource, ObjectKey};
use crate::api::params::Merge;
use crate::sync::View;
use crate::sync::desired::eligibility::{KindEligibility, of_kind};
use crate::sync::rows::{RawSpec, policy};

/// What a view lends, to be read while the mirror goes on.
#[derive(Debug)]
pub struct Lent {
    classes: Vec<ObjectKey>,
    gateways: Vec<(ObjectKey, Option<Moment>, RawSpec)>,
    /// The kinds of policies, each with its resource and whether its policies are direct.
    kinds: Vec<(GroupResource, Kind, bool)>,
    /// The policies, each with the place of its kind.
    policies: Vec<(usize, ObjectKey, Arc<policy::Policy>)>,
    merges: Vec<(GroupResource, Merge)>,
}

impl Lent {
    /// What `view` lends.
    #[must_use]
    pub fn new(view: View<'_>) -> Self {
        let mut lent = Self {
            classes: view.classes().map(|(key, _)| key.clone()).collect(),
            gateways: Vec::new(),
            kinds: Vec::new(),
            policies: Vec::new(),
            merges: view.merges(),
        };
        let gateways = view.gateways();
        lent.gateways.extend(gateways.map(|(key, row)| (key.clone(), row.created, row.spec.clone())));
        let mut places: BTreeMap<GroupResource, Option<usize>> = BTreeMap::new();
        for (origin, row) in view.policy_rows() {
            let place = places.entry(origin.kind().clone()).or_insert_with_key(|kind| {
                let (KindEligibility::Listed(_, info) | KindEligibility::Frozen(_, Some(info))) =
                    of_kind(view, kind)
                else {
                    return None;
                };
                let named = Kind { group: kind.group.clone(), kind: info.kind.clone() };
                lent.kinds.push((kind.clone(), named, info.direct));
                Some(lent.kinds.len() - 1)
            });
            if let Some(place) = place {
                lent.policies.push((*place, origin.object().clone(), row.clone()));
            }
        }
        lent
    }

    /// The objects, and those of them that are not as the API has them, which are left out.
    #[must_use]
    pub fn read(self) -> (Objects, Vec<ObjectFault>) {
        let mut objects = Objects::of_cluster([GATEWAY_CLASS.to_kind(), GATEWAY.to_kind()].into());
        let mut faults = Vec::new();
        self.classes.into_iter().for_each(|key| objects.put_class(key));
        for (key, created, spec) in self.gateways {
            match Gateway::of_spec(&spec) {
                Ok(read) => objects.put_gateway(key, Gateway { created: created.into(), ..read }),
                Err(fault) => faults.push(ObjectFault::new(Locator::of(GATEWAY, &key), &fault)),
            }
        }
        for (resource, kind, direct) in &self.kinds {
            objects.define(kind.clone(), &resource.resource, *direct);
        }
        for (place, key, row) in self.policies {
            let (_, kind, _) = &self.kinds[place];
            match Policy::of_spec(row.spec.clone()) {
                Ok(read) => {
                    let policy::Policy { created, deleting, refused, .. } = *row;
                    let policy = Policy { created: created.into(), deleting, refused, ..read };
                    objects.put_policy(kind.clone(), key, policy);
                }
                Err(fault) => faults.push(ObjectFault::new(Locator::of(kind.as_ref(), &key), &fault)),
            }
        }
        for (resource, merge) in &self.merges {
            objects.configure(resource.clone(), Configured::from(merge));
        }
        (objects, faults)
    }
}
