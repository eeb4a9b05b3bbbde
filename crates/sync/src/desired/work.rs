//! Builds a planned work: one copy, the objects that accompany it, their namespaces, and the rules by which the agent
//! writes and reports them.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};

use super::copy::Copy;
use crate::feedback::Feedback;
use crate::rows::Strings;
use crate::rows::schema::WorkSchema;
use crate::rows::work::Content;
use crate::{Problem, View};
use policy_sync_api::annotations::{self, CONTROLLER, GATEWAYS, MANAGED_BY, MANAGED_BY_US, PARENT, WORK_FOR};
use policy_sync_api::json::{Hash, length};
use policy_sync_api::names::{ControllerName, GroupResource, Origin, WorkName};
use policy_sync_api::params::{Conflicts, Role};
use policy_sync_api::work::{
    DeleteOption, FeedbackScrapeType, Manifest, ManifestConfig, ManifestWorkSpec, PropagationPolicy,
    ResourceIdentifier, SelectivelyOrphan, ServerSideApply, UpdateStrategy, UpdateStrategyType, Workload,
};

/// The maximum size of the manifests of one work in bytes, enforced by Open Cluster Management's webhook.
pub const SIZE_LIMIT: usize = 500 * 1024;

/// A planned work. Clusters with the same copy have the same planned work.
#[derive(Clone, Debug)]
pub struct PlannedWork {
    /// The name of the work.
    pub name: WorkName,
    /// The labels that this controller writes.
    pub labels: Strings,
    /// The annotations that this controller writes.
    pub annotations: Strings,
    body: Body,
    /// The hashes of the work's content, to compare with works in the mirror.
    pub content: Content,
    /// The revision of the copy in the work; empty for an access work.
    pub revision: String,
    /// The size of the work's manifests in bytes.
    pub bytes: usize,
}

/// The spec of a work, or the means to build it.
#[derive(Clone, Debug)]
enum Body {
    /// The spec in memory.
    InMemory(ManifestWorkSpec),
    /// The inputs from which the spec is built again. Used if the specs of several copies would need too much memory.
    Rebuildable(Arc<dyn BuildSpec>),
}

/// Builds a spec that is the same at each call.
pub(super) trait BuildSpec: fmt::Debug + Send + Sync {
    /// Builds the spec of the work again.
    ///
    /// # Errors
    ///
    /// Never, if the spec has been built before.
    fn spec(&self) -> Result<ManifestWorkSpec, Problem>;
}

impl PlannedWork {
    fn new(
        controller: &ControllerName,
        name: WorkName,
        purpose: &str,
        annotations: Strings,
        spec: ManifestWorkSpec,
        revision: String,
        bytes: usize,
    ) -> Self {
        let labels = labels(controller, purpose);
        let content = Content::new(&spec, &labels, &annotations);
        Self { name, labels, annotations, body: Body::InMemory(spec), content, revision, bytes }
    }

    /// The work whose spec `recipe` builds for `template`, with the hash, revision and size from an earlier build.
    pub(super) fn rebuildable(
        template: &WorkTemplate<'_>,
        gateways: &[&str],
        recipe: Arc<dyn BuildSpec>,
        (spec, revision, bytes): (Hash, String, usize),
    ) -> Self {
        let labels = labels(template.controller, template.purpose());
        let annotations = template.annotations(gateways);
        let content = Content::with(spec, &labels, &annotations);
        Self {
            name: template.name.clone(),
            labels,
            annotations,
            body: Body::Rebuildable(recipe),
            content,
            revision,
            bytes,
        }
    }

    /// The spec of the work, which is built again if it is not in memory.
    ///
    /// # Errors
    ///
    /// Never, because the spec of a planned work has been built before.
    pub fn spec(&self) -> Result<Cow<'_, ManifestWorkSpec>, Problem> {
        match &self.body {
            Body::InMemory(spec) => Ok(Cow::Borrowed(spec)),
            Body::Rebuildable(recipe) => recipe.spec().map(Cow::Owned),
        }
    }

    /// The spec of the work by value, built again if it is not in memory.
    pub(super) fn into_spec(self) -> Result<ManifestWorkSpec, Problem> {
        match self.body {
            Body::InMemory(spec) => Ok(spec),
            Body::Rebuildable(recipe) => recipe.spec(),
        }
    }

    /// Whether the spec of the work is in memory, so that [`PlannedWork::spec`] is fast.
    #[must_use]
    pub fn is_in_memory(&self) -> bool {
        matches!(self.body, Body::InMemory(_))
    }

    /// The ManifestWork object for `cluster`.
    ///
    /// # Errors
    ///
    /// The errors of [`PlannedWork::spec`].
    pub fn object(&self, cluster: &str) -> Result<Value, Problem> {
        Ok(json!({
            "apiVersion": "work.open-cluster-management.io/v1",
            "kind": "ManifestWork",
            "metadata": {
                "name": self.name.0,
                "namespace": cluster,
                "labels": self.labels,
                "annotations": self.annotations,
            },
            "spec": self.spec()?,
        }))
    }
}

