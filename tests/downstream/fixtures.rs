//! Worlds with the reports of real controllers, one line of JSON for each world.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::{env, fs};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Values that a controller reports, by object and field.
pub(crate) type ReportedValues = BTreeMap<String, Value>;

/// Objects in short form, with the reports of a real controller.
#[derive(Deserialize, Serialize)]
pub(crate) struct World {
    pub(crate) objects: Vec<Value>,
    pub(crate) answers: ReportedValues,
}

#[derive(Clone, Copy)]
pub(crate) enum Fixture {
    Istio,
    Kuadrant,
}

impl Fixture {
    fn path(self) -> PathBuf {
        let name = match self {
            Self::Istio => "istio.jsonl",
            Self::Kuadrant => "kuadrant.jsonl",
        };
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/downstream").join(name)
    }
}

/// Reads the stored worlds. Fails if they differ from the `generated` worlds, except in creation times.
pub(crate) fn read(fixture: Fixture, generated: &[Vec<Value>]) -> Result<Vec<World>> {
    let path = fixture.path();
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let worlds: Vec<World> = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let stale =
        "the fixture is outdated: record it again with POLICY_SYNC_DOWNSTREAM and POLICY_SYNC_UPDATE=1";
    ensure!(worlds.len() == generated.len(), stale);
    for (stored, generated) in worlds.iter().zip(generated) {
        ensure!(without_age(&stored.objects) == without_age(generated), stale);
    }
    let answers: usize = worlds.iter().map(|world| world.answers.len()).sum();
    ensure!(answers > 3 * worlds.len(), "the fixture has only {answers} reported values");
    Ok(worlds)
}

fn without_age(objects: &[Value]) -> Vec<Value> {
    let mut objects = objects.to_vec();
    for object in objects.iter_mut().filter_map(Value::as_object_mut) {
        object.remove("created");
    }
    objects
}

/// Stores `worlds` if `POLICY_SYNC_UPDATE` is set.
pub(crate) fn record(fixture: Fixture, worlds: &[World]) -> Result<()> {
    if env::var_os("POLICY_SYNC_UPDATE").is_none() {
        return Ok(());
    }
    let mut text = String::new();
    for world in worlds {
        text += &serde_json::to_string(world)?;
        text.push('\n');
    }
    let path = fixture.path();
    fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
}
