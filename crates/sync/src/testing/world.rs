//! A simulated hub around a mirror, without a server. Objects are delivered as by a watch, and planned writes can be
//! stored as a server would.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

use super::objects::{
    CONTROLLER, Object, class, config_map, decision, kind, listing, placement, policy_origin,
};
use crate::desired::{Outcome, WorksPlan, access, plan_works};
use crate::diff::{Diff, WorkAction};
use crate::kinds::{POLICIES, RESOURCES, WORKS, needed};
use crate::rows::kind::{KindInfo, Resolution};
use crate::rows::schema::WorkSchema;
use crate::status::policy::{Fold, FoldPlan};
use crate::triggers::affected;
use crate::{Keys, Mirror, MirrorGuard, Problem, RejectedWorks, Settings, View, Waits, diff, found, status};
use policy_sync_api::annotations::Synced;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ClusterName, ControllerName, GroupResource, GroupVersionResource, Origin};
use policy_sync_api::object::HubObject;
use policy_sync_mirror::{Source, SourceEvent};

/// The time at which worlds start. It is round, and not zero, because a zero time means never.
pub const START: i64 = 1_000_000_000_000;

pub struct World {
    pub mirror: Mirror,
    pub settings: Settings,
    pub refused: RejectedWorks,
    pub waits: Waits,
    pub now: i64,
    pub version: u64,
    pub works: BTreeMap<(String, String), Value>,
}

/// A hub without objects. Its lists were read long ago.
pub fn world() -> World {
    started().after(3_600_000)
}

/// A hub without objects. Its lists were read just now.
pub fn started() -> World {
    let world = unlisted();
    for source in needed() {
        world.mirror.begin_resync(&source);
        world.mirror.end_resync(&source, 1, Moment(START));
    }
    world
}

/// A hub before any list was read.
pub fn unlisted() -> World {
    let mirror = Mirror::new(ControllerName::new(CONTROLLER));
    mirror.change(found::work_schema(WorkSchema::FULL), Moment(START));
    let (settings, refused, waits) = (Settings::default(), RejectedWorks::default(), Waits::default());
    World { mirror, settings, refused, waits, now: START, version: 1, works: BTreeMap::new() }
}

/// A hub whose class `multi` lists RateLimitPolicies, with the Gateway `web` on the clusters of Placement `all`.
pub fn shop(clusters: &[&str]) -> World {
    world()
        .class("multi", &listing(&["ratelimitpolicies"]))
        .kind("ratelimitpolicies", "RateLimitPolicy")
        .decisions("all", clusters)
        .with(super::objects::gateway("web").placed_on("all"))
        .after(60_000)
}

impl World {
    /// Advances the time.
    pub fn after(mut self, milliseconds: i64) -> Self {
        self.now += milliseconds;
        self
    }

    /// Applies a change to the mirror and returns the affected keys.
    pub fn change(&self, change: SourceEvent) -> Keys {
        affected(&self.mirror.change(change, Moment(self.now)))
    }

    /// Ends a full list and returns the affected keys.
    pub fn end_resync(&self, source: &Source) -> Keys {
        affected(&self.mirror.end_resync(source, self.version, Moment(self.now)))
    }

    /// Forgets a source and returns the affected keys.
    pub fn forget(&self, source: &Source) -> Keys {
        affected(&self.mirror.forget(source, Moment(self.now)))
    }

