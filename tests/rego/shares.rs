//! One namespace with so many objects that they would exceed the limits for all namespaces.

use anyhow::{Result, ensure};
use policy_sync_testenv::apply::{apply, delete};
use policy_sync_testenv::{fixtures, wait};
use serde_json::{Map, Value, json};

use crate::registration::ManagedWebhooks;
use crate::sent;
use crate::world::LIMIT;

/// Denies PodTemplates if there is a ConfigMap `closed`.
const DENIES: &str = r#"package admission
import rego.v1
import data.k8s.matches
deny contains {"id": "closed", "resource": {"kind": "podtemplates", "namespace": namespace, "name": name}} if {
	matches[["podtemplates", namespace, name, _]]
	data.kubernetes.configmaps[namespace].closed
}
"#;
/// The objects of the large namespace, and the limit that they exceed.
struct LargeObjects {
    name: &'static str,
    limit: &'static str,
    maps: usize,
    /// The number of keys of each ConfigMap.
    keys: usize,
}

fn template(namespace: &str, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": name, "namespace": namespace},
        "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}})
}

fn config_map(namespace: &str, name: &str, keys: usize) -> Value {
    let data: Map<String, Value> = (0..keys).map(|key| (format!("{name}-{key}"), json!("v"))).collect();
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": data})
}

#[tokio::test]
async fn namespace_at_ten_times_its_share_denies_no_write_of_another() -> Result<()> {
    // Each ConfigMap is larger than the limit for all namespaces.
    let greed = LargeObjects { name: "rego-shares", limit: "--replicate-bytes=1Mi", maps: 5, keys: 10_000 };
    check_other_writes_are_admitted(greed).await
}

#[tokio::test]
async fn namespace_with_ten_times_its_share_of_small_objects_denies_no_write_of_another() -> Result<()> {
    let greed = LargeObjects { name: "rego-shares-many", limit: "--replicate-limit=60", maps: 150, keys: 1 };
    check_other_writes_are_admitted(greed).await
}

async fn check_other_writes_are_admitted(greed: LargeObjects) -> Result<()> {
    let LargeObjects { name, limit, maps, keys } = greed;
    let mut hub = ManagedWebhooks::prepare_with_files(name).await?;
    let (shop, greedy) = (ManagedWebhooks::shop(name), &*format!("{name}-greedy"));
    apply(hub.client(), &fixtures::namespace(greedy)).await?;
    apply(hub.client(), &config_map(&shop, "closed", 1)).await?;
    hub.world.write("closed", json!({"a.rego": DENIES})).await?;
    hub.run(&[limit]).await?;
    let denied = async |namespace: &str, name: &str, with: &str| {
        let created = hub.create(&template(namespace, name)).await;
        let Err(error) = created else { anyhow::bail!("{namespace}/{name} is admitted") };
        ensure!(format!("{error:#}").contains(with), "{error:#}");
        Ok(())
    };
    wait::until("the API server calls the webhook", LIMIT, || async {
        let result = denied(&shop, "asked", "closed: denied").await;
        if result.is_err() {
            let _ = hub.delete(&template(&shop, "asked")).await;
        }
        result
    })
    .await?;
    hub.create(&template(greedy, "before")).await?;

    for map in 0..maps {
        apply(hub.client(), &config_map(greedy, &format!("map-{map}"), keys)).await?;
    }
    wait::until("ConfigMaps of the large namespace are left out", LIMIT, || async {
        let metrics = hub.controller()?.metrics().await?;
        let left_out = metrics.value("policy_sync_rego_documents_left_out", &[("kind", "configmaps")])?;
        ensure!(left_out >= maps as f64, "{left_out} are left out");
        let bytes = metrics.value("policy_sync_rego_document_bytes", &[])?;
        ensure!(bytes <= f64::from(1 << 20), "the other objects have {bytes} bytes");
        Ok(())
    })
    .await?;
    wait::until("writes in the large namespace are denied", LIMIT, || async {
        let result = denied(greedy, "own", "exceed its share of --replicate-bytes").await;
        if result.is_err() {
            let _ = hub.delete(&template(greedy, "own")).await;
        }
        result
    })
    .await?;
    denied(&shop, "still", "closed: denied").await?;
    // The namespace `default` has no ConfigMap `closed`.
    let body = sent::review("podtemplates", &template("default", "asked"));
    let head = format!(
        "POST /admit/validating HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: {}",
        body.len()
    );
    let (code, text) = sent::ask(&hub.webhooks, &head, &body).await?;
    let response = serde_json::from_str::<Value>(&text)?["response"].take();
    ensure!(code == 200 && response["allowed"] == true, "{code} {text}");
    let warning = "reviewed without configmaps of namespaces that exceed their share";
    let warnings = response["warnings"].as_array().map_or(&[][..], Vec::as_slice);
    ensure!(
        warnings.len() == 1 && warnings[0].as_str().is_some_and(|text| text.starts_with(warning)),
        "{text}"
    );
    ensure!(!text.contains(greedy), "the response names the other namespace: {text}");
    delete(hub.client(), &config_map(&shop, "closed", 1)).await?;
    wait::until("the write is admitted", LIMIT, || async {
        hub.create(&template(&shop, "open")).await.map(drop)
    })
    .await?;
    for number in 0..20 {
        hub.create(&template(&shop, &format!("open-{number}"))).await?;
    }
    hub.world
        .until_status("closed", |status| {
            status["status"] == "ok"
                && status.to_string().contains("left out, because they exceed their share")
        })
        .await?;
    wait::until("an Event exists in the large namespace", LIMIT, || async {
        let events: kube::Api<k8s_openapi::api::core::v1::Event> =
            kube::Api::namespaced(hub.client().clone(), greedy);
        let events = events.list(&Default::default()).await?.items;
        let found = events.iter().any(|event| event.reason.as_deref() == Some("DocumentsLeftOut"));
        ensure!(found, "there are {} other Events", events.len());
        Ok(())
    })
    .await?;

    // The users of the namespace can shrink their objects on their own.
    for map in 0..maps {
        hub.delete(&config_map(greedy, &format!("map-{map}"), 0)).await?;
    }
    wait::until("writes in the large namespace are admitted again", LIMIT, || async {
        hub.create(&template(greedy, "after")).await.map(drop)
    })
    .await?;
    hub.stop().await
}
