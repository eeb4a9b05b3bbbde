//! Reads Rego modules from `.rego` files, and from the manifests of ConfigMaps and RegoPolicies.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use serde_json::{Value, json};

use crate::cli::output::print_message;
use crate::cli::text::printable;
use crate::cli::{documents, manifests};
use policy_sync_api::rego_policy::EnforcementAction;
use policy_sync_rego::bundle::Bundle;
use policy_sync_rego::carrier::CarrierContents;
use policy_sync_rego::confined::{Checker, Lane};
use policy_sync_rego::constraints::Template;
use policy_sync_rego::enforcement;
use policy_sync_rego::fault::{Fault, Faults};
use policy_sync_rego::limit;
use policy_sync_rego::module::{ModuleId, Text};
use policy_sync_rego::queries::QueriedPackages;
use policy_sync_rego::secrets::{self, SecretReads};

/// The extension of a file with a module.
const EXTENSION: &str = "rego";

/// The modules and data in files.
#[derive(Debug, Default)]
pub(in crate::cli) struct Files {
    /// The texts of the modules.
    pub(super) texts: Vec<Text>,
    /// The part of `data` that ConfigMaps contain.
    pub(in crate::cli) data: Value,
    faults: Vec<Fault>,
    /// Warnings about ignored parts of manifests.
    pub(super) ignored: Vec<Fault>,
    enforcements: BTreeMap<ModuleId, EnforcementAction>,
    packages: QueriedPackages,
}

/// Reads `paths`: modules, folders, manifests with modules in ConfigMaps and RegoPolicies, or `-` for a module on
/// standard input. From a folder, reads all `.rego` files in the folder and its subfolders.
///
/// # Errors
///
/// If a file cannot be read, or there is no module.
pub(in crate::cli) fn read(paths: &[PathBuf]) -> anyhow::Result<Files> {
    let mut modules = Vec::new();
    let mut files = Files { data: json!({}), ..Files::default() };
    for path in paths {
        if path.is_dir() {
            find_files(path, is_module, &mut modules)?;
        } else if manifests::is_manifest_file(path) {
            files.add_manifests(path)?;
        } else {
            modules.push(path.clone());
        }
    }
    modules.sort();
    modules.dedup();
    for file in &modules {
        let (name, text) = documents::read(file)?;
        files.texts.push(Text { id: ModuleId::new(&name), text: text.into() });
    }
    if files.texts.is_empty() && files.faults.is_empty() {
        let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        bail!("there is no module in {}: files of modules end in .rego", paths.join(", "));
    }
    Ok(files)
}

impl Files {
    /// Sets the packages to query.
    pub(in crate::cli) fn with_packages(self, packages: QueriedPackages) -> Self {
        Self { packages, ..self }
    }

    /// The packages to query.
    pub(in crate::cli) fn packages(&self) -> &QueriedPackages {
        &self.packages
    }

    fn add_manifests(&mut self, path: &Path) -> anyhow::Result<()> {
        for manifest in manifests::read(&[path.to_owned()])? {
            if Template::is(&manifest.object.api_version, &manifest.object.kind) {
                let text = format!(
                    "ConstraintTemplate {}: convert it to modules with policy-sync rego convert",
                    manifest.object.metadata.name
                );
                self.faults.push(Fault::new(&ModuleId::new(&manifest.place.to_string()), None, text));
            }
            let Some(carried) = CarrierContents::from_object(&manifest.object) else { continue };
            for text in carried.texts.iter().filter(|text| carried.fault_of(&text.id).is_none()) {
                self.texts.push(text.clone());
                match &carried.enforcement {
                    Ok(enforcement) => drop(self.enforcements.insert(text.id.clone(), *enforcement)),
                    Err(fault) => self.faults.push(Fault::new(&text.id, None, fault)),
                }
            }
            self.faults.extend(carried.faults);
            self.ignored.extend(carried.ignored);
            for ([namespace, name, key], value) in carried.data {
                self.data[namespace][name][key] = serde_json::to_value(value)?;
            }
        }
        Ok(())
    }

    /// The modules whose enforcement action is not `deny`, each with its action.
    pub(in crate::cli) fn enforcements(&self) -> BTreeMap<ModuleId, EnforcementAction> {
        let lenient =
            self.enforcements.iter().filter(|(_, enforcement)| **enforcement != EnforcementAction::Deny);
        lenient.map(|(id, enforcement)| (id.clone(), *enforcement)).collect()
    }

