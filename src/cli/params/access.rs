//! Checks parameters against a hub. Determines whether each kind can be synced, as the controller does, and whether the
//! class of the copies is valid.

use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{DynamicObject, ListParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};

use policy_sync_api::gateway;
use policy_sync_api::names::{ControllerName, GroupVersionResource};
use policy_sync_api::params::{Params, ParamsError, Role};
use policy_sync_controller::sync::definitions::resolve_for;
use policy_sync_hub::{HubClient, HubError};
use policy_sync_sync::kinds::REQUIRED;
use policy_sync_sync::rows::kind::Resolution;

/// Checks parameters with the rights of one user.
pub(super) struct AccessReviewer {
    hub: HubClient,
    /// The user whose rights are checked.
    pub(super) user: String,
}

impl AccessReviewer {
    /// Determines the user, and checks that the hub serves the required APIs.
    ///
    /// # Errors
    ///
    /// If the hub cannot be reached, or is no hub.
    pub(super) async fn new(hub: HubClient) -> anyhow::Result<Self> {
        hub.has(&REQUIRED).await?;
        let reviews: Api<SelfSubjectReview> = Api::all(hub.client().clone());
        let user = match reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await {
            Ok(review) => review.status.and_then(|status| status.user_info?.username),
            // Kubernetes before 1.28 lacks SelfSubjectReview.
            Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => None,
            Err(error) => return Err(hub.failure("identify the user", &error).into()),
        };
        let reviewer = Self { user: user.unwrap_or_else(|| "the current user".into()), hub };
        // No kind can be resolved if CustomResourceDefinitions are unavailable.
        let definitions: Api<CustomResourceDefinition> = Api::all(reviewer.hub.client().clone());
        match definitions.list_metadata(&ListParams::default().limit(1)).await {
            Err(error @ kube::Error::Api(_)) => {
                let failure = reviewer.hub.failure("read CustomResourceDefinitions", &error);
                if failure.is_forbidden() { Ok(reviewer) } else { Err(failure.into()) }
            }
            _ => Ok(reviewer),
        }
    }

    /// Whether `gvr`, which parameters list under `role`, can be synced with the rights of this user.
    pub(super) async fn resolve(&self, role: Role, gvr: &GroupVersionResource) -> Resolution {
        resolve_for(self.hub.client(), role, gvr, &self.user).await
    }

    /// The fault of `downstreamClass` on this hub, or why it is unknown.
    ///
    /// # Errors
    ///
    /// If the hub cannot be reached.
    pub(super) async fn class_fault(
        &self,
        params: &Params,
        controller: &ControllerName,
    ) -> anyhow::Result<ClassFault> {
        let kind = GroupVersionKind::gvk(gateway::GROUP, "v1", "GatewayClass");
        let resource = ApiResource::from_gvk_with_plural(&kind, "gatewayclasses");
        let classes: Api<DynamicObject> = Api::all_with(self.hub.client().clone(), &resource);
        let name = &params.downstream_class;
        let class = match classes.get(name).await {
            Ok(class) => class,
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(ClassFault::None),
            Err(error) => {
                let failure = self.hub.failure(&format!("read GatewayClass {name}"), &error);
                return if failure.is_forbidden() {
                    Ok(ClassFault::Unchecked(failure))
                } else {
                    Err(failure.into())
                };
            }
        };
        if class.data["spec"]["controllerName"] != controller.as_str() {
            return Ok(ClassFault::None);
        }
        Ok(ClassFault::Invalid(ParamsError {
            place: "downstreamClass".into(),
            fault: format!(
                "{name:?} is itself a class of {} on this hub: copies would be copied again",
                controller.as_str()
            ),
        }))
    }
}

/// The result of checking the class of the copies.
pub(super) enum ClassFault {
    /// The class is valid.
    None,
    /// The class is invalid.
    Invalid(ParamsError),
    /// The class was not checked, because the user lacks this right.
    Unchecked(HubError),
}
