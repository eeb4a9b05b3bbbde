//! The demo: one policy's way from the hub to two spokes and back, on real servers, every step checked.
//!
//! ```text
//! Demo    what runs: hub, spokes, controller
//! story   the steps: what someone writes, and what is to follow
//! look    what is looked at: copies on the spokes, conditions, the folded annotation, works
//! report  what is printed
//! ```
//!
//! A step writes as a user would and then waits, with a limit, for what is to follow. What does not follow ends the
//! demo with an error, so that a demo that ends well has shown what it says.

mod demo;
mod look;
mod report;
mod story;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;

use self::demo::Demo;
use self::report::Report;

/// How to run the demo.
#[derive(Debug)]
pub struct Options {
    /// The program `policy-sync`.
    pub controller: PathBuf,
    /// Whether all is left running at the end.
    pub keep: bool,
}

/// The exit code of a program that was ended by Ctrl-C.
const INTERRUPTED: u8 = 130;

/// Tells the story until its end, or until `asked` to stop.
///
/// # Errors
///
/// What did not follow as it should.
pub async fn run(options: Options, asked: impl Future<Output = ()>) -> Result<ExitCode> {
    let report = Report::new();
    let mut asked = std::pin::pin!(asked);
    let demo = tokio::select! {
        demo = Demo::start(&options.controller, &report) => demo?,
        () = &mut asked => return Ok(ExitCode::from(INTERRUPTED)),
    };
    let told = tokio::select! {
        told = story::tell(&demo, &report) => told,
        () = &mut asked => return Ok(ExitCode::from(INTERRUPTED)),
    };
    if let Err(error) = &told {
        report.failed(error);
    }
    if options.keep {
        if told.is_ok() {
            story::put_back(&demo, &report).await?;
        }
        demo.say_how_to_reach(&report);
        asked.await;
    }
    Ok(match told {
        Ok(()) => {
            report.ended();
            ExitCode::SUCCESS
        }
        Err(_) => ExitCode::FAILURE,
    })
}
