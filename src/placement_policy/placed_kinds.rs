//! Which objects policies place.

use std::collections::BTreeSet;

use regorus::Value;

use policy_sync_api::names::GroupResource;
use policy_sync_rego::exemptions::Exemptions;
use policy_sync_sync::desired::covered::Covered;

/// Who keeps what policies place.
pub(super) const KEEPER: &str = "placement";

/// The kinds of which objects are placed, where these are covered, and those `before` were. A class that cannot be read may list what
/// it did.
#[must_use]
pub(super) fn kinds(covered: &Covered, before: &BTreeSet<GroupResource>) -> BTreeSet<GroupResource> {
    let mut kinds = covered.kinds.clone();
    if !covered.classes.is_empty() {
        kinds.insert(GroupResource::gateways());
    }
    if !covered.is_whole {
        kinds.extend(before.iter().filter(|kind| **kind != GroupResource::namespaces()).cloned());
    }
    kinds
}

/// Whether policies place `object` of `kind`, which is in this Namespace: the webhook reviews the same objects, and terminating ones too.
#[must_use]
pub(super) fn is_placed(
    covered: &Covered,
    exemptions: &Exemptions,
    kind: &GroupResource,
    object: &Value,
    namespace: &Value,
) -> bool {
    let class = || object["spec"]["gatewayClassName"].as_string().cloned().unwrap_or_else(|_| "".into());
    let name = namespace["metadata"]["name"].as_string().cloned().unwrap_or_else(|_| "".into());
    // A terminating object has no copies on spokes, so that its place decides nothing any more.
    let is_going = object["metadata"]["deletionTimestamp"] != Value::Undefined;
    let is_ours = *kind != GroupResource::gateways() || covered.classes.contains(&*class());
    !is_going && is_ours && !exemptions.names(&name) && !Exemptions::is_ignored(namespace)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn placed_is_what_the_webhook_is_asked_about() {
        let covered =
            Covered { classes: BTreeSet::from(["ours".into()]), is_whole: true, ..Covered::default() };
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
    fn a_class_that_cannot_be_read_may_list_what_it_did() {
        let apps = GroupResource::new("apps", "deployments");
        let before = BTreeSet::from([apps.clone(), GroupResource::namespaces()]);
        let whole = Covered { is_whole: true, ..Covered::default() };
        assert!(kinds(&whole, &before).is_empty());
        assert_eq!(kinds(&Covered::default(), &before), BTreeSet::from([apps]));
        let ours = Covered { classes: BTreeSet::from(["ours".into()]), ..whole };
        assert_eq!(kinds(&ours, &BTreeSet::new()), BTreeSet::from([GroupResource::gateways()]));
    }
}
