//! Admission webhooks on a real API server that are unreachable, busy, or next to other webhooks. The failure
//! policy decides about writes. Each verdict comes from modules that were in force, and no admitted object
//! violates these modules.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use axum::routing::post;
use axum::{Json, Router};
use futures::future::{join_all, try_join_all};
use k8s_openapi::ByteString;
use kube::ResourceExt;
use policy_sync_testenv::apply::{apply, delete};
use policy_sync_testenv::webhooks::Webhooks;
use policy_sync_testenv::{fixtures, wait};
use serde_json::{Value, json};

use crate::admit::{policy_of, pull};
use crate::registration::ManagedWebhooks;
use crate::sent::Connection;
use crate::stand_in::{Fault, StandIn, with_fault};
use crate::world::LIMIT;

/// Denies PodTemplates without the label `fine: "yes"`.
pub(crate) const DENIES: &str = r#"package admission
import rego.v1
import data.k8s.matches
deny contains {"id": "fine", "resource": {"kind": "podtemplates", "namespace": namespace, "name": name}} if {
	matches[["podtemplates", namespace, name, object]]
	object.metadata.labels.fine != "yes"
}
"#;

pub(crate) fn template(namespace: &str, name: &str, fine: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PodTemplate",
        "metadata": {"name": name, "namespace": namespace, "labels": {"fine": fine}},
        "template": {"spec": {"containers": [{"name": "c", "image": "i", "imagePullPolicy": "Never"}]}}})
}

fn config_map(namespace: &str, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}})
}

