//! Terminating objects at the webhooks of a real API server: their finalizers can be removed while no replica
//! runs, and every other change is reviewed. A server-side apply that creates an object keeps the client's
//! `metadata.deletionTimestamp` until admission is over, so that field alone proves nothing.

use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use policy_sync_testenv::apply::{api_for, apply};
use policy_sync_testenv::{fixtures, wait};
use serde_json::{Value, json};

use crate::gates::{DENIES, template, until_denied};
use crate::registration::ManagedWebhooks;
use crate::world::LIMIT;

const FINALIZER: &str = "example.com/wait";

/// A PodTemplate that the Rego policy admits, with a finalizer.
fn held(namespace: &str, name: &str) -> Value {
    let mut object = template(namespace, name, "yes");
    object["metadata"]["finalizers"] = json!([FINALIZER]);
    object
}

/// An object whose client claims that it is terminating.
fn forged(mut object: Value) -> Value {
    object["metadata"]["deletionTimestamp"] = "2020-01-01T00:00:00Z".into();
    object
}

fn is_denied(written: Result<DynamicObject>, what: &str) -> Result<()> {
    let error = written.err().with_context(|| format!("{what}: the write is admitted"))?;
    ensure!(format!("{error:#}").contains("fine: denied"), "{what}: {error:#}");
    Ok(())
}

async fn merge(hub: &ManagedWebhooks, object: &Value, patch: Value) -> Result<DynamicObject> {
    let (api, name) = api_for(hub.client(), object).await?;
    Ok(api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await?)
}

#[tokio::test]
async fn only_updates_of_finalizers_are_admitted_without_review() -> Result<()> {
    let name = "rego-terminating";
    let mut hub = ManagedWebhooks::prepare_with_files(name).await?;
    let shop = ManagedWebhooks::shop(name);
    let ends = format!("{name}-ends");
    apply(hub.client(), &fixtures::namespace(&ends)).await?;
    hub.world.write("fine", json!({"a.rego": DENIES})).await?;
    hub.run(&["--audit-interval=0"]).await?;
    until_denied(&hub, &shop).await?;

    let bad = template(&shop, "forged", "no");
    is_denied(apply(hub.client(), &forged(bad.clone())).await, "an apply with a deletionTimestamp")?;
    is_denied(hub.create(&forged(bad)).await, "a create with a deletionTimestamp")?;

    let object = held(&shop, "held");
    hub.create(&object).await?;
    let (api, _) = api_for(hub.client(), &object).await?;
    api.delete("held", &DeleteParams::default()).await?;
    for (what, patch) in [
        ("a label of a terminating object", json!({"metadata": {"labels": {"fine": "no"}}})),
        (
            "a label and the finalizers of a terminating object",
            json!({"metadata": {"labels": {"fine": "no"}, "finalizers": null}}),
        ),
        (
            "the template of a terminating object",
            json!({"metadata": {"labels": {"fine": "no"}}, "template": {"spec": {"nodeName": "n"}}}),
        ),
    ] {
        is_denied(merge(&hub, &object, patch).await, what)?;
    }
    // A replacement of the whole object, as sent by controllers with typed clients.
    let mut stored = api.get("held").await?;
    stored.data["template"]["spec"]["nodeName"] = "node".into();
    stored.labels_mut().insert("fine".to_owned(), "no".to_owned());
    let replaced = api.replace("held", &PostParams::default(), &stored).await;
    is_denied(replaced.map_err(Into::into), "a replacement of a terminating object")?;

    // From here on, no replica runs.
    hub.create(&held(&ends, "held")).await?;
    hub.create(&template(&ends, "free", "yes")).await?;
    hub.stop().await?;
    let error = merge(&hub, &object, json!({"metadata": {"labels": {"more": "yes"}}})).await;
    let error = error.err().context("the write is admitted without a review")?;
    ensure!(format!("{error:#}").contains("failed calling webhook"), "{error:#}");
    let mut stored = api.get("held").await?;
    stored.finalizers_mut().push("example.com/second".to_owned());
    stored.finalizers_mut().retain(|finalizer| finalizer != FINALIZER);
    let error = api.replace("held", &PostParams::default(), &stored).await.err();
    let error = error.context("the API server accepts a new finalizer of a terminating object")?;
    ensure!(format!("{error:#}").contains("no new finalizers can be added"), "{error:#}");
    merge(&hub, &object, json!({"metadata": {"finalizers": null}})).await?;
    wait::until("the object is deleted", LIMIT, || async {
        ensure!(api.get_opt("held").await?.is_none(), "the object exists");
        Ok(())
    })
    .await?;

    let (namespaces, _) = api_for(hub.client(), &fixtures::namespace(&ends)).await?;
    namespaces.delete(&ends, &DeleteParams::default()).await?;
    let (api, _) = api_for(hub.client(), &held(&ends, "held")).await?;
    wait::until("the Namespace's objects are terminating", LIMIT, || async {
        let stored = api.get("held").await?;
        ensure!(stored.metadata.deletion_timestamp.is_some(), "the object is not terminating");
        Ok(())
    })
    .await?;
    merge(&hub, &held(&ends, "held"), json!({"metadata": {"finalizers": null}})).await?;
    wait::until("the Namespace is deleted", LIMIT, || async {
        ensure!(namespaces.get_opt(&ends).await?.is_none(), "the Namespace exists");
        Ok(())
    })
    .await
}
