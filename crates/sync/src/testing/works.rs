//! Works as a fake server stores them: planned writes get defaults and a generation, and tests edit works.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::objects::{gateway_origin, policy_origin};
use super::world::World;
use crate::Keys;
use crate::diff::WorkAction;
use crate::kinds::WORKS;
use policy_sync_api::annotations::UNPLACED_SINCE;
use policy_sync_api::json::normalize;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ClusterName, ObjectKey, Origin};
use policy_sync_mirror::SourceEvent;

impl World {
    /// Carries out the plans of these objects until nothing changes, and delivers the works to the mirror as a server
    /// would. Deleted works are gone at once.
    pub fn settled(mut self, origins: &[Origin]) -> Self {
        for _ in 0..5 {
            let mut actions: Vec<WorkAction> =
                origins.iter().flat_map(|origin| self.diff_of(origin).actions).collect();
            let clusters: BTreeSet<ClusterName> = self.see(|view| {
                let clusters = view.works().map(|(_, cluster, _)| cluster.clone());
                clusters.chain(actions.iter().map(|action| action.cluster().clone())).collect()
            });
            actions.extend(clusters.iter().flat_map(|cluster| self.access_diff(cluster).actions));
            if actions.is_empty() {
                return self;
            }
            actions.iter().for_each(|action| self.apply_action(action));
        }
        panic!("the plan does not settle");
    }

    /// Carries out the plans of the policy `limits` and the Gateway `web`.
    pub fn written(self) -> Self {
        self.settled(&[gateway_origin("web"), policy_origin("limits")])
    }

    /// Carries out the plans of the Gateway `web` only. The Gateway leaves a cluster before its policies.
    pub fn gateway_written(self) -> Self {
        self.settled(&[gateway_origin("web")])
    }

    /// The name and cluster of each work.
    pub fn work_names(&self) -> Vec<(String, String)> {
        self.works.keys().cloned().collect()
    }

    /// A work, rendered by `text`.
    pub fn work_text(&self, name: &str, cluster: &str, text: impl Fn(&Value) -> String) -> String {
        text(&self.works[&(name.to_owned(), cluster.to_owned())])
    }

    pub fn apply_action(&mut self, action: &WorkAction) {
        let key = (action.name().to_string(), action.cluster().to_string());
        let planned = match action {
            WorkAction::Delete { .. } => return self.work_is_gone(&key),
            WorkAction::Mark { unplaced, .. } => {
                let annotations = &mut self.works.get_mut(&key).unwrap()["metadata"]["annotations"];
                let annotations = annotations.as_object_mut().unwrap();
                annotations.remove(UNPLACED_SINCE);
                annotations.extend(unplaced.map(|since| (UNPLACED_SINCE.into(), since.rfc3339().into())));
                return drop(self.show(&key));
            }
            WorkAction::Create { work, cluster } | WorkAction::Update { work, cluster, .. } => {
                as_served(&work.object(&cluster.0).unwrap())
            }
        };
        let created = Moment(self.now).rfc3339();
        let found = self.works.entry(key.clone()).or_insert_with(|| {
            json!({"metadata": {"name": key.0, "namespace": key.1, "uid": format!("{}-{}", key.0, key.1),
                "generation": 0, "creationTimestamp": created}})
        });
        if found["spec"] != planned["spec"] {
            found["metadata"]["generation"] = (found["metadata"]["generation"].as_i64().unwrap() + 1).into();
        }
        found["spec"] = planned["spec"].clone();
        found["metadata"]["labels"] = planned["metadata"]["labels"].clone();
        found["metadata"]["annotations"] = planned["metadata"]["annotations"].clone();
        self.show(&key);
    }

    fn work_is_gone(&mut self, key: &(String, String)) {
        self.works.remove(key);
        self.version += 1;
        let (name, version) = (ObjectKey::new(&key.1, &key.0), self.version);
        let change = SourceEvent::Deleted { source: WORKS.all(), key: name, version };
        self.mirror.change(change, Moment(self.now));
    }

    fn show(&mut self, key: &(String, String)) -> Keys {
        self.version += 1;
        let work = self.works.get_mut(key).unwrap();
        work["metadata"]["resourceVersion"] = self.version.to_string().into();
        let work = work.clone();
        self.apply_as_it_is(&WORKS.all(), &work)
    }

    fn work_name(&self, origin: &Origin, cluster: &str) -> String {
        self.see(|view| {
            let mut names = view.works_of(origin).map(|(name, _, _)| name.to_string());
            names.find(|name| self.works.contains_key(&(name.clone(), cluster.to_owned()))).unwrap()
        })
    }

    /// Edits the work of `origin` in `cluster` as another client would, and returns the affected keys.
    pub fn edit(&mut self, origin: &Origin, cluster: &str, edit: impl FnOnce(&mut Value)) -> Keys {
        let key = (self.work_name(origin, cluster), cluster.to_owned());
        edit(self.works.get_mut(&key).unwrap());
        self.show(&key)
    }

    /// Adds a work that another client created or that was left over.
    pub fn with_work(mut self, work: Value) -> Self {
        let text = |field: &str| work["metadata"][field].as_str().unwrap().to_owned();
        let key = (text("name"), text("namespace"));
        self.works.insert(key.clone(), work);
        self.show(&key);
        self
    }

    pub fn edited(mut self, origin: &Origin, cluster: &str, edit: impl FnOnce(&mut Value)) -> Self {
        self.edit(origin, cluster, edit);
        self
    }

    /// The work for `origin` in `cluster` is being deleted, and its agent has not finished.
    pub fn terminating(self, origin: &Origin, cluster: &str) -> Self {
        self.edited(origin, cluster, |work| {
            work["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        })
    }

    /// The work for `origin` in `cluster` is gone.
    pub fn gone(mut self, origin: &Origin, cluster: &str) -> Self {
        let key = (self.work_name(origin, cluster), cluster.to_owned());
        self.work_is_gone(&key);
        self
    }
}

/// `object` as the server returns it: with normalized numbers, with defaults, and without empty maps.
pub fn as_served(object: &Value) -> Value {
    let mut object = object.clone();
    normalize(&mut object);
    for config in object["spec"]["manifestConfigs"].as_array_mut().into_iter().flatten() {
        let config = config.as_object_mut().unwrap();
        config.entry("feedbackScrapeType").or_insert_with(|| "Poll".into());
    }
    object
}