/// Waits until the API server denies a PodTemplate without the label `fine`.
pub(crate) async fn until_denied(hub: &ManagedWebhooks, namespace: &str) -> Result<()> {
    let object = template(namespace, "asked", "no");
    wait::until("the API server calls the webhook", LIMIT, || async {
        let Err(error) = hub.create(&object).await else {
            hub.delete(&object).await?;
            bail!("the write is admitted");
        };
        ensure!(format!("{error:#}").contains("fine: denied"), "{error:#}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn failure_policy_decides_while_the_webhook_fails() -> Result<()> {
    let name = "rego-closed";
    let mut hub = ManagedWebhooks::prepare_with_files(name).await?;
    let shop = ManagedWebhooks::shop(name);
    let mut quiet = fixtures::namespace("rego-closed-quiet");
    quiet["metadata"]["labels"] = json!({"openpolicyagent.org/webhook": "ignore"});
    apply(hub.client(), &quiet).await?;
    hub.world.write("fine", json!({"a.rego": DENIES})).await?;
    for policy in ["Fail", "Ignore"] {
        hub.run(&[&format!("--webhook-failure-policy={policy}")]).await?;
        hub.until_entries("the entries have the failure policy", |[one, other]| {
            let admit = one.iter().chain(other).filter(|entry| {
                entry["name"].as_str().is_some_and(|name| name.starts_with("admit-"))
                    && entry["failurePolicy"] == policy
            });
            admit.count() == 2
        })
        .await?;
        until_denied(&hub, &shop).await?;
        hub.stop().await?;
        for fault in Fault::ALL {
            let object = format!("{policy}-{fault:?}").to_lowercase();
            with_fault(fault, &hub.webhooks, async || {
                let began = Instant::now();
                let created = hub.create(&template(&shop, &object, "no")).await;
                ensure!(began.elapsed() < Duration::from_secs(30), "the write takes {:?}", began.elapsed());
                match (policy, created) {
                    ("Fail", Err(error)) => {
                        ensure!(format!("{error:#}").contains("failed calling webhook"), "{error:#}");
                    }
                    ("Ignore", Ok(_)) => {}
                    (_, created) => bail!("{policy}: {created:?}"),
                }
                // Other kinds and exempt namespaces are not delayed, because they are not reviewed.
                for exempt in [
                    config_map(&shop, &object),
                    template("kube-system", &object, "no"),
                    template("rego-closed-quiet", &object, "no"),
                    template(name, &object, "no"),
                ] {
                    hub.create(&exempt).await?;
                }
                Ok(())
            })
            .await
            .with_context(|| policy.to_owned())?;
        }
    }
    // Deleting the configurations while no replica runs unblocks all writes.
    hub.run(&["--webhook-failure-policy=Fail"]).await?;
    until_denied(&hub, &shop).await?;
    hub.stop().await?;
    hub.webhooks.uninstall(hub.client()).await?;
    wait::until("writes are not reviewed", LIMIT, || async {
        hub.create(&template(&shop, "free", "no")).await.map(drop)
    })
    .await
}

#[tokio::test]
async fn two_controllers_change_only_their_own_webhook_entries() -> Result<()> {
    let mut hub = ManagedWebhooks::prepare_with_files("rego-two").await?;
    let shop = ManagedWebhooks::shop("rego-two");
    hub.run(&["--audit-interval=0"]).await?;
    hub.world.write("fine", json!({"a.rego": DENIES})).await?;
    // A controller has three entries: for patches, for denials, and for the check of modules. The entry for the check
    // of modules may be created first.
    let of_one = hub
        .until_entries("the configurations have the entries of one controller", |entries| {
            entries.iter().map(Vec::len).sum::<usize>() == 3
        })
        .await?;
    until_denied(&hub, &shop).await?;
    // Another controller manages the same configurations, with modules of another namespace.
    let other = Webhooks::new("rego-two")?;
    apply(hub.client(), &fixtures::namespace("rego-two-other")).await?;
    let carrier = |text: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a.rego": text},
            "metadata": {"name": "other", "namespace": "rego-two-other"}})
    };
    let services = DENIES.replace("podtemplates", "services").replace("\"fine\", \"res", "\"other\", \"res");
    apply(hub.client(), &carrier(&services)).await?;
    let arguments = [
        other.arguments(),
        vec!["--controller-name=example.com/other".to_owned(), "--rego-namespace=rego-two-other".to_owned()],
    ]
    .concat();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut second = hub.world.launch_another(&arguments)?;
    second.ready().await?;
    let both = hub
        .until_entries("the configurations have the entries of both controllers", |entries| {
            entries.iter().zip(&of_one).all(|(now, before)| now.len() == 2 * before.len())
        })
        .await?;
    for (now, before) in both.iter().zip(&of_one) {
        ensure!(before.iter().all(|entry| now.contains(entry)), "{before:?} is not in {now:?}");
    }
    // Deleting the modules of the other controller removes that controller's entries, and leaves the entries of the
    // first controller.
    delete(hub.client(), &carrier("")).await?;
    hub.until_entries("the configurations have only the first entries", |entries| *entries == of_one).await?;
    second.terminate().await?;
    until_denied(&hub, &shop).await
}

/// Two rules that deny all PodTemplates with the same number in their messages, and a rule that reports two
/// labels of a document.
fn numbered(number: usize) -> Value {
    let module = |id: &str, more: &str, message: &str| {
        format!(
            "package admission\nimport rego.v1\nimport data.k8s.matches\ndeny contains {{\"id\": \"{id}\", \"resource\": \
             {{\"kind\": \"podtemplates\", \"namespace\": ns, \"name\": name}}, \"resolution\": {{\"message\": {message}}}}} if \
             {{\n\tmatches[[\"podtemplates\", ns, name, _]]\n{more}}}\n"
        )
    };
    let document = "\tfound := data.kubernetes.services[\"rego-amid-shop\"].document.metadata.labels\n";
    json!({
        "a.rego": module("a", "", &format!("\"<{number}>\"")),
        "b.rego": module("b", "", &format!("\"<{number}>\"")),
        "c.rego": module("c", document, "sprintf(\"<%v>; c: <%v>\", [found.one, found.other])"),
    })
}

/// The numbers in the messages of a denial.
fn numbers(text: &str) -> Result<Vec<usize>> {
    let parts = text.split('<').skip(1).filter_map(|rest| rest.split_once('>'));
    parts.map(|(number, _)| number.parse().with_context(|| text.to_owned())).collect()
}

