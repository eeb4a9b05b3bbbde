//! Bundles of thousands of modules, and modules that exceed the limits of number, size or time.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use futures::try_join;
use policy_sync_rego::module::{Module, ModuleId, Text};
use policy_sync_testenv::{Controller, Opa, wait};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

use crate::registration::ManagedWebhooks;
use crate::sent::{Connection, review};
use crate::world::{LIMIT, World, denies, until_loaded};

/// The number of modules, and of the ConfigMaps that contain them.
const MODULES: usize = 2_000;
const CONFIG_MAPS: usize = 7;
/// The maximum time from a restart until writes are reviewed, as a multiple of OPA's load time for the same
/// modules.
const OPA_RATIO: f64 = 3.0;
/// The maximum number of measurements until one ratio is within the limit. Other tests use a varying share of the
/// processors.
const ROUNDS: usize = 3;
/// The maximum memory for each module after a restart, in KiB. `docs/memory.md` has the measured value.
const MODULE_KIB: f64 = 80.0;

/// Locked by tests that keep the processors busy for seconds, so that such tests run one after the other.
static BUSY: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// The resident memory of `controller`, in bytes.
async fn resident(controller: &Controller) -> Result<f64> {
    controller.metrics().await?.value("process_resident_memory_bytes", &[])
}

/// A module of 400 bytes with a rule, a function and a message that contain `number`.
fn small(number: usize) -> String {
    format!(
        "package admission\n\nimport data.k8s.matches\n\ndeny[{{\n\t\"id\": \"owner-{number}\",\n\t\"resource\": {{\"kind\": \
         \"pods\", \"namespace\": namespace, \"name\": name}},\n\t\"resolution\": {{\"message\": message}},\n}}] {{\n\t\
         matches[[\"pods\", namespace, name, pod]]\n\tnot owned_{number}(pod)\n\tmessage := sprintf(\"%s has no owner {number}\", \
         [name])\n}}\n\nowned_{number}(pod) {{ pod.metadata.labels[\"owner-{number}\"] }}\n"
    )
}

/// The data of a ConfigMap with `count` tiny modules.
fn tiny(carrier: &str, count: usize) -> Value {
    let module =
        |number| (format!("{number}.rego"), format!("package {carrier}.m{number}\np = 1 {{ true }}\n"));
    json!((0..count).map(module).collect::<BTreeMap<_, _>>())
}

/// Reviews the creation of a ConfigMap `name` in the shop of `hub`, and returns the response.
async fn review_response(hub: &ManagedWebhooks, name: &str) -> Result<String> {
    let namespace = ManagedWebhooks::shop(&hub.world.namespace);
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}});
    Connection::open(&hub.webhooks).await?.post("/admit", &review("configmaps", &object)).await
}

