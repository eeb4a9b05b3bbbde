//! Connections from unauthenticated clients do not delay reviews of the API server and probes of the kubelet.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::StreamExt;
use futures::future::join_all;
use policy_sync_connections::Descriptors;
use policy_sync_testenv::{Controller, wait};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::block_in_place;
use tokio::time::timeout;

use crate::registration::ManagedWebhooks;
use crate::sent;
use crate::world::{BINARY, LIMIT, World};

/// The number of half-sent requests at each port.
const HALF_SENT: usize = 3_000;
/// The number of idle connections to the webhooks.
const IDLE: usize = 2_048;
/// The limit of open descriptors for a controller that has few of them.
const DESCRIPTORS: usize = 1_024;

/// Leaves `count` half-sent requests at `port`, and calls `between` after every 500 requests.
async fn half_send(port: u16, count: usize, between: impl AsyncFn() -> Result<()>) -> Result<Vec<TcpStream>> {
    let mut strangers = Vec::new();
    while strangers.len() < count {
        for _ in 0..500.min(count - strangers.len()) {
            strangers.push(block_in_place(|| -> Result<TcpStream> {
                let mut stream = TcpStream::connect(("127.0.0.1", port))?;
                // The server may have closed the connection to make room.
                let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX-Stranger");
                Ok(stream)
            })?);
        }
        between().await?;
    }
    Ok(strangers)
}

/// The number of open descriptors of `controller`.
fn descriptors(controller: &Controller) -> Result<usize> {
    Ok(fs::read_dir(format!("/proc/{}/fd", controller.pid()))?.count())
}

/// The resident memory of `controller`, in MiB.
fn memory(controller: &Controller) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", controller.pid()))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? / 1024)
}

async fn is_alive(controller: &Controller) -> Result<()> {
    let (code, text) = timeout(LIMIT, controller.readiness()).await.context("/readyz does not respond")??;
    ensure!(code == 200, "{code} {text}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn half_sent_requests_take_bounded_memory_and_probes_are_answered() -> Result<()> {
    // This process has the client ends of the connections, so it needs many descriptors as well.
    let _ = Descriptors::raise();
    let world = World::new("rego-half-sent").await?;
    let controller = world.controller(&[]).await?;
    is_alive(&controller).await?;
    let before = (memory(&controller)?, descriptors(&controller)?);
    let mut strangers = Vec::new();
    for port in controller.ports() {
        strangers.push(half_send(port, HALF_SENT, async || is_alive(&controller).await).await?);
    }
    let after = (memory(&controller)?, descriptors(&controller)?);
    println!("MiB and descriptors: {before:?} before, {after:?} after");
    // The two listeners have at most 256 connections each, and the controller has watches.
    ensure!(after.1 < before.1 + 700, "{} descriptors, {} before", after.1, before.1);
    ensure!(after.0 < before.0 + 25, "{} MiB, {} before", after.0, before.0);
    controller.metrics().await?;
    Ok(())
}

/// A program that runs the controller with few descriptors.
fn with_few_descriptors(folder: &TempDir) -> Result<PathBuf> {
    let program = folder.path().join("controller");
    fs::write(&program, format!("#!/bin/sh\nulimit -n {DESCRIPTORS}\nexec {BINARY} \"$@\"\n"))?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    Ok(program)
}

/// Denies PodTemplates with the name `bad`.
const DENIES: &str = "package admission\nimport rego.v1\nimport data.k8s.matches\ndeny contains {\"id\": \"bad\", \"resource\": {\"kind\": \
    \"podtemplates\", \"namespace\": namespace, \"name\": name}, \"resolution\": {\"message\": \"it is bad\"}} if {\n\t\
    matches[[\"podtemplates\", namespace, name, _]]\n\tname == \"bad\"\n}\n";

fn template(namespace: &str, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": name, "namespace": namespace},
        "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}})
}

/// A connection that is idle after one response; `None` if it is closed at once.
async fn idle(hub: &ManagedWebhooks) -> Option<impl Sized> {
    let connecting = async {
        let mut stream = sent::connect(&hub.webhooks).await.ok()?;
        stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.ok()?;
        stream.flush().await.ok()?;
        stream.read(&mut [0; 1_024]).await.ok().filter(|read| *read > 0)?;
        Some(stream)
    };
    timeout(Duration::from_secs(5), connecting).await.ok().flatten()
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_of_unknown_clients_deny_no_write_after_a_restart_of_the_api_server() -> Result<()> {
    let _ = Descriptors::raise();
    let (name, folder) = ("rego-strangers", TempDir::new()?);
    let mut hub = ManagedWebhooks::prepare_with_files(name).await?;
    let shop = ManagedWebhooks::shop(name);
    hub.run_as(&with_few_descriptors(&folder)?).await?;
    hub.world.write("denies", json!({"denies.rego": DENIES})).await?;
    hub.world.until_ok("denies").await?;
    let until_called = async || {
        wait::until("the API server calls the webhook", LIMIT, || async {
            let denied = hub.create(&template(&shop, "bad")).await.err().context("the write is admitted")?;
            ensure!(format!("{denied:#}").contains("it is bad"), "{denied:#}");
            Ok(())
        })
        .await
    };
    until_called().await?;

    let mut strangers = Vec::new();
    for port in hub.controller()?.ports() {
        strangers.push(half_send(port, DESCRIPTORS, async || Ok(())).await?);
    }
    let connecting = futures::stream::iter(0..IDLE).map(|_| idle(&hub)).buffer_unordered(32);
    let held: Vec<_> = connecting.collect().await;
    println!("{} of {IDLE} connections had a response", held.iter().flatten().count());
    is_alive(hub.controller()?).await?;
    ensure!(descriptors(hub.controller()?)? < DESCRIPTORS - 100, "the reserve of descriptors is used up");

    // A restarted API server has no open connections.
    hub.world.hub().stop_api_server();
    hub.world.hub().start_api_server().await?;
    let names: Vec<String> = (0..24).map(|number| format!("fine-{number}")).collect();
    let writes = join_all(names.iter().map(|name| async { hub.create(&template(&shop, name)).await })).await;
    let failed: Vec<String> =
        writes.iter().filter_map(|write| Some(format!("{:#}", write.as_ref().err()?))).collect();
    ensure!(failed.is_empty(), "{} of 24 writes failed: {failed:#?}", failed.len());
    until_called().await?;
    is_alive(hub.controller()?).await?;
    drop((strangers, held));
    Ok(())
}
