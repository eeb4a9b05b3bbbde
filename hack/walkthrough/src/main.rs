//! Command line of the demos, which `hack/demo` builds and runs.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Parser;
use policy_sync_walkthrough::{self as demo, Engine, Options, Story};
use tokio::signal::unix::{SignalKind, signal};

/// Start a hub, two spokes and the controller on this machine, and run a demo in which each step is checked.
#[derive(Parser)]
#[command(name = "demo", version)]
struct Arguments {
    /// The demo.
    #[arg(value_enum, default_value_t)]
    story: Story,
    /// The engine for Rego policies.
    #[arg(long, value_enum, default_value_t)]
    engine: Engine,
    /// Keep everything running until Ctrl-C, and print the kubeconfigs.
    #[arg(long)]
    keep: bool,
    /// The program of the controller. Default: `policy-sync` next to this program.
    #[arg(long, value_name = "FILE")]
    controller: Option<PathBuf>,
}

impl Arguments {
    fn options(self) -> Result<Options> {
        let controller = match self.controller {
            Some(path) => path,
            None => std::env::current_exe().context("finding this program")?.with_file_name("policy-sync"),
        };
        if self.engine == Engine::Opa && matches!(self.story, Story::Sync | Story::Web) {
            bail!("--engine opa requires a demo of Rego policies: hack/demo placement --engine opa");
        }
        Ok(Options { story: self.story, engine: self.engine, controller, keep: self.keep })
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("demo: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<ExitCode> {
    // Registered before anything starts, so that no signal is lost.
    let mut interrupt = signal(SignalKind::interrupt()).context("listening for SIGINT")?;
    let mut terminate = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
    let interrupted = async {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    };
    demo::run(Arguments::parse().options()?, interrupted).await
}
