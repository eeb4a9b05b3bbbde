//! Writes plans as the controller does, to a simulated server that accepts everything.

use policy_sync_api::annotations::{POLICY_ANNOTATIONS, UNPLACED_SINCE};
use policy_sync_api::json::normalize;
use policy_sync_api::names::{ObjectKey, Origin};
use policy_sync_mirror::SourceEvent;
use policy_sync_sync::Key;
use policy_sync_sync::delete_guard::DeleteGuard;
use policy_sync_sync::desired::access;
use policy_sync_sync::diff::{self, WorkAction};
use policy_sync_sync::kinds::{CLASSES, POLICIES, WORKS};
use policy_sync_sync::status::class;
use policy_sync_sync::status::policy::Fold;
use serde_json::{Value, json};

use super::Hub;

/// The maximum number of rounds until nothing is left to write.
const ROUNDS: usize = 12;

impl Hub {
    /// Writes everything that is planned until nothing is left, for at most [`ROUNDS`] rounds.
    pub(in crate::bodies) fn write(&mut self) {
        for _ in 0..ROUNDS {
            if !self.round() {
                return;
            }
            self.follow();
        }
        panic!("plans remain after {ROUNDS} rounds: {:?}", self.everything());
    }

    fn round(&mut self) -> bool {
        let mut wrote = false;
        for key in self.everything() {
            let actions: Vec<WorkAction> = match &key {
                Key::Watches => Vec::new(),
                Key::Works(origin) => {
                    let plan = self.plan(origin);
                    self.see(|view| {
                        let actions = diff::works(view, origin, &plan).actions;
                        let mut guard = DeleteGuard::new(view, origin);
                        actions.iter().for_each(|action| drop(guard.on(action.cluster())));
                        actions
                    })
                }
                Key::Access(cluster) => self.see(|view| {
                    let plan = access::plan(view, cluster);
                    diff::access(view, cluster, &plan).actions
                }),
                Key::Class(name) => {
                    wrote |= self.write_class(name);
                    Vec::new()
                }
                Key::Fold(origin) => {
                    wrote |= self.write_fold(origin);
                    Vec::new()
                }
            };
            wrote |= !actions.is_empty();
            actions.iter().for_each(|action| self.apply_action(action));
        }
        wrote
    }

    fn write_class(&mut self, name: &ObjectKey) -> bool {
        let Some(status) = self.see(|view| class::plan(view, name)) else { return false };
        for condition in &status.conditions {
            assert!(
                condition.message.len() <= 32_768,
                "a message of {} bytes is too long",
                condition.message.len()
            );
        }
        let address = (CLASSES.all(), name.clone());
        let object = self.objects.get_mut(&address).expect("a class with a planned status exists");
        object["status"] = json!({"conditions": status.conditions});
        self.show(&address);
        true
    }

    /// Writes the annotations of a policy, and returns whether there was anything to write.
    pub(in crate::bodies) fn write_fold(&mut self, origin: &Origin) -> bool {
        let Fold::Write { annotations, .. } = self.fold(origin).fold else { return false };
        let address = (POLICIES.resource(origin.kind().clone()), origin.object().clone());
        let object = self.objects.get_mut(&address).expect("a policy with planned annotations exists");
        let metadata = object["metadata"].as_object_mut().expect("the policy has metadata");
        // A forced apply takes over the written fields from other owners.
        metadata.remove("managedFields");
        let found = metadata.entry("annotations").or_insert_with(|| json!({}));
        let found = found.as_object_mut().expect("annotations are an object");
        POLICY_ANNOTATIONS.iter().for_each(|key| drop(found.remove(*key)));
        found.extend(annotations.into_iter().map(|(key, text)| (key.to_owned(), text.into())));
        self.show(&address);
        true
    }

    fn apply_action(&mut self, action: &WorkAction) {
        let key = (action.cluster().to_string(), action.name().to_string());
        self.version += 1;
        let name = ObjectKey::new(&key.0, &key.1);
        let planned = match action {
            WorkAction::Delete { .. } => {
                self.works.remove(&key);
                return self.change(SourceEvent::Deleted {
                    source: WORKS.all(),
                    key: name,
                    version: self.version,
                });
            }
            WorkAction::Mark { unplaced, .. } => {
                let annotations =
                    &mut self.works.get_mut(&key).expect("the work exists")["metadata"]["annotations"];
                annotations[UNPLACED_SINCE] = json!(unplaced.map(|since| since.rfc3339()));
                return self.show_work(&key);
            }
            WorkAction::Create { work, cluster } | WorkAction::Update { work, cluster, .. } => {
                as_served(work.object(&cluster.0).expect("the planned work is valid"))
            }
        };
        let found = self.works.entry(key.clone()).or_insert_with(|| {
            json!({"metadata": {"name": key.1, "namespace": key.0, "uid": name.to_string(), "generation": 0,
                "creationTimestamp": "2026-01-01T00:00:00Z"}})
        });
        if found["spec"] != planned["spec"] {
            found["metadata"]["generation"] =
                (found["metadata"]["generation"].as_i64().unwrap_or_default() + 1).into();
        }
        found["spec"] = planned["spec"].clone();
        found["metadata"]["labels"] = planned["metadata"]["labels"].clone();
        found["metadata"]["annotations"] = planned["metadata"]["annotations"].clone();
        self.show_work(&key);
    }

    /// Delivers the present state of a work to the mirror.
    pub(in crate::bodies) fn show_work(&mut self, key: &(String, String)) {
        self.version += 1;
        let work = self.works.get_mut(key).expect("the work exists");
        work["metadata"]["resourceVersion"] = self.version.to_string().into();
        let text = work.to_string();
        self.show_text(&WORKS.all(), &ObjectKey::new(&key.0, &key.1), &text);
    }
}

/// `work` as an API server returns it, with normalized numbers and defaults.
fn as_served(mut work: Value) -> Value {
    normalize(&mut work);
    for config in work["spec"]["manifestConfigs"].as_array_mut().into_iter().flatten() {
        let config = config.as_object_mut().expect("a configuration is an object");
        config.entry("feedbackScrapeType").or_insert_with(|| "Poll".into());
    }
    work
}
