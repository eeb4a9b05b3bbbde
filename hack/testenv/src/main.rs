//! Command line of the test environment: builds its programs, or runs a hub with spokes until Ctrl-C.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use policy_sync_testenv::{Fleet, FleetOptions, binaries};
use tokio::signal::unix::{SignalKind, signal};

/// A hub and spokes on one machine, without containers.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Build the servers and tools of the tests, and exit.
    Build,
    /// Run a hub and spokes until Ctrl-C, and print their kubeconfigs.
    Up {
        /// Number of spokes. Their names are eu-1, us-1, eu-2, us-2, …
        #[arg(long, default_value_t = 2)]
        spokes: usize,
        /// Directory in which all files are kept.
        #[arg(long)]
        dir: Option<PathBuf>,
    },
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse().command).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("testenv: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(command: Command) -> Result<()> {
    match command {
        Command::Build => {
            let binaries = binaries::ensure().await?;
            binaries::chart_tools().await?;
            binaries::opa().await?;
            binaries::axe().await?;
            binaries::yaml_reader().await?;
            binaries::vale().await?;
            binaries::yaml_cases().await?;
            println!("{}", binaries.kube_apiserver.parent().unwrap_or(&binaries.kube_apiserver).display());
            Ok(())
        }
        Command::Up { spokes, dir } => up(spokes, dir).await,
    }
}

async fn up(spokes: usize, directory: Option<PathBuf>) -> Result<()> {
    // Registered before anything starts, so that no signal is lost.
    let mut interrupt = signal(SignalKind::interrupt()).context("listening for SIGINT")?;
    let mut terminate = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
    let names: Vec<String> = (0..spokes).map(spoke_name).collect();
    let options = FleetOptions { directory, ..FleetOptions::spokes(names.iter().map(String::as_str)) };
    let fleet = tokio::select! {
        fleet = Fleet::start(options) => fleet?,
        _ = interrupt.recv() => return Ok(()),
        _ = terminate.recv() => return Ok(()),
    };
    println!("# {}", fleet.hub().name());
    println!("export KUBECONFIG={}", fleet.hub().kubeconfig().display());
    for spoke in fleet.spokes() {
        println!("# {}", spoke.name());
        println!("export KUBECONFIG={}", spoke.kubeconfig().display());
    }
    println!("# kubectl: {}", fleet.hub().binaries().kubectl.display());
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(())
}

fn spoke_name(index: usize) -> String {
    let region = if index.is_multiple_of(2) { "eu" } else { "us" };
    format!("{region}-{}", index / 2 + 1)
}
