//! ManifestWork of Open Cluster Management, limited to the fields in use.
//!
//! These types also generate the CRD of the test environment, so defaults and list types must equal those of the
//! [published API](https://github.com/open-cluster-management-io/api/blob/main/work/v1/types.go).

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::secret;

/// The API group of works.
pub const GROUP: &str = "work.open-cluster-management.io";
/// The finalizer with which the agent keeps a work until its manifests are removed from the spoke.
pub const CLEANUP_FINALIZER: &str = "cluster.open-cluster-management.io/manifest-work-cleanup";

/// The objects for one cluster, and the feedback to return.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "work.open-cluster-management.io",
    version = "v1",
    kind = "ManifestWork",
    namespaced,
    status = "ManifestWorkStatus",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct ManifestWorkSpec {
    /// The objects for the spoke.
    #[serde(default)]
    #[schemars(transform = without_default)]
    pub workload: Workload,
    /// What happens to the objects when the work is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete_option: Option<DeleteOption>,
    /// How each object is applied, and its feedback.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub manifest_configs: Vec<ManifestConfig>,
}

/// The objects of a work.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Workload {
    /// Whole Kubernetes objects.
    #[serde(default)]
    #[schemars(transform = without_default)]
    pub manifests: Vec<Manifest>,
}

/// One whole Kubernetes object.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(extend("type" = "object", "x-kubernetes-embedded-resource" = true, "x-kubernetes-preserve-unknown-fields" = true))]
pub struct Manifest(pub Value);

/// Hides the values of Secrets.
impl fmt::Debug for Manifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut object = self.0.clone();
        secret::redact(&mut object);
        f.debug_tuple("Manifest").field(&object).finish()
    }
}

/// What happens to the objects when the work is deleted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeleteOption {
    /// Which objects remain on the spoke.
    #[serde(default)]
    #[schemars(default = "propagation_policy_default")]
    pub propagation_policy: PropagationPolicy,
    /// The objects that remain, for [`PropagationPolicy::SelectivelyOrphan`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selectively_orphans: Option<SelectivelyOrphan>,
}

fn propagation_policy_default() -> PropagationPolicy {
    PropagationPolicy::Foreground
}

/// Which objects remain on the spoke when their work is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PropagationPolicy {
    /// No objects.
    #[default]
    Foreground,
    /// All objects.
    Orphan,
    /// The objects in [`SelectivelyOrphan`].
    SelectivelyOrphan,
}

/// The objects that remain on the spoke.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SelectivelyOrphan {
    /// One rule per object.
    #[serde(default)]
    #[schemars(transform = without_default)]
    pub orphaning_rules: Vec<ResourceIdentifier>,
}

/// An object of a work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceIdentifier {
    /// The API group; empty for the core group.
    #[serde(default)]
    #[schemars(transform = without_default)]
    pub group: String,
    /// The plural.
    pub resource: String,
    /// The object's name.
    pub name: String,
    /// The object's namespace; empty for a cluster-scoped object.
    #[serde(default)]
    #[schemars(transform = without_default)]
    pub namespace: String,
}

pub(super) fn without_default(schema: &mut schemars::Schema) {
    schema.remove("default");
}

/// How one object is applied, and its feedback.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestConfig {
    /// The object.
    pub resource_identifier: ResourceIdentifier,
    /// How the object is applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_strategy: Option<UpdateStrategy>,
    /// The fields to return as feedback.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub feedback_rules: Vec<FeedbackRule>,
    /// Whether the agent polls or watches the object. Older versions of OCM lack the field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "Poll"))]
    pub feedback_scrape_type: Option<FeedbackScrapeType>,
    /// Conditions that the agent computes from the object.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["condition"]))]
    pub condition_rules: Vec<ConditionRule>,
}

/// How an object is applied on the spoke.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdateStrategy {
    /// The method.
    #[serde(rename = "type")]
    #[schemars(default = "update_strategy_default")]
    pub strategy: UpdateStrategyType,
    /// Options of [`UpdateStrategyType::ServerSideApply`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_side_apply: Option<ServerSideApply>,
}

fn update_strategy_default() -> UpdateStrategyType {
    UpdateStrategyType::Update
}

/// The methods by which an agent applies an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UpdateStrategyType {
    /// Read, then replace the object.
    #[default]
    Update,
    /// Create the object, and never update it.
    CreateOnly,
    /// Server-side apply.
    ServerSideApply,
    /// Read the object for feedback only.
    ReadOnly,
}

