use serde_json::json;

use super::*;

const US: &str = "policy-sync-us";

/// The owners of the annotation `note` if `manager` owns it through this operation.
fn owners(manager: &str, operation: &str, subresource: &str) -> Owners {
    let entry = json!({"manager": manager, "operation": operation, "subresource": subresource,
        "fieldsV1": {"f:metadata": {"f:annotations": {"f:note": {}, "f:other": {}}}}});
    Owners::read(&[serde_json::from_value(entry).unwrap()], US, "note", |key| key == "note")
}

#[test]
fn applied_keys_are_owned_by_this_controller() {
    let Owners { ours, shared, others } = owners(US, "Apply", "");
    assert!(ours.iter().map(|key| &**key).eq(["note"]) && shared.is_empty() && others.is_empty());
}

#[test]
fn other_policy_sync_controllers_are_recognized() {
    assert!(owners("policy-sync-them", "Apply", "").others.contains("policy-sync-them"));
    let Owners { ours, shared, others } = owners("kubectl", "Update", "");
    assert!(ours.is_empty() && shared.contains("note") && others.is_empty());
}

#[test]
fn update_under_this_controllers_name_is_not_another_controller() {
    let Owners { ours, shared, others } = owners(US, "Update", "");
    assert!(ours.is_empty() && shared.contains("note") && others.is_empty());
}

#[test]
fn owner_of_the_status_owns_no_metadata() {
    assert_eq!(owners("policy-sync-them", "Apply", "status"), Owners::default());
}
