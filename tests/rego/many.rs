//! Many modules: a hub loads and reloads as many as OPA does, in about the same time.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use policy_sync_testenv::{Controller, Opa};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::world::{World, denies, modules, until_loaded};

/// How many modules there are, and in how many ConfigMaps.
const MODULES: usize = 2_000;
const CONFIG_MAPS: usize = 7;
/// How much longer than OPA it may take until all of them are in force again.
const RATIO: u32 = 3;

/// How many bytes of memory one of them may take in the controller.
const EACH: f64 = 65_536.0;

/// How many bytes of memory `controller` has.
async fn resident(controller: &Controller) -> Result<f64> {
    controller.metrics().await?.value("process_resident_memory_bytes", &[])
}

/// A module of 400 bytes with a rule, a function and a message of its own.
fn small(number: usize) -> String {
    format!(
        "package admission\n\nimport data.k8s.matches\n\ndeny[{{\n\t\"id\": \"owner-{number}\",\n\t\"resource\": {{\"kind\": \
         \"pods\", \"namespace\": namespace, \"name\": name}},\n\t\"resolution\": {{\"message\": message}},\n}}] {{\n\t\
         matches[[\"pods\", namespace, name, pod]]\n\tnot owned_{number}(pod)\n\tmessage := sprintf(\"%s has no owner {number}\", \
         [name])\n}}\n\nowned_{number}(pod) {{ pod.metadata.labels[\"owner-{number}\"] }}\n"
    )
}

/// Nested lists, which take the parser minutes.
fn hangs() -> String {
    format!("package admission\nx = {}1{}\n", "[".repeat(25), "]".repeat(25))
}

#[tokio::test]
async fn two_thousand_modules_are_in_force_again_in_three_times_the_time_that_opa_needs() -> Result<()> {
    let (world, folder) = (World::alone("rego-many").await?, TempDir::new()?);
    // What OPA has for `data.k8s.matches`.
    let matches = "package k8s\nmatches[[kind, namespace, name, object]] { object := data.kubernetes[kind][namespace][name] }\n";
    fs::write(folder.path().join("matches.rego"), matches)?;
    let mut carriers: Vec<BTreeMap<String, Value>> = vec![BTreeMap::new(); CONFIG_MAPS];
    for number in 0..MODULES {
        let key = format!("m{number:04}.rego");
        fs::write(folder.path().join(&key), small(number))?;
        carriers[number % CONFIG_MAPS].insert(key, small(number).into());
    }
    let first = world.controller(&[]).await?;
    let idle = resident(&first).await?;
    for (number, data) in carriers.iter().enumerate() {
        world.write(&format!("many-{number}"), json!(data)).await?;
    }
    until_loaded(&first, MODULES).await?;
    println!(
        "{} KiB are resident for each module",
        (resident(&first).await? - idle) / MODULES as f64 / 1_024.0
    );
    first.terminate().await?;

    let began = Instant::now();
    let opa = Opa::with(&[folder.path().display().to_string()], None).await?;
    let by_opa = began.elapsed();
    drop(opa);
    let began = Instant::now();
    let controller = world.controller(&[]).await?;
    let took = began.elapsed();
    ensure!(modules(&controller, "loaded").await? == MODULES as f64, "it is ready without them");
    println!("{MODULES} modules are ready after {took:?}, in OPA after {by_opa:?}");
    let each = (resident(&controller).await? - idle) / MODULES as f64;
    println!("after a restart {} KiB are resident for each module", each / 1_024.0);
    ensure!(each <= EACH, "a module takes {each} bytes");
    ensure!(took <= by_opa * RATIO, "it took {took:?}, OPA {by_opa:?}");

    // A policy written beside one that cannot be checked does not wait for it.
    let began = Instant::now();
    world.write("hangs", json!({"h.rego": hangs()})).await?;
    world.write("harmless", json!({"a.rego": denies("a")})).await?;
    world.until_ok("harmless").await?;
    let harmless = began.elapsed();
    println!("a harmless policy is in force after {harmless:?}");
    ensure!(harmless <= by_opa * RATIO + Duration::from_secs(1), "it took {harmless:?}, OPA {by_opa:?}");
    world.until_refused("hangs").await?;
    Ok(())
}
