//! Parses the arguments of the process. A usage error is printed in one line, like all other errors.

use std::env::args_os;
use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::{Error, ErrorKind};
use clap::{Command, FromArgMatches};

use super::Cli;
use super::groups::group;
use super::invocation::Invocation;
use super::output::print_message;
use super::text::printable;

/// A renamed flag. Its old name is accepted, but absent from help and completion.
struct RenamedFlag {
    id: &'static str,
    old: &'static str,
    new: &'static str,
}

const REGO_NAMESPACE: RenamedFlag =
    RenamedFlag { id: "rego_namespace", old: "policy-namespace", new: "rego-namespace" };

/// Parses the arguments of the process.
///
/// # Errors
///
/// The exit code, after help or an error was printed.
pub fn parse() -> Result<Cli, ExitCode> {
    let command = group(Invocation::new(args_os().next().as_deref()).command());
    let parsed = REGO_NAMESPACE.accept_old_name(command).try_get_matches();
    let parsed = parsed.and_then(|mut matches| Cli::from_arg_matches_mut(&mut matches));
    let mut cli = parsed.map_err(exit_code)?;
    cli.deprecation = REGO_NAMESPACE.deprecation(args_os().skip(1)).map_err(|why| usage_error(&why))?;
    Ok(cli)
}

impl RenamedFlag {
    /// Makes `command` and its subcommands accept the old name of the flag.
    fn accept_old_name(&self, command: Command) -> Command {
        let command = command.mut_subcommands(|command| self.accept_old_name(command));
        if command.get_arguments().any(|argument| argument.get_id() == self.id) {
            command.mut_arg(self.id, |argument| argument.alias(self.old))
        } else {
            command
        }
    }

    /// The warning if the valid `arguments` contain the old name of the flag.
    ///
    /// # Errors
    ///
    /// If the arguments contain both names.
    fn deprecation(&self, arguments: impl Iterator<Item = OsString>) -> Result<Option<String>, String> {
        let Self { old, new, .. } = self;
        let (mut has_old, mut has_new) = (false, false);
        for argument in arguments.take_while(|argument| argument != "--") {
            let argument = argument.to_string_lossy();
            let Some(flag) = argument.strip_prefix("--") else { continue };
            let name = flag.split_once('=').map_or(flag, |(name, _)| name);
            has_old |= name == *old;
            has_new |= name == *new;
        }
        match (has_old, has_new) {
            (false, _) => Ok(None),
            (true, false) => Ok(Some(format!("--{old} is deprecated: use --{new}"))),
            (true, true) => Err(format!("--{old} is the deprecated name of --{new}: use --{new} alone")),
        }
    }
}

fn usage_error(why: &str) -> ExitCode {
    print_message(printable(&format!("policy-sync: {why}; see --help")));
    ExitCode::from(2)
}

/// Prints the message that clap returned instead of arguments.
fn exit_code(error: Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // A write error is ignored, because a reader may have closed the pipe.
            let _ = error.print();
            ExitCode::SUCCESS
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            ExitCode::from(2)
        }
        _ => usage_error(&line(&error)),
    }
}

/// The error and the suggestion of clap in one line, without the usage.
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
