//! Runs the examples in each `--help` as written, on a hub with the objects that the examples name.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::CommandFactory;
use policy_sync::cli::Cli;
use policy_sync_testenv::apply::apply_with_status;
use policy_sync_testenv::crds::{self, ClusterType};
use policy_sync_testenv::running::Running;
use policy_sync_testenv::{ControlPlane, ControlPlaneOptions, apply, binaries, fixtures};
use serde_json::Value;

use crate::run::{command, finish, run};
use crate::terminal::{needs, on_path};

/// The words of all commands.
fn commands() -> Vec<Vec<String>> {
    fn below(command: &clap::Command, words: &[String], all: &mut Vec<Vec<String>>) {
        all.push(words.to_vec());
        for command in command.get_subcommands() {
            below(command, &[words, &[command.get_name().to_owned()]].concat(), all);
        }
    }
    let mut all = Vec::new();
    below(&Cli::command(), &[], &mut all);
    all
}

/// The examples in a help text.
fn examples(help: &str) -> Vec<String> {
    let (_, examples) = help.split_once("\nExamples:\n").unwrap_or_default();
    let example = |block: &str| {
        let lines = block.lines().filter(|line| !line.trim_start().starts_with('#'));
        lines.map(|line| line.strip_prefix("  ").unwrap_or(line)).collect::<Vec<_>>().join("\n")
    };
    examples.split("\n\n").map(example).map(|example| example.trim().to_owned()).collect()
}

/// A hub with the objects in `data/shop`.
async fn shop() -> Result<ControlPlane> {
    let crds = crds::for_cluster_type(ClusterType::Hub, &binaries::ensure().await?)?;
    let hub =
        ControlPlane::start(ControlPlaneOptions { crds, ..ControlPlaneOptions::named("examples") }).await?;
    let client = hub.client()?;
    for namespace in ["shop", "eu-1", "us-1", "kube-federation-scheduling-policy"] {
        apply::apply(&client, &fixtures::namespace(namespace)).await?;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/data/shop");
    for file in ["class.yaml", "fleet.json", "gateway.yml", "policies.yaml"] {
        let documents: Vec<Value> =
            serde_saphyr::from_multiple(&std::fs::read_to_string(folder.join(file))?)?;
        for document in documents {
            let items = document["items"].as_array().cloned().unwrap_or_else(|| vec![document]);
            for item in items {
                if item["status"].is_object() {
                    apply_with_status(&client, &item).await?;
                } else {
                    apply::apply(&client, &item).await?;
                }
            }
        }
    }
    Ok(hub)
}

#[test]
fn every_help_text_has_two_examples() {
    let commands = commands();
    assert!(commands.len() > 5, "{commands:?}");
    for words in commands {
        let words: Vec<&str> = words.iter().map(String::as_str).chain(["--help"]).collect();
        let help = run(&words).stdout;
        let examples = examples(&help);
        assert_eq!(examples.len(), 2, "{help}");
        let about = words[..words.len() - 1].join(" ");
        let called =
            examples.iter().all(|example| example.contains(format!("policy-sync {about}").trim_end()));
        assert!(called, "{words:?} {examples:?}");
        // Examples fit into 80 columns.
        let longest =
            help.lines().skip_while(|line| *line != "Examples:").map(|line| line.chars().count()).max();
        assert!(longest.is_some_and(|longest| longest <= 80), "{help}");
    }
}

#[tokio::test]
async fn examples_in_help_texts_work() -> Result<()> {
    needs("bash", "bash");
    let hub = shop().await?;
    let home = tempfile::tempdir()?;
    let (_folder, path) = on_path(&[("kubectl", &hub.binaries().kubectl)]);
    let bash = |script: &str| bash(script, &path, &hub, home.path());
    let all: BTreeSet<String> = commands()
        .iter()
        .flat_map(|words| {
            examples(
                &run(&[&words.iter().map(String::as_str).collect::<Vec<_>>()[..], &["--help"]].concat())
                    .stdout,
            )
        })
        .collect();
    ensure!(all.len() > 10, "{all:#?}");
    for example in all {
        if example.starts_with("policy-sync controller") {
            let mut running = Running::start(bash(&format!("exec {example}")));
            running.says("\"started\"").await;
            running.signal("TERM");
            ensure!(running.ends().await == Some(0), "{example}: {:#?}", running.stderr_lines());
            continue;
        }
        if example.starts_with("policy-sync web") {
            let mut running = Running::start(bash(&format!("exec {example}")));
            running.prints("the address of the server", |line| line.starts_with("http://127.0.0.1:")).await;
            running.signal("INT");
            ensure!(running.ends().await == Some(0), "{example}: {:#?}", running.stderr_lines());
            continue;
        }
        let ran = finish(bash(&example), "");
        // Exit code 1 is expected as well, because no controller syncs anything on this hub.
        ensure!([0, 1].contains(&ran.code) && !ran.stderr.contains("policy-sync: "), "{example}: {ran:#?}");
        // The hub has no Rego policies, so these commands print nothing.
        let of_hub = ["policy-sync placement", "policy-sync audit --rego-namespace"];
        let is_of_hub = of_hub.iter().any(|command| example.starts_with(command));
        let nothing = is_of_hub && !example.contains("-o json");
        let silent = nothing || ["source", "mkdir"].iter().any(|word| example.starts_with(word));
        ensure!(ran.stdout.is_empty() == silent, "{example}: {ran:#?}");
    }
    let fish = home.path().join(".config/fish/completions/policy-sync.fish");
    ensure!(
        std::fs::read_to_string(fish)
            .context("the completion script for fish is missing")?
            .contains("complete ")
    );
    Ok(())
}

fn bash(script: &str, path: &OsString, hub: &ControlPlane, home: &Path) -> Command {
    let mut bash = Command::new("bash");
    bash.arg("-c").arg(script).env("PATH", path).env("HOME", home).env("KUBECONFIG", hub.kubeconfig());
    if let Some(directory) = command(&[]).get_current_dir() {
        bash.current_dir(directory);
    }
    bash
}
