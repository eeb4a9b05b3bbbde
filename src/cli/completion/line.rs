//! Parses an incomplete command line for the options that affect completion.

use std::ffi::OsString;

use clap::{CommandFactory, FromArgMatches};

use crate::cli::Cli;
use crate::cli::hub::HubArguments;
use crate::cli::settings::CONTROLLER_NAME;
use policy_sync_api::names::ControllerName;

/// A command line that is being typed.
#[derive(Clone, Debug, Default)]
pub(super) struct CommandLine {
    /// The options that select the hub; `None` if they cannot be parsed.
    pub(super) hub: Option<HubArguments>,
    /// The value of `--controller-name`, if it is set.
    controller: Option<String>,
    /// The namespace, if it is set.
    pub(super) namespace: Option<String>,
    /// Whether all namespaces are selected.
    pub(super) all_namespaces: bool,
    /// The kind, if it is set.
    pub(super) kind: Option<String>,
}

impl CommandLine {
    /// Parses `words` except the last, which is being typed.
    pub(super) fn read(words: &[OsString]) -> Self {
        let typed = words.split_last().map_or(words, |(_, before)| before);
        // Invalid and missing arguments are ignored while the user types.
        let matches = Cli::command().ignore_errors(true).try_get_matches_from(typed);
        let Ok(mut matches) = matches else { return Self::default() };
        while let Some((_, below)) = matches.remove_subcommand() {
            matches = below;
        }
        let text = |name: &str| matches.try_get_one::<String>(name).ok().flatten().cloned();
        Self {
            hub: HubArguments::from_arg_matches(&matches).ok(),
            controller: text("controller_name"),
            namespace: text("namespace"),
            all_namespaces: matches.try_get_one::<bool>("all_namespaces").is_ok_and(|all| all == Some(&true)),
            kind: text("kind"),
        }
    }

    /// The controller whose GatewayClasses are considered.
    pub(super) fn controller(&self) -> ControllerName {
        ControllerName::new(self.controller.as_deref().unwrap_or(CONTROLLER_NAME))
    }
}

#[cfg(test)]
mod tests;
