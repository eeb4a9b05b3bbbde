//! Server-side apply: field managers, and objects identified by uid.

use anyhow::Result;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use crate::{TestNamespace, refusal, refused, version};

crate::stories!(
    fields_missing_from_the_next_apply_are_removed,
    field_of_two_managers_stays_until_neither_applies_it,
    forced_apply_takes_over_fields_of_other_managers,
    update_takes_over_applied_fields,
    apply_with_another_uid_is_rejected,
    apply_with_uid_of_a_deleted_object_creates_nothing,
    apply_without_uid_creates_an_object,
    keyed_list_items_have_separate_managers,
);

async fn apply(
    space: &TestNamespace,
    manager: &str,
    force: bool,
    metadata: Value,
) -> kube::Result<DynamicObject> {
    let mut body = json!({"apiVersion": "kuadrant.io/v1", "kind": "RateLimitPolicy", "metadata": metadata});
    body["metadata"]["name"] = json!("a");
    body["metadata"]["namespace"] = json!(space.namespace);
    let mut params = PatchParams::apply(manager);
    params.force = force;
    space.policies().patch("a", &params, &Patch::Apply(body)).await
}

fn annotations(object: &DynamicObject) -> Value {
    json!(object.metadata.annotations.clone().unwrap_or_default())
}

/// The managers of an annotation as `manager/operation`, sorted.
fn owners(object: &DynamicObject, annotation: &str) -> Vec<String> {
    let field = format!("f:{annotation}");
    let entries = object.metadata.managed_fields.clone().unwrap_or_default();
    let mut owners: Vec<String> = entries
        .into_iter()
        .filter(|entry| {
            let fields = &entry.fields_v1.as_ref().unwrap().0;
            !fields["f:metadata"]["f:annotations"][&field].is_null()
        })
        .map(|entry| format!("{}/{}", entry.manager.unwrap(), entry.operation.unwrap()))
        .collect();
    owners.sort();
    owners
}

async fn fields_missing_from_the_next_apply_are_removed(space: TestNamespace) -> Result<()> {
    space.create("a").await?;
    space.merge("a", json!({"metadata": {"annotations": {"user": "1"}}})).await?;
    let applied = apply(&space, "one", true, json!({"annotations": {"x": "1", "y": "2"}})).await?;
    assert_eq!(annotations(&applied), json!({"user": "1", "x": "1", "y": "2"}));
    assert_eq!(applied.metadata.generation, Some(1));
    let again = apply(&space, "one", true, json!({"annotations": {"x": "1", "y": "2"}})).await?;
    assert_eq!(version(&again), version(&applied));
    let fewer = apply(&space, "one", true, json!({"annotations": {"y": "3"}})).await?;
    assert_eq!(annotations(&fewer), json!({"user": "1", "y": "3"}));
    assert!(version(&fewer) > version(&applied));
    let none = apply(&space, "one", true, json!({"annotations": {}})).await?;
    assert_eq!(annotations(&none), json!({"user": "1"}));
    Ok(())
}

async fn field_of_two_managers_stays_until_neither_applies_it(space: TestNamespace) -> Result<()> {
    space.create("a").await?;
    apply(&space, "one", false, json!({"annotations": {"x": "1"}})).await?;
    let both = apply(&space, "two", false, json!({"annotations": {"x": "1"}})).await?;
    assert_eq!(owners(&both, "x"), ["one/Apply", "two/Apply"]);
    let one_left = apply(&space, "one", false, json!({})).await?;
    assert_eq!(annotations(&one_left), json!({"x": "1"}));
    assert_eq!(owners(&one_left, "x"), ["two/Apply"]);
    let none_left = apply(&space, "two", false, json!({})).await?;
    assert_eq!(annotations(&none_left), json!({}));
    Ok(())
}

