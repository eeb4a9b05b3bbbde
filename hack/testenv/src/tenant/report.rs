//! Builds the status of a work as a spoke's agent would report it.

use policy_sync_api::annotations::REVISION;
use policy_sync_api::work::ManifestWork;
use serde_json::{Value, json};

/// The reported result. By default, everything is applied, and the copy has no status.
#[derive(Clone, Debug)]
pub struct WorkReport {
    applied: Result<(), String>,
    revision: Option<String>,
    generation: i64,
    observed_generation: Option<i64>,
    conditions: Vec<(String, String, String, String)>,
    values: Vec<Value>,
    computed: Option<(String, String)>,
}

impl WorkReport {
    /// A report that all manifests of the work are applied.
    pub fn applied() -> Self {
        Self {
            applied: Ok(()),
            revision: None,
            generation: 1,
            observed_generation: None,
            conditions: Vec::new(),
            values: Vec::new(),
            computed: None,
        }
    }

    /// A report that the copy could not be applied because of `message`.
    pub fn refused(message: &str) -> Self {
        Self { applied: Err(message.to_owned()), ..Self::applied() }
    }

    /// Adds a condition of the copy, for the reported generation.
    #[must_use]
    pub fn condition(mut self, condition: &str, status: &str, reason: &str, message: &str) -> Self {
        self.observed_generation = Some(self.generation);
        self.conditions.push((condition.into(), status.into(), reason.into(), message.into()));
        self
    }

    /// Sets the generation that the copy's status observed, and the copy's generation.
    #[must_use]
    pub fn observed(mut self, observed: i64, generation: i64) -> Self {
        (self.observed_generation, self.generation) = (Some(observed), generation);
        self
    }

    /// Reports another revision of the copy.
    #[must_use]
    pub fn revision(mut self, revision: &str) -> Self {
        self.revision = Some(revision.to_owned());
        self
    }

    /// Adds a feedback value.
    #[must_use]
    pub fn value(mut self, name: &str, value: Value) -> Self {
        let (value_type, field) = match value {
            Value::Bool(_) => ("Boolean", "boolean"),
            Value::Number(_) => ("Integer", "integer"),
            _ => ("String", "string"),
        };
        self.values.push(json!({ "name": name, "fieldValue": { "type": value_type, field: value } }));
        self
    }

    /// Sets reason and message of the work's condition rule; `REVISION` in the message becomes the copy's
    /// revision.
    #[must_use]
    pub fn computed(mut self, reason: &str, message: &str) -> Self {
        self.computed = Some((reason.to_owned(), message.to_owned()));
        self
    }

    /// The status of `work` with this report.
    #[must_use]
    pub fn status_of(&self, work: &ManifestWork) -> Value {
        let generation = work.metadata.generation;
        let (status, reason, message) = match &self.applied {
            Ok(()) => ("True", "AppliedManifestComplete", "Apply manifest complete"),
            Err(message) => ("False", "AppliedManifestFailed", message.as_str()),
        };
        let condition = |reason: &str, message: &str| {
            json!({
                "type": "Applied", "status": status, "reason": reason, "message": message,
                "observedGeneration": generation, "lastTransitionTime": "2026-01-01T00:00:00Z",
            })
        };
        let manifests: Vec<Value> = work
            .spec
            .workload
            .manifests
            .iter()
            .zip(&work.spec.manifest_configs)
            .enumerate()
            .map(|(ordinal, (manifest, config))| {
                let identifier = &config.resource_identifier;
                let mut manifest_status = json!({
                    "resourceMeta": {
                        "ordinal": ordinal, "group": identifier.group, "version": "v1", "kind": manifest.0["kind"],
                        "resource": identifier.resource, "name": identifier.name, "namespace": identifier.namespace,
                    },
                    "conditions": [condition(reason, message)],
                });
                for (rule, (reason, message)) in config.condition_rules.iter().zip(&self.computed) {
                    let revision = manifest.0["metadata"]["annotations"][REVISION].as_str().unwrap_or_default();
                    if let Some(conditions) = manifest_status["conditions"].as_array_mut() {
                        conditions.push(json!({
                            "type": rule.condition, "status": "True", "reason": reason,
                            "message": message.replace("REVISION", revision),
                            "observedGeneration": generation, "lastTransitionTime": "2026-01-01T00:00:00Z",
                        }));
                    }
                }
                if !config.feedback_rules.is_empty() {
                    manifest_status["statusFeedback"] = json!({ "values": self.values_of(&manifest.0) });
                }
                manifest_status
            })
            .collect();
        json!({
            "conditions": [condition("AppliedManifestWorkComplete", "Apply manifest work complete")],
            "resourceStatus": { "manifests": manifests },
        })
    }

    fn values_of(&self, copy: &Value) -> Vec<Value> {
        let text = |name: &str, value: &str| json!({ "name": name, "fieldValue": { "type": "String", "string": value } });
        let integer = |name: &str, value: i64| json!({ "name": name, "fieldValue": { "type": "Integer", "integer": value } });
        let planned = copy["metadata"]["annotations"][REVISION].as_str().unwrap_or_default();
        let mut values = vec![
            text("_revision", self.revision.as_deref().unwrap_or(planned)),
            integer("_generation", self.generation),
        ];
        values.extend(self.observed_generation.map(|observed| integer("_observedGeneration", observed)));
        for (condition, status, reason, message) in &self.conditions {
            for (part, value) in [("status", status), ("reason", reason), ("message", message)] {
                values.push(text(&format!("_{condition}_{part}"), value));
            }
        }
        values.extend(self.values.clone());
        values
    }
}
