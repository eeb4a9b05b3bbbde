//! Paged lists, selectors, and requests for metadata only.

use anyhow::Result;
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::{TestNamespace, refused, version};

crate::stories!(
    pages_are_a_consistent_snapshot,
    invalid_continue_token_is_rejected,
    selectors_filter_lists,
    metadata_requests_omit_spec_and_status,
    empty_metadata_list_is_null,
    missing_objects_and_kinds_are_not_found,
);

fn names<K: ResourceExt>(items: &[K]) -> Vec<String> {
    items.iter().map(ResourceExt::name_any).collect()
}

async fn pages_are_a_consistent_snapshot(space: TestNamespace) -> Result<()> {
    for name in ["c", "a", "e", "b", "d"] {
        space.create(name).await?;
    }
    let api = space.policies();
    let first = api.list(&ListParams::default().limit(2)).await?;
    assert_eq!(names(&first.items), ["a", "b"]);
    assert_eq!(first.metadata.remaining_item_count, Some(3));
    let listed: u64 = first.metadata.resource_version.clone().unwrap().parse()?;
    // No page shows changes made between pages.
    let deleted = api.delete("d", &Default::default()).await?;
    assert!(deleted.is_right());
    let later = space.create("cc").await?;
    assert!(version(&later) > listed);
    let mut rest = Vec::new();
    let mut token = first.metadata.continue_.clone();
    while let Some(next) = token.filter(|token| !token.is_empty()) {
        let page = api.list(&ListParams::default().limit(2).continue_token(&next)).await?;
        assert_eq!(page.metadata.resource_version, first.metadata.resource_version);
        rest.extend(names(&page.items));
        token = page.metadata.continue_;
    }
    assert_eq!(rest, ["c", "d", "e"]);
    let now = api.list(&ListParams::default()).await?;
    assert_eq!(names(&now.items), ["a", "b", "c", "cc", "e"]);
    assert!(now.metadata.resource_version.unwrap().parse::<u64>()? >= version(&later));
    assert!(now.metadata.continue_.unwrap_or_default().is_empty());
    Ok(())
}

async fn invalid_continue_token_is_rejected(space: TestNamespace) -> Result<()> {
    let list = space.policies().list(&ListParams::default().limit(2).continue_token("nonsense")).await;
    assert_eq!(refused(list), (400, "BadRequest".to_owned()));
    Ok(())
}

async fn empty_metadata_list_is_null(space: TestNamespace) -> Result<()> {
    let request = kube::core::Request::new(space.policies().resource_url());
    let whole: Value = space.client.request(request.list(&ListParams::default())?).await?;
    assert_eq!(whole["items"], json!([]));
    let metadata: Value = space.client.request(request.list_metadata(&ListParams::default())?).await?;
    assert_eq!(metadata["items"], Value::Null);
    Ok(())
}

async fn selectors_filter_lists(space: TestNamespace) -> Result<()> {
    for (name, labels) in [("a", r#"{"x":"1"}"#), ("b", r#"{"x":"2","y":""}"#), ("c", "{}")] {
        let mut policy = space.policy(name);
        policy["metadata"]["labels"] = serde_json::from_str(labels)?;
        space.create_as(&policy).await?;
    }
    let api = space.policies();
    for (selector, expected) in [
        ("x=1", vec!["a"]),
        ("x==1", vec!["a"]),
        ("x", vec!["a", "b"]),
        ("!x", vec!["c"]),
        ("x!=1", vec!["b", "c"]),
        ("x notin (1)", vec!["b", "c"]),
        ("y=", vec!["b"]),
        ("!y,x in (1,2)", vec!["a"]),
        (" x in ( 1 , 2 ) , x != 2 ", vec!["a"]),
    ] {
        let found = api.list(&ListParams::default().labels(selector)).await?;
        assert_eq!(names(&found.items), expected, "{selector}");
    }
    // The server in memory uses the controller's own parser, so this test also compares the parser with a real server.
    for selector in ["x in 1", "x=1=2", "x y", "!x=1", "x in (1"] {
        let refusal = api.list(&ListParams::default().labels(selector)).await;
        assert_eq!(refused(refusal), (400, "BadRequest".to_owned()), "{selector}");
    }
    let found = api.list(&ListParams::default().fields("metadata.name=b")).await?;
    assert_eq!(names(&found.items), ["b"]);
    let refusal = api.list(&ListParams::default().fields("spec.nothing=b")).await;
    assert_eq!(refused(refusal), (400, "BadRequest".to_owned()));
    Ok(())
}

async fn metadata_requests_omit_spec_and_status(space: TestNamespace) -> Result<()> {
    let created = space.create("a").await?;
    let one = space.policies().get_metadata("a").await?;
    assert_eq!(one.metadata.uid, created.metadata.uid);
    assert_eq!(one.types.unwrap().kind, "PartialObjectMetadata");
    let list = space.policies().list_metadata(&ListParams::default()).await?;
    assert_eq!(names(&list.items), ["a"]);
    assert_eq!(list.types.kind, "PartialObjectMetadataList");
    Ok(())
}

async fn missing_objects_and_kinds_are_not_found(space: TestNamespace) -> Result<()> {
    assert_eq!(refused(space.policies().get("a").await), (404, "NotFound".to_owned()));
    let mut nothing = crate::policy_resource();
    nothing.plural = "nothings".into();
    let api: kube::Api<kube::api::DynamicObject> =
        kube::Api::namespaced_with(space.client.clone(), &space.namespace, &nothing);
    assert_eq!(refused(api.list(&ListParams::default()).await).0, 404);
    Ok(())
}

/// Runs only in memory, because a real server compacts its history after minutes.
#[tokio::test(start_paused = true)]
async fn continue_token_expires_after_compaction() -> Result<()> {
    let server = policy_sync_testenv::MemoryServer::new();
    let api: kube::Api<k8s_openapi::api::core::v1::ConfigMap> =
        kube::Api::default_namespaced(server.client());
    for name in ["a", "b"] {
        let map = serde_json::from_value(serde_json::json!({"metadata": {"name": name}}))?;
        api.create(&Default::default(), &map).await?;
    }
    let page = api.list(&ListParams::default().limit(1)).await?;
    api.delete("b", &Default::default()).await?;
    server.compact();
    let next =
        api.list(&ListParams::default().limit(1).continue_token(&page.metadata.continue_.unwrap())).await;
    assert_eq!(refused(next), (410, "Expired".to_owned()));
    Ok(())
}