    /// Checks the modules in a separate process. Returns the bundle and the places where its modules read Secrets, or
    /// returns the faults.
    ///
    /// # Errors
    ///
    /// If the check cannot run.
    pub(super) async fn checked(&self) -> anyhow::Result<Result<(Bundle, SecretReads), Faults>> {
        if let Some(fault) = limit::fault(&self.texts) {
            return Ok(Err(Faults::of(fault)));
        }
        let checker = Checker::this_program()?.with_packages(self.packages.clone());
        let (mut left, mut faults) = (self.texts.clone(), Faults::default());
        let secrets = loop {
            // `Lane::Write` has the limits of the webhook on the hub.
            let found = checker.check(&left, Lane::Write).await?;
            if faults.is_empty() || !found.crashing.is_empty() {
                faults.listed.extend(found.faults.listed.iter().cloned());
                faults.more += found.faults.more;
            }
            if found.crashing.is_empty() {
                break found.secrets;
            }
            // The check is repeated without the modules that ended its process, because other modules may end the
            // process as well. Faults of later rounds are ignored: they may only be due to the removed modules.
            left.retain(|text| found.fatal(&text.id).is_none());
        };
        faults.listed.sort();
        faults.listed.splice(..0, self.faults.iter().cloned());
        if !faults.is_empty() {
            return Ok(Err(faults));
        }
        let bundle = Bundle::read_for(&self.texts, &self.packages, &Bundle::default()).and_then(|bundle| {
            let found = enforcement::faults(&bundle, &self.enforcements);
            if found.is_empty() { Ok((bundle, secrets)) } else { Err(found) }
        });
        Ok(bundle.map_err(|listed| Faults { listed, more: 0 }))
    }

    /// The bundle, and the places where its modules read Secrets. If there are faults, prints the faults and returns
    /// `None`.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::checked`].
    pub(in crate::cli) async fn bundle(&self) -> anyhow::Result<Option<(Bundle, SecretReads)>> {
        let checked = self.checked().await?;
        Ok(checked.map_err(|faults| print_message(lines(&faults).trim_end())).ok())
    }
}

/// Returns `reads`, the places where modules of `bundle` read the contents of Secrets. `None` if `replicate` includes
/// Secrets.
///
/// # Errors
///
/// The faults for which a controller with this `--replicate` rejects the modules.
pub(in crate::cli) fn secrets_read(
    bundle: &Bundle,
    reads: SecretReads,
    replicate: &[String],
) -> Result<Option<SecretReads>, Faults> {
    let names = secrets::names(&BTreeMap::new());
    if replicate.iter().any(|plural| names.contains(plural)) {
        return Ok(None);
    }
    let faults = Faults::new(secrets::replicated(bundle, &names).into_iter().chain(reads.faults()).collect());
    if faults.is_empty() { Ok(Some(reads)) } else { Err(faults) }
}

/// Adds the files in `folder` and its subfolders for which `is_wanted` returns true.
///
/// # Errors
///
/// If a folder cannot be read.
pub(super) fn find_files(
    folder: &Path,
    is_wanted: fn(&Path) -> bool,
    files: &mut Vec<PathBuf>,
) -> anyhow::Result<()> {
    let cannot = || format!("cannot read {}", folder.display());
    for entry in folder.read_dir().with_context(cannot)? {
        let entry = entry.with_context(cannot)?;
        // Symbolic links are not followed, because they may form a cycle.
        if entry.file_type().with_context(cannot)?.is_dir() {
            find_files(&entry.path(), is_wanted, files)?;
        } else if is_wanted(&entry.path()) {
            files.push(entry.path());
        }
    }
    Ok(())
}

/// The only document in `file`.
///
/// # Errors
///
/// If the file cannot be read, or contains no document or several.
pub(super) fn document(file: &Path) -> anyhow::Result<Value> {
    let (name, text) = documents::read(file)?;
    let mut documents = documents::documents(&text).map_err(|fault| fault.in_file(&name))?;
    match (documents.pop(), documents.is_empty()) {
        (Some(document), true) => Ok(document.value),
        (None, _) => bail!("{name} is empty"),
        (Some(_), false) => Err(anyhow!("{name} has more than one document")).context("one is expected"),
    }
}

fn is_module(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == EXTENSION)
}

/// Formats a line for each of `faults`.
pub(in crate::cli) fn lines(faults: &Faults) -> String {
    faults.to_string().lines().map(|line| printable(line) + "\n").collect()
}
