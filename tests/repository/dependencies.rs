//! Checks the licenses, bans and sources of all dependencies against `deny.toml`.
//!
//! cargo-deny has the same checks, but takes longer to build than this project. This test reads the keys that the file
//! uses, and rejects unknown keys, so that no key is ignored.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde::Deserialize;
use spdx::{Expression, ParseMode};

/// The contents of `deny.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rules {
    #[serde(rename = "graph")]
    _graph: Graph,
    licenses: Licenses,
    bans: Bans,
    sources: Sources,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Graph {
    #[serde(rename = "all-features")]
    _all_features: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Licenses {
    allow: BTreeSet<String>,
    private: Private,
    exceptions: Vec<Exception>,
}

/// Additional licenses of one crate.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Exception {
    #[serde(rename = "crate")]
    name: String,
    allow: BTreeSet<String>,
}

impl Licenses {
    /// The licenses that the crate `name` may have.
    fn of(&self, name: &str) -> BTreeSet<String> {
        let exceptions = self.exceptions.iter().filter(|exception| exception.name == name);
        exceptions.flat_map(|exception| &exception.allow).chain(&self.allow).cloned().collect()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Private {
    ignore: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Bans {
    multiple_versions: String,
    wildcards: String,
    allow_wildcard_paths: bool,
    deny: Vec<Ban>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Ban {
    #[serde(rename = "crate")]
    name: String,
    reason: String,
    #[serde(default)]
    deny_multiple_versions: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Sources {
    unknown_registry: String,
    unknown_git: String,
}

/// The output of `cargo metadata`.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    version: String,
    pub(crate) manifest_path: String,
    license: Option<String>,
    source: Option<String>,
    publish: Option<Vec<String>>,
    pub(crate) dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// `dev` or `build`; `None` for normal dependencies.
    pub(crate) kind: Option<String>,
    pub(crate) features: Vec<String>,
    req: String,
    path: Option<String>,
}

fn rules() -> Rules {
    toml::from_str(include_str!("../../deny.toml")).unwrap()
}

/// All packages that a build on this machine can use.
pub(crate) fn packages() -> Vec<Package> {
    let rustc = Command::new("rustc").arg("-vV").output().unwrap();
    let text = String::from_utf8(rustc.stdout).unwrap();
    let host = text.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--locked", "--format-version=1", "--all-features", "--filter-platform", host])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Metadata = serde_json::from_slice(&output.stdout).unwrap();
    metadata.packages
}

fn is_private(package: &Package) -> bool {
    package.publish.as_ref().is_some_and(Vec::is_empty)
}

/// The reason why `license` is rejected.
fn fault(license: Option<&str>, allowed: &BTreeSet<String>) -> Option<String> {
    let Some(license) = license else { return Some("the license is missing".into()) };
    // Old crates separate licenses with `/`.
    match Expression::parse_mode(license, ParseMode::LAX) {
        Err(error) => Some(format!("{license}: {error}")),
        Ok(expression) => expression
            .evaluate_with_failures(|requirement| allowed.contains(&requirement.to_string()))
            .err()
            .map(|_| format!("{license} is not allowed")),
    }
}

#[test]
fn licences_are_allowed() {
    let licenses = rules().licenses;
    let theirs = |package: &Package| !(licenses.private.ignore && is_private(package));
    let faults: Vec<String> = packages()
        .iter()
        .filter(|package| theirs(package))
        .filter_map(|package| {
            let fault = fault(package.license.as_deref(), &licenses.of(&package.name))?;
            Some(format!("{} {}: {fault}", package.name, package.version))
        })
        .collect();
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn licence_is_evaluated_as_an_expression() {
    let allowed = BTreeSet::from(["MIT".to_owned(), "Apache-2.0 WITH LLVM-exception".to_owned()]);
    let allows = |license| fault(Some(license), &allowed).is_none();
    assert!(allows("MIT OR GPL-3.0-only"));
    assert!(allows("MIT/Apache-2.0"));
    assert!(allows("Apache-2.0 WITH LLVM-exception"));
    assert!(!allows("MIT AND GPL-3.0-only"));
    assert!(!allows("Apache-2.0"));
    assert!(!allows("my own"));
    assert!(fault(None, &allowed).is_some());
}

#[test]
fn banned_crates_are_not_dependencies() {
    let bans = rules().bans;
    assert_eq!(bans.multiple_versions, "allow", "this test supports no other value");
    let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in packages() {
        versions.entry(package.name).or_default().insert(package.version);
    }
    for ban in bans.deny {
        let found = versions.get(&ban.name).map_or(0, BTreeSet::len);
        let allowed = usize::from(ban.deny_multiple_versions);
        assert!(found <= allowed, "{} has {found} versions: {}", ban.name, ban.reason);
    }
}

#[test]
fn dependencies_have_no_wildcard_versions() {
    let bans = rules().bans;
    assert!(bans.wildcards == "deny" && bans.allow_wildcard_paths, "this test supports no other value");
    for package in packages().iter().filter(|package| is_private(package)) {
        let mut wildcards = package.dependencies.iter().filter(|dependency| dependency.req == "*");
        let found = wildcards.find(|dependency| dependency.path.is_none());
        assert!(found.is_none(), "{} accepts any version of {}", package.name, found.unwrap().name);
    }
}

#[test]
fn dependencies_come_from_crates_io() {
    let sources = rules().sources;
    assert!(
        sources.unknown_registry == "deny" && sources.unknown_git == "deny",
        "this test supports no other value"
    );
    for package in packages() {
        match package.source.as_deref() {
            None => {
                assert!(is_private(&package), "{} has no source and is not in this workspace", package.name)
            }
            Some(source) => {
                let expected = "registry+https://github.com/rust-lang/crates.io-index";
                assert_eq!(source, expected, "{} {}", package.name, package.version);
            }
        }
    }
}