async fn forced_apply_takes_over_fields_of_other_managers(space: TestNamespace) -> Result<()> {
    space.create("a").await?;
    apply(&space, "one", false, json!({"annotations": {"x": "1"}})).await?;
    let refusal = refusal(apply(&space, "two", false, json!({"annotations": {"x": "2"}})).await);
    assert_eq!((refusal.code, refusal.reason.as_str()), (409, "Conflict"));
    let cause = &refusal.details.unwrap().causes[0];
    assert_eq!(cause.reason, "FieldManagerConflict");
    assert_eq!(cause.field, ".metadata.annotations.x");
    assert!(cause.message.starts_with(r#"conflict with "one""#), "{}", cause.message);
    let taken = apply(&space, "two", true, json!({"annotations": {"x": "2"}})).await?;
    assert_eq!(annotations(&taken), json!({"x": "2"}));
    assert_eq!(owners(&taken, "x"), ["two/Apply"]);
    Ok(())
}

async fn update_takes_over_applied_fields(space: TestNamespace) -> Result<()> {
    space.create("a").await?;
    apply(&space, "one", true, json!({"annotations": {"x": "1", "y": "1"}})).await?;
    let params = PatchParams { field_manager: Some("editor".into()), ..PatchParams::default() };
    let edit = json!({"metadata": {"annotations": {"x": "2", "y": null}}});
    let edited = space.policies().patch("a", &params, &Patch::Merge(edit)).await?;
    assert_eq!(annotations(&edited), json!({"x": "2"}));
    assert_eq!(owners(&edited, "x"), ["editor/Update"]);
    // An apply without the field does not remove the value, because now another field manager, the editor, manages the
    // value.
    let left = apply(&space, "one", true, json!({})).await?;
    assert_eq!(annotations(&left), json!({"x": "2"}));
    let back = apply(&space, "one", true, json!({"annotations": {"x": "1"}})).await?;
    assert_eq!(owners(&back, "x"), ["one/Apply"]);
    Ok(())
}

async fn apply_with_another_uid_is_rejected(space: TestNamespace) -> Result<()> {
    let first = space.create("a").await?.metadata.uid.unwrap();
    space.policies().delete("a", &DeleteParams::default()).await?;
    space.create("a").await?;
    let answer = apply(&space, "one", true, json!({"uid": first, "annotations": {"x": "1"}})).await;
    assert_eq!(refused(answer), (422, "Invalid".to_owned()));
    Ok(())
}

async fn apply_with_uid_of_a_deleted_object_creates_nothing(space: TestNamespace) -> Result<()> {
    let uid = space.create("a").await?.metadata.uid.unwrap();
    space.policies().delete("a", &DeleteParams::default()).await?;
    let answer = apply(&space, "one", true, json!({"uid": uid, "annotations": {"x": "1"}})).await;
    assert_eq!(refused(answer), (409, "Conflict".to_owned()));
    assert_eq!(refused(space.policies().get("a").await).0, 404);
    Ok(())
}

async fn apply_without_uid_creates_an_object(space: TestNamespace) -> Result<()> {
    let params = PatchParams::apply("one").force();
    let mut policy = space.policy("a");
    policy["metadata"]["annotations"] = json!({"x": "1"});
    let made = space.policies().patch("a", &params, &Patch::Apply(&policy)).await?;
    assert_eq!(made.metadata.generation, Some(1));
    assert_eq!(owners(&made, "x"), ["one/Apply"]);
    Ok(())
}

/// Conditions of a status: a list whose items are identified by their type.
async fn keyed_list_items_have_separate_managers(space: TestNamespace) -> Result<()> {
    space.create("a").await?;
    let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let apply = async |manager: &str, conditions: Vec<Value>| {
        let body = json!({
            "apiVersion": "kuadrant.io/v1", "kind": "RateLimitPolicy",
            "metadata": {"name": "a", "namespace": space.namespace}, "status": {"conditions": conditions},
        });
        space.policies().patch_status("a", &PatchParams::apply(manager).force(), &Patch::Apply(body)).await
    };
    let types = |object: &DynamicObject| {
        let conditions = object.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions
            .iter()
            .map(|c| format!("{}={}", c["type"], c["status"]).replace('"', ""))
            .collect::<Vec<_>>()
    };
    apply("one", vec![condition("A", "True"), condition("B", "True")]).await?;
    let both = apply("two", vec![condition("C", "True")]).await?;
    assert_eq!(types(&both), ["A=True", "B=True", "C=True"]);
    let changed = apply("one", vec![condition("B", "False")]).await?;
    assert_eq!(types(&changed), ["B=False", "C=True"]);
    let none = apply("one", Vec::new()).await?;
    assert_eq!(types(&none), ["C=True"]);
    Ok(())
}
