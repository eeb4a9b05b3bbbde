//! Published CRDs of other projects, from the directory in `POLICY_SYNC_CRDS`.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::Crd;
use crate::published::GATEWAY_API;

/// All CRDs in the subdirectories of `folder`, except the CRDs of the Gateway API, which are mixed with other kinds of
/// objects.
pub fn read(folder: &Path) -> Result<Vec<Crd>> {
    let mut crds = Vec::new();
    for project in
        fs::read_dir(folder).with_context(|| format!("reading {} (POLICY_SYNC_CRDS)", folder.display()))?
    {
        let project = project?.path();
        if project.is_dir() && !project.ends_with(GATEWAY_API) {
            crds.extend(read_files(&project, |_| true)?);
        }
    }
    Ok(crds)
}

/// Reads the CRDs in the YAML files of `folder` whose file names `wanted` selects.
pub(super) fn read_files(folder: &Path, wanted: impl Fn(&str) -> bool) -> Result<Vec<Crd>> {
    let mut crds = Vec::new();
    for file in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let file = file?;
        let name = file.file_name().to_string_lossy().into_owned();
        if !name.ends_with(".yaml") || !wanted(&name) {
            continue;
        }
        let path = file.path();
        let crd = fs::read_to_string(&path)
            .map_err(anyhow::Error::from)
            .and_then(|text| parse(&text))
            .with_context(|| format!("reading {}", path.display()))?;
        crds.push(crd);
    }
    Ok(crds)
}

/// Parses one CRD from YAML.
pub(super) fn parse(text: &str) -> Result<Crd> {
    let value = serde_saphyr::from_str(text).context("parsing YAML")?;
    Crd::new(value)
}
