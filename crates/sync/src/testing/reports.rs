//! Reports of a spoke's agent on a work. By default the copy is applied, without further values.

use serde_json::{Value, json};

use super::objects::{gateway_origin, policy_origin};
use super::world::World;

#[derive(Clone, Debug)]
pub struct TestReport {
    applied: &'static str,
    work_generation: Option<i64>,
    since: String,
    revision: Option<String>,
    message: String,
    values: Vec<Value>,
    ancestors: Option<(String, String)>,
    feedback_failed: Option<String>,
}

/// The copy is applied with the planned revision, at generation 1.
pub fn applied() -> TestReport {
    let report = TestReport {
        applied: "True",
        work_generation: None,
        since: "2001-01-01T00:00:00Z".to_owned(),
        revision: None,
        message: String::new(),
        values: vec![],
        ancestors: None,
        feedback_failed: None,
    };
    report.integer("_generation", 1)
}

/// The copy is not applied, with this message.
pub fn refused(message: &str) -> TestReport {
    TestReport { applied: "False", message: message.to_owned(), ..applied() }
}

impl TestReport {
    pub fn for_work_generation(self, generation: i64) -> Self {
        Self { work_generation: Some(generation), ..self }
    }

    /// Sets the time of the last transition of `Applied`.
    pub fn since(self, moment: &str) -> Self {
        Self { since: moment.to_owned(), ..self }
    }

    pub fn of_revision(self, revision: &str) -> Self {
        Self { revision: Some(revision.to_owned()), ..self }
    }

    pub fn value(mut self, name: &str, value: Value) -> Self {
        self.values.retain(|value| value["name"] != name);
        self.values.push(json!({"name": name, "fieldValue": value}));
        self
    }

    pub fn integer(self, name: &str, integer: i64) -> Self {
        self.value(name, json!({"type": "Integer", "integer": integer}))
    }

    pub fn string(self, name: &str, string: &str) -> Self {
        self.value(name, json!({"type": "String", "string": string}))
    }

    /// Sets the observed generation of the copy's status.
    pub fn observed(self, generation: i64) -> Self {
        self.integer("_observedGeneration", generation)
    }

    /// Sets the creation time of the copy on the spoke.
    pub fn created(self, moment: &str) -> Self {
        self.string("_created", moment)
    }

    pub fn condition(self, name: &str, status: &str, reason: &str, message: &str) -> Self {
        self.string(&format!("_{name}_status"), status)
            .string(&format!("_{name}_reason"), reason)
            .string(&format!("_{name}_message"), message)
    }

    /// Sets the observed generation of one condition.
    pub fn condition_observed(self, name: &str, generation: i64) -> Self {
        self.integer(&format!("_{name}_observedGeneration"), generation)
    }

    /// Adds the agent's condition about the copy's ancestors, with this reason and message.
    pub fn ancestors(self, reason: &str, message: &str) -> Self {
        Self { ancestors: Some((reason.to_owned(), message.to_owned())), ..self }
    }

    /// Adds an error of the agent's status feedback.
    pub fn feedback_failed(self, error: &str) -> Self {
        Self { feedback_failed: Some(format!("Sync status feedback failed with error {error}")), ..self }
    }

    /// The status of `work` with this report.
    pub fn status(&self, work: &Value) -> Value {
        let copy = &work["spec"]["workload"]["manifests"][1];
        let planned = copy["metadata"]["annotations"]["kuadrant.io/revision"].as_str().unwrap_or_default();
        let revision = self.revision.clone().unwrap_or_else(|| planned.to_owned());
        let config = &work["spec"]["manifestConfigs"][1]["resourceIdentifier"];
        let generation = self.work_generation.or(work["metadata"]["generation"].as_i64());
        let condition = |message: &str| {
            json!({"type": "Applied", "status": self.applied, "reason": "R", "message": message,
                "lastTransitionTime": self.since, "observedGeneration": generation})
        };
        let mut conditions = vec![condition(&self.message)];
        conditions.extend(self.ancestors.iter().map(|(reason, message)| {
            json!({"type": "PolicySyncAncestors", "status": "True", "reason": reason, "message": message,
                "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": generation})
        }));
        conditions.extend(self.feedback_failed.iter().map(|message| {
            json!({"type": "StatusFeedbackSynced", "status": "False", "reason": "StatusFeedbackSyncFailed",
                "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"})
        }));
        json!({
            "conditions": [condition("1 of 2 manifests are not applied")],
            "resourceStatus": {"manifests": [
                {"resourceMeta": {"ordinal": 0, "group": "", "resource": "namespaces"}, "conditions": []},
                {
                    "resourceMeta": {"ordinal": 1, "group": config["group"], "resource": config["resource"]},
                    "conditions": conditions,
                    "statusFeedback": {"values": self.clone().string("_revision", &revision).values},
                },
            ]},
        })
    }
}

/// The Gateway is applied, and programmed at `address`. Its listener `http` has a route.
pub fn programmed(address: &str) -> TestReport {
    applied()
        .condition("Accepted", "True", "Accepted", "")
        .condition("Programmed", "True", "Programmed", "")
        .string("_address_0", address)
        .integer("_listener_http_attachedRoutes", 1)
        .string("_listener_http_kind_HTTPRoute", "gateway.networking.k8s.io")
        .listener_condition("http", "Programmed", "True", "Programmed", "")
}

impl TestReport {
    pub fn listener_condition(
        self,
        listener: &str,
        name: &str,
        status: &str,
        reason: &str,
        message: &str,
    ) -> Self {
        let part = |part: &str| format!("_listener_{listener}_{name}_{part}");
        self.string(&part("status"), status).string(&part("reason"), reason).string(&part("message"), message)
    }
}

impl World {
    /// The agent of `cluster` reports `report` for the Gateway `web`.
    pub fn with_gateway_report(self, cluster: &str, report: &TestReport) -> Self {
        self.edited(&gateway_origin("web"), cluster, |work| work["status"] = report.status(work))
    }

    /// The agent of `cluster` reports `report` for the policy `limits`.
    pub fn with_report(self, cluster: &str, report: &TestReport) -> Self {
        self.with_policy_report("limits", cluster, report)
    }

    /// The agent of `cluster` reports `report` for the policy `policy`.
    pub fn with_policy_report(self, policy: &str, cluster: &str, report: &TestReport) -> Self {
        self.edited(&policy_origin(policy), cluster, |work| work["status"] = report.status(work))
    }
}
