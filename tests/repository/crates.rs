//! The direction of dependencies between the crates of the product, as `docs/architecture.md` describes it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::dependencies::{Package, packages};
use crate::files_below;

/// The crates that each crate may use. The `policy-sync` binary may use all crates.
const EDGES: [(&str, &[&str]); 10] = [
    ("api", &[]),
    ("mirror", &["api"]),
    ("hub", &["api", "mirror"]),
    ("topology", &["api"]),
    ("sync", &["api", "mirror", "topology"]),
    ("rego", &["api", "hub"]),
    ("connections", &["api", "hub"]),
    ("controller", &["api", "connections", "hub", "mirror", "rego", "sync", "topology"]),
    ("report", &["api", "hub", "mirror", "sync", "topology"]),
    ("web", &["api", "connections", "hub", "mirror", "report", "sync", "topology"]),
];

/// Crates whose functions only compute: no I/O, no clock, no async.
const PURE: [&str; 4] = ["api", "mirror", "sync", "topology"];

/// Dependencies that a pure crate must not have.
const ASYNC: [&str; 8] =
    ["axum", "futures", "hyper", "hyper-util", "kube-client", "tokio", "tokio-util", "tower"];

/// Calls that read a clock.
const CLOCKS: [&str; 3] = ["Instant::now", "SystemTime::now", "Timestamp::now"];

const PREFIX: &str = "policy-sync-";

/// The name of a crate in `crates/`, without the common prefix of all crates.
fn short(package: &Package) -> Option<&str> {
    package.manifest_path.contains("/crates/").then(|| package.name.strip_prefix(PREFIX))?
}

/// The normal dependencies of the crate, without the dependencies of its tests.
fn built_in(package: &Package) -> impl Iterator<Item = &crate::dependencies::Dependency> {
    package.dependencies.iter().filter(|dependency| dependency.kind.is_none())
}

/// The faults of `packages`.
fn faults(packages: &[Package]) -> Vec<String> {
    let edges: BTreeMap<&str, BTreeSet<&str>> =
        EDGES.iter().map(|(name, may)| (*name, may.iter().copied().collect())).collect();
    let mut faults = Vec::new();
    for (package, name) in packages.iter().filter_map(|package| Some((package, short(package)?))) {
        let Some(may) = edges.get(name) else {
            faults.push(format!("{name} is not in the list of crates"));
            continue;
        };
        for dependency in built_in(package) {
            match dependency.name.strip_prefix(PREFIX) {
                Some(other) if !may.contains(other) => faults.push(format!("{name} must not use {other}")),
                None if dependency.name == "policy-sync" => {
                    faults.push(format!("{name} must not use the command"))
                }
                _ => {}
            }
            if PURE.contains(&name) {
                let has_client =
                    dependency.name == "kube" && dependency.features.iter().any(|f| f == "client");
                if has_client || ASYNC.contains(&&*dependency.name) {
                    faults.push(format!("{name} must not use {}: it only computes", dependency.name));
                }
            }
        }
    }
    faults
}

#[test]
fn crates_depend_only_on_lower_layers() {
    let packages = packages();
    assert_eq!(packages.iter().filter_map(short).count(), EDGES.len());
    let none: [String; 0] = [];
    assert_eq!(faults(&packages), none);
}

#[test]
fn forbidden_edges_are_found() {
    let package = |name: &str, dependency: &str, features: &[&str]| {
        let json = serde_json::json!({
            "name": format!("policy-sync-{name}"), "version": "0.0.0", "manifest_path": format!("/crates/{name}/Cargo.toml"),
            "dependencies": [{"name": dependency, "req": "*", "features": features}],
        });
        serde_json::from_value::<Package>(json).unwrap()
    };
    for (name, dependency, features, expected) in [
        ("topology", "policy-sync-api", &[][..], None),
        ("topology", "policy-sync-hub", &[], Some("topology must not use hub")),
        ("rego", "policy-sync", &[], Some("rego must not use the command")),
        ("sync", "policy-sync-topology", &[], None),
        ("sync", "policy-sync-hub", &[], Some("sync must not use hub")),
        ("mirror", "tokio", &[], Some("mirror must not use tokio: it only computes")),
        ("api", "kube", &["derive"], None),
        ("api", "kube", &["client"], Some("api must not use kube: it only computes")),
        ("web", "policy-sync-controller", &[], Some("web must not use controller")),
        ("new", "serde", &[], Some("new is not in the list of crates")),
    ] {
        let found = faults(&[package(name, dependency, features)]);
        assert_eq!(
            found,
            expected.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>(),
            "{name} on {dependency}"
        );
    }
}

#[test]
fn pure_crates_read_no_clock() {
    for name in PURE {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates").join(name).join("src");
        // Tests may measure time.
        let is_test = |path: &Path| {
            let path = path.strip_prefix(&folder).unwrap();
            path.ends_with("tests.rs") || path.components().any(|part| part.as_os_str() == "tests")
        };
        for path in files_below(&folder, "rs").into_iter().filter(|path| !is_test(path)) {
            let text = fs::read_to_string(&path).unwrap();
            let found = CLOCKS.iter().find(|clock| text.contains(*clock));
            assert_eq!(found, None, "{} reads a clock", path.display());
        }
    }
}
