//! As what this program was called: as itself, or by `kubectl` as its plugin. Links to the binary choose it by their name.

use std::ffi::OsStr;
use std::path::Path;

use clap::{Command, CommandFactory};

use super::Cli;

/// As what this program was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CalledAs {
    /// By its own name, or another that means nothing.
    Itself,
    /// To run as `kubectl policy-sync`.
    Plugin,
    /// To complete `kubectl policy-sync`.
    PluginCompletion,
}

impl CalledAs {
    /// What the first argument of a process says.
    pub(super) fn new(program: Option<&OsStr>) -> Self {
        match program.and_then(|program| Path::new(program).file_name()?.to_str()) {
            Some("kubectl-policy_sync") => Self::Plugin,
            Some("kubectl_complete-policy_sync") => Self::PluginCompletion,
            _ => Self::Itself,
        }
    }

    /// What a user types.
    fn name(self) -> &'static str {
        match self {
            Self::Itself => "policy-sync",
            Self::Plugin | Self::PluginCompletion => "kubectl policy-sync",
        }
    }

    /// The command line, whose help and examples call it by what a user types.
    pub(super) fn command(self) -> Command {
        rename(Cli::command(), self.name()).bin_name(self.name())
    }
}

fn rename(command: Command, name: &str) -> Command {
    let examples = command.get_after_help().map(ToString::to_string);
    let command = command.mut_subcommands(|command| rename(command, name));
    match examples {
        None => command,
        Some(examples) => command.after_help(examples.replace("  policy-sync ", &format!("  {name} "))),
    }
}

#[cfg(test)]
mod tests;
