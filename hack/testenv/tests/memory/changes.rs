//! Creates, patches, updates and deletes, and the errors of rejected requests.

use anyhow::Result;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions};
use serde_json::{Value, json};

use crate::{TestNamespace, limit, limiting, refusal, refused, version};

crate::stories!(
    create_requires_a_new_name_and_an_existing_namespace,
    json_patch_is_atomic,
    a_merge_patch_of_an_old_version_conflicts,
    update_requires_the_current_version,
    stale_lease_update_conflicts,
    delete_checks_uid_and_version,
    finalizer_delays_deletion,
    status_is_written_only_through_its_subresource,
    generation_counts_only_spec_changes,
    access_review_allows_by_default,
    kind_is_served_while_its_definition_exists,
);

fn error(code: u16, reason: &str) -> (u16, String) {
    (code, reason.to_owned())
}

async fn create_requires_a_new_name_and_an_existing_namespace(space: TestNamespace) -> Result<()> {
    let created = space.create("a").await?;
    assert_eq!(created.metadata.generation, Some(1));
    let again: DynamicObject = serde_json::from_value(space.policy("a"))?;
    let refusal = refusal(space.policies().create(&PostParams::default(), &again).await);
    assert_eq!((refusal.code, refusal.reason.as_str()), (409, "AlreadyExists"));
    assert_eq!(refusal.message, r#"ratelimitpolicies.kuadrant.io "a" already exists"#);
    let elsewhere: Api<DynamicObject> =
        Api::namespaced_with(space.client.clone(), "nowhere", &crate::policy_resource());
    let mut policy = space.policy("a");
    policy["metadata"]["namespace"] = json!("nowhere");
    let refusal = elsewhere.create(&PostParams::default(), &serde_json::from_value(policy)?).await;
    assert_eq!(refused(refusal), error(404, "NotFound"));
    Ok(())
}

async fn patch(space: &TestNamespace, patch: Value) -> kube::Result<DynamicObject> {
    let patch = Patch::<()>::Json(serde_json::from_value(patch).unwrap());
    space.policies().patch("a", &PatchParams::default(), &patch).await
}

async fn json_patch_is_atomic(space: TestNamespace) -> Result<()> {
    assert_eq!(refused(patch(&space, json!([])).await), error(404, "NotFound"));
    let created = space.create("a").await?;
    let uid = created.metadata.uid.clone().unwrap();
    let test = |uid: &str, generation: i64| {
        json!([
            {"op": "test", "path": "/metadata/uid", "value": uid},
            {"op": "test", "path": "/metadata/generation", "value": generation},
            {"op": "add", "path": "/spec/limits/x", "value": limit(1)},
            {"op": "add", "path": "/metadata/annotations", "value": {"example.com/a": "b"}},
        ])
    };
    let refusal = refusal(patch(&space, test(&uid, 7)).await);
    assert_eq!((refusal.code, refusal.reason.as_str()), (422, "Invalid"));
    assert_eq!(refused(patch(&space, test("other", 1)).await), error(422, "Invalid"));
    assert_eq!(version(&space.policies().get("a").await?), version(&created));
    let patched = patch(&space, test(&uid, 1)).await?;
    assert_eq!((patched.metadata.generation, &patched.data["spec"]["limits"]["x"]), (Some(2), &limit(1)));
    assert_eq!(patched.metadata.annotations.clone().unwrap()["example.com/a"], "b");
    // A second request with the same patch changes nothing.
    let again = patch(&space, test(&uid, 2)).await?;
    assert_eq!(version(&again), version(&patched));
    let unfit = json!([{"op": "add", "path": "/metadata/labels/x", "value": "y"}]);
    assert_eq!(refused(patch(&space, unfit).await), error(422, "Invalid"));
    let other = json!([{"op": "replace", "path": "/metadata/uid", "value": "other"}]);
    assert_eq!(refused(patch(&space, other).await), error(422, "Invalid"));
    Ok(())
}

async fn a_merge_patch_of_an_old_version_conflicts(space: TestNamespace) -> Result<()> {
    let created = space.create("a").await?;
    let old = created.metadata.resource_version.unwrap();
    let with = |version: &str, requests: i64| json!({"metadata": {"resourceVersion": version}, "spec": {"limits": {"x": limit(requests)}}});
    space.merge("a", with(&old, 1)).await?;
    let refusal = refusal(space.merge("a", with(&old, 2)).await);
    assert_eq!((refusal.code, refusal.reason.as_str()), (409, "Conflict"));
    assert!(refusal.message.contains("the object has been modified"), "{}", refusal.message);
    let emptied = space.merge("a", json!({"spec": {"limits": {"x": null}}})).await?;
    assert!(emptied.data["spec"]["limits"]["x"].is_null());
    Ok(())
}

async fn update_requires_the_current_version(space: TestNamespace) -> Result<()> {
    let created = space.create("a").await?;
    let api = space.policies();
    let mut new = created.clone();
    new.data["spec"]["limits"]["x"] = limit(1);
    let replaced = api.replace("a", &PostParams::default(), &new).await?;
    assert_eq!(replaced.metadata.generation, Some(2));
    assert_eq!(refused(api.replace("a", &PostParams::default(), &new).await), error(409, "Conflict"));
    let mut another = replaced;
    another.metadata.uid = Some("00000000-0000-4000-8000-0000000000ff".into());
    another.data["spec"]["limits"]["x"] = limit(2);
    assert_eq!(refused(api.replace("a", &PostParams::default(), &another).await), error(409, "Conflict"));
    new.metadata.resource_version = None;
    assert_eq!(refused(api.replace("a", &PostParams::default(), &new).await), error(422, "Invalid"));
    new.metadata.name = Some("b".into());
    new.metadata.resource_version = created.metadata.resource_version;
    assert_eq!(refused(api.replace("b", &PostParams::default(), &new).await), error(404, "NotFound"));
    Ok(())
}

async fn stale_lease_update_conflicts(space: TestNamespace) -> Result<()> {
    let api: Api<Lease> = Api::namespaced(space.client.clone(), &space.namespace);
    let lease = |holder: &str| -> Lease {
        serde_json::from_value(json!({"metadata": {"name": "leader"}, "spec": {"holderIdentity": holder}}))
            .unwrap()
    };
    let taken = api.create(&PostParams::default(), &lease("a")).await?;
    assert_eq!(refused(api.create(&PostParams::default(), &lease("b")).await), error(409, "AlreadyExists"));
    let mut renewed = lease("a");
    renewed.metadata.resource_version = taken.metadata.resource_version.clone();
    renewed.spec.as_mut().unwrap().lease_duration_seconds = Some(3);
    api.replace("leader", &PostParams::default(), &renewed).await?;
    let mut stolen = lease("b");
    stolen.metadata.resource_version = taken.metadata.resource_version;
    assert_eq!(refused(api.replace("leader", &PostParams::default(), &stolen).await), error(409, "Conflict"));
    assert_eq!(api.get("leader").await?.spec.unwrap().holder_identity.as_deref(), Some("a"));
    Ok(())
}

fn only(uid: Option<&str>, version: Option<&str>) -> DeleteParams {
    let preconditions =
        Preconditions { uid: uid.map(str::to_owned), resource_version: version.map(str::to_owned) };
    DeleteParams::background().preconditions(preconditions)
}

async fn delete_checks_uid_and_version(space: TestNamespace) -> Result<()> {
    let created = space.create("a").await?;
    let (uid, old) = (created.metadata.uid.unwrap(), created.metadata.resource_version.unwrap());
    space.merge("a", limiting(1)).await?;
    let api = space.policies();
    let another = "00000000-0000-4000-8000-0000000000ff";
    let refusal = refusal(api.delete("a", &only(Some(another), None)).await);
    assert_eq!((refusal.code, refusal.reason.as_str()), (409, "Conflict"));
    let uids = format!("the UID in the precondition ({another}) does not match the UID in record ({uid})");
    assert!(refusal.message.contains(&uids), "{}", refusal.message);
    assert_eq!(refused(api.delete("a", &only(None, Some(&old))).await), error(409, "Conflict"));
    let gone = api.delete("a", &only(Some(&uid), None)).await?.right();
    assert!(gone.is_some_and(|status| status.is_success()));
    assert_eq!(refused(api.delete("a", &only(Some(&uid), None)).await), error(404, "NotFound"));
    assert_ne!(space.create("a").await?.metadata.uid.unwrap(), uid);
    Ok(())
}

async fn finalizer_delays_deletion(space: TestNamespace) -> Result<()> {
    let mut policy = space.policy("a");
    policy["metadata"]["finalizers"] = json!(["example.com/agent"]);
    let created = space.create_as(&policy).await?;
    let api = space.policies();
    let deleting = api.delete("a", &DeleteParams::default()).await?.left().unwrap();
    assert!(deleting.metadata.deletion_timestamp.is_some());
    assert_eq!(deleting.metadata.generation, Some(2));
    assert!(version(&deleting) > version(&created));
    let again = api.delete("a", &DeleteParams::default()).await?.left().unwrap();
    assert_eq!(version(&again), version(&deleting));
    let more = json!({"metadata": {"finalizers": ["example.com/agent", "example.com/other"]}});
    assert_eq!(refused(space.merge("a", more).await), error(422, "Invalid"));
    assert_eq!(refused(space.create_as(&policy).await.map_err(|error| error.downcast().unwrap())).0, 409);
    space.merge("a", json!({"metadata": {"finalizers": null}})).await?;
    assert_eq!(refused(api.get("a").await), error(404, "NotFound"));
    Ok(())
}

async fn status_is_written_only_through_its_subresource(space: TestNamespace) -> Result<()> {
    let mut policy = space.policy("a");
    policy["status"] = json!({"observedGeneration": 5});
    let created = space.create_as(&policy).await?;
    assert!(created.data["status"].is_null());
    let ignored = space.merge("a", json!({"status": {"observedGeneration": 5}})).await?;
    assert_eq!(version(&ignored), version(&created));
    let mut patch = limiting(1);
    patch["metadata"] = json!({"labels": {"x": "y"}});
    patch["status"] = json!({"observedGeneration": 1});
    let written = space.merge_status("a", patch).await?;
    assert_eq!(written.data["status"]["observedGeneration"], 1);
    assert_eq!((written.metadata.generation, written.metadata.labels), (Some(1), None));
    assert!(written.data["spec"]["limits"]["x"].is_null());
    let changed = space.merge("a", limiting(1)).await?;
    assert_eq!(changed.data["status"]["observedGeneration"], 1);
    Ok(())
}

async fn generation_counts_only_spec_changes(space: TestNamespace) -> Result<()> {
    space.create("a").await?;
    let labelled = space.merge("a", json!({"metadata": {"labels": {"x": "y"}}})).await?;
    assert_eq!(labelled.metadata.generation, Some(1));
    let changed = space.merge("a", limiting(1)).await?;
    assert_eq!(changed.metadata.generation, Some(2));
    Ok(())
}

async fn access_review_allows_by_default(space: TestNamespace) -> Result<()> {
    use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
    let attributes = json!({"group": "kuadrant.io", "resource": "ratelimitpolicies", "verb": "patch"});
    let review: SelfSubjectAccessReview =
        serde_json::from_value(json!({"metadata": {}, "spec": {"resourceAttributes": attributes}}))?;
    let answer = Api::all(space.client.clone()).create(&PostParams::default(), &review).await?;
    assert!(answer.status.unwrap().allowed);
    Ok(())
}

async fn kind_is_served_while_its_definition_exists(space: TestNamespace) -> Result<()> {
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
    use policy_sync_testenv::crds::{Crd, install};
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "passings.stories.example.com"},
        "spec": {
            "group": "stories.example.com", "scope": "Namespaced",
            "names": {"kind": "Passing", "listKind": "PassingList", "plural": "passings", "singular": "passing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    });
    install(&space.client, &[Crd::new(definition)?]).await?;
    let passing: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "stories.example.com/v1", "kind": "Passing", "metadata": {"name": "a"}, "spec": {"x": 1},
        "status": {"y": 1},
    }))?;
    let resource = kube::api::ApiResource {
        group: "stories.example.com".into(),
        version: "v1".into(),
        api_version: "stories.example.com/v1".into(),
        kind: "Passing".into(),
        plural: "passings".into(),
    };
    let api: Api<DynamicObject> = Api::namespaced_with(space.client.clone(), &space.namespace, &resource);
    let created = api.create(&PostParams::default(), &passing).await?;
    // Without a status subresource, the status is part of the object.
    assert_eq!((created.data["status"]["y"].as_i64(), created.metadata.generation), (Some(1), Some(1)));
    let definitions: Api<CustomResourceDefinition> = Api::all(space.client.clone());
    definitions.delete("passings.stories.example.com", &DeleteParams::default()).await?;
    policy_sync_testenv::wait::until(
        "the kind is no longer served",
        std::time::Duration::from_secs(30),
        || async {
            match api.list(&Default::default()).await {
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
                other => anyhow::bail!("{other:?}"),
            }
        },
    )
    .await
}
