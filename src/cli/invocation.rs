//! The name under which the program was started: `policy-sync`, or the name of a `kubectl` plugin. Links to the binary
//! have the names of the plugins, so that `kubectl` finds and starts the plugins.

use std::ffi::OsStr;
use std::path::Path;

use clap::{Command, CommandFactory};

use super::Cli;

/// How the program was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Invocation {
    /// The program was started as `policy-sync`, or under any other name.
    Standalone,
    /// The program was started as the plugin for `kubectl policy-sync`.
    Plugin,
    /// The program was started as the completion helper of `kubectl policy-sync`.
    PluginCompletion,
}

impl Invocation {
    /// Determines how the program was started. `program` is the first argument of the process: the name of the program.
    pub(super) fn new(program: Option<&OsStr>) -> Self {
        match program.and_then(|program| Path::new(program).file_name()?.to_str()) {
            Some("kubectl-policy_sync") => Self::Plugin,
            Some("kubectl_complete-policy_sync") => Self::PluginCompletion,
            _ => Self::Standalone,
        }
    }

    /// The command as a user types it.
    fn name(self) -> &'static str {
        match self {
            Self::Standalone => "policy-sync",
            Self::Plugin | Self::PluginCompletion => "kubectl policy-sync",
        }
    }

    /// The command line, with help and examples that use the typed name.
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