    /// Delivers an object with the next resource version and returns the affected keys.
    pub fn apply(&mut self, object: &Object) -> Keys {
        self.version += 1;
        let mut json = object.json.clone();
        json["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.apply_as_it_is(&object.source, &json)
    }

    /// Delivers an object with the resource version that `json` contains.
    pub fn apply_as_it_is(&self, source: &Source, json: &Value) -> Keys {
        self.apply_text(source, &json.to_string())
    }

    /// Delivers an object in its wire format.
    pub fn apply_text(&self, source: &Source, text: &str) -> Keys {
        let mut object: HubObject = serde_json::from_str(text).unwrap();
        if source.is(&RESOURCES) {
            object.text = RawValue::from_string(text.to_owned()).ok();
        }
        let row = source.prune(&object, &ControllerName::new(CONTROLLER)).unwrap();
        let key = object.key();
        let version = object.metadata.version();
        self.change(SourceEvent::Applied { source: source.clone(), key, version, row })
    }

    /// Deletes an object and returns the affected keys.
    pub fn delete(&mut self, object: &Object) -> Keys {
        self.version += 1;
        let (source, key, version) = (object.source.clone(), object.key(), self.version);
        self.change(SourceEvent::Deleted { source, key, version })
    }

    /// The hub rejects the create of the work of `origin` in `cluster`.
    pub fn with_rejections(self, origin: &Origin, cluster: &str) -> Self {
        self.refused.note(origin, &ClusterName::from(cluster), Moment(self.now));
        self
    }

    pub fn with(mut self, object: Object) -> Self {
        self.apply(&object);
        self
    }

    pub fn without(mut self, object: Object) -> Self {
        self.delete(&object);
        self
    }

    /// Adds a Placement that has selected these clusters, with one PlacementDecision.
    pub fn decisions(self, name: &str, clusters: &[&str]) -> Self {
        self.with(placement(name).selects(clusters.len())).with(decision(
            name,
            &format!("{name}-1"),
            clusters,
        ))
    }

    /// Adds a class of this controller with these parameters.
    pub fn class(self, name: &str, params: &Value) -> Self {
        self.with(class(name)).params(name, &params.to_string())
    }

    /// Sets the parameters of the class `name`.
    pub fn params(mut self, name: &str, params: &str) -> Self {
        let object = config_map(name, params);
        self.list(&object.source, std::slice::from_ref(&object));
        self
    }

    /// Adds a resolved policy kind whose policies are listed.
    pub fn kind(mut self, resource: &str, name: &str) -> Self {
        self.resolve("v1", resource, resolved(name));
        self.list(&POLICIES.resource(kind(resource)), &[]);
        self
    }

    /// Adds a resolved kind of resources whose objects are listed.
    pub fn resource(mut self, group: &str, resource: &str, name: &str) -> Self {
        self.resolve_as(group, resource, resolved(name));
        self.list(&RESOURCES.resource(GroupResource::new(group, resource)), &[]);
        self
    }

    /// Sets the resolution of a kind of any group in version `v1`.
    pub fn resolve_as(&mut self, group: &str, resource: &str, resolution: Resolution) -> Keys {
        self.change(found::resolved(&GroupVersionResource::new(group, "v1", resource), resolution))
    }

    /// Sets the resolution of a kind in version `v1`.
    pub fn resolution(mut self, resource: &str, resolution: Resolution) -> Self {
        self.resolve("v1", resource, resolution);
        self
    }

    /// Sets the resolution of a policy kind in one version. The policies of the kind are listed.
    pub fn resolution_of(mut self, version: &str, resource: &str, resolution: Resolution) -> Self {
        self.resolve(version, resource, resolution);
        self.list(&POLICIES.resource(kind(resource)), &[]);
        self
    }

    pub fn resolve(&mut self, version: &str, resource: &str, resolution: Resolution) -> Keys {
        let gvr = GroupVersionResource::new("kuadrant.io", version, resource);
        self.change(found::resolved(&gvr, resolution))
    }

    /// Delivers a full list of these objects.
    pub fn list(&mut self, source: &Source, objects: &[Object]) -> Keys {
        self.mirror.begin_resync(source);
        let mut keys = Keys::new();
        for object in objects {
            keys.extend(self.apply(object));
        }
        keys.extend(self.end_resync(source));
        keys
    }

    /// Restarts the process: state that is only in memory is lost, and `objects` are listed.
    pub fn restarted(self, objects: Vec<Object>) -> Self {
        let mut next = World { works: self.works, version: self.version, now: self.now, ..unlisted() };
        for source in needed() {
            next.mirror.begin_resync(&source);
        }
        let works: Vec<Value> = next.works.values().cloned().collect();
        works.iter().for_each(|work| drop(next.apply_as_it_is(&WORKS.all(), work)));
        objects.iter().for_each(|object| drop(next.apply(object)));
        for source in needed() {
            next.mirror.end_resync(&source, next.version, Moment(next.now));
        }
        next
    }

    pub fn guard(&self) -> MirrorGuard<'_> {
        self.mirror.read()
    }

