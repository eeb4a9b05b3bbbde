//! The placement webhook, called by a real API server and by other clients.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use policy_sync_testenv::apply::{api_for, apply};
use policy_sync_testenv::bad_input::{self, code};
use policy_sync_testenv::{Controller, wait};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_rustls::client::TlsStream;

use crate::sent;
use crate::served::{DeploymentWebhooks, PREFERENCES, app, cluster, pci};
use crate::world::LIMIT;

impl DeploymentWebhooks {
    async fn post(&self, body: &[u8]) -> Result<(u16, String)> {
        sent::ask(&self.webhooks, &format!("{POST}\r\nContent-Length: {}", body.len()), body).await
    }
}

/// The beginning of the head of a review request.
const POST: &str = "POST /placement HTTP/1.1\r\nContent-Type: application/json";

/// A description, the beginning and the rest of the head, the body, and the code of the response.
const REQUESTS: [(&str, &str, &str, &str, u16); 9] = [
    ("another method", "GET /placement HTTP/1.1", "", "", 405),
    ("another path", "POST /other HTTP/1.1", "\r\nContent-Length: 0", "", 404),
    ("no content type", "POST /placement HTTP/1.1", "\r\nContent-Length: 2", "{}", 415),
    (
        "the content type `text/plain`",
        "POST /placement HTTP/1.1\r\nContent-Type: text/plain",
        "\r\nContent-Length: 2",
        "{}",
        415,
    ),
    ("no body", POST, "\r\nContent-Length: 0", "", 400),
    ("not JSON", POST, "\r\nContent-Length: 1", "{", 400),
    ("an empty object", POST, "\r\nContent-Length: 2", "{}", 400),
    ("a content length of 20 MiB", POST, "\r\nContent-Length: 20971520", "{", 413),
    ("a body that is shorter than its content length", POST, "\r\nContent-Length: 100", "{", 408),
];

/// An AdmissionReview of an object.
fn review(object: &str) -> Vec<u8> {
    format!(
        r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{{"uid":"u","resource":{{"group":"apps",
        "version":"v1","resource":"deployments"}},"dryRun":true,"object":{object}}}}}"#
    )
    .into_bytes()
}

