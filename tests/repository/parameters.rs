//! The example parameters are valid, and the JSON Schema of parameters matches the code.

use std::fs;
use std::path::{Path, PathBuf};

use policy_sync_api::params::{KEY, Params};
use serde_json::Value;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("gatewayclass-params")
}

fn parse(path: &Path) -> Params {
    let config_map: Value = serde_saphyr::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let text = config_map["data"][KEY].as_str().unwrap();
    Params::parse(text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn examples_are_valid() {
    parse(&folder().join("parameters.yaml"));
    let examples: Vec<_> = fs::read_dir(folder().join("examples")).unwrap().collect();
    assert!(!examples.is_empty());
    for example in examples {
        parse(&example.unwrap().path());
    }
}

/// The complete example shows the defaults.
#[test]
fn every_key_is_shown_with_its_default() {
    let shown = parse(&folder().join("examples/every-key.yaml"));
    let defaults = Params {
        policies_to_sync: shown.policies_to_sync.clone(),
        resources_to_sync: shown.resources_to_sync.clone(),
        metadata_to_skip: shown.metadata_to_skip.clone(),
        ..Params::default()
    };
    assert_eq!(shown, defaults);
    let config_map = fs::read_to_string(folder().join("examples/every-key.yaml")).unwrap();
    for key in serde_json::to_value(&defaults).unwrap().as_object().unwrap().keys() {
        assert!(config_map.contains(&format!("\"{key}\":")), "the example does not contain {key}");
    }
}

/// `POLICY_SYNC_UPDATE=1 cargo test --test repository` updates the schema.
#[test]
fn json_schema_is_up_to_date() {
    let path = folder().join("params.schema.json");
    let mut schema = schemars::schema_for!(Params);
    schema.insert("title".into(), "Parameters of a GatewayClass of Policy Sync".into());
    let schema = format!("{}\n", serde_json::to_string_pretty(&schema).unwrap());
    if std::env::var_os("POLICY_SYNC_UPDATE").is_some() {
        fs::write(&path, &schema).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(written == schema, "{} is outdated: set POLICY_SYNC_UPDATE=1 to update it", path.display());
}
