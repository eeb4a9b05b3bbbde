//! What the hub's ManifestWork can say: older versions of Open Cluster Management lack some of its fields.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray,
};

use policy_sync_mirror::Row;

/// Which of the fields that plans write the served ManifestWork has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkSchema {
    /// The update strategy `ServerSideApply`, without which a copy would overwrite what the spoke's people made.
    pub server_side_apply: bool,
    /// The update strategy `CreateOnly`, without which a namespace would be ours.
    pub create_only: bool,
    /// `feedbackScrapeType`, without which answers take up to a minute longer.
    pub feedback_scrape_type: bool,
    /// `conditionRules` with messages, without which nothing comes back of policies that answer for each ancestor.
    pub condition_rules: bool,
}

impl WorkSchema {
    /// A schema with everything.
    pub const FULL: Self = Self {
        server_side_apply: true,
        create_only: true,
        feedback_scrape_type: true,
        condition_rules: true,
    };

    /// What the definition of ManifestWork serves as `v1`.
    #[must_use]
    pub fn new(definition: &CustomResourceDefinition) -> Self {
        let version = definition.spec.versions.iter().find(|version| version.name == "v1" && version.served);
        let root = version.and_then(|version| version.schema.as_ref()?.open_api_v3_schema.as_ref());
        let config = root
            .and_then(|root| property(root, "spec"))
            .and_then(|spec| property(spec, "manifestConfigs"))
            .and_then(items);
        let strategy = config.and_then(|config| property(config, "updateStrategy"));
        let rule = config.and_then(|config| property(config, "conditionRules")).and_then(items);
        let has = |name: &str| {
            let types = strategy.and_then(|strategy| property(strategy, "type"));
            // Without an enumeration any strategy is stored; the agent has the last word.
            types.is_some_and(|types| {
                types.enum_.as_ref().is_none_or(|names| names.iter().any(|n| n.0 == name))
            })
        };
        Self {
            server_side_apply: has("ServerSideApply")
                && strategy.is_some_and(|strategy| property(strategy, "serverSideApply").is_some()),
            create_only: has("CreateOnly"),
            feedback_scrape_type: config
                .is_some_and(|config| property(config, "feedbackScrapeType").is_some()),
            condition_rules: rule.is_some_and(|rule| property(rule, "messageExpression").is_some()),
        }
    }

    /// What it lacks without which nothing can be synced.
    #[must_use]
    pub fn fault(&self) -> Option<&'static str> {
        if !self.server_side_apply {
            Some(
                "the hub's ManifestWork has no update strategy ServerSideApply: update Open Cluster Management",
            )
        } else if !self.create_only {
            Some("the hub's ManifestWork has no update strategy CreateOnly: update Open Cluster Management")
        } else {
            None
        }
    }
}

fn property<'s>(schema: &'s JSONSchemaProps, name: &str) -> Option<&'s JSONSchemaProps> {
    schema.properties.as_ref()?.get(name)
}

fn items(schema: &JSONSchemaProps) -> Option<&JSONSchemaProps> {
    match schema.items.as_ref()? {
        JSONSchemaPropsOrArray::Schema(schema) => Some(schema),
        JSONSchemaPropsOrArray::Schemas(_) => None,
    }
}

impl Row for WorkSchema {}
