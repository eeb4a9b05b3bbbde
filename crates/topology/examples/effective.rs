//! The effective policies of all paths, from the manifests of a folder.
//!
//! Run it with `cargo run -p policy-sync-topology --example effective FOLDER`.

use std::error::Error;
use std::ops::ControlFlow;
use std::path::Path;
use std::{env, fs};

use policy_sync_topology::{EffectiveCache, Graph, HubObject, Objects};

/// The objects of all YAML files in `folder`.
fn objects(folder: &Path) -> Result<Objects, Box<dyn Error>> {
    let mut objects = Objects::default();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let text = fs::read_to_string(&path)?;
        for object in serde_saphyr::from_multiple::<serde_json::Value>(&text)? {
            let object: HubObject = serde_json::from_value(object)?;
            objects.take(&object).map_err(|fault| format!("{}: {fault}", path.display()))?;
        }
    }
    Ok(objects)
}

/// A line for each rule that applies on each path.
fn effective(objects: &Objects) -> String {
    let graph_input = objects.graph_input();
    let graph = Graph::build(&graph_input);
    let (mut cache, mut text) = (EffectiveCache::new(&graph), String::new());
    let _: ControlFlow<()> = graph.walk(&mut cache, &mut |path, cache| {
        let names: Vec<String> = path.nodes.iter().map(|node| graph.locator(*node).to_string()).collect();
        text += &format!("{}\n", names.join(" > "));
        for id in path.effective {
            for entry in cache.rules(*id) {
                let source = cache.policy(entry.policy).locator;
                text += &format!("    {} = {} from {source}\n", entry.key(), entry.rule.value);
            }
        }
        ControlFlow::Continue(())
    });
    text
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = env::args().nth(1).ok_or("usage: effective FOLDER")?;
    print!("{}", effective(&objects(folder.as_ref())?));
    Ok(())
}

#[test]
fn gateway_limit_applies_unless_a_route_has_its_own() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/shop");
    let text = effective(&objects(&folder).expect("manifests are valid"));
    let limits: Vec<&str> = text.lines().filter(|line| line.starts_with(' ')).map(str::trim).collect();
    let of = |policy: &str, limit: u32| {
        format!(
            "limits#global = {{\"rates\":[{{\"limit\":{limit},\"window\":\"10s\"}}]}} from ratelimitpolicy.kuadrant.io:{policy}"
        )
    };
    assert_eq!(limits, [of("shop/web", 100), of("shop/orders", 5)], "{text}");
}
