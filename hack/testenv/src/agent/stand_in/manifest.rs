//! Properties of a single manifest of a work: its kind, its place in the order, its configuration and its
//! ownership.

use kube::core::{ApiResource, GroupVersionKind};
use policy_sync_api::work::{
    ConditionRule, DeleteOption, FeedbackRule, FeedbackScrapeType, ManifestConfig, ManifestWorkSpec,
    PropagationPolicy, ResourceMeta, UpdateStrategy, UpdateStrategyType,
};
use serde_json::Value;

/// A kind as the spoke serves it.
#[derive(Clone, Debug)]
pub(super) struct Mapping {
    /// The kind with its plural name.
    pub(super) resource: ApiResource,
    /// Whether the kind is namespaced.
    pub(super) namespaced: bool,
}

/// The kind in the manifest's `apiVersion` and `kind`.
pub(super) fn kind_of(manifest: &Value) -> GroupVersionKind {
    let text = |field: &str| manifest.get(field).and_then(Value::as_str).unwrap_or_default();
    let api_version = text("apiVersion");
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    GroupVersionKind::gvk(group, version, text("kind"))
}

/// The manifest's entry in the work's status. Without a mapping, `resource` stays empty.
pub(super) fn meta_of(ordinal: usize, manifest: &Value, mapping: Option<&Mapping>) -> ResourceMeta {
    let kind = kind_of(manifest);
    let text = |field: &str| manifest["metadata"][field].as_str().unwrap_or_default().to_owned();
    let cluster_scoped = mapping.is_some_and(|mapping| !mapping.namespaced);
    ResourceMeta {
        ordinal: i32::try_from(ordinal).unwrap_or(i32::MAX),
        group: kind.group,
        version: kind.version,
        kind: kind.kind,
        resource: mapping.map(|mapping| mapping.resource.plural.clone()).unwrap_or_default(),
        name: text("name"),
        namespace: if cluster_scoped { String::new() } else { text("namespace") },
    }
}

/// Rank of a kind within its work. Kinds that other kinds depend on come first. All other manifests keep their
/// order.
pub(super) fn rank(kind: &str) -> u8 {
    match kind {
        "Namespace" | "CustomResourceDefinition" | "PriorityClass" | "StorageClass" => 0,
        "ClusterRole" | "ClusterRoleBinding" | "Role" | "RoleBinding" => 1,
        "ServiceAccount" | "Secret" | "ConfigMap" | "Service" => 2,
        _ => 3,
    }
}

/// The `manifestConfigs` of a work that match one manifest, combined.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Configuration {
    /// How the manifest is written.
    pub(super) update_strategy: Option<UpdateStrategy>,
    pub(super) feedback_rules: Vec<FeedbackRule>,
    pub(super) condition_rules: Vec<ConditionRule>,
    /// Whether changes of the object are watched instead of polled.
    pub(super) watched: bool,
}

impl Configuration {
    /// Uses the first match with an update strategy, the first with feedback rules, and the first with condition
    /// rules. The last match decides `watched`.
    pub(super) fn new(meta: &ResourceMeta, configs: &[ManifestConfig]) -> Self {
        let mut found = Self::default();
        for config in configs.iter().filter(|config| matches(meta, config)) {
            if found.update_strategy.is_none() {
                found.update_strategy.clone_from(&config.update_strategy);
            }
            if found.feedback_rules.is_empty() {
                found.feedback_rules.clone_from(&config.feedback_rules);
            }
            if found.condition_rules.is_empty() {
                found.condition_rules.clone_from(&config.condition_rules);
            }
            found.watched = config.feedback_scrape_type == Some(FeedbackScrapeType::Watch);
        }
        found
    }

    /// The update strategy, `Update` by default as in OCM.
    pub(super) fn strategy(&self) -> UpdateStrategyType {
        self.update_strategy.as_ref().map_or(UpdateStrategyType::Update, |strategy| strategy.strategy)
    }
}

fn matches(meta: &ResourceMeta, config: &ManifestConfig) -> bool {
    let rule = &config.resource_identifier;
    meta.group == rule.group
        && meta.resource == rule.resource
        && matches_wildcard(&meta.namespace, &rule.namespace)
        && matches_wildcard(&meta.name, &rule.name)
}

/// Whether `text` matches `pattern`, where `*` matches any text.
fn matches_wildcard(text: &str, pattern: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else { return text == pattern };
    let Some(rest) = text.strip_prefix(head) else { return false };
    let mut starts = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
    starts.any(|at| matches_wildcard(&rest[at..], tail))
}

/// Whether the object is deleted with the work.
pub(super) fn owned(meta: &ResourceMeta, delete_option: Option<&DeleteOption>) -> bool {
    let Some(option) = delete_option else { return true };
    match option.propagation_policy {
        PropagationPolicy::Foreground => true,
        PropagationPolicy::Orphan => false,
        PropagationPolicy::SelectivelyOrphan => {
            let rules = option.selectively_orphans.as_ref().map(|orphan| orphan.orphaning_rules.as_slice());
            !rules.unwrap_or_default().iter().any(|rule| {
                rule.group == meta.group
                    && rule.resource == meta.resource
                    && rule.name == meta.name
                    && rule.namespace == meta.namespace
            })
        }
    }
}

/// Indexes of the manifests in the order in which they are applied.
pub(super) fn order(spec: &ManifestWorkSpec) -> Vec<usize> {
    let manifests = &spec.workload.manifests;
    let mut order: Vec<usize> = (0..manifests.len()).collect();
    order.sort_by_key(|&index| rank(&kind_of(&manifests[index].0).kind));
    order
}

#[cfg(test)]
mod tests;
