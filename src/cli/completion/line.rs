//! What has been typed of a command line so far, as far as it decides which names there are.

use std::ffi::OsString;

use clap::{CommandFactory, FromArgMatches};

use crate::cli::Cli;
use crate::cli::hub::HubArguments;
use crate::cli::settings::CONTROLLER_NAME;
use policy_sync_api::names::ControllerName;

/// A command line that is being typed.
#[derive(Clone, Debug, Default)]
pub(super) struct Line {
    /// Which hub; `None` where what says so cannot be read.
    pub(super) hub: Option<HubArguments>,
    /// Whose GatewayClasses count, where one is named.
    controller: Option<String>,
    /// The namespace, where one is named.
    pub(super) namespace: Option<String>,
    /// Whether all of them are meant.
    pub(super) all_namespaces: bool,
    /// The kind, where one is named.
    pub(super) kind: Option<String>,
}

impl Line {
    /// What `words` say, the last of which is being typed.
    pub(super) fn read(words: &[OsString]) -> Self {
        let typed = words.split_last().map_or(words, |(_, before)| before);
        // What is wrong, or missing, is no matter yet.
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

    /// Whose GatewayClasses count.
    pub(super) fn controller(&self) -> ControllerName {
        ControllerName::new(self.controller.as_deref().unwrap_or(CONTROLLER_NAME))
    }
}

#[cfg(test)]
mod tests;
