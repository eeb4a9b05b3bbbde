//! Demos on real servers. The result of every step is checked. The demos show policy sync from a hub to two spokes,
//! placement by Rego policies, admission and authorization by Rego policies, and the web page of a fleet.
//!
//! ```text
//! Demo                         the environment: hub, spokes, controller
//! sync, placement, gates, web  the steps: user actions and expected results; sync ends with effective
//! look                         expected states: copies on the spokes, conditions, annotations, works
//! report                       the printed text
//! ```
//!
//! A step writes objects as a user does, and waits for the expected result with a time limit. A missing result
//! ends the demo with an error, so a demo that succeeds has shown everything that it prints.

mod demo;
mod effective;
mod gates;
mod look;
mod placement;
mod report;
mod sync;
mod web;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use policy_sync_testenv::FleetOptions;
use policy_sync_testenv::webhooks::Webhooks;
use tokio::process::Child;

use self::demo::Demo;
use self::report::Report;

/// The demos.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Story {
    /// Sync a policy to the spokes, and their status back to the hub.
    #[default]
    Sync,
    /// Rego policies select the clusters of apps.
    Placement,
    /// Rego policies admit or reject writes.
    Gates,
    /// The web page of the fleet.
    Web,
}

/// Engines for Rego policies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Engine {
    /// The controller.
    #[default]
    Embedded,
    /// The real OPA.
    Opa,
}

/// Options of a demo.
#[derive(Debug)]
pub struct Options {
    /// The demo to run.
    pub story: Story,
    /// The engine for Rego policies.
    pub engine: Engine,
    /// Path of `policy-sync`.
    pub controller: PathBuf,
    /// Whether everything is left running at the end.
    pub keep: bool,
}

impl Story {
    /// The environment that the demo needs, as text.
    fn stage(self) -> String {
        let with = |spokes: [&str; 2]| format!("a hub and the spokes {}", spokes.join(" and "));
        match self {
            Self::Sync | Self::Web => with(sync::SPOKES),
            Self::Placement => with(placement::SPOKES),
            Self::Gates => "a hub".to_owned(),
        }
    }

    /// Options of the fleet, and the controller's arguments.
    fn starts(self) -> (FleetOptions, fn(&Webhooks) -> Vec<String>) {
        match self {
            Self::Sync | Self::Web => (FleetOptions::spokes(sync::SPOKES), |_| Vec::new()),
            Self::Placement => (placement::fleet(), placement::arguments),
            Self::Gates => (FleetOptions::spokes([]), placement::arguments),
        }
    }

    /// Runs the steps. Returns a process that must run until the end, if any.
    async fn run_steps(self, demo: &Demo, report: &Report) -> Result<Option<Child>> {
        match self {
            Self::Sync => {
                sync::run_steps(demo, report).await?;
                effective::run_steps(demo, report).await?;
            }
            Self::Placement => placement::run_steps(demo, report).await?,
            Self::Gates => gates::run_steps(demo, report).await?,
            Self::Web => return web::run_steps(demo, report).await.map(Some),
        }
        Ok(None)
    }
}

/// The exit code after Ctrl-C.
const INTERRUPTED: u8 = 130;

/// Runs a demo until its end, or until `interrupted` completes.
///
/// # Errors
///
/// Returns an error if the environment does not start. A failed step is printed, and changes the exit code.
pub async fn run(options: Options, interrupted: impl Future<Output = ()>) -> Result<ExitCode> {
    let report = Report::new(&options.story.stage());
    let mut interrupted = std::pin::pin!(interrupted);
    let demo = tokio::select! {
        demo = Demo::start(&options, &report, options.story.starts()) => demo?,
        () = &mut interrupted => return Ok(ExitCode::from(INTERRUPTED)),
    };
    let outcome = tokio::select! {
        outcome = options.story.run_steps(&demo, &report) => outcome,
        () = &mut interrupted => return Ok(ExitCode::from(INTERRUPTED)),
    };
    if let Err(error) = &outcome {
        report.failed(error);
    }
    // The page must stay until the user has seen it.
    let looked_at = options.story == Story::Web && outcome.is_ok() && std::io::stdin().is_terminal();
    if options.keep || looked_at {
        demo.say_how_to_reach(&report);
        interrupted.await;
    }
    Ok(match outcome {
        Ok(_) => {
            report.ended();
            ExitCode::SUCCESS
        }
        Err(_) => ExitCode::FAILURE,
    })
}
