//! The chart's memory limit covers the parts that `docs/memory.md` lists, and the figures on that page match the code.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use clap::CommandFactory;
use policy_sync::cli::Cli;
use policy_sync_controller::server::webhooks;
use policy_sync_rego::{confined, limit, memory};
use serde_json::Value;

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// The rows of the table whose first column has the header `head`, with sizes in MiB.
fn rows<'p>(page: &'p str, head: &str) -> BTreeMap<&'p str, usize> {
    let (_, table) = page.split_once(&format!("\n| {head} | MiB |\n|---|---|\n")).unwrap();
    let rows = table.lines().map_while(|line| line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | "));
    rows.map(|(what, size)| (what, size.parse().unwrap())).collect()
}

/// The row whose text contains `words`.
fn row(rows: &BTreeMap<&str, usize>, words: &str) -> usize {
    let mut found = rows.iter().filter(|(what, _)| what.contains(words));
    let (_, size) = found.next().unwrap_or_else(|| panic!("no row contains {words}"));
    assert!(found.next().is_none(), "several rows contain {words}");
    *size
}

/// The default of `--replicate-bytes`, in MiB.
fn replicate_bytes() -> usize {
    let command = Cli::command();
    let controller = command.find_subcommand("controller").unwrap();
    let flag = controller.get_arguments().find(|argument| argument.get_long() == Some("replicate-bytes"));
    let default = flag.unwrap().get_default_values()[0].to_str().unwrap();
    default.strip_suffix("Mi").unwrap().parse().unwrap()
}

#[test]
fn memory_limit_of_the_chart_covers_the_parts_that_are_documented_as_covered() {
    let values: Value = serde_saphyr::from_str(&read("charts/policy-sync/values.yaml")).unwrap();
    let limit = values["resources"]["limits"]["memory"].as_str().unwrap().strip_suffix("Mi").unwrap();
    let page = read("docs/memory.md");
    assert!(
        page.contains(&format!("`resources.limits.memory`, is {limit} MiB")),
        "docs/memory.md does not have the chart's limit of {limit}Mi"
    );
    let mut parts = rows(&page, "part");
    let together = parts.remove("together").unwrap();
    assert_eq!(parts.values().sum::<usize>(), together, "{parts:?}");
    assert!(together <= limit.parse().unwrap(), "{together} MiB exceed the limit of {limit}Mi");

    let check = usize::try_from(confined::MEMORY_LIMIT >> 20).unwrap();
    assert_eq!(row(&parts, "one check"), check);
    assert_eq!(row(&parts, "bodies"), webhooks::BODIES);
    assert_eq!(row(&parts, "objects"), 2 * replicate_bytes());
    let more = rows(&page, "more");
    let thousand = row(&parts, "1,000 Rego modules");
    assert_eq!(row(&more, "1,000 Rego modules"), thousand);
    assert_eq!(row(&more, "a check of written policies"), check);
    assert_eq!(row(&more, "each evaluation"), memory::LIMIT >> 20);

    // The factors from the last sentence of the section: the maximum number of modules, and the number of concurrent
    // evaluations on 4 processors.
    let often = |what: &str| match what {
        _ if what.contains("modules") => limit::MAX_MODULES / 1_000 - 1,
        _ if what.contains("--replicate-bytes") => 0,
        _ if what.contains("each evaluation") => 4 + 2,
        _ => 1,
    };
    let all = together + more.iter().map(|(what, size)| often(what) * size).sum::<usize>();
    let all = format!("{},{:03} MiB", all / 1_000, all % 1_000);
    assert!(
        page.contains(&format!("all other rows needs {all}.")),
        "docs/memory.md does not have the sum {all}"
    );
}