    pub fn see<T>(&self, read: impl FnOnce(View<'_>) -> T) -> T {
        read(self.guard().view(Moment(self.now)).with_rejections(&self.refused).with_waits(&self.waits))
    }

    /// The plan of the policy `name`.
    pub fn plan(&self, name: &str) -> WorksPlan {
        self.plan_of(&policy_origin(name))
    }

    /// The plan of `origin`. Its waits are recorded, as in the controller.
    pub fn plan_of(&self, origin: &Origin) -> WorksPlan {
        let plan = self.see(|view| plan_works(view, &self.settings, origin));
        self.waits.note(origin, plan.waits.clone());
        plan
    }

    pub fn diff_of(&self, origin: &Origin) -> Diff {
        let plan = self.plan_of(origin);
        self.see(|view| diff::works(view, origin, &plan))
    }

    /// The writes for the policy `name`, such as `create eu-1`.
    pub fn writes(&self, name: &str) -> Vec<String> {
        self.writes_of(&policy_origin(name))
    }

    pub fn writes_of(&self, origin: &Origin) -> Vec<String> {
        named(&self.diff_of(origin).actions)
    }

    /// The writes for the access work of `cluster`.
    pub fn access_writes(&self, cluster: &str) -> Vec<String> {
        named(&self.access_diff(&ClusterName::from(cluster)).actions)
    }

    pub fn access_diff(&self, cluster: &ClusterName) -> Diff {
        self.see(|view| diff::access(view, cluster, &access::plan(view, cluster)))
    }

    pub fn problems(&self, name: &str) -> Vec<String> {
        self.plan(name).problems.iter().map(Problem::to_string).collect()
    }

    /// The planned copy of the policy `name` on `cluster`.
    pub fn copy(&self, name: &str, cluster: &str) -> Value {
        self.copy_of(&policy_origin(name), cluster)
    }

    pub fn copy_of(&self, origin: &Origin, cluster: &str) -> Value {
        match self.plan_of(origin).outcomes.get(&ClusterName::from(cluster)) {
            Some(Outcome::Work(work)) => work.spec().unwrap().workload.manifests[1].0.clone(),
            other => panic!("no work is planned: {other:?}"),
        }
    }

    pub fn fold(&self, name: &str) -> FoldPlan {
        self.see(|view| status::policy::plan(view, &self.settings, &policy_origin(name)))
    }

    /// The planned annotations of the policy `name`.
    pub fn annotations(&self, name: &str) -> BTreeMap<&'static str, String> {
        match self.fold(name).fold {
            Fold::Write { annotations, .. } => annotations,
            other => panic!("nothing to write: {other:?}"),
        }
    }

    /// The entries of the clusters for the policy `limits`.
    pub fn entries(&self) -> Vec<Synced> {
        let annotations = self.annotations("limits");
        serde_json::from_str(&annotations[policy_sync_api::annotations::POLICIES_SYNCED]).unwrap()
    }

    /// The planned outcome on each cluster of the policy `name`.
    pub fn outcomes(&self, name: &str) -> Vec<String> {
        self.outcomes_of(&policy_origin(name))
    }

    pub fn outcomes_of(&self, origin: &Origin) -> Vec<String> {
        let outcomes = self.plan_of(origin).outcomes;
        let text = |outcome: &Outcome| match outcome {
            Outcome::Work(_) | Outcome::Deferred(..) => "",
            Outcome::Kept(_) => " (keep)",
        };
        outcomes.iter().map(|(cluster, outcome)| format!("{cluster}{}", text(outcome))).collect()
    }
}

fn named(actions: &[WorkAction]) -> Vec<String> {
    actions.iter().map(|action| format!("{} {}", action.verb(), action.cluster())).collect()
}

/// The resolution of a kind that can be synced.
pub fn resolved(name: &str) -> Resolution {
    Resolution::Resolved(KindInfo::named(name))
}