#[tokio::test]
async fn written_objects_get_placement_annotations_and_forbidden_values_are_denied() -> Result<()> {
    let served = DeploymentWebhooks::start("rego-placed").await?;
    served.world.write("pci", json!({"pci.rego": pci("rego-placed-eu")})).await?;
    served.world.until_ok("pci").await?;
    for (name, zone) in [("rego-placed-c1", "rego-placed-eu"), ("rego-placed-c2", "us")] {
        apply(&served.world.client, &cluster(name, zone)).await?;
    }
    let deployments = served.deployments();
    let shop = app("shop", json!({"requires-pci": "true"}))?;
    let shop = wait::until("the clusters are loaded", LIMIT, || async {
        // Until the controller has loaded the clusters, the Rego policy selects no cluster.
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        deployments.create(&dry, &shop).await?;
        Ok(deployments.create(&PostParams::default(), &shop).await?)
    })
    .await?;
    let preferences = r#"{"clusters":{"rego-placed-c1":{"weight":1}},"rebalance":true}"#;
    ensure!(shop.annotations()[PREFERENCES] == preferences, "{:?}", shop.annotations());

    let wish =
        json!({"requires-pci": "true", PREFERENCES: r#"{"clusters":{"rego-placed-c2":{"weight":1}}}"#});
    let error = deployments.create(&PostParams::default(), &app("other", wish.clone())?).await;
    let error = error.err().context("the write is admitted")?.to_string();
    let words = "other handles card data: cluster rego-placed-c2 is not certified for it";
    ensure!(error.contains(words), "{error}");
    wait::until("the Event exists", LIMIT, || async {
        let events = served.world.events("PlacementRefused", "other").await?;
        ensure!(events == [words], "{events:?}");
        Ok(())
    })
    .await?;
    let patch = json!({"metadata": {"annotations": wish}});
    let error = deployments.patch("shop", &PatchParams::default(), &Patch::Merge(&patch)).await;
    ensure!(error.is_err(), "a change of the annotation of the Rego policy is admitted");
    // Values that users set for annotations of the Rego policy are ignored.
    let forged =
        json!({"metadata": {"annotations": {"kuadrant.io/placed-by-policy": "{}", "requires-pci": null}}});
    let shop = deployments.patch("shop", &PatchParams::default(), &Patch::Merge(&forged)).await?;
    ensure!(!shop.annotations().contains_key(PREFERENCES), "{:?}", shop.annotations());
    ensure!(!shop.annotations().contains_key("kuadrant.io/placed-by-policy"), "{:?}", shop.annotations());

    // A module that was never valid denies all writes; otherwise its last valid text stays in force.
    // The webhook that checks modules would reject the write, so its configuration is deleted first.
    let (checks, name) = api_for(&served.world.client, &served.webhooks.configurations()[1]).await?;
    checks.delete(&name, &DeleteParams::default()).await?;
    wait::until("the ConfigMap is written", LIMIT, || async {
        let broken = json!({"b.rego": "package io.k8s.federation.admission\n{"});
        served.world.write("broken", broken).await
    })
    .await?;
    served.world.until_refused("broken").await?;
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let error = deployments.create(&dry, &app("third", json!({}))?).await;
    let error = error.err().context("the write is admitted")?.to_string();
    ensure!(error.contains("Rego policy rego-placed/broken/b.rego is unavailable"), "{error}");
    served.world.delete("broken").await?;
    wait::until("the write is admitted", LIMIT, || async {
        Ok(deployments.create(&dry, &app("third", json!({}))?).await.map(drop)?)
    })
    .await?;
    ensure!(served.world.events("PlacementRefused", "third").await?.is_empty(), "a dry run has an Event");
    served.webhooks.install(&served.world.client).await?;
    let metrics = served.controller.metrics().await?;
    for verdict in ["changed", "denied", "failed", "allowed"] {
        let labels = [("path", "/placement"), ("verdict", verdict)];
        ensure!(
            metrics.value("policy_sync_webhook_requests_total", &labels)? > 0.0,
            "no request has the verdict {verdict}"
        );
    }
    served.stop().await
}

#[tokio::test]
async fn malformed_requests_get_an_error_in_time() -> Result<()> {
    let served = DeploymentWebhooks::start("rego-hostile").await?;
    let rule =
        "errors contains sprintf(\"%s is not web\", [input.metadata.name]) if input.metadata.name != \"web\"";
    let text = format!("package io.k8s.federation.admission\nimport rego.v1\n{rule}\n");
    served.world.write("names", json!({"a.rego": text})).await?;
    served.world.until_ok("names").await?;
    let mut rows = "| request | response | message |\n|---|---|---|\n".to_owned();
    for (what, head, more, body, expected) in REQUESTS {
        let (found, text) = sent::ask(&served.webhooks, &format!("{head}{more}"), body.as_bytes())
            .await
            .with_context(|| what)?;
        ensure!(found == expected, "{what}: {found} {text}");
        rows += &format!("| {what} | {found} | {} |\n", code(text.trim()));
    }
    let large = vec![b' '; 20 << 20];
    let mut body = format!("{:x}\r\n", large.len()).into_bytes();
    body.extend(&large);
    let (found, text) =
        sent::ask(&served.webhooks, &format!("{POST}\r\nTransfer-Encoding: chunked"), &body).await?;
    ensure!(found == 413, "{found} {text}");
    rows += &format!("| 20 MiB with chunked encoding | {found} | {} |\n", code(text.trim()));
    let (found, text) = sent::drip(&served.webhooks, POST).await?;
    ensure!(found == 408, "{found} {text}");
    rows += &format!("| a body at two bytes a second | {found} | {} |\n", code(text.trim()));
    let nested = |levels: usize| format!(r#"{{"spec":{}1{}}}"#, "[".repeat(levels), "]".repeat(levels));
    let odd = r#"a\"] as 1 with input as {\"x\\"#;
    let everywhere = format!(
        r#"{{"apiVersion":"{odd}","kind":"{odd}","metadata":{{"name":"{odd}","namespace":"{odd}","uid":"{odd}",
        "labels":{{"{odd}":"{odd}"}},"annotations":{{"{odd}":"{odd}"}}}},"spec":{{"{odd}":["{odd}"]}}}}"#
    );
    for (what, object, is_allowed) in [
        ("an object nested 5,000 levels deep", nested(5_000), false),
        ("a list as the object", "[1]".to_owned(), true),
        (
            "invalid annotations and labels",
            r#"{"metadata":{"annotations":{"k":[1]},"labels":7}}"#.to_owned(),
            true,
        ),
        ("quotes and backslashes in every field, and a policy that reads them", everywhere, false),
    ] {
        let (found, text) = served.post(&review(&object)).await.with_context(|| what)?;
        let answer: Value = serde_json::from_str(&text).with_context(|| format!("{what}: {text}"))?;
        let response = &answer["response"];
        ensure!(
            found == 200 && response["uid"] == "u" && response["allowed"] == is_allowed,
            "{what}: {text}"
        );
        let verdict = if is_allowed { "allowed" } else { "denied" };
        let message = response["status"]["message"].as_str().unwrap_or_default();
        rows += &format!("| {what} | {found}, {verdict} | {} |\n", code(message));
    }
    bad_input::holds("webhook requests", &rows)?;
    // The API server still gets responses.
    served.deployments().create(&PostParams::default(), &app("web", json!({}))?).await?;
    served.stop().await
}