/// Waits until a Rego policy denies `bad`, and no Rego policy denies `good`.
async fn until_reviewed(hub: &ManagedWebhooks) -> Result<()> {
    wait::until("writes are reviewed", LIMIT, || async {
        let denied = review_response(hub, "bad").await?;
        ensure!(denied.contains("\"allowed\":false") && denied.contains("bad is denied"), "{denied}");
        Ok(())
    })
    .await?;
    let admitted = review_response(hub, "good").await?;
    ensure!(admitted.contains("\"allowed\":true"), "{admitted}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_modules_are_loaded_soon_after_a_restart() -> Result<()> {
    let _busy = BUSY.lock().await;
    let mut hub = ManagedWebhooks::prepare_with_files("rego-many").await?;
    let mut carriers: Vec<BTreeMap<String, Value>> = vec![BTreeMap::new(); CONFIG_MAPS];
    for number in 0..MODULES {
        carriers[number % CONFIG_MAPS].insert(format!("m{number:04}.rego"), small(number).into());
    }
    let bad = "package admission\ndeny[{\"id\": \"bad\", \"resolution\": {\"message\": \"bad is denied\"}}] { input.request.name == \"bad\" }\n";
    hub.run(&[]).await?;
    let idle = resident(hub.controller()?).await?;
    for (number, data) in carriers.iter().enumerate() {
        hub.world.write(&format!("many-{number}"), json!(data)).await?;
    }
    hub.world.write("harmless", json!({"bad.rego": bad})).await?;
    hub.world.until_ok("harmless").await?;
    until_loaded(hub.controller()?, MODULES + 1).await?;
    until_reviewed(&hub).await?;
    hub.stop().await?;

    let directory = tempfile::tempdir()?;
    for (carrier, data) in carriers.iter().enumerate() {
        for (name, text) in data {
            std::fs::write(
                directory.path().join(format!("{carrier}-{name}")),
                text.as_str().unwrap_or_default(),
            )?;
        }
    }
    let mut ratios = Vec::new();
    for _ in 0..ROUNDS {
        let by_opa = loaded_by_opa(directory.path()).await?;
        let began = Instant::now();
        hub.run(&[]).await?;
        until_reviewed(&hub).await?;
        let took = began.elapsed();
        let ratio = took.as_secs_f64() / by_opa.as_secs_f64();
        println!("after a restart: {took:?}, {ratio:.2} times OPA's {by_opa:?}");
        ratios.push(ratio);
        if ratio <= OPA_RATIO {
            break;
        }
        hub.stop().await?;
    }
    ensure!(
        ratios.last().is_some_and(|ratio| *ratio <= OPA_RATIO),
        "loading takes {ratios:?} times as long as in OPA"
    );
    // The process releases the memory for loading after a few seconds.
    wait::until("memory is released", LIMIT, || async {
        let each = (resident(hub.controller()?).await? - idle) / MODULES as f64 / 1_024.0;
        println!("{each:.0} KiB for each module");
        ensure!(each <= MODULE_KIB, "{each:.0} KiB for each module");
        Ok(())
    })
    .await
}

/// The time that OPA takes to load the modules of `directory`.
async fn loaded_by_opa(directory: &Path) -> Result<Duration> {
    let directory = directory.to_str().context("the path is not UTF-8")?.to_owned();
    let began = Instant::now();
    let opa = Opa::with(&[directory], None).await?;
    let took = began.elapsed();
    let (_, policies) = opa.ask("GET", "/v1/data/admission/deny", Vec::new()).await?;
    ensure!(policies["result"].is_array(), "OPA has no modules: {policies}");
    Ok(took)
}

#[tokio::test]
async fn carrier_that_exceeds_the_limit_of_the_bundle_is_rejected_at_admission() -> Result<()> {
    let _busy = BUSY.lock().await;
    let hub = ManagedWebhooks::start("rego-limit").await?;
    hub.world.write("first", tiny("first", 2_500)).await?;
    hub.world.until_ok("first").await?;
    let error = wait::until("the webhook rejects the ConfigMap", LIMIT, || async {
        // The API server calls a new webhook a moment after it was configured.
        let Err(error) = hub.world.write("second", tiny("second", 1_501)).await else {
            hub.world.delete("second").await?;
            bail!("the ConfigMap is admitted");
        };
        Ok(format!("{error:#}"))
    })
    .await?;
    for part in
        ["at most 4,000 modules of 2,097,152 bytes", "this object has 1,501 modules", "1,500 modules of"]
    {
        ensure!(error.contains(part), "{part:?} is missing: {error}");
    }
    hub.world.write("second", tiny("second", 1_500)).await?;
    hub.world.until_ok("second").await?;
    until_loaded(hub.controller()?, 4_000).await
}

#[tokio::test]
async fn newest_of_carriers_that_exceed_the_limit_together_is_rejected_in_its_status() -> Result<()> {
    let _busy = BUSY.lock().await;
    let world = World::new("rego-limit-at-once").await?;
    // The webhook that checks modules does not run, as if both writes had passed the webhook at the same time.
    world.write("older", tiny("older", 2_500)).await?;
    world.until_newer_than("older").await?;
    try_join!(
        world.write("newer", tiny("newer", 2_500)),
        world.write("small", json!({"a.rego": denies("a")}))
    )?;
    let controller = world.controller(&[]).await?;
    let status = world.until_refused("newer").await?;
    ensure!(status.to_string().contains("this object has 2,500 modules"), "{status}");
    world.until_ok("older").await?;
    world.until_ok("small").await?;
    until_loaded(&controller, 2_501).await
}

#[tokio::test]
async fn modules_that_are_slow_to_check_delay_the_status_of_no_other() -> Result<()> {
    let _busy = BUSY.lock().await;
    let world = World::new("rego-slow-check").await?;
    let controller = world.controller(&[]).await?;
    let nested = format!("package admission\nx = {}1{}", "[".repeat(25), "]".repeat(25));
    let slow: BTreeMap<_, _> = (0..100).map(|number| (format!("{number}.rego"), nested.as_str())).collect();
    world.write("slow", json!(slow)).await?;
    world.write("harmless", json!({"b.rego": denies("b")})).await?;
    world.until_ok("harmless").await?;
    // Four modules are aborted, and the other modules are not checked at all.
    let status = world.until_refused("slow").await?;
    ensure!(status.to_string().contains("not checked: 4 other modules of"), "{status}");
    until_loaded(&controller, 1).await
}

#[tokio::test]
async fn modules_of_many_objects_that_are_slow_to_check_delay_the_status_of_no_other() -> Result<()> {
    const SLOW: usize = 24;
    let _busy = BUSY.lock().await;
    let world = World::new("rego-slow-checks").await?;
    let nested = format!("package admission\nx = {}1{}", "[".repeat(25), "]".repeat(25));
    for number in 0..SLOW {
        world.write(&format!("slow-{number}"), json!({"a.rego": nested})).await?;
    }
    // The harmless module is the newest, and the last by name.
    world.write("zero", json!({"b.rego": denies("b")})).await?;
    let controller = world.controller(&[]).await?;
    world.until_ok("zero").await?;
    wait::until("a slow module waits for its check", LIMIT, || async {
        for number in 0..SLOW {
            let status = world.status(&format!("slow-{number}")).await?.to_string();
            if status.contains("waits for its check, because other modules crash the check") {
                return Ok(());
            }
        }
        bail!("no slow module waits for its check")
    })
    .await?;
    for number in 0..SLOW {
        let is_slow = |status: &Value| status.to_string().contains("the check took more than 1 s");
        world.until_status(&format!("slow-{number}"), is_slow).await?;
    }
    until_loaded(&controller, 1).await
}

/// The processor time that this thread has used.
fn used() -> Duration {
    // The conversion fails only for negative times.
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap_or_default()
}

/// A module that takes about 150 to 300 ms of processor time to parse.
fn nested_for_long() -> Result<String> {
    for depth in 6..25 {
        let text = format!("package admission\nx = {}1{}", "[".repeat(depth), "]".repeat(depth));
        let module = Text { id: ModuleId::new("nested"), text: text.as_str().into() };
        let times = (0..3).map(|_| {
            let began = used();
            Module::parse(&module).map(|_| used().saturating_sub(began))
        });
        if times.collect::<Result<Vec<_>, _>>()?.into_iter().min() > Some(Duration::from_millis(150)) {
            return Ok(text);
        }
    }
    bail!("no module is slow")
}

#[tokio::test]
async fn modules_that_are_slow_together_do_not_block_others() -> Result<()> {
    let _busy = BUSY.lock().await;
    let world = World::new("rego-slow-together").await?;
    let nested = nested_for_long()?;
    let slow: BTreeMap<_, _> =
        (0..100).map(|number| (format!("{number}.rego"), format!("{nested}\n# {number}"))).collect();
    world.write("slow", json!(slow)).await?;
    world.until_newer_than("slow").await?;
    world.write("zero", json!({"b.rego": denies("b")})).await?;
    let _controller = world.controller(&[]).await?;
    world.until_ok("zero").await?;
    let is_told = |status: &Value| {
        let text = status.to_string();
        text.contains("with all other modules: this module took") && !text.contains("waits for its check")
    };
    world.until_status("slow", is_told).await?;
    // The check of the modules in force leaves enough time for the check of another module.
    world.write("after", json!({"c.rego": denies("c")})).await?;
    world.until_ok("after").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn module_that_takes_too_long_is_named_in_its_status_but_not_in_metrics() -> Result<()> {
    let mut hub = ManagedWebhooks::prepare_with_files("rego-slow").await?;
    hub.run(&[]).await?;
    let slow = "package admission\nimport rego.v1\ndeny contains {\"id\": \"slow\"} if {\n\tinput.request.name == \"slow\"\n\t\
                count([1 | some a in numbers.range(1, 50000); some b in numbers.range(1, 50000); a == b]) > 0\n}\n";
    hub.world
        .write("gates", json!({"any.rego": denies("any"), "slow.rego": slow, "zero.rego": denies("zero")}))
        .await?;
    hub.world.until_ok("gates").await?;
    let admitted = review_response(&hub, "good").await?;
    ensure!(admitted.contains("\"allowed\":true"), "{admitted}");
    let failed = review_response(&hub, "slow").await?;
    ensure!(failed.contains("took more than 1 s") && !failed.contains("any.rego"), "{failed}");
    let is_named =
        |status: &Value| status["status"] == "ok" && status["warnings"][0]["location"]["file"] == "slow.rego";
    // While the machine is busy, the search for the slow module may find no module.
    let status = wait::until("the status names the slow module", LIMIT, || async {
        review_response(&hub, "slow").await?;
        let status = hub.world.status("gates").await?;
        ensure!(is_named(&status), "the status is {status}");
        Ok(status)
    })
    .await?;
    ensure!(status["warnings"].as_array().is_some_and(|warnings| warnings.len() == 1), "{status}");
    let notes = wait::until("an Event exists", LIMIT, || async {
        let notes = hub.world.events("PolicySlow", "gates").await?;
        ensure!(!notes.is_empty(), "there are no Events");
        Ok(notes)
    })
    .await?;
    ensure!(
        notes.iter().all(|note| note.contains("gates/slow.rego: takes more than 1 s by itself")),
        "{notes:?}"
    );
    let metrics = hub.controller()?.metrics().await?;
    ensure!(metrics.value("policy_sync_rego_slow_modules", &[])? == 1.0);
    let series = format!("{:?}", metrics.series());
    ensure!(!series.contains("slow.rego") && !series.contains("gates"), "the metrics name a module");
    // A new text of the module is not marked as slow.
    hub.world.write("gates", json!({"any.rego": denies("any"), "slow.rego": denies("slow")})).await?;
    hub.world.until_status("gates", |status| *status == json!({"status": "ok"})).await?;
    Ok(())
}
