//! Completion of this command line in bash, zsh and fish, and by `kubectl` if the program is installed as its
//! plugin.
//!
//! ```text
//! shell ──▶ script ──▶ this process, POLICY_SYNC_COMPLETE=<shell> ──▶ candidates in the format of the shell
//! kubectl ───────────▶ this process, as kubectl_complete-policy_sync ──▶ candidates in the format of Cobra
//! ```
//!
//! `policy-sync completion` prints the script. For completion, this process prints only candidates, because the output
//! appears in the line that the user is typing.

mod bash;
mod candidates;
mod cobra;
mod line;

use std::env::{args_os, current_dir, var_os};
use std::ffi::OsString;

use clap::{Args, ValueEnum};
use clap_complete::CompleteEnv;
use clap_complete::env::{Bash, EnvCompleter, Fish, Shells, Zsh};

use super::Outcome;
use super::invocation::Invocation;
use super::output::print;

pub(super) const EXAMPLES: &str = "\
Examples:
  # In this bash. Add the line to ~/.bashrc for every new one
  source <(policy-sync completion bash)

  # In every new fish
  mkdir -p ~/.config/fish/completions
  policy-sync completion fish >~/.config/fish/completions/policy-sync.fish";

/// The environment variable with the name of the shell that requests candidates.
const COMPLETE_VARIABLE: &str = "POLICY_SYNC_COMPLETE";
/// The program that completion scripts run from the `PATH`.
const PROGRAM: &str = "policy-sync";

/// Arguments of `policy-sync completion`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The shell. kubectl's script completes `kubectl policy-sync` if the `PATH` also has this binary as
    /// `kubectl_complete-policy_sync`.
    shell: Shell,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shell {
    /// source <(policy-sync completion bash)
    Bash,
    /// source <(policy-sync completion zsh), after compinit
    Zsh,
    /// policy-sync completion fish | source
    Fish,
}

impl Shell {
    fn completer(self) -> &'static dyn EnvCompleter {
        match self {
            Self::Bash => &Bash,
            Self::Zsh => &Zsh,
            Self::Fish => &Fish,
        }
    }
}

/// Prints the completion script of a shell.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let mut script = Vec::new();
    arguments.shell.completer().write_registration(
        COMPLETE_VARIABLE,
        PROGRAM,
        PROGRAM,
        PROGRAM,
        &mut script,
    )?;
    print(&String::from_utf8_lossy(&script))?;
    Ok(Outcome::Positive)
}

/// Prints candidates and exits, if a shell or `kubectl` started this process for completion. Requires a
/// runtime with several threads.
pub fn complete() {
    let mut arguments = args_os();
    let program = arguments.next();
    let invocation = Invocation::new(program.as_deref());
    let is_printed = if invocation == Invocation::PluginCompletion {
        let words: Vec<OsString> = [PROGRAM.into()].into_iter().chain(arguments).collect();
        print(&cobra::candidates_text(invocation, words)).is_ok()
    } else if let Some(shell) = var_os(COMPLETE_VARIABLE) {
        let words: Vec<OsString> = arguments.skip_while(|word| word != "--").skip(1).collect();
        if shell == "bash" {
            print(&bash::candidates_text(invocation, &words)).is_ok()
        } else {
            let command = || candidates::add(invocation.command(), &words);
            let completer =
                CompleteEnv::with_factory(command).var(COMPLETE_VARIABLE).shells(Shells(&[&Zsh, &Fish]));
            completer.try_complete(args_os(), current_dir().ok().as_deref()).is_ok()
        }
    } else {
        return;
    };
    // Exits immediately, because a request to the hub may still be running.
    std::process::exit(i32::from(!is_printed));
}
