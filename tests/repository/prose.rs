//! Prose of the documentation and of comments, checked by Vale with the rules in `.vale/styles/PolicySync`.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use policy_sync_testenv::binaries;

use crate::files_below;

/// One text for each rule. The text violates this rule and no other rule.
const VIOLATIONS: [(&str, &str); 8] = [
    ("Clause", "The controller writes what the plan contains."),
    ("Filler", "The command simply lists the policies."),
    ("Idiom", "The Gateway stands in its namespace."),
    ("Passive", "The policy is applied by the work agent."),
    (
        "SentenceLength",
        "The controller reads the policies of a namespace and of its Gateways and of its routes and of its \
         Services and of its backends and of its clusters and of its works on the hub.",
    ),
    (
        "TableSentence",
        "| kind | effect |\n|---|---|\n| Gateway | The controller reads one, two, three, four, five, six, \
         seven, eight, nine, ten, eleven, twelve, thirteen, fourteen, fifteen, sixteen, seventeen, eighteen, \
         nineteen, twenty, one, two, three, four, five, six, seven, eight, nine, ten, eleven, twelve, \
         thirteen, fourteen, fifteen, sixteen, seventeen, eighteen, nineteen, twenty, one, two, three, four, \
         five, six, seven and eight works. |",
    ),
    ("Vocabulary", "The hub cluster runs the controller."),
    ("Voice", "The work agent tells the state of the policy."),
];

/// The kinds of comments in Rust.
const COMMENTS: [(&str, &str); 3] = [("inner", "//! "), ("outer", "/// "), ("plain", "// ")];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs Vale with the configuration of the repository, and no other configuration, on `files` in `folder`.
async fn vale(folder: &Path, files: &[PathBuf]) -> Output {
    let mut command = Command::new(binaries::vale().await.unwrap());
    command.arg("--no-global").arg("--config").arg(root().join(".vale.ini")).args(["--output", "line"]);
    command.current_dir(folder).args(files).output().unwrap()
}

/// The file and the rule of each error in the output of Vale, as in `README.md:4:115:PolicySync.Vocabulary:Use …`.
fn errors(output: &Output) -> BTreeSet<(String, String)> {
    let text = String::from_utf8_lossy(&output.stdout);
    let error = |line: &str| {
        let mut parts = line.split(':');
        let file = parts.next().unwrap();
        let rule = parts.nth(2).unwrap_or_else(|| panic!("{line} is not an error of a rule"));
        (file.to_owned(), rule.to_owned())
    };
    text.lines().map(error).collect()
}

/// All Markdown and Rust files of the repository, relative to [`root`].
fn files() -> Vec<PathBuf> {
    let is_own = |path: &PathBuf| {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        name == ".github" || !(name == "target" || name.starts_with('.'))
    };
    let entries = fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().path()).filter(is_own);
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let below =
        folders.iter().flat_map(|folder| ["md", "rs"].map(|extension| files_below(folder, extension)));
    let pages = files.into_iter().filter(|path| path.extension() == Some(OsStr::new("md")));
    let all = below.flatten().chain(pages).map(|path| path.strip_prefix(root()).unwrap().to_owned());
    // The fuzz targets are not in the workspace, and have a build directory.
    let mut all: Vec<PathBuf> = all.filter(|path| !path.iter().any(|part| part == "target")).collect();
    all.sort();
    all
}

#[tokio::test]
async fn prose_follows_the_style() {
    let files = files();
    for needed in
        ["README.md", "docs/cli.md", ".github/PULL_REQUEST_TEMPLATE.md", "src/main.rs", "fuzz/README.md"]
    {
        assert!(files.contains(&PathBuf::from(needed)), "{needed} is not checked");
    }
    let texts = files.iter().map(|file| fs::read_to_string(root().join(file)).unwrap());
    let lines: usize = texts.map(|text| text.lines().count()).sum();
    println!("Vale checks {} files with {lines} lines", files.len());
    let output = vale(root(), &files).await;
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The names of the rules in the style.
fn rules() -> BTreeSet<String> {
    let rules = files_below(&root().join(".vale/styles/PolicySync"), "yml");
    rules.iter().map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn every_rule_of_the_style_finds_its_violation() {
    let known: BTreeSet<String> = VIOLATIONS.iter().map(|(rule, _)| (*rule).to_owned()).collect();
    assert_eq!(known, rules(), "each rule of the style needs one violation");

    let folder = tempfile::tempdir().unwrap();
    let mut expected = BTreeSet::new();
    let mut files = Vec::new();
    let mut plant = |name: String, text: String| {
        fs::write(folder.path().join(&name), text).unwrap();
        files.push(PathBuf::from(name));
    };
    for (rule, text) in VIOLATIONS {
        let mut found_in = |name: &str| expected.insert((name.to_owned(), format!("PolicySync.{rule}")));
        let page = format!("{rule}.md");
        found_in(&page);
        plant(page, format!("# A page\n\n{text}\n"));
        // Vale must ignore text in code.
        plant(format!("{rule}-code.md"), format!("# A page\n\n```text\n{text}\n```\n"));
        for (kind, prefix) in COMMENTS {
            let commented =
                |text: &str| -> String { text.lines().map(|line| format!("{prefix}{line}\n")).collect() };
            let file = format!("{rule}-{kind}.rs");
            found_in(&file);
            plant(file, format!("{}\nfn planted() {{}}\n", commented(text)));
            let code = commented(&format!("```text\n{text}\n```"));
            plant(format!("{rule}-{kind}-code.rs"), format!("{code}\nfn planted() {{}}\n"));
        }
        plant(format!("{rule}-string.rs"), format!("const PLANTED: &str = {text:?};\n"));
    }
    let output = vale(folder.path(), &files).await;
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(errors(&output), expected);
}
