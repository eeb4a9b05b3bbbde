//! Audits objects in files.
//!
//! ```text
//! policies ─▶ bundle ─┐
//!                     ├─▶ snapshot ─▶ audit of each object
//! manifests ─▶ data ──┘
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::anyhow;
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use regorus::Value;

use crate::cli::manifests::Manifest;
use crate::cli::output::print_message;
use crate::cli::rego::files;
use policy_sync_api::names::{GroupResource, GroupVersionResource};
use policy_sync_controller::admission::audit::{AuditExemptions, ExistingObject, Findings, audit};
use policy_sync_controller::rego_loading::{DEFAULT_ALIAS, document};
use policy_sync_rego::bundle::Bundle;
use policy_sync_rego::engine::Evaluator;
use policy_sync_rego::exemptions::Exemptions;
use policy_sync_rego::queries::QueriedPackages;
use policy_sync_rego::secrets::SecretContents;
use policy_sync_rego::snapshot::{ReviewInputs, Snapshot};

/// Finds the objects of `manifests` that violate `policies`. If the policies are invalid, prints the faults and returns
/// `None`.
///
/// # Errors
///
/// If a file of policies cannot be read, or the check of policies cannot run.
pub(super) async fn find(
    manifests: &[Manifest],
    (policies, packages, replicate): (&[PathBuf], QueriedPackages, &[String]),
    exemptions: &Exemptions,
) -> anyhow::Result<Option<Findings>> {
    let files = files::read(policies)?.with_packages(packages);
    let objects: Vec<Object> = manifests.iter().map(Object::of).collect::<Result<_, _>>()?;
    let Some((bundle, secrets)) = files.bundle().await? else { return Ok(None) };
    let secrets = match files::secrets_read(&bundle, secrets, replicate) {
        Ok(reads) => reads.map_or(SecretContents::Readable, |reads| reads.withheld()),
        Err(faults) => {
            print_message(files::lines(&faults).trim_end());
            return Ok(None);
        }
    };
    let (snapshot, denied) = snapshot(&bundle, &files, &objects, secrets)?;
    let namespaces = objects.iter().filter(|object| &*object.gvr.kind.resource == "namespaces");
    let left_out =
        AuditExemptions::new(exemptions, namespaces.map(|object| (object.name.as_str(), &object.value)));
    let is_denied = |kind: &GroupResource| {
        !Exemptions::is_exempt_kind(kind) && denied.as_ref().is_none_or(|kinds| kinds.contains(kind))
    };
    let mut findings = Findings::with_limit(usize::MAX);
    for object in &objects {
        let existing = object.existing();
        if is_denied(&object.gvr.kind) && !left_out.has(existing) {
            audit(&snapshot, existing).violations.into_iter().for_each(|violation| findings.add(violation));
        }
    }
    Ok(Some(findings.sorted()))
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

    fn existing(&self) -> ExistingObject<'_> {
        ExistingObject { gvr: &self.gvr, namespace: &self.namespace, name: &self.name, object: &self.value }
    }
}

/// The kind that Rego policies refer to as `name`, among the kinds of `objects`. If several kinds have the plural
/// `name`, built-in kinds of Kubernetes take precedence.
fn kind_by_alias<'o>(objects: &'o [Object], name: &str) -> Option<&'o GroupResource> {
    let alias = DEFAULT_ALIAS.split_once('=').filter(|(alias, _)| *alias == name);
    let name = alias.map_or(name, |(_, resource)| resource);
    let kinds = objects.iter().map(|object| &object.gvr.kind);
    let matching = kinds.filter(|kind| name == &*kind.resource || name == kind.to_string());
    matching.min_by_key(|kind| {
        let is_of_kubernetes = !kind.group.contains('.') || kind.group.ends_with(".k8s.io");
        (!kind.group.is_empty(), !is_of_kubernetes, *kind)
    })
}

/// A snapshot with the policies and these objects. Also returns the kinds that the policies deny, or `None` if they may
/// deny any kind.
fn snapshot(
    bundle: &Bundle,
    files: &files::Files,
    objects: &[Object],
    secrets: SecretContents,
) -> anyhow::Result<(Snapshot, Option<BTreeSet<GroupResource>>)> {
    let denies = bundle.denied_kinds();
    let mut names: BTreeMap<GroupResource, BTreeSet<String>> = BTreeMap::new();
    let mut kinds = BTreeMap::new();
    for name in bundle.reads().union(&denies.kinds) {
        let (mut below, mut namespaces) = (BTreeMap::new(), BTreeMap::<&str, BTreeMap<Value, Value>>::new());
        let Some(kind) = kind_by_alias(objects, name) else { continue };
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
    if let Some(fault) = bundle.fault_of_data(&data) {
        return Err(anyhow!("{fault}"));
    }
    let engine = Evaluator::Embedded.engine(bundle).and_then(|engine| engine.with_data(data));
    let engine = engine.map_err(|fault| anyhow!("{fault}"))?;
    let denied = (!denies.any).then(|| {
        let is_denied = |(_, of): &(&GroupResource, &BTreeSet<String>)| !of.is_disjoint(&denies.kinds);
        names.iter().filter(is_denied).map(|(kind, _)| kind.clone()).collect()
    });
    let review_inputs = ReviewInputs { names, enforcement_overrides: files.enforcements(), secrets };
    let snapshot = Snapshot::new(engine, BTreeMap::new()).with_packages(files.packages().clone());
    Ok((snapshot.with_review_inputs(review_inputs), denied))
}
