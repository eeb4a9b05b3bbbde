//! `policy-sync audit`: what objects break of policies in Rego, of files alone.
//!
//! ```text
//! policies ─▶ bundle ─┐
//!                     ├─▶ snapshot ─▶ audit of each object ─▶ table, JSON
//! manifests ─▶ data ──┘
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::anyhow;
use clap::{Args, ValueEnum};
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use regorus::Value;

use super::controller::webhooks::pattern;
use super::manifests::{self, Manifest};
use super::output::{self, print, say};
use super::rego::files;
use super::{Answer, columns};
use crate::api::names::{GroupResource, GroupVersionResource};
use crate::gatekeeper::audit::{Standing, Violation, audit, report};
use crate::registration::is_ungated;
use crate::rego::bundle::Bundle;
use crate::rego::engine::Evaluator;
use crate::rego::exemptions::Exemptions;
use crate::rego::loading::{DEFAULT_ALIAS, document};
use crate::rego::review::Denies;
use crate::rego::snapshot::{Gates, Snapshot};

pub(super) const EXAMPLES: &str = "\
Examples:
  # What manifests break of policies, as a hub with both would say
  policy-sync audit -f standing -p policies

  # The same for programs
  policy-sync audit -f standing -p policies -o json";

const HEADERS: [&str; 6] = ["ENFORCEMENT", "KIND", "NAMESPACE", "NAME", "ID", "MESSAGE"];
/// How many columns say what a row is about.
const NAMES: usize = 4;

/// Arguments of `policy-sync audit`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Objects as they stand, with their namespaces: files, directories, or - for standard input.
    #[arg(short, long = "filename", value_name = "PATH", required = true)]
    filenames: Vec<PathBuf>,
    /// Modules, folders with files that end in .rego, or manifests that carry modules.
    #[arg(short, long = "policy", value_name = "PATH", required = true)]
    policies: Vec<PathBuf>,
    /// Namespaces whose objects are left out; `*` stands for any text.
    #[arg(long, value_delimiter = ',', default_value = "kube-*", value_parser = pattern, value_name = "PATTERN")]
    exempt_namespaces: Vec<String>,
    /// How to print what is found.
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// A line for each violation.
    Table,
    /// One object with all of them.
    Json,
}

/// Runs the command.
///
/// # Errors
///
/// Where a file cannot be read, or the check of policies cannot be made.
pub async fn run(arguments: &Arguments) -> anyhow::Result<Answer> {
    let files = files::read(&arguments.policies)?;
    let objects: Vec<Object> =
        manifests::read(&arguments.filenames)?.iter().map(Object::of).collect::<Result<_, _>>()?;
    let Some(bundle) = files.bundle().await? else { return Ok(Answer::No) };
    let (snapshot, denied) = snapshot(&bundle, &files, &objects)?;
    let exemptions =
        Exemptions::new(arguments.exempt_namespaces.iter().filter(|name| !name.is_empty()).cloned());
    let ignored: BTreeSet<&str> = objects
        .iter()
        .filter(|object| &*object.gvr.kind.resource == "namespaces" && Exemptions::is_ignored(&object.value))
        .map(|object| object.name.as_str())
        .collect();
    let is_meant = |object: &&Object| {
        let namespace = match object.namespace.as_str() {
            "" if &*object.gvr.kind.resource == "namespaces" => &object.name,
            namespace => namespace,
        };
        let is_exempt = !namespace.is_empty() && (exemptions.names(namespace) || ignored.contains(namespace));
        let is_denied = match &denied {
            Some(kinds) => kinds.contains(&object.gvr.kind),
            None => !is_ungated(&object.gvr.kind),
        };
        !is_exempt && is_denied
    };
    let meant = objects.iter().filter(is_meant);
    let mut violations: Vec<Violation> =
        meant.flat_map(|object| audit(&snapshot, object.standing())).collect();
    violations.sort_by(|one, other| one.place().cmp(&other.place()));
    match arguments.output {
        Format::Json => print(&output::json(&report(&violations))?)?,
        Format::Table if violations.is_empty() => say("no violations"),
        Format::Table => print(&columns::table(&HEADERS, NAMES, violations.iter().map(row)))?,
    }
    Ok(if violations.is_empty() { Answer::Fine } else { Answer::No })
}