fn labels(controller: &ControllerName, purpose: &str) -> Strings {
    Strings::from([
        (MANAGED_BY.to_owned(), MANAGED_BY_US.to_owned()),
        (CONTROLLER.to_owned(), controller.hash().to_owned()),
        (WORK_FOR.to_owned(), purpose.to_owned()),
    ])
}

/// An object that is written to the spoke before a copy, and deleted with the copy. The object may be a Secret, so it
/// must never be printed.
pub(super) struct Companion {
    pub(super) kind: GroupResource,
    pub(super) object: Value,
}

/// The type of the copied object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CopyOf {
    Gateway,
    Policy,
    Resource,
}

impl From<Role> for CopyOf {
    fn from(role: Role) -> Self {
        match role {
            Role::Policy => Self::Policy,
            Role::Resource => Self::Resource,
        }
    }
}

/// The inputs that the works of one origin have in common.
#[derive(Debug)]
pub(super) struct WorkTemplate<'a> {
    pub(super) controller: &'a ControllerName,
    pub(super) name: &'a WorkName,
    pub(super) origin: &'a Origin,
    pub(super) downstream_namespace: &'a str,
    pub(super) copy_of: CopyOf,
    pub(super) schema: WorkSchema,
}

impl WorkTemplate<'_> {
    /// Builds the work that contains `copy` and `companions` for the hub Gateways `gateways`, with the rules
    /// `feedback` for the copy.
    ///
    /// # Errors
    ///
    /// [`Problem::TooLarge`].
    pub(super) fn build(
        &self,
        copy: Copy,
        companions: Vec<Companion>,
        gateways: &[&str],
        feedback: Feedback,
        conflicts: Conflicts,
    ) -> Result<PlannedWork, Problem> {
        let others = companions.iter().map(|companion| text(&companion.object, "namespace"));
        let others: BTreeSet<&str> = others.filter(|name| *name != self.downstream_namespace).collect();
        let namespaces: Vec<String> =
            [self.downstream_namespace].into_iter().chain(others).map(str::to_owned).collect();
        let orphaned: Vec<ResourceIdentifier> =
            namespaces.iter().map(|name| identifier("", "namespaces", "", name)).collect();
        let (group, resource) = (&self.origin.kind().group, &self.origin.kind().resource);
        let object = identifier(group, resource, self.downstream_namespace, &self.origin.object().name);
        let mut configs: Vec<ManifestConfig> = orphaned.iter().map(|name| self.created_once(name)).collect();
        configs.extend(companions.iter().map(|Companion { kind, object }| {
            let (namespace, name) = (text(object, "namespace"), text(object, "name"));
            self.applied(identifier(&kind.group, &kind.resource, namespace, name), conflicts)
        }));
        configs.push(ManifestConfig {
            feedback_rules: feedback.values,
            feedback_scrape_type: scrape(self.schema, FeedbackScrapeType::Watch),
            condition_rules: if self.schema.condition_rules { feedback.conditions } else { Vec::new() },
            ..self.applied(object, conflicts)
        });
        let namespace =
            |name: &String| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let mut manifests: Vec<Value> = namespaces.iter().map(namespace).collect();
        manifests.extend(companions.into_iter().map(|companion| companion.object));
        manifests.push(copy.object);
        let bytes: usize = manifests.iter().map(length).sum();
        if bytes > SIZE_LIMIT {
            return Err(Problem::TooLarge { bytes, limit: SIZE_LIMIT });
        }
        let spec = ManifestWorkSpec {
            workload: Workload { manifests: manifests.into_iter().map(Manifest).collect() },
            delete_option: Some(DeleteOption {
                propagation_policy: PropagationPolicy::SelectivelyOrphan,
                selectively_orphans: Some(SelectivelyOrphan { orphaning_rules: orphaned }),
            }),
            manifest_configs: configs,
        };
        let (name, annotations) = (self.name.clone(), self.annotations(gateways));
        let (purpose, revision) = (self.purpose(), copy.revision);
        Ok(PlannedWork::new(self.controller, name, purpose, annotations, spec, revision, bytes))
    }

    /// The value of the purpose label.
    fn purpose(&self) -> &'static str {
        match self.copy_of {
            CopyOf::Gateway => "gateway",
            CopyOf::Policy => "policy",
            CopyOf::Resource => "resource",
        }
    }

    /// The annotations of a work for the hub Gateways `gateways`. For a resource, the list of Gateways is empty. The
    /// empty list is written, too, because otherwise a patch would not remove a list that another client added.
    fn annotations(&self, gateways: &[&str]) -> Strings {
        Strings::from([
            (PARENT.to_owned(), self.origin.to_string()),
            (GATEWAYS.to_owned(), json!(gateways).to_string()),
        ])
    }

    /// The rule for an object that the agent creates once and never updates.
    fn created_once(&self, object: &ResourceIdentifier) -> ManifestConfig {
        ManifestConfig {
            resource_identifier: object.clone(),
            update_strategy: Some(UpdateStrategy {
                strategy: UpdateStrategyType::CreateOnly,
                server_side_apply: None,
            }),
            feedback_rules: Vec::new(),
            feedback_scrape_type: scrape(self.schema, FeedbackScrapeType::Poll),
            condition_rules: Vec::new(),
        }
    }

    /// The rule for an object that the agent updates whenever the work changes.
    fn applied(&self, object: ResourceIdentifier, conflicts: Conflicts) -> ManifestConfig {
        ManifestConfig {
            resource_identifier: object,
            update_strategy: Some(server_side_apply(self.controller, conflicts)),
            feedback_rules: Vec::new(),
            feedback_scrape_type: scrape(self.schema, FeedbackScrapeType::Poll),
            condition_rules: Vec::new(),
        }
    }
}

