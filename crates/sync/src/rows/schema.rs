//! Detects the features of the hub's ManifestWork schema: older versions of Open Cluster Management lack some fields.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray,
};

use policy_sync_mirror::Row;

/// The fields that plans write and that the served ManifestWork version may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkSchema {
    /// The update strategy `ServerSideApply`. Without it, a copy would overwrite existing objects of the spoke's
    /// users.
    pub server_side_apply: bool,
    /// The update strategy `CreateOnly`. Without it, this controller would take over existing namespaces.
    pub create_only: bool,
    /// `feedbackScrapeType`. Without it, reports arrive up to a minute later.
    pub feedback_scrape_type: bool,
    /// `conditionRules` with messages. Without it, policies with a status for each ancestor report nothing.
    pub condition_rules: bool,
}

impl WorkSchema {
    /// A schema with all features.
    pub const FULL: Self = Self {
        server_side_apply: true,
        create_only: true,
        feedback_scrape_type: true,
        condition_rules: true,
    };

    /// The features of the version `v1` in the definition of ManifestWork.
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
            // A schema without an enumeration permits any strategy, so the strategy counts as supported.
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

    /// The missing feature that makes syncing impossible, as a message.
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