/// An object of a manifest.
#[derive(Debug)]
struct Object {
    gvr: GroupVersionResource,
    namespace: String,
    name: String,
    value: Value,
}

impl Object {
    fn of(manifest: &Manifest) -> anyhow::Result<Self> {
        let Manifest { place, object } = manifest;
        let (group, version) = object.api_version.split_once('/').unwrap_or(("", &object.api_version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &object.kind)).plural;
        let text = object.text.as_deref().map_or("null", |text| text.get());
        Ok(Self {
            gvr: GroupVersionResource::new(group, version, &resource),
            namespace: object.metadata.namespace.clone(),
            name: object.metadata.name.clone(),
            value: document(text).map_err(|error| anyhow!("{place}: {error}"))?,
        })
    }

    fn standing(&self) -> Standing<'_> {
        Standing { gvr: &self.gvr, namespace: &self.namespace, name: &self.name, object: &self.value }
    }
}

/// The kind that policies mean by `name`, of those that `objects` have: of several with one plural that of Kubernetes itself.
fn called<'o>(objects: &'o [Object], name: &str) -> Option<&'o GroupResource> {
    let alias = DEFAULT_ALIAS.split_once('=').filter(|(alias, _)| *alias == name);
    let name = alias.map_or(name, |(_, resource)| resource);
    let kinds = objects.iter().map(|object| &object.gvr.kind);
    let called = kinds.filter(|kind| name == &*kind.resource || name == kind.to_string());
    called.min_by_key(|kind| {
        let is_of_kubernetes = !kind.group.contains('.') || kind.group.ends_with(".k8s.io");
        (!kind.group.is_empty(), !is_of_kubernetes, *kind)
    })
}

/// Policies with these objects, and the kinds that they deny; `None` where they may deny any.
fn snapshot(
    bundle: &Bundle,
    files: &files::Files,
    objects: &[Object],
) -> anyhow::Result<(Snapshot, Option<BTreeSet<GroupResource>>)> {
    let denies = Denies::of(bundle.modules());
    let mut names: BTreeMap<GroupResource, BTreeSet<String>> = BTreeMap::new();
    let mut kinds = BTreeMap::new();
    for name in bundle.reads().union(&denies.kinds) {
        let (mut below, mut namespaces) = (BTreeMap::new(), BTreeMap::<&str, BTreeMap<Value, Value>>::new());
        let Some(kind) = called(objects, name) else { continue };
        names.entry(kind.clone()).or_default().insert(name.clone());
        for object in objects.iter().filter(|object| object.gvr.kind == *kind) {
            let at = match object.namespace.as_str() {
                "" => &mut below,
                namespace => namespaces.entry(namespace).or_default(),
            };
            at.insert(Value::from(object.name.as_str()), object.value.clone());
        }
        below.extend(namespaces.into_iter().map(|(namespace, objects)| (namespace.into(), objects.into())));
        kinds.insert(Value::from(name.as_str()), Value::from(below));
    }
    let mut data = Value::from(files.data.clone());
    if let Ok(fields) = data.as_object_mut() {
        fields.insert("kubernetes".into(), kinds.into());
    }
    let engine = Evaluator::Embedded.engine(bundle).and_then(|engine| engine.with_data(data));
    let engine = engine.map_err(|fault| anyhow!("{fault}"))?;
    let denied = (!denies.any).then(|| {
        let is_denied = |(_, of): &(&GroupResource, &BTreeSet<String>)| !of.is_disjoint(&denies.kinds);
        names.iter().filter(is_denied).map(|(kind, _)| kind.clone()).collect()
    });
    let gates = Gates { names, lenient: files.enforcements() };
    Ok((Snapshot::new(engine, BTreeMap::new()).with_gates(gates), denied))
}

fn row(violation: &Violation) -> Vec<String> {
    let Violation { resource, id, resolution, enforcement, .. } = violation;
    [enforcement, &resource.kind, &resource.namespace, &resource.name, id, &resolution.message]
        .map(|cell| if cell.is_empty() { "-".to_owned() } else { cell.clone() })
        .to_vec()
}
