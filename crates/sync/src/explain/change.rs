//! Lists, for each problem, the objects to change.

use std::collections::BTreeSet;

use super::Explainer;
use crate::Problem;
use crate::problem::{PausedObject, SecretFault};
use crate::rows::kind::Resolution;
use policy_sync_api::annotations::{CLUSTER_OVERRIDES, GRACE_TIMEOUT, PAUSED, REPLICA_PREFERENCES};
use policy_sync_api::names::{GroupVersionResource, ObjectKey};
use policy_sync_api::params::KEY;

impl Explainer<'_> {
    /// The object and field that contain the parameters of the class `name`.
    pub(super) fn parameters(&self, name: &str) -> String {
        let class = self.view.class(&ObjectKey::new("", name));
        match class.map(crate::rows::class::Class::config_map) {
            Some(Ok(Some(config_map))) => format!("ConfigMap {config_map} key {KEY}"),
            _ => format!("GatewayClass {name} spec.parametersRef"),
        }
    }

    /// The classes of this controller that list the kind.
    pub(super) fn listing_classes(&self) -> impl Iterator<Item = &ObjectKey> {
        self.view.our_classes().into_keys().filter(|class| !self.listed_by(&class.name).is_empty())
    }

    /// The versions of the kind that these classes list.
    pub(super) fn listing_gvrs(&self) -> BTreeSet<GroupVersionResource> {
        self.view.our_classes().keys().flat_map(|class| self.listed_by(&class.name)).collect()
    }

    fn listed_by(&self, class: &str) -> Vec<GroupVersionResource> {
        let params = self.view.class_params(class);
        let known = params.iter().filter_map(|params| params.known());
        let listed = known.flat_map(|params| params.listed(self.role));
        listed.filter(|gvr| gvr.kind == *self.origin.kind()).collect()
    }

    /// Whether the controller lacks a permission on the kind.
    fn is_forbidden(&self, gvr: &GroupVersionResource) -> bool {
        self.view.kind(gvr).is_some_and(|state| matches!(state.resolution, Resolution::Forbidden(_)))
    }

    /// The objects to change to solve `problem`.
    pub(super) fn changes_to_resolve(&self, problem: &Problem) -> Vec<String> {
        let regarding = &self.regarding;
        let annotation = |key: &str| vec![format!("{regarding} annotation {key}")];
        let parameters = || self.listing_classes().map(|class| self.parameters(&class.name));
        match problem {
            Problem::BadSelector { annotation: key, .. } => annotation(key),
            Problem::BadOverrides { .. } => annotation(CLUSTER_OVERRIDES),
            Problem::BadPreferences { .. } | Problem::NoReplicas | Problem::ReplicasLeftOut { .. } => {
                annotation(REPLICA_PREFERENCES)
            }
            Problem::BadGraceTimeout { .. } | Problem::GraceTooLong { .. } => annotation(GRACE_TIMEOUT),
            Problem::Paused(of) | Problem::BadPaused { of, .. } => vec![match of {
                PausedObject::Itself => format!("{regarding} annotation {PAUSED}"),
                PausedObject::Class(_) | PausedObject::Cluster(_) => format!("{of} annotation {PAUSED}"),
            }],
            Problem::DownstreamNamespace { namespace, .. } => vec![
                format!("Namespace {namespace}"),
                "the controller's --downstream-namespace-prefix or --reserved-namespaces".to_owned(),
            ],
            Problem::VersionConflict { .. } => parameters().collect(),
            Problem::ClassGone(class) => vec![format!("GatewayClass {class}")],
            Problem::KindNotResolved { gvr, .. } if self.is_forbidden(gvr) => {
                vec![format!("the controller's rights to get, list, watch and patch {}", gvr.kind)]
            }
            Problem::SecretsUnread { what, .. } => {
                vec![format!("the controller's rights to list and watch {what}")]
            }
            Problem::KindNotResolved { gvr, .. } => {
                [format!("CustomResourceDefinition {}", gvr.kind)].into_iter().chain(parameters()).collect()
            }
            Problem::InvalidParameters { class, .. } => vec![self.parameters(class)],
            Problem::ParametersUnread { class, .. } => {
                let right = "the controller's right to get, list and watch it".to_owned();
                vec![self.parameters(class), right]
            }
            Problem::BadReference { place, .. } => vec![format!("{regarding} spec.{place}")],
            Problem::ForeignReference(_) => vec![format!("{regarding} spec.targetRef")],
            Problem::ForeignWork { cluster, name } => vec![format!("ManifestWork {cluster}/{name}")],
            Problem::PoliciesPending => {
                let gateway = self.view.gateway(self.origin.object());
                let class = gateway.map(|gateway| self.parameters(&gateway.class));
                class.map(|place| format!("{place} policyWaitAction")).into_iter().collect()
            }
            Problem::OutOfOrder { other, is_older, .. } => {
                vec![if *is_older { regarding.to_owned() } else { format!("{} {other}", self.kind) }]
            }
            Problem::SecretLeftOut { secret, fault, .. } => {
                let spec = format!("{regarding} spec.listeners");
                match fault {
                    SecretFault::Missing => vec![format!("Secret {secret}"), spec],
                    SecretFault::NotGranted => {
                        vec![format!("a ReferenceGrant in the namespace of Secret {secret}"), spec]
                    }
                    SecretFault::Namespace => vec![spec],
                }
            }
            Problem::MoreSecretsLeftOut(_) => vec![format!("{regarding} spec.listeners")],
            Problem::Unread(_) => Vec::new(),
            // The remaining problems concern the object itself.
            Problem::BadSpec(_)
            | Problem::TooLarge { .. }
            | Problem::CopiesTooLarge { .. }
            | Problem::OtherController(_) => {
                vec![format!("{regarding} spec")]
            }
        }
    }
}