/// A string field of an object's metadata.
fn text<'o>(object: &'o Value, field: &str) -> &'o str {
    object["metadata"][field].as_str().unwrap_or_default()
}

/// The features of the ManifestWork schema. Until they are known, plans assume all features, and no plan is applied.
pub(super) fn schema(view: View<'_>) -> WorkSchema {
    view.work_schema().unwrap_or(WorkSchema::FULL)
}

/// The value of `feedbackScrapeType`, if the hub's ManifestWork schema supports the field.
fn scrape(schema: WorkSchema, wanted: FeedbackScrapeType) -> Option<FeedbackScrapeType> {
    schema.feedback_scrape_type.then_some(wanted)
}

/// The work that grants a cluster's agent access to `kinds`.
pub(super) fn access(
    controller: &ControllerName,
    schema: WorkSchema,
    kinds: impl IntoIterator<Item = GroupResource>,
) -> PlannedWork {
    let role = format!("policy-sync-{}", controller.hash());
    let verbs = ["get", "list", "watch", "create", "update", "patch", "delete"];
    let rules: Vec<Value> = kinds
        .into_iter()
        .map(|kind| json!({"apiGroups": [kind.group], "resources": [kind.resource], "verbs": verbs}))
        .collect();
    let manifest = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {
            "name": role,
            "labels": {
                "open-cluster-management.io/aggregate-to-work": "true",
                annotations::MANAGED_BY: annotations::MANAGED_BY_US,
            },
        },
        "rules": rules,
    });
    let bytes = length(&manifest);
    let spec = ManifestWorkSpec {
        workload: Workload { manifests: vec![Manifest(manifest)] },
        delete_option: Some(DeleteOption {
            propagation_policy: PropagationPolicy::Foreground,
            selectively_orphans: None,
        }),
        manifest_configs: vec![ManifestConfig {
            resource_identifier: identifier("rbac.authorization.k8s.io", "clusterroles", "", &role),
            update_strategy: Some(server_side_apply(controller, Conflicts::Keep)),
            feedback_rules: Vec::new(),
            feedback_scrape_type: scrape(schema, FeedbackScrapeType::Poll),
            condition_rules: Vec::new(),
        }],
    };
    let name = WorkName::access(controller);
    PlannedWork::new(controller, name, "access", Strings::new(), spec, String::new(), bytes)
}

fn server_side_apply(controller: &ControllerName, conflicts: Conflicts) -> UpdateStrategy {
    UpdateStrategy {
        strategy: UpdateStrategyType::ServerSideApply,
        server_side_apply: Some(ServerSideApply {
            force: conflicts == Conflicts::Overwrite,
            field_manager: controller.spoke_field_manager(),
        }),
    }
}

fn identifier(group: &str, resource: &str, namespace: &str, name: &str) -> ResourceIdentifier {
    ResourceIdentifier {
        group: group.to_owned(),
        resource: resource.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}