/// Options of server-side apply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerSideApply {
    /// Whether conflicts with other field managers are overridden.
    #[serde(default)]
    #[schemars(transform = without_default)]
    pub force: bool,
    /// The field manager, which must start with `work-agent`.
    #[serde(default = "field_manager_default")]
    #[schemars(regex(pattern = "^work-agent"))]
    pub field_manager: String,
}

fn field_manager_default() -> String {
    "work-agent".into()
}

/// Fields to return as feedback.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FeedbackRule {
    /// The type of the rule.
    #[serde(rename = "type")]
    pub rule: FeedbackRuleType,
    /// The paths, for [`FeedbackRuleType::JSONPaths`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub json_paths: Vec<JsonPath>,
}

/// The kinds of feedback rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(clippy::upper_case_acronyms)]
pub enum FeedbackRuleType {
    /// The agent's built-in fields for well-known kinds.
    WellKnownStatus,
    /// The fields at the given paths.
    JSONPaths,
}

/// A named path in the object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JsonPath {
    /// The value's name, unique within a manifest.
    pub name: String,
    /// The path, in kubectl's JSONPath syntax.
    pub path: String,
}

/// Whether the agent polls or watches an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FeedbackScrapeType {
    /// The agent reads the object every 10 to 19 seconds or more.
    #[default]
    Poll,
    /// The agent watches the object.
    Watch,
}

/// A condition that the agent computes from the object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{"rule": "self.type != 'CEL' || self.condition != \"\"", "message": "condition is required for CEL rules"}]))]
pub struct ConditionRule {
    /// The condition's type.
    pub condition: String,
    /// The type of the rule.
    #[serde(rename = "type")]
    pub rule: ConditionRuleType,
    /// Expressions that must all be true.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cel_expressions: Vec<String>,
    /// An expression for the condition's message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_expression: Option<String>,
}

/// The kinds of condition rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(clippy::upper_case_acronyms)]
pub enum ConditionRuleType {
    /// The agent's built-in conditions for well-known kinds.
    WellKnownConditions,
    /// CEL expressions.
    CEL,
}

/// The status of a work, as the agent reports it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestWorkStatus {
    /// `Applied`, `Available`, `Deleting`, and the conditions that condition rules define.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]), transform = without_default)]
    pub conditions: Vec<Condition>,
    /// The status of the objects.
    #[serde(default)]
    #[schemars(transform = without_default)]
    pub resource_status: ResourceStatus,
}

/// The status of a work's objects.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceStatus {
    /// One entry per object.
    #[serde(default)]
    #[schemars(transform = without_default)]
    pub manifests: Vec<ManifestStatus>,
}

/// The status of an object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestStatus {
    /// The object.
    pub resource_meta: ResourceMeta,
    /// The values of the feedback rules.
    #[serde(default)]
    #[schemars(transform = without_default)]
    pub status_feedback: StatusFeedback,
    /// `Applied`, `Available`, `StatusFeedbackSynced`, and the conditions that condition rules define.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// An object of a work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = optional_strings)]
pub struct ResourceMeta {
    /// The index of the object in the work.
    pub ordinal: i32,
    /// API group.
    #[serde(default)]
    pub group: String,
    /// API version.
    #[serde(default)]
    pub version: String,
    /// Kind.
    #[serde(default)]
    pub kind: String,
    /// Plural name of the kind.
    #[serde(default)]
    pub resource: String,
    /// Name.
    #[serde(default)]
    pub name: String,
    /// Namespace.
    #[serde(default)]
    pub namespace: String,
}

fn optional_strings(schema: &mut schemars::Schema) {
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        for property in properties.values_mut().filter_map(Value::as_object_mut) {
            property.remove("default");
        }
    }
}

/// The values of feedback rules.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StatusFeedback {
    /// One entry for each path that has a value.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]), transform = without_default)]
    pub values: Vec<FeedbackValue>,
}

/// A value of a feedback rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FeedbackValue {
    /// The path's name.
    pub name: String,
    /// The value.
    pub field_value: FieldValue,
}

/// A value with its type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FieldValue {
    /// Which of the other fields is set.
    #[serde(rename = "type")]
    pub value_type: FieldValueType,
    /// An integer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub integer: Option<i64>,
    /// A string of any length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub string: Option<String>,
    /// A boolean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boolean: Option<bool>,
    /// JSON text of at most 1,024 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub json_raw: Option<String>,
}

/// The types of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FieldValueType {
    /// [`FieldValue::integer`].
    Integer,
    /// [`FieldValue::string`].
    String,
    /// [`FieldValue::boolean`].
    Boolean,
    /// [`FieldValue::json_raw`].
    JsonRaw,
}
