//! Many modules on a hub.

use std::collections::BTreeMap;

use anyhow::Result;
use policy_sync_testenv::Controller;
use serde_json::{Value, json};

use crate::world::{World, until_loaded};

/// How many modules there are, and in how many ConfigMaps.
const MODULES: usize = 2_000;
const CONFIG_MAPS: usize = 7;
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

#[tokio::test]
async fn two_thousand_modules_of_seven_config_maps_are_in_force() -> Result<()> {
    let world = World::alone("rego-many").await?;
    let mut carriers: Vec<BTreeMap<String, Value>> = vec![BTreeMap::new(); CONFIG_MAPS];
    for number in 0..MODULES {
        carriers[number % CONFIG_MAPS].insert(format!("m{number:04}.rego"), small(number).into());
    }
    let controller = world.controller(&[]).await?;
    let idle = resident(&controller).await?;
    for (number, data) in carriers.iter().enumerate() {
        world.write(&format!("many-{number}"), json!(data)).await?;
    }
    until_loaded(&controller, MODULES).await?;
    println!(
        "{} KiB are resident for each module",
        (resident(&controller).await? - idle) / MODULES as f64 / 1_024.0
    );
    Ok(())
}
