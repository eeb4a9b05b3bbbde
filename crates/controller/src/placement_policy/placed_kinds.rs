//! Decides which objects placement policies apply to.

use std::collections::BTreeSet;

use regorus::Value;

use policy_sync_api::names::GroupResource;
use policy_sync_rego::exemptions::Exemptions;
use policy_sync_sync::desired::covered::ControllerScope;

/// The name under which placement policies request replicated objects from the loader.
pub(super) const COMPONENT: &str = "placement";

/// The kinds that placement policies apply to. If the parameters of a class cannot be read, the result includes the
/// kinds covered `before`, because the class may still list them.
#[must_use]
pub(super) fn kinds(covered: &ControllerScope, before: &BTreeSet<GroupResource>) -> BTreeSet<GroupResource> {
    let mut kinds = covered.kinds.clone();
    if !covered.classes.is_empty() {
        kinds.insert(GroupResource::gateways());
    }
    if !covered.is_whole {
        kinds.extend(before.iter().filter(|kind| **kind != GroupResource::namespaces()).cloned());
    }
    kinds
}

/// Whether placement policies apply to `object` of `kind` in `namespace`. Placement policies apply to the objects that
/// the webhook reviews, except terminating objects.
#[must_use]
pub(super) fn is_placed(
    covered: &ControllerScope,
    exemptions: &Exemptions,
    kind: &GroupResource,
    object: &Value,
    namespace: &Value,
) -> bool {
    let class = || object["spec"]["gatewayClassName"].as_string().cloned().unwrap_or_else(|_| "".into());
    let name = namespace["metadata"]["name"].as_string().cloned().unwrap_or_else(|_| "".into());
    // A terminating object has no copies on spokes, so its placement no longer matters.
    let is_going = object["metadata"]["deletionTimestamp"] != Value::Undefined;
    let is_ours = *kind != GroupResource::gateways() || covered.classes.contains(&*class());
    !is_going && is_ours && !exemptions.names(&name) && !Exemptions::is_ignored(namespace)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_covered_by_the_webhook_are_placed() {
        let covered = ControllerScope {
            classes: BTreeSet::from(["ours".into()]),
            is_whole: true,
            ..ControllerScope::default()
        };
        let exemptions = Exemptions::new(["kube-*".to_owned()]);
        let placed = |kind: &GroupResource, object: serde_json::Value, namespace: serde_json::Value| {
            is_placed(&covered, &exemptions, kind, &object.into(), &namespace.into())
        };
        let namespace =
            |name: &str, labels: serde_json::Value| json!({"metadata": {"name": name, "labels": labels}});
        let (apps, shop) = (GroupResource::new("apps", "deployments"), namespace("shop", json!({})));
        let app = json!({"metadata": {"name": "app"}});
        assert!(placed(&apps, app.clone(), shop.clone()));
        assert!(!placed(&apps, app.clone(), namespace("kube-system", json!({}))));
        let ignored = namespace("shop", json!({"openpolicyagent.org/webhook": "ignore"}));
        assert!(!placed(&apps, app, ignored));
        let going = json!({"metadata": {"name": "app", "deletionTimestamp": "2026-01-01T00:00:00Z"}});
        assert!(!placed(&apps, going, shop.clone()));
        for (class, is) in [("ours", true), ("theirs", false)] {
            let gateway = json!({"metadata": {"name": "web"}, "spec": {"gatewayClassName": class}});
            assert_eq!(placed(&GroupResource::gateways(), gateway, shop.clone()), is);
        }
        let malformed = json!({"metadata": {"name": "web"}, "spec": 1});
        assert!(!placed(&GroupResource::gateways(), malformed, shop));
    }

    #[test]
    fn unreadable_class_keeps_its_covered_kinds() {
        let apps = GroupResource::new("apps", "deployments");
        let before = BTreeSet::from([apps.clone(), GroupResource::namespaces()]);
        let whole = ControllerScope { is_whole: true, ..ControllerScope::default() };
        assert!(kinds(&whole, &before).is_empty());
        assert_eq!(kinds(&ControllerScope::default(), &before), BTreeSet::from([apps]));
        let ours = ControllerScope { classes: BTreeSet::from(["ours".into()]), ..whole };
        assert_eq!(kinds(&ours, &BTreeSet::new()), BTreeSet::from([GroupResource::gateways()]));
    }
}
