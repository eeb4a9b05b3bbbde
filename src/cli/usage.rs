//! The arguments of this process. What is wrong with them is told in one line, as every other failure is.

use std::env::args_os;
use std::process::ExitCode;

use clap::FromArgMatches;
use clap::error::{Error, ErrorKind};

use super::Cli;
use super::called_as::CalledAs;
use super::output::say;
use super::text::printable;

/// The command line of this process.
///
/// # Errors
///
/// The exit code, where help was asked for or something is wrong; either has been said.
pub fn parse() -> Result<Cli, ExitCode> {
    let command = CalledAs::new(args_os().next().as_deref()).command();
    let parsed = command.try_get_matches().and_then(|mut matches| Cli::from_arg_matches_mut(&mut matches));
    parsed.map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // Nobody may be left to read it.
            let _ = error.print();
            ExitCode::SUCCESS
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            ExitCode::from(2)
        }
        _ => {
            say(printable(&format!("policy-sync: {}; see --help", line(&error))));
            ExitCode::from(2)
        }
    })
}

/// What is wrong, and what may have been meant, without the usage.
fn line(error: &Error) -> String {
    let text = error.render().to_string();
    let mut line = String::new();
    for part in text.lines().map(str::trim).take_while(|part| !is_usage(part)).filter(|part| !part.is_empty())
    {
        line.push_str(match part {
            _ if line.is_empty() => "",
            part if part.starts_with("tip: ") => "; ",
            _ => " ",
        });
        line.push_str(part.strip_prefix("error: ").unwrap_or(part));
    }
    line
}

fn is_usage(part: &str) -> bool {
    part.starts_with("Usage: ") || part.starts_with("For more information")
}
