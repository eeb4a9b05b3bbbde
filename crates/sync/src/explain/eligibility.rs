//! Explains whether a kind is synced, whether this controller serves a Gateway, and which problems freeze an object.

use super::{DecisionStep, Explainer, Reason};
use crate::Problem;
use crate::desired::eligibility::{GatewayEligibility, KindEligibility, not_in_role, of_gateway, of_kind};
use crate::problem::PARAMETERS_UNREAD;
use crate::rows::kind::Resolution;
use policy_sync_api::names::ObjectKey;

impl Explainer<'_> {
    pub(super) fn gateway_steps(&self, key: &ObjectKey) -> Vec<DecisionStep> {
        let mut steps = vec![self.gateway(key, &of_gateway(self.view, key), "it is a Gateway")];
        steps.extend(self.problems());
        steps
    }

    /// The steps for the problems of the object: those that freeze it, and warnings.
    pub(super) fn problems(&self) -> impl Iterator<Item = DecisionStep> {
        // `PoliciesPending` is explained for each cluster instead.
        let problems = self.plan.problems.iter().filter(|problem| **problem != Problem::PoliciesPending);
        problems.map(|problem| {
            let reason =
                Reason::new(problem.category(), problem.text()).changes(self.changes_to_resolve(problem));
            DecisionStep { passes: !problem.freezes(), reason }
        })
    }

    /// Whether the object's kind is synced.
    pub(super) fn kind(&self) -> DecisionStep {
        let kind = self.origin.kind();
        let classes = self.view.our_classes();
        match of_kind(self.view, kind) {
            KindEligibility::Listed(gvr, info) => {
                let names: Vec<&str> = self.listing_classes().map(|class| &*class.name).collect();
                let text = format!("GatewayClass {} lists {}", names.join(", "), gvr.kind);
                if info.can_patch {
                    return DecisionStep::passes(Reason::new("KindListed", text));
                }
                let text = format!(
                    "{text}; the controller has no right to patch it, so it cannot write annotations to it"
                );
                let reason = Reason::new("KindListed", text);
                DecisionStep::passes(reason.change(format!("the controller's right to patch {}", gvr.kind)))
            }
            KindEligibility::Frozen(problem, _) => {
                let text = format!("its kind cannot be synced at present: {}", problem.text());
                DecisionStep::stops(
                    Reason::new("KindFrozen", text).changes(self.changes_to_resolve(&problem)),
                )
            }
            KindEligibility::Unlisted if let Some(fault) = not_in_role(self.view, self.role, kind) => {
                let text = format!("its kind is not synced: {fault}");
                DecisionStep::stops(Reason::new("KindNotSyncable", text).changes(self.of_parameters()))
            }
            KindEligibility::Unlisted if classes.is_empty() => {
                let text = format!(
                    "no GatewayClass of the hub has the controllerName {}",
                    self.view.controller().as_str()
                );
                DecisionStep::stops(Reason::new("NoClass", text).change("GatewayClass spec.controllerName"))
            }
            KindEligibility::Unlisted if self.is_gone() => {
                let text = format!("the hub has no CustomResourceDefinition {kind}");
                let reason = Reason::new("KindGone", text);
                DecisionStep::stops(reason.change(format!("CustomResourceDefinition {kind}")))
            }
            KindEligibility::Unlisted => {
                let text = format!("no GatewayClass of this controller lists its kind, {kind}");
                let places = classes.keys().map(|class| self.parameters(&class.name));
                DecisionStep::stops(Reason::new("KindNotListed", text).changes(places))
            }
        }
    }

    /// The message of the class `name` if the controller cannot read its parameters.
    fn unread(&self, name: &str) -> Option<String> {
        let class = self.view.class(&ObjectKey::new("", name))?;
        let unread = class.conditions.iter().find(|condition| condition.reason == PARAMETERS_UNREAD)?;
        Some(unread.message.clone())
    }

    /// Whether a class lists the object's kind, but its CustomResourceDefinition was deleted.
    fn is_gone(&self) -> bool {
        let states = self.listing_gvrs();
        states.iter().any(|gvr| self.view.kind(gvr).is_some_and(|state| state.resolution == Resolution::Gone))
    }

    /// Whether this controller serves the Gateway `key`. `is` begins the sentence, such as `it targets Gateway
    /// shop/web`.
    pub(super) fn gateway(
        &self,
        key: &ObjectKey,
        eligibility: &GatewayEligibility,
        is: &str,
    ) -> DecisionStep {
        let Some(gateway) = self.view.gateway(key) else {
            let reason = Reason::new("NoGateway", format!("{is}, which does not exist"));
            let reference =
                (self.origin.as_gateway().is_none()).then(|| format!("{} spec.targetRef", self.regarding));
            return DecisionStep::stops(reason.change(format!("Gateway {key}")).changes(reference));
        };
        let class = &gateway.class;
        match eligibility {
            GatewayEligibility::Ours(_) if let Some(fault) = self.unread(class) => {
                // The user of this command may be permitted to read parameters that the controller may not read.
                let text =
                    format!("{is} of GatewayClass {class}, which the controller cannot serve: {fault}");
                let problem = Problem::ParametersUnread { class: class.to_string(), fault };
                DecisionStep::stops(
                    Reason::new(problem.category(), text).changes(self.changes_to_resolve(&problem)),
                )
            }
            GatewayEligibility::Ours(_) => {
                let number = self.gateways.get(key).map_or(0, |target| target.placed.clusters.len());
                let text = match gateway.placement() {
                    Some(name) => format!(
                        "{is} of GatewayClass {class}, which Placement {}/{name} places on {}",
                        key.namespace,
                        clusters(number)
                    ),
                    None => format!("{is} of GatewayClass {class}, which names no Placement"),
                };
                DecisionStep::passes(Reason::new("Ours", text))
            }
            GatewayEligibility::Frozen(problem) => {
                let text = format!("{is} of GatewayClass {class}, which is frozen: {}", problem.text());
                DecisionStep::stops(Reason::new("Frozen", text).changes(self.changes_to_resolve(problem)))
            }
            GatewayEligibility::NotOurs if gateway.deleting => {
                let text = format!("{is}, which is being deleted");
                DecisionStep::stops(Reason::new("GatewayDeleting", text).change(format!("Gateway {key}")))
            }
            GatewayEligibility::NotOurs => {
                let of_class = format!("GatewayClass {class}");
                let of_gateway = format!("Gateway {key} spec.gatewayClassName");
                let row = self.view.class(&ObjectKey::new("", class));
                DecisionStep::stops(match row {
                    None => {
                        let text = format!("{is} of {of_class}, which does not exist");
                        Reason::new("ClassMissing", text).change(of_class).change(of_gateway)
                    }
                    Some(row) if self.view.class_params(class).is_none() => {
                        let text = format!(
                            "{is} of {of_class}, which belongs to another controller: its controllerName is {}, not {}",
                            row.controller_name,
                            self.view.controller().as_str()
                        );
                        Reason::new("ClassNotOurs", text).change(of_gateway).change(of_class)
                    }
                    Some(_) => {
                        let kind = self.origin.kind();
                        let text = format!("{is} of {of_class}, whose parameters do not list {kind}");
                        Reason::new("KindNotListed", text).change(self.parameters(class)).change(of_gateway)
                    }
                })
            }
        }
    }
}

fn clusters(number: usize) -> String {
    if number == 1 { "1 cluster".to_owned() } else { format!("{number} clusters") }
}
