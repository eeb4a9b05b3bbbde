//! Since when the clusters of Gateways' works are not chosen, as this process has seen it.
//!
//! When a grace began stands on the work, for a restart to know. But the spoke's agent may write there, and take it away,
//! as often as it likes. So the earliest moment that was seen since the cluster left counts, and it is known without the
//! annotation when the cluster left. All of it is forgotten where the cluster is chosen again, or the work is gone.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::Moment;
use super::rows::cluster::Decision;
use super::rows::gateway::Gateway;
use super::tables::{Tables, WorkKey};
use crate::api::names::{ClusterName, ObjectKey, Parent};
use crate::shrink::give_back;

/// What is known of a Gateway's work in a cluster that is not chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Displacement {
    /// Since when this process has known that no decision names the cluster.
    pub left: Option<Moment>,
    /// The earliest moment that the work has had since then, none of them later than when it was seen.
    pub began: Option<Moment>,
    /// When the moment on the work was last seen to become what it should be.
    pub put_right: Option<Moment>,
}

/// What is known of such works.
#[derive(Clone, Debug, Default)]
pub(super) struct Displaced(HashMap<WorkKey, Displacement>);

impl Displaced {
    pub(super) fn get(&self, key: &WorkKey) -> Displacement {
        self.0.get(key).copied().unwrap_or_default()
    }

    fn set(&mut self, key: &WorkKey, displacement: Displacement) {
        if displacement == Displacement::default() {
            self.0.remove(key);
        } else {
            self.0.insert(key.clone(), displacement);
        }
    }

    /// The work is gone, or is another one now.
    pub(super) fn forget(&mut self, key: &WorkKey) {
        self.0.remove(key);
        give_back(&mut self.0);
    }
}

impl Displacement {
    /// Whether the decisions name the cluster is known anew: one that comes or goes begins anew.
    fn decided(self, chosen: bool, now: Moment) -> Self {
        match (chosen, self.left) {
            (true, Some(_)) => Self::default(),
            (false, None) => Self { left: Some(now), ..Self::default() },
            _ => self,
        }
    }

    /// The work has `moment` now, which it had not before.
    fn written(mut self, moment: Option<Moment>, now: Moment) -> Self {
        let moment = moment.map(|moment| moment.min(now));
        let right = if self.left.is_some() {
            self.began = Moment::earliest(self.began, moment);
            moment.is_some() && moment == self.began
        } else {
            moment.is_none()
        };
        Self { put_right: if right { Some(now) } else { self.put_right }, ..self }
    }
}

impl Tables {
    /// The work `key` came or changed; `before` is the moment that it had, `None` where it was not there.
    pub(super) fn displacement_seen(&mut self, key: &WorkKey, before: Option<Option<Moment>>, now: Moment) {
        let Some(work) = self.works.get(key) else { return };
        let Some(gateway) = work.parent().filter(|parent| parent.is_gateway()) else {
            return self.displaced.forget(key);
        };
        let moment = work.displaced;
        // That its agent answers changes nothing.
        if before == Some(moment) {
            return;
        }
        let chosen = self.chooses(&gateway.object, &key.1);
        let known = self.displaced.get(key).decided(chosen, now);
        // One that comes without a moment has lost none.
        let written = before.is_some() || moment.is_some();
        self.displaced.set(key, if written { known.written(moment, now) } else { known });
    }

    /// The decision `key` came, went or changed at `now` from `before` to what is said of which Placement in `after`.
    pub(super) fn decides(
        &mut self,
        key: &ObjectKey,
        before: Option<&Decision>,
        after: Option<(&str, &[ClusterName])>,
        now: Moment,
    ) {
        let before = before.and_then(|row| Some((row.placement.as_deref()?, &*row.clusters)));
        let (was_of, is_of) = (before.map(|(name, _)| name), after.map(|(name, _)| name));
        let names = |found: Option<(&'_ str, &[ClusterName])>, of: &str| -> Vec<ClusterName> {
            found.filter(|(name, _)| *name == of).map(|(_, clusters)| clusters.to_vec()).unwrap_or_default()
        };
        let placements: BTreeSet<&str> = was_of.into_iter().chain(is_of).collect();
        for name in placements {
            let placement = ObjectKey::new(&key.namespace, name);
            self.displacements_decided(&placement, &names(before, name), &names(after, name), now);
            self.placement_changed.note(placement, now);
        }
    }

    /// A decision for the Placement `placement` names other clusters than before.
    fn displacements_decided(
        &mut self,
        placement: &ObjectKey,
        before: &[ClusterName],
        after: &[ClusterName],
        now: Moment,
    ) {
        let (before, after): (HashSet<_>, HashSet<_>) = (before.iter().collect(), after.iter().collect());
        let changed: HashSet<ClusterName> =
            before.symmetric_difference(&after).map(|name| (*name).clone()).collect();
        if changed.is_empty() {
            return;
        }
        let chosen = self.chosen(placement);
        let asks = |(key, row): &(&ObjectKey, &Gateway)| {
            key.namespace == placement.namespace && row.placement() == Some(&*placement.name)
        };
        let gateways: Vec<ObjectKey> =
            self.gateways.iter().filter(asks).map(|(key, _)| key.clone()).collect();
        for gateway in gateways {
            self.decide(gateway, &chosen, |cluster| changed.contains(cluster), now);
        }
    }

    /// The Gateway `gateway` came, or names another Placement.
    pub(super) fn displacements_asked(&mut self, gateway: &ObjectKey, now: Moment) {
        let placement = self.placement_of(gateway);
        let chosen = placement.map(|placement| self.chosen(&placement)).unwrap_or_default();
        self.decide(gateway.clone(), &chosen, |_| true, now);
    }

    fn decide(
        &mut self,
        gateway: ObjectKey,
        chosen: &HashSet<ClusterName>,
        changed: impl Fn(&ClusterName) -> bool,
        now: Moment,
    ) {
        let Some(works) = self.works_of.get(&Parent::gateway(gateway)) else { return };
        for key in works.iter().filter(|(_, cluster)| changed(cluster)) {
            let known = self.displaced.get(key);
            self.displaced.set(key, known.decided(chosen.contains(&key.1), now));
        }
    }

    fn placement_of(&self, gateway: &ObjectKey) -> Option<ObjectKey> {
        let name = self.gateways.get(gateway)?.placement()?;
        Some(ObjectKey { namespace: gateway.namespace.clone(), name: name.into() })
    }

    /// The clusters that the decisions for `placement` name.
    fn chosen(&self, placement: &ObjectKey) -> HashSet<ClusterName> {
        self.decisions_of(placement).flat_map(|decision| &decision.clusters).cloned().collect()
    }

    pub(super) fn decisions_of(&self, placement: &ObjectKey) -> impl Iterator<Item = &Decision> + use<'_> {
        let (namespace, name) = (placement.namespace.clone(), placement.name.clone());
        let is_of = move |(key, decision): &(&ObjectKey, &Decision)| {
            key.namespace == namespace && decision.placement.as_deref() == Some(&*name)
        };
        self.decisions.iter().filter(is_of).map(|(_, decision)| decision)
    }

    /// Whether a decision for the Gateway `gateway` names `cluster`.
    fn chooses(&self, gateway: &ObjectKey, cluster: &ClusterName) -> bool {
        self.placement_of(gateway).is_some_and(|placement| {
            self.decisions_of(&placement).any(|decision| decision.clusters.contains(cluster))
        })
    }
}
