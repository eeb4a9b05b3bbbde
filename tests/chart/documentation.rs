//! Runs the commands in `docs/install.md` and `docs/quick-start.md` in order, in a real shell on a real hub with two
//! spokes. Each command must print the output on the page. The result is a synced policy.
//!
//! CONTRIBUTING.md describes the format of these pages. [`crate::simulated`] runs the pods of the hub and decides its
//! Placements.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use policy_sync_testenv::binaries::chart_tools;
use policy_sync_testenv::{Fleet, FleetOptions};
use serde_json::Value;
use tempfile::TempDir;

use crate::{binary, simulated};

/// The pages in reading order.
const PAGES: [&str; 2] = ["docs/install.md", "docs/quick-start.md"];
/// The folders of the repository that the commands use.
const FOLDERS: [&str; 2] = ["charts", "ocm-manifests"];
/// Matches any text in the output on a page.
const ANYTHING: char = '…';

/// Commands of a page with their output.
#[derive(Debug, PartialEq)]
struct Block {
    /// The file and line of the commands, such as `docs/install.md:12`.
    place: String,
    /// The commands for a shell.
    commands: String,
    /// Lines that the output must contain.
    shown: String,
}

/// The blocks of the page that are fenced as `sh`. Each has the next block as its output if that block is fenced as
/// `text`.
///
/// # Errors
///
/// If text outside these blocks looks like code. The test would not run such text.
fn blocks(page: &str, text: &str) -> Result<Vec<Block>> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut lines = text.lines().enumerate();
    // Whether the previous line ended a block of commands.
    let mut after_commands = false;
    while let Some((index, line)) = lines.next() {
        let place = format!("{page}:{}", index + 1);
        ensure!(!line.starts_with("    "), "{place}: indented code; use a fence with sh or text");
        let Some(language) = line.strip_prefix("```") else {
            after_commands = false;
            continue;
        };
        let inside: Vec<&str> =
            lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```").collect();
        let inside = inside.join("\n");
        match language {
            "sh" => blocks.push(Block { place, commands: inside, shown: String::new() }),
            "text" if after_commands => blocks.last_mut().context("no commands")?.shown = inside,
            _ => bail!("{place}: {line} is neither sh, nor text after sh"),
        }
        after_commands = language == "sh";
    }
    Ok(blocks)
}

/// Whether `line` matches `shown`, in which [`ANYTHING`] matches any text. Differences in whitespace are
/// ignored.
fn is_shown(line: &str, shown: &str) -> bool {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (line, shown) = (words(line), words(shown));
    let mut parts = shown.split(ANYTHING);
    let Some(mut rest) = parts.next().and_then(|first| line.strip_prefix(first)) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

/// Checks that `printed` contains all lines of `shown` in their order, possibly with other lines between them.
fn shows(printed: &str, shown: &str) -> Result<()> {
    let mut printed = printed.lines();
    for line in shown.lines().filter(|line| !line.trim().is_empty()) {
        ensure!(printed.any(|found| is_shown(found, line)), "not printed, or not in this order: {line}");
    }
    Ok(())
}

/// The machine of a new user: a checkout, the programs, and a kubeconfig.
struct UserMachine {
    folder: TempDir,
    path: String,
}

impl UserMachine {
    async fn new(fleet: &Fleet) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let (programs, home) = (folder.path().join("bin"), folder.path().join("home"));
        for made in [&programs, &home] {
            fs::create_dir(made)?;
        }
        let tools = chart_tools().await?;
        let kubectl = &fleet.hub().binaries().kubectl;
        for (program, name) in
            [(tools.helm.as_path(), "helm"), (kubectl.as_path(), "kubectl"), (binary(), "policy-sync")]
        {
            symlink(program, programs.join(name)).context(name)?;
        }
        for checked_out in FOLDERS {
            let copied = Command::new("cp")
                .arg("-R")
                .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(checked_out))
                .arg(folder.path())
                .status()?;
            ensure!(copied.success(), "cp failed to copy {checked_out}");
        }
        fs::write(folder.path().join("kubeconfig"), kubeconfig(fleet)?.to_string())?;
        let path = std::env::var("PATH").context("PATH is not set")?;
        Ok(Self { path: format!("{}:{path}", programs.display()), folder })
    }

    /// Runs commands, which must succeed and print the shown output.
    fn run(&self, block: &Block) -> Result<()> {
        let home = self.folder.path().join("home");
        let output = Command::new("bash")
            .args(["-euo", "pipefail", "-c", &block.commands])
            .current_dir(self.folder.path())
            .env("PATH", &self.path)
            .env("HOME", &home)
            .env("XDG_CACHE_HOME", home.join("cache"))
            .env("KUBECONFIG", self.folder.path().join("kubeconfig"))
            .output()
            .context("running bash")?;
        let (printed, stderr) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let context = || format!("{}:\n{}\nprinted:\n{printed}{stderr}", block.place, block.commands);
        ensure!(output.status.success(), "{}exited with {}", context(), output.status);
        shows(&printed, &block.shown).with_context(context)
    }
}

/// A kubeconfig for all clusters, with a context for each. The current context is that of the hub.
fn kubeconfig(fleet: &Fleet) -> Result<Value> {
    let mut merged: Option<Value> = None;
    let spokes = fleet.spokes().iter().map(|spoke| spoke.control_plane());
    for plane in [fleet.hub()].into_iter().chain(spokes) {
        let mut one: Value = serde_saphyr::from_str(&fs::read_to_string(plane.kubeconfig())?)?;
        // The administrators of all clusters have the same name.
        one["users"][0]["name"] = plane.name().into();
        one["contexts"][0]["context"]["user"] = plane.name().into();
        let Some(merged) = &mut merged else {
            merged = Some(one);
            continue;
        };
        for list in ["clusters", "users", "contexts"] {
            let entry = one[list][0].take();
            merged[list].as_array_mut().context(list)?.push(entry);
        }
    }
    merged.context("no cluster")
}

// Worker threads run the simulated kubelet and placement controller while the test waits for commands.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn install_and_quick_start_pages_result_in_a_synced_policy() -> Result<()> {
    let fleet = Fleet::start(FleetOptions::spokes(["eu-1", "us-1"])).await?;
    let desk = UserMachine::new(&fleet).await?;
    let follow = tokio::task::spawn_blocking(move || {
        for page in PAGES {
            let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(page))?;
            let blocks = blocks(page, &text)?;
            ensure!(blocks.len() > 5, "{page} has {} blocks of commands", blocks.len());
            for block in blocks {
                desk.run(&block)?;
            }
        }
        Ok(())
    });
    tokio::select! {
        followed = follow => followed?,
        ended = simulated::pods(fleet.hub()) => ended.context("the stand-in for kubelets"),
        ended = simulated::placements(fleet.hub()) => ended.context("the stand-in for the placement controller"),
    }
}

#[test]
fn code_blocks_follow_the_convention() -> Result<()> {
    let found = blocks("p", "A\n\n```sh\na\nb\n```\n```text\nc\n```\n\n```sh\nd\n```\n")?;
    let block = |place: &str, commands: &str, shown: &str| Block {
        place: place.to_owned(),
        commands: commands.to_owned(),
        shown: shown.to_owned(),
    };
    ensure!(found == [block("p:3", "a\nb", "c"), block("p:11", "d", "")], "{found:?}");
    for unrun in [
        "    kubectl get pods\n",
        "```bash\nls\n```\n",
        "```sh\nls\n```\n\n```text\nx\n```\n",
        "```text\nx\n```\n",
    ] {
        ensure!(blocks("p", unrun).is_err(), "{unrun} is accepted");
    }
    Ok(())
}

#[test]
fn shown_lines_are_found_in_the_output() {
    for (line, shown, expected) in [
        ("a  b", "a b", true),
        ("a b", "a", false),
        ("web  eu-1  5s", "web eu-1 …", true),
        ("web  us-1  5s", "web eu-1 …", false),
        ("deleted from shop", "deleted…", true),
        ("x 1 y 2 z", "x … y … z", true),
        ("x 1 y 2 z", "x … z … y", false),
        ("ab", "ab…b", false),
    ] {
        assert_eq!(is_shown(line, shown), expected, "{line:?} {shown:?}");
    }
    assert!(shows("a\nb\nc", "a\n\nc").is_ok());
    assert!(shows("a\nb\nc", "c\na").is_err(), "another order");
    assert!(shows("a", "a\na").is_err(), "one line matched twice");
}
