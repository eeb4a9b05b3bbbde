//! YAML is read as kubectl reads it: the cases of yaml-test-suite, the cases in `documents/cases.json`, and
//! published CRDs.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use policy_sync::cli::documents::documents_each;
use policy_sync_api::json::normalize;
use policy_sync_testenv::bad_input::{self, code};
use policy_sync_testenv::binaries;
use serde::Deserialize;
use serde_json::Value;

/// Texts that kubectl and go-yaml v3 read, and [`documents_each`] rejects, grouped by the reason. The last text of each
/// reason is the example in the documentation.
const REJECTED: [(&str, &[&str]); 6] = [
    (
        "two keys become the same JSON key; kubectl keeps one of the values",
        &["dup int hex", "dup int float", "dup bool"],
    ),
    (
        "YAML 1.1 and YAML 1.2 read the text differently",
        &[
            "anchor-with-colon-in-the-middle",
            "flow-mapping-separate-values",
            "question-mark-at-start-of-flow-key",
            "scalars-in-flow-start-with-syntax-char/01",
            "flow colon comma",
            "flow question seq",
            "flow question",
            "anchor colon",
        ],
    ),
    (
        "blank lines of an empty block scalar are indented more than the comment after them",
        &["block-scalar-with-more-spaces-than-first-content-line", "folded comment end"],
    ),
    ("a tag contains a comma", &["invalid-comma-in-tag", "tag comma"]),
    ("a directive follows a document without `...`", &["need-document-footer-before-directives"]),
    ("a tab indents an item of a flow sequence", &["tabs-in-various-contexts/003"]),
];

/// kubectl reads only the first document of these texts, without an error. go-yaml v3 rejects the texts.
const CUT_OFF: [&str; 3] =
    ["bare-document-after-document-end-marker", "spec-example-9-3-bare-documents", "documents end no start"];

/// The output of `yaml-reader` for a text.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct YamlReaderOutput {
    documents: Vec<Value>,
    /// The error of kubectl.
    error: String,
    /// The error of go-yaml v3.
    go_yaml: String,
}

#[derive(Deserialize)]
struct OwnCases {
    /// Each scalar is tested as a value, as a key, and as an item of a list.
    scalars: Vec<String>,
    texts: BTreeMap<String, String>,
}

/// Adds the text of each file below `folder` that `is_case` accepts, named by its path.
fn add_files(
    cases: &mut BTreeMap<String, String>,
    root: &Path,
    folder: &Path,
    is_case: &dyn Fn(&Path) -> bool,
) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            add_files(cases, root, &path, is_case)?;
        } else if is_case(&path) {
            let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
            let name = path.strip_prefix(root)?.display().to_string();
            cases.insert(name.trim_end_matches("/in.yaml").to_owned(), text);
        }
    }
    Ok(())
}

async fn cases() -> Result<BTreeMap<String, String>> {
    let OwnCases { scalars, texts: mut cases } = serde_json::from_str(include_str!("documents/cases.json"))?;
    for scalar in scalars {
        cases.insert(format!("value {scalar}"), format!("k: {scalar}\n"));
        cases.insert(format!("key {scalar}"), format!("{scalar}: v\n"));
        cases.insert(format!("item {scalar}"), format!("- {scalar}\n"));
    }
    for length in [1000, 1024, 2000] {
        cases.insert(format!("key of {length}"), format!("{}: 1\n", "k".repeat(length)));
        cases.insert(format!("quoted key of {length}"), format!("\"{}\": 1\n", "k".repeat(length)));
        cases.insert(format!("explicit key of {length}"), format!("? {}\n: 1\n", "k".repeat(length)));
    }
    cases.insert("100 lists".to_owned(), "[".repeat(100) + &"]".repeat(100));
    let suite = binaries::yaml_cases().await?;
    add_files(&mut cases, &suite, &suite, &|path| path.ends_with("in.yaml"))?;
    Ok(cases)
}

