//! Checks the documentation: links have targets, and flags, paths and test names exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::files_below;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The Markdown files of the repository's own folders.
fn pages() -> Vec<PathBuf> {
    let folders = [
        "",
        "docs",
        "docs/decisions",
        "docs/proposals",
        "docs/reference",
        "docs/reference/bad-input",
        "docs/reference/performance",
        "gatewayclass-params",
        "charts/policy-sync",
        "ocm-manifests",
        "hack/testenv",
        "fuzz",
    ];
    let files = folders.iter().flat_map(|folder| fs::read_dir(root().join(folder)).unwrap());
    let paths = files.map(|file| file.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect()
}

/// The targets of `[text](target)`.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

/// The anchor of a heading in links.
fn anchor(heading: &str) -> String {
    let heading = heading.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
    heading.chars().filter(|c| c.is_alphanumeric() || "-_".contains(*c)).collect()
}

#[test]
fn links_have_targets() {
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        for link in links(&text).filter(|link| !link.starts_with("https://")) {
            let (file, fragment) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            assert!(target.exists(), "{}: the target of {link} does not exist", page.display());
            if !fragment.is_empty() {
                let target = fs::read_to_string(target).unwrap();
                let mut headings = target.lines().filter(|line| line.starts_with('#'));
                assert!(
                    headings.any(|h| anchor(h) == fragment),
                    "{}: the anchor of {link} does not exist",
                    page.display()
                );
            }
        }
    }
}

#[test]
fn architecture_page_names_existing_paths() {
    let text = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let is_path = |word: &&str| [".rs", ".md", "/"].iter().any(|end| word.ends_with(end));
    let paths: BTreeSet<&str> = text.split('`').skip(1).step_by(2).filter(is_path).collect();
    assert!(paths.len() > 40, "{paths:?}");
    let source = root().join("src");
    let in_crate = |path: &str| {
        let (name, rest) = path.split_once('/')?;
        Some(root().join("crates").join(name).join("src").join(rest))
    };
    for path in &paths {
        let found = [Some(root().join(path)), Some(source.join(path)), in_crate(path)];
        assert!(found.into_iter().flatten().any(|path| path.exists()), "{path} does not exist");
    }
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let folder = format!("crates/{}/", entry.unwrap().file_name().display());
        assert!(paths.contains(folder.as_str()), "docs/architecture.md does not name {folder}");
    }
    let rooms = fs::read_dir(source).unwrap().map(|entry| entry.unwrap());
    for room in
        rooms.filter(|entry| entry.file_type().unwrap().is_dir() && entry.path().join("mod.rs").exists())
    {
        let room = format!("src/{}/", room.file_name().display());
        assert!(paths.contains(room.as_str()), "docs/architecture.md does not name {room}");
    }
}

#[test]
fn every_flag_of_the_controller_is_documented() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_policy-sync")).args(["controller", "--help"]).output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    let flags: BTreeSet<&str> = help
        .lines()
        .filter_map(|line| line.trim_start_matches("  -h,").trim().strip_prefix("--"))
        .filter_map(|line| line.split([' ', '=', '[']).next())
        .filter(|flag| *flag != "help")
        .collect();
    assert!(flags.len() > 5, "{help}");
    let page = fs::read_to_string(root().join("docs/cli.md")).unwrap();
    for flag in flags {
        let is_named = [' ', '`'].iter().any(|end| page.contains(&format!("`--{flag}{end}")));
        assert!(is_named, "docs/cli.md does not name --{flag}");
    }
}

/// The minor version of `module` that the test environment's `tools` are built from, as in `1.36`.
fn pinned(tools: &str, module: &str) -> String {
    let pins = fs::read_to_string(root().join(format!("hack/testenv/tools/{tools}/go.mod"))).unwrap();
    let mut lines = pins.lines().filter_map(|line| line.split_once(&format!("{module} v")));
    let (_, version) = lines.next().unwrap_or_else(|| panic!("go.mod of {tools} does not require {module}"));
    version.split('.').take(2).collect::<Vec<_>>().join(".")
}

#[test]
fn documented_versions_match_the_test_environment() {
    let page = fs::read_to_string(root().join("docs/install.md")).unwrap();
    let kubernetes = pinned("kubernetes", "k8s.io/kubernetes");
    for (what, version) in [
        ("Kubernetes, hub and spokes", kubernetes.clone()),
        (
            "Gateway API, hub and spokes",
            format!("{}, standard channel", pinned("gateway-api", "sigs.k8s.io/gateway-api")),
        ),
        ("Helm", pinned("helm", "helm.sh/helm/v4")),
        ("kubectl", kubernetes),
    ] {
        let row = format!("\n| {what} | {version} |");
        assert!(page.contains(&row), "docs/install.md has no row{row}");
    }
}

#[test]
fn every_reason_of_an_explanation_is_in_its_documentation() {
    let folder = root().join("crates/sync/src/explain");
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).filter(|path| path.is_file());
    let texts = files
        .chain([root().join("crates/sync/src/explain.rs")])
        .map(|file| fs::read_to_string(file).unwrap());
    let documentation = fs::read_to_string(root().join("docs/explain.md")).unwrap();
    let mut reasons = BTreeSet::new();
    for text in texts {
        let words = text.split("Reason::new(\"").skip(1).filter_map(|rest| rest.split('"').next());
        reasons.extend(words.map(str::to_owned));
    }
    assert!(reasons.len() > 20, "{reasons:?}");
    for reason in reasons {
        assert!(documentation.contains(&format!("`{reason}`")), "docs/explain.md does not name {reason}");
    }
}

#[test]
fn security_page_names_existing_tests_for_every_attack() {
    let page = fs::read_to_string(root().join("docs/security.md")).unwrap();
    let (_, attacks) = page.split_once("\n## Attacks and bounds\n").unwrap();
    let rows = attacks.split("\n## ").next().unwrap().lines().filter(|line| line.starts_with('|')).skip(2);
    let folders = ["src", "crates", "tests"].map(|folder| files_below(&root().join(folder), "rs")).concat();
    let code: String = folders.into_iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    let mut count = 0;
    for row in rows {
        let cell = row.trim_end_matches(['|', ' ']).rsplit('|').next().unwrap();
        let tests: Vec<&str> = cell.split('`').skip(1).step_by(2).collect();
        assert!(!tests.is_empty(), "the row has no test: {row}");
        for test in tests {
            assert!(code.contains(&format!("fn {test}()")), "the test {test} does not exist: {row}");
            count += 1;
        }
    }
    assert!(count > 10, "only {count} tests");
}
