//! Command line of the demos, which `hack/demo` builds and runs.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Parser;
use policy_sync_walkthrough::{self as demo, Engine, Options, Story};
use tokio::signal::unix::{SignalKind, signal};

/// A hub, two spokes and the controller on this machine: a story is told, and each step of it is checked.
#[derive(Parser)]
#[command(name = "demo", version)]
struct Arguments {
    /// What is told.
    #[arg(value_enum, default_value_t)]
    story: Story,
    /// Who evaluates policies in Rego, where the story has any.
    #[arg(long, value_enum, default_value_t)]
    engine: Engine,
    /// Leave everything running at the end, until Ctrl-C, and print how to reach it.
    #[arg(long)]
    keep: bool,
    /// The controller; otherwise the `policy-sync` beside this program.
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
            bail!("--engine opa is for the story of policies in Rego: hack/demo placement --engine opa");
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
    let asked = async {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    };
    demo::run(Arguments::parse().options()?, asked).await
}