/// Reads each of `texts` with kubectl's decoder.
async fn readings(texts: &[&String]) -> Result<Vec<YamlReaderOutput>> {
    let mut command = Command::new(binaries::yaml_reader().await?);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    child
        .stdin
        .take()
        .context("the process has no standard input")?
        .write_all(&serde_json::to_vec(texts)?)?;
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "yaml-reader: {}", output.status);
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// A difference between this product and kubectl in the result of reading a text.
#[derive(Debug, PartialEq)]
enum Difference {
    /// kubectl and go-yaml read the text, and this product rejects it.
    Rejected(String),
    /// This product reads all documents of the text, kubectl reads only the first documents, and go-yaml rejects the
    /// text.
    Truncated,
    Value(String),
}

fn difference(text: &str, mut reading: YamlReaderOutput) -> Option<Difference> {
    if !reading.error.is_empty() {
        return None;
    }
    reading.documents.iter_mut().for_each(normalize);
    let read: Result<Vec<Value>, _> =
        documents_each(text).into_iter().map(|read| read.map(|document| document.value)).collect();
    match read {
        Ok(read) if read == reading.documents => None,
        Ok(read) if !reading.go_yaml.is_empty() && read.starts_with(&reading.documents) => {
            Some(Difference::Truncated)
        }
        Ok(read) => Some(Difference::Value(format!("{read:?}, kubectl {:?}", reading.documents))),
        Err(_) if !reading.go_yaml.is_empty() => None,
        Err(fault) => Some(Difference::Rejected(fault.to_string())),
    }
}

#[tokio::test]
async fn manifests_are_read_as_kubectl_reads_them() -> Result<()> {
    let cases = cases().await?;
    let readings = readings(&cases.values().collect::<Vec<_>>()).await?;
    ensure!(
        cases.len() > 1200 && readings.len() == cases.len(),
        "{} cases and {} readings",
        cases.len(),
        readings.len()
    );
    let mut faults = Vec::new();
    for ((name, text), reading) in cases.iter().zip(readings) {
        let is_rejected = REJECTED.iter().any(|(_, names)| names.contains(&&**name));
        let is_cut_off = CUT_OFF.contains(&&**name);
        let found = difference(text, reading);
        let is_expected = match &found {
            None => !is_rejected && !is_cut_off,
            Some(Difference::Rejected(_)) => is_rejected,
            Some(Difference::Truncated) => is_cut_off,
            Some(Difference::Value(_)) => false,
        };
        if !is_expected {
            faults.push(format!("{name}: {text:?}: {found:?}"));
        }
    }
    let known = REJECTED.iter().flat_map(|(_, names)| names.iter()).chain(&CUT_OFF);
    faults.extend(
        known
            .filter(|name| !cases.contains_key(**name))
            .map(|name| format!("{name}: the case does not exist")),
    );
    ensure!(faults.is_empty(), "{} differences:\n{}", faults.len(), faults.join("\n"));
    let mut table = "| text | example |\n|---|---|\n".to_owned();
    for (reason, names) in REJECTED {
        let example = names.last().and_then(|name| cases.get(*name)).context("the example does not exist")?;
        table +=
            &format!("| {reason} | {} |\n", code(&example.trim().replace('\n', "\\n").replace('\t', "\\t")));
    }
    bad_input::holds("yaml", &table)
}

#[tokio::test]
async fn published_crds_are_read_as_kubectl_reads_them() -> Result<()> {
    let mut cases = BTreeMap::new();
    let published = std::env::var_os("POLICY_SYNC_CRDS").filter(|folder| !folder.is_empty());
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("hack/testenv/crds");
    let folders = [Some(binaries::ensure().await?.gateway_api), Some(ours), published.map(Into::into)];
    for folder in folders.into_iter().flatten() {
        add_files(&mut cases, &folder, &folder, &|path| path.extension().is_some_and(|end| end == "yaml"))?;
    }
    ensure!(cases.len() > 5, "only {} files", cases.len());
    let readings = readings(&cases.values().collect::<Vec<_>>()).await?;
    for ((name, text), reading) in cases.iter().zip(readings) {
        ensure!(reading.error.is_empty(), "{name}: {}", reading.error);
        let found = difference(text, reading);
        ensure!(found.is_none(), "{name}: {found:?}");
    }
    Ok(())
}