fn review(resource: &str, name: &str) -> Vec<u8> {
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": name, "operation": "CREATE", "namespace": "shop", "name": name, "dryRun": true,
            "resource": {"group": "", "version": "v1", "resource": resource},
            "object": {"metadata": {"name": name, "namespace": "shop", "labels": {}}},
        },
    });
    review.to_string().into_bytes()
}

/// The number of concurrent connections.
const ASKING: usize = 16;
/// The number of reviews on a connection before it is replaced.
const REVIEWS: u32 = 100;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verdict_during_a_change_comes_from_modules_before_or_after_it() -> Result<()> {
    let name = "rego-amid";
    let mut hub = ManagedWebhooks::prepare_with_files(name).await?;
    hub.run(&["--audit-interval=0"]).await?;
    let document = |number: usize| {
        let number = number.to_string();
        json!({"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 80}]},
            "metadata": {"name": "document", "namespace": "rego-amid-shop", "labels": {"one": number, "other": number}}})
    };
    apply(hub.client(), &document(0)).await?;
    hub.world.write("numbered", numbered(0)).await?;
    hub.world.until_ok("numbered").await?;
    let ask = async || -> Result<(Vec<usize>, u32)> {
        let mut connection = Connection::open(&hub.webhooks).await?;
        let (mut last, mut count) = (Vec::new(), 0);
        for _ in 0..REVIEWS {
            let text = connection.post("/admit", &review("podtemplates", "web")).await?;
            let found = numbers(&text)?;
            ensure!(
                found.len() == 4 && found[0] == found[1] && found[2] == found[3],
                "the response mixes versions: {text}"
            );
            (last, count) = (found, count + 1);
        }
        Ok((last, count))
    };
    wait::until("the Service is loaded", LIMIT, || async { ask().await.map(drop) }).await?;
    let (mut number, began) = (0, Instant::now());
    let changing = async {
        for next in 1.. {
            number = next;
            apply(hub.client(), &document(next)).await?;
            hub.world.write("numbered", numbered(next)).await?;
            if next % 5 == 0 {
                hub.webhooks.renew()?;
            }
        }
        Ok::<_, anyhow::Error>(())
    };
    let asking = async {
        let mut count = 0;
        while began.elapsed() < Duration::from_secs(15) {
            let results = try_join_all((0..ASKING).map(|_| ask())).await?;
            count += results.iter().map(|(_, count)| count).sum::<u32>();
        }
        Ok::<_, anyhow::Error>(count)
    };
    let count = tokio::select! {
        changed = changing => bail!("the changes ended: {changed:?}"),
        count = asking => count?,
    };
    let took = began.elapsed();
    println!("{count} reviews in {took:?} during {number} changes");
    ensure!(number >= 5, "only {number} changes");
    // After all changes, the last version is in force.
    let last = number + 1;
    apply(hub.client(), &document(last)).await?;
    hub.world.write("numbered", numbered(last)).await?;
    wait::until("the last version is in force", LIMIT, || async {
        let (found, _) = ask().await?;
        ensure!(found == [last; 4], "{found:?}");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn policy_that_loops_is_denied_in_time_and_delays_no_other() -> Result<()> {
    let mut hub = ManagedWebhooks::prepare_with_files("rego-loops").await?;
    hub.run(&["--audit-interval=0"]).await?;
    let loops = DENIES.replace(
        "\tobject.metadata.labels.fine != \"yes\"",
        "\tcount([1 | some a in numbers.range(1, 50000); some b in numbers.range(1, 50000); a == b; object]) > 0",
    );
    let services = DENIES.replace("podtemplates", "services");
    hub.world.write("fine", json!({"loops.rego": loops, "services.rego": services})).await?;
    hub.world.until_ok("fine").await?;
    let ask = async |resource: &str| {
        let began = Instant::now();
        let text = Connection::open(&hub.webhooks).await?.post("/admit", &review(resource, "web")).await?;
        Ok::<_, anyhow::Error>((began.elapsed(), text))
    };
    let slow = join_all((0..8).map(|_| ask("podtemplates")));
    let quick = async {
        let mut took = Vec::new();
        for _ in 0..50 {
            let (time, text) = ask("services").await?;
            // The object has no labels, so the comparison is undefined.
            ensure!(text.contains("\"allowed\":true"), "{text}");
            took.push(time);
        }
        took.sort();
        Ok::<_, anyhow::Error>(took)
    };
    let (slow, quick) = tokio::join!(slow, quick);
    let quick = quick?;
    println!("reviews take {:?} to {:?} beside a rule that does not end", quick[0], quick[49]);
    ensure!(quick[49] < Duration::from_secs(4), "{quick:?}");
    let mut too_long = 0;
    for result in slow {
        let (time, text) = result?;
        ensure!(time < Duration::from_secs(6), "{time:?}");
        ensure!(text.contains("\"allowed\":false") && text.contains("\"code\":500"), "{text}");
        too_long += usize::from(text.contains("took more than 1 s"));
    }
    ensure!(too_long > 0, "no response contains the reason");
    Ok(())
}

/// A webhook of another owner, which reverts patches, with this `reinvocationPolicy`.
fn reverting_webhook(other: &Webhooks, namespace: &str, again: &str) -> Result<Value> {
    let mut configuration =
        other.configuration_for("MutatingWebhookConfiguration", ("", "podtemplates"), namespace)?;
    configuration["metadata"]["name"] = "zz-puts-back".into();
    configuration["webhooks"][0]["reinvocationPolicy"] = again.into();
    Ok(configuration)
}

async fn never(Json(review): Json<Value>) -> Json<Value> {
    let path = "/template/spec/containers/0/imagePullPolicy";
    let patch = json!([{"op": "replace", "path": path, "value": "Never"}]).to_string().into_bytes();
    let response = json!({"uid": review["request"]["uid"], "allowed": true, "patchType": "JSONPatch", "patch": ByteString(patch)});
    Json(json!({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}))
}

#[tokio::test]
async fn reverted_patch_is_denied_or_applied_again() -> Result<()> {
    let name = "rego-back";
    let mut hub = ManagedWebhooks::prepare_with_files(name).await?;
    let shop = ManagedWebhooks::shop(name);
    hub.run(&["--audit-interval=0"]).await?;
    hub.world.write("mends", json!({"a.rego": pull()})).await?;
    wait::until("the object is patched", LIMIT, || async {
        let object = template(&shop, "asked", "yes");
        let stored = hub.create(&object).await?;
        hub.delete(&object).await?;
        ensure!(policy_of(&stored) == "Always", "{stored:?}");
        Ok(())
    })
    .await?;
    let other = Webhooks::with_files("puts-back")?;
    let stand_in = StandIn::serving(&other, Router::new().route("/placement", post(never)))?;
    // With `IfNeeded`, the API server invokes the other webhook again after the controller's patch. The webhook reverts
    // the patch, so the controller's validating webhook denies the write.
    apply(hub.client(), &reverting_webhook(&other, &shop, "IfNeeded")?).await?;
    wait::until("the write is denied", LIMIT, || async {
        let object = template(&shop, "put-back", "yes");
        let Err(error) = hub.create(&object).await else {
            hub.delete(&object).await?;
            bail!("the write is admitted");
        };
        let wants = "image-pull-policy: still requires replace /template/spec/containers/0/imagePullPolicy";
        ensure!(format!("{error:#}").contains(wants), "{error:#}");
        Ok(())
    })
    .await?;
    // With `Never`, the API server invokes the other webhook only once, so the controller's second patch stays.
    apply(hub.client(), &reverting_webhook(&other, &shop, "Never")?).await?;
    wait::until("the object is patched again", LIMIT, || async {
        let stored = hub.create(&template(&shop, "put-back", "yes")).await?;
        ensure!(policy_of(&stored) == "Always" && stored.name_any() == "put-back", "{stored:?}");
        Ok(())
    })
    .await?;
    stand_in.stop().await;
    Ok(())
}
