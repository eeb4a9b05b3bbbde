//! Converts the classes, Gateways and policies of a [`View`] to inputs of the topology.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::desired::eligibility::{KindEligibility, of_gateway, of_kind};
use crate::found::{VERSIONS, WATCHED_VERSIONS};
use crate::kinds::{CLASSES, CONFIG_MAPS, GATEWAYS, POLICIES};
use crate::rows::{RawSpec, gateway, policy};
use crate::{ClassParams, View};
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{GroupResource, ObjectKey, Origin};
use policy_sync_api::params::{Merge, Role};
use policy_sync_mirror::MirrorChange;
use policy_sync_topology::locator::{GATEWAY, GATEWAY_CLASS, Kind, Locator};
use policy_sync_topology::objects::Objects;
use policy_sync_topology::rows::{Gateway, Policy};
use policy_sync_topology::rules::MergeConfig;
use policy_sync_topology::show::ObjectFault;

/// Whether the change `changed`, which `view` already shows, may change the [`TopologyInputs`].
#[must_use]
pub fn affects_topology(view: View<'_>, changed: &MirrorChange) -> bool {
    if let Some((key, Some(before))) = changed.object_of(&GATEWAYS) {
        fn read(row: &gateway::Gateway) -> impl PartialEq + '_ {
            (&row.uid, row.generation, &row.class, row.deleting, row.created, &row.spec)
        }
        // While the class of the Gateway is missing, other fields may decide whether the Gateway belongs to this
        // controller.
        let is_of_class = view.class_params(&before.class).is_some();
        return !is_of_class || view.gateway(key).is_none_or(|now| read(now) != read(before));
    }
    if let Some((key, Some(before))) = changed.object_of(&POLICIES) {
        fn read(row: &policy::Policy) -> impl PartialEq + '_ {
            (&row.uid, row.created, row.deleting, row.refused, &row.spec)
        }
        let MirrorChange::Object { source, .. } = changed else { return true };
        let now = source.resource().and_then(|kind| view.policy(&Origin::new(kind.clone(), key.clone())));
        return now.is_none_or(|now| read(now) != read(before));
    }
    match changed {
        MirrorChange::Everything => true,
        MirrorChange::Object { source, .. }
        | MirrorChange::Listed(source)
        | MirrorChange::Unwatched(source) => {
            source.is(&CLASSES)
                || source.is(&CONFIG_MAPS)
                || source.is(&WATCHED_VERSIONS)
                || source.is(&GATEWAYS)
                || source.is(&POLICIES)
                || source.is(&VERSIONS)
        }
        MirrorChange::FailureChanged { .. } => false,
    }
}

/// The inputs of the topology, copied from a view so that they can be read while the mirror changes.
#[derive(Debug)]
pub struct TopologyInputs {
    classes: Vec<ObjectKey>,
    gateways: Vec<(ObjectKey, Option<Moment>, RawSpec)>,
    /// The kinds of policies, each with its resource and whether its policies attach directly.
    kinds: Vec<(GroupResource, Kind, bool)>,
    /// The policies, each with the index of its kind in `kinds`.
    policies: Vec<(usize, ObjectKey, Arc<policy::Policy>)>,
    merges: Vec<(GroupResource, Merge)>,
    ours: HashMap<ObjectKey, OurGateway>,
}

/// A Gateway of one of this controller's classes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OurGateway {
    /// The uid, which is unique over time.
    pub uid: Arc<str>,
    /// The generation, which changes with the spec.
    pub generation: i64,
}

impl TopologyInputs {
    /// Whether all inputs have been read from the hub, or cannot be read at present. Publishing earlier would change
    /// the status of objects twice.
    #[must_use]
    pub fn is_read(view: View<'_>) -> bool {
        let is_read =
            |params: Option<ClassParams>| !matches!(params, Some(ClassParams::Unread { fault: None, .. }));
        let of_classes = view.our_classes().into_keys().all(|class| is_read(view.class_params(&class.name)));
        let listing = view.listing();
        let mut kinds = listing.iter().flat_map(|(_, params)| params.listed(Role::Policy));
        view.ready()
            && of_classes
            && kinds.all(|gvr| match of_kind(view, &gvr.kind) {
                KindEligibility::Listed(..) => view.is_settled(&view.source_of(&gvr.kind)),
                KindEligibility::Frozen(problem, _) => !problem.passes(),
                KindEligibility::Unlisted => true,
            })
    }

    /// Copies the inputs from `view`.
    #[must_use]
    pub fn new(view: View<'_>) -> Self {
        let mut lent = Self {
            classes: view.classes().map(|(key, _)| key.clone()).collect(),
            gateways: Vec::new(),
            kinds: Vec::new(),
            policies: Vec::new(),
            merges: view.merges(),
            ours: HashMap::new(),
        };
        let ours = view.gateways().filter(|(key, _)| of_gateway(view, key).is_ours());
        let our_gateway =
            |row: &gateway::Gateway| OurGateway { uid: row.uid.clone(), generation: row.generation };
        lent.ours.extend(ours.map(|(key, row)| (key.clone(), our_gateway(row))));
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

    /// Removes and returns the Gateways of this controller.
    pub fn take_ours(&mut self) -> HashMap<ObjectKey, OurGateway> {
        std::mem::take(&mut self.ours)
    }

    /// Parses the inputs. Returns the objects. Objects that do not match their API are omitted, and their errors are
    /// returned.
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
                    // Rows do not keep the messages of conditions.
                    let rejected = refused.then(Box::default);
                    let policy = Policy { created: created.into(), deleting, rejected, ..read };
                    objects.put_policy(kind.clone(), key, policy);
                }
                Err(fault) => faults.push(ObjectFault::new(Locator::of(kind.as_ref(), &key), &fault)),
            }
        }
        for (resource, merge) in &self.merges {
            objects.configure(resource.clone(), MergeConfig::from(merge));
        }
        (objects, faults)
    }
}
