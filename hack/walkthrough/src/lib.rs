//! The demos: one policy's way from the hub to two spokes and back, where policies in Rego have apps run, what they let be written, and
//! the page of a fleet, on real servers, every step checked.
//!
//! ```text
//! Demo                         what runs: hub, spokes, controller
//! sync, placement, gates, web  the steps: what someone writes, and what is to follow; sync ends with effective
//! look                         what is looked at: copies on the spokes, conditions, the folded annotation, works
//! report                       what is printed
//! ```
//!
//! A step writes as a user would and then waits, with a limit, for what is to follow. What does not follow ends the
//! demo with an error, so that a demo that ends well has shown what it says.

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

/// What is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Story {
    /// A policy travels to the spokes, and their answers come back.
    #[default]
    Sync,
    /// Policies in Rego say where apps may run.
    Placement,
    /// Policies in Rego say what may be written.
    Gates,
    /// A page shows which policy is in force on which cluster.
    Web,
}

/// Who evaluates policies in Rego.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Engine {
    /// The controller.
    #[default]
    Embedded,
    /// The real OPA.
    Opa,
}

/// How to run a demo.
#[derive(Debug)]
pub struct Options {
    /// What is told.
    pub story: Story,
    /// Who evaluates policies.
    pub engine: Engine,
    /// The program `policy-sync`.
    pub controller: PathBuf,
    /// Whether all is left running at the end.
    pub keep: bool,
}

impl Story {
    /// What it needs.
    fn stage(self) -> String {
        let with = |spokes: [&str; 2]| format!("a hub and the spokes {}", spokes.join(" and "));
        match self {
            Self::Sync | Self::Web => with(sync::SPOKES),
            Self::Placement => with(placement::SPOKES),
            Self::Gates => "a hub".to_owned(),
        }
    }

    /// Its fleet, and the arguments of the controller.
    fn starts(self) -> (FleetOptions, fn(&Webhooks) -> Vec<String>) {
        match self {
            Self::Sync | Self::Web => (FleetOptions::spokes(sync::SPOKES), |_| Vec::new()),
            Self::Placement => (placement::fleet(), placement::arguments),
            Self::Gates => (FleetOptions::spokes([]), placement::arguments),
        }
    }

    /// Tells it, and returns what else is to run on until the end.
    async fn tell(self, demo: &Demo, report: &Report) -> Result<Option<Child>> {
        match self {
            Self::Sync => {
                sync::tell(demo, report).await?;
                effective::tell(demo, report).await?;
            }
            Self::Placement => placement::tell(demo, report).await?,
            Self::Gates => gates::tell(demo, report).await?,
            Self::Web => return web::tell(demo, report).await.map(Some),
        }
        Ok(None)
    }
}

/// The exit code of a program that was ended by Ctrl-C.
const INTERRUPTED: u8 = 130;

/// Tells the story until its end, or until `asked` to stop.
///
/// # Errors
///
/// What did not follow as it should.
pub async fn run(options: Options, asked: impl Future<Output = ()>) -> Result<ExitCode> {
    let report = Report::new(&options.story.stage());
    let mut asked = std::pin::pin!(asked);
    let demo = tokio::select! {
        demo = Demo::start(&options, &report, options.story.starts()) => demo?,
        () = &mut asked => return Ok(ExitCode::from(INTERRUPTED)),
    };
    let told = tokio::select! {
        told = options.story.tell(&demo, &report) => told,
        () = &mut asked => return Ok(ExitCode::from(INTERRUPTED)),
    };
    if let Err(error) = &told {
        report.failed(error);
    }
    // A page that is gone before anybody has seen it shows nothing.
    let looked_at = options.story == Story::Web && told.is_ok() && std::io::stdin().is_terminal();
    if options.keep || looked_at {
        demo.say_how_to_reach(&report);
        asked.await;
    }
    Ok(match told {
        Ok(_) => {
            report.ended();
            ExitCode::SUCCESS
        }
        Err(_) => ExitCode::FAILURE,
    })
}