#[tokio::test]
async fn clients_that_send_nothing_delay_no_other_and_lose_their_connection() -> Result<()> {
    let served = DeploymentWebhooks::start("rego-silent").await?;
    let head = "POST /placement HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json";
    let claims = format!("{head}\r\nContent-Length: 8388608\r\n\r\n");
    let mut claiming = Vec::new();
    for _ in 0..40 {
        let mut stream = sent::connect(&served.webhooks).await?;
        stream.write_all(claims.as_bytes()).await?;
        stream.flush().await?;
        claiming.push(stream);
    }
    let mut silent = sent::connect(&served.webhooks).await?;
    let honest = review("{}");
    let asking = tokio::time::timeout(Duration::from_millis(2_500), served.post(&honest));
    let (code, text) = asking.await.context("unfinished requests delay the review")??;
    ensure!(code == 200, "{code} {text}");
    let mut nothing = Vec::new();
    // The connection is closed, with or without a response.
    let _ = tokio::time::timeout(LIMIT, silent.read_to_end(&mut nothing))
        .await
        .context("the silent connection is not closed")?;
    served.stop().await
}

#[tokio::test]
async fn endless_bodies_of_unknown_clients_delay_no_review_from_another_address() -> Result<()> {
    let served = DeploymentWebhooks::start("rego-bodies").await?;
    let head = "POST /placement HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json";
    let head = format!("{head}\r\nContent-Length: 8388608\r\n\r\n");
    let part = Arc::new(vec![b' '; 7 << 20]);
    // Three of the bodies fit into the memory budget, and leave too little for the review.
    let strangers = (2..10).map(|number| Ipv4Addr::new(127, 0, 0, number));
    let mut sending = JoinSet::new();
    for address in strangers.cycle().take(24) {
        let mut stream = sent::connect_from(&served.webhooks, address).await?;
        let (head, part) = (head.clone(), part.clone());
        sending.spawn(async move {
            // Connections that are dropped to make room are closed before the body is sent.
            let _ = stream.write_all(head.as_bytes()).await;
            let _ = stream.write_all(&part).await;
            let _ = stream.flush().await;
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer).await;
            String::from_utf8_lossy(&answer).into_owned()
        });
    }
    let honest =
        review(&format!(r#"{{"metadata":{{"name":"a","annotations":{{"b":"{}"}}}}}}"#, "x".repeat(5 << 20)));
    let mut answers = Vec::new();
    // Reviews succeed until the connections of the unknown clients have timed out.
    while !sending.is_empty() {
        let asking = tokio::time::timeout(Duration::from_millis(2_000), served.post(&honest));
        let (code, text) = asking.await.context("unknown clients delay the review")??;
        ensure!(code == 200, "{code} {text}");
        while let Some(answer) = sending.try_join_next() {
            answers.push(answer?);
        }
    }
    for expected in
        ["the body took more than 3 s", "the request body was dropped in favor of other addresses"]
    {
        ensure!(answers.iter().any(|answer| answer.contains(expected)), "{expected}: {answers:?}");
    }
    served.stop().await
}

#[tokio::test]
async fn concurrent_large_reviews_from_one_address_all_get_a_response() -> Result<()> {
    let served = DeploymentWebhooks::start("rego-large").await?;
    let object = format!(r#"{{"metadata":{{"name":"a","annotations":{{"b":"{}"}}}}}}"#, "x".repeat(3 << 20));
    let body = Arc::new(review(&object));
    let mut sending = JoinSet::new();
    for _ in 0..12 {
        let (mut stream, body) = (sent::connect(&served.webhooks).await?, body.clone());
        sending.spawn(async move {
            let head =
                format!("{POST}\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}", body.len());
            stream.write_all(format!("{head}\r\n\r\n").as_bytes()).await?;
            // Each connection sends a part in turn.
            for part in body.chunks(64 << 10) {
                stream.write_all(part).await?;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            stream.flush().await?;
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await?;
            anyhow::Ok(String::from_utf8_lossy(&answer).into_owned())
        });
    }
    while let Some(answer) = sending.join_next().await {
        let answer = answer??;
        ensure!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    served.stop().await
}

#[tokio::test]
async fn ten_thousand_reviews_at_once_are_each_evaluated_or_rejected_as_too_many() -> Result<()> {
    let served = DeploymentWebhooks::start("rego-many-reviews").await?;
    let slow = "package io.k8s.federation.admission\nimport rego.v1\nannotations[\"n\"] := count([x | some x in \
                numbers.range(1, 500)])\n";
    served.world.write("slow", json!({"a.rego": slow})).await?;
    served.world.until_ok("slow").await?;
    let before = memory(&served.controller)?;
    let body =
        review(&format!(r#"{{"metadata":{{"name":"a","annotations":{{"b":"{}"}}}}}}"#, "x".repeat(4_096)));
    let (mut evaluated, mut refused) = (0, 0);
    // An API server opens at most this number of connections. Each connection has several reviews in sequence.
    let connecting = Semaphore::new(50);
    let asking = (0..600).map(|_| async {
        // A handshake may take a few seconds, because all connections share a thread.
        let turn = connecting.acquire().await?;
        let mut connection = sent::Connection::open(&served.webhooks).await?;
        drop(turn);
        let (mut evaluated, mut refused) = (0, 0);
        for _ in 0..17 {
            let text = connection.post("/placement", &body).await?;
            match () {
                () if text.contains(r#""allowed":true"#) => evaluated += 1,
                () if text.contains("too many reviews") => refused += 1,
                () => bail!("{text}"),
            }
        }
        Ok((evaluated, refused))
    });
    for result in futures::future::join_all(asking).await {
        let (of_one, not) = result?;
        evaluated += of_one;
        refused += not;
    }
    ensure!(
        evaluated + refused == 600 * 17 && evaluated > 1_000,
        "{evaluated} evaluated and {refused} rejected"
    );
    let more = memory(&served.controller)?.saturating_sub(before) / 1024;
    ensure!(more < 100, "the memory grew by {more} MiB");
    served.stop().await
}

/// The resident memory of the controller, in KiB.
fn memory(controller: &Controller) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", controller.pid()))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    line.trim().trim_end_matches(" kB").parse().context("VmRSS is not a number")
}

#[tokio::test]
async fn renewed_certificate_is_served_without_errors() -> Result<()> {
    let served = DeploymentWebhooks::start("rego-renewed").await?;
    let of = |stream: &TlsStream<TcpStream>| {
        let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default();
        certificates.first().map(|certificate| certificate.to_vec())
    };
    let first = of(&sent::connect(&served.webhooks).await?);
    served.webhooks.renew()?;
    let start = std::time::Instant::now();
    loop {
        // Each connection works, with the old or the new certificate.
        let found = of(&sent::connect(&served.webhooks).await?);
        let (code, _) = served.post(&review("{}")).await?;
        ensure!(code == 200, "{code}");
        if found != first {
            break;
        }
        ensure!(start.elapsed() < LIMIT, "the old certificate is still served");
    }
    served.stop().await
}
