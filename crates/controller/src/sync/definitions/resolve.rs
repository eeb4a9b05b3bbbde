//! Checks whether a kind in the parameters can be synced. The kind must exist and be namespaced. A policy kind must
//! have a target reference. The controller must be allowed to read the kind. Without permission to patch the kind, it
//! is synced without annotations.

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
use kube::{Api, Client};

use policy_sync_api::names::GroupVersionResource;
use policy_sync_api::params::Role;
use policy_sync_api::text::with_causes;
use policy_sync_hub::discover_resource;
use policy_sync_hub::watch::with_response_timeout;
use policy_sync_sync::rows::kind::{KindInfo, Resolution, defined, discovered, not_syncable};
use policy_sync_sync::rows::schema::WorkSchema;

/// The subject of messages about missing permissions.
pub(super) const CONTROLLER: &str = "the controller";
/// The verbs without which a kind cannot be synced.
const REQUIRED_VERBS: [&str; 3] = ["get", "list", "watch"];

/// Resolves `gvr`, listed in the parameters for `role`, from its CustomResourceDefinition and the controller's
/// permissions.
pub(super) async fn resolve(client: &Client, role: Role, gvr: &GroupVersionResource) -> Resolution {
    resolve_for(client, role, gvr, CONTROLLER).await
}

/// Resolves `gvr`, listed in the parameters for `role`, from its CustomResourceDefinition and the permissions of the
/// user of `client`. Messages refer to that user as `who`.
pub async fn resolve_for(client: &Client, role: Role, gvr: &GroupVersionResource, who: &str) -> Resolution {
    if role == Role::Resource
        && let Some(fault) = not_syncable(&gvr.kind)
    {
        return Resolution::NotSyncable(fault.to_owned());
    }
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let definition = match with_response_timeout(definitions.get_opt(&gvr.kind.to_string())).await {
        Ok(definition) => definition,
        Err(kube::Error::Api(status)) if status.code == 403 => {
            return Resolution::Forbidden(status.message.clone());
        }
        Err(error) => return Resolution::Unknown(with_causes(&error)),
    };
    match describe_kind(client, definition.as_ref(), role, gvr).await {
        Ok(info) => check_permissions(client, gvr, info, who).await,
        Err(resolution) => resolution,
    }
}

/// Resolves `gvr`, described by `info`, from the current permissions of `who`, the user of `client`.
pub(super) async fn check_permissions(
    client: &Client,
    gvr: &GroupVersionResource,
    info: KindInfo,
    who: &str,
) -> Resolution {
    for verb in REQUIRED_VERBS {
        match allowed(client, gvr, verb).await {
            Ok(true) => {}
            Ok(false) => return Resolution::Forbidden(format!("{who} may not {verb} it")),
            Err(error) => return Resolution::Unknown(with_causes(&error)),
        }
    }
    match allowed(client, gvr, "patch").await {
        Ok(can_patch) => Resolution::Resolved(KindInfo { can_patch, ..info }),
        Err(error) => Resolution::Unknown(with_causes(&error)),
    }
}

/// Describes the kind of `gvr`, listed for `role`. Permissions are not checked. If there is no `definition`, API
/// discovery describes a resource kind, and a policy kind counts as deleted.
///
/// # Errors
///
/// The [`Resolution`] of a kind that cannot be synced.
pub(crate) async fn describe_kind(
    client: &Client,
    definition: Option<&CustomResourceDefinition>,
    role: Role,
    gvr: &GroupVersionResource,
) -> Result<KindInfo, Resolution> {
    match (definition, role) {
        (Some(definition), _) => defined(definition, gvr, role),
        (None, Role::Policy) => Err(Resolution::Gone),
        (None, Role::Resource) => match discover_resource(client, gvr).await {
            Ok(found) => discovered(found),
            Err(error) => Err(Resolution::Unknown(with_causes(&error))),
        },
    }
}

/// Reads which fields the ManifestWork of the CustomResourceDefinition `name` supports.
pub(super) async fn work_schema(client: &Client, name: &str) -> Result<WorkSchema, kube::Error> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    Ok(WorkSchema::new(&with_response_timeout(definitions.get(name)).await?))
}

async fn allowed(client: &Client, gvr: &GroupVersionResource, verb: &str) -> Result<bool, kube::Error> {
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                group: Some(gvr.kind.group.to_string()),
                resource: Some(gvr.kind.resource.to_string()),
                verb: Some(verb.to_owned()),
                ..ResourceAttributes::default()
            }),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let response = with_response_timeout(reviews.create(&PostParams::default(), &review)).await?;
    Ok(response.status.is_some_and(|status| status.allowed))
}
