//! `docs/cli.md` is generated from the arguments of the program.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use clap::{Arg, Command, CommandFactory};
use policy_sync::cli::{Cli, hub};

const HEAD: &str = "# The command line

Generated from the arguments of the program: `POLICY_SYNC_UPDATE=1 cargo test --test repository` updates this page. [Status](status.md)
describes the output of `status` and `explain`.

## Conventions

- Each command has `--help` with two examples.
- Exit codes: 0 is success. 1 is a negative result, such as an object that is invalid, denied or out of sync. 2 is an error, with its reason
  in one line on standard error. Standard output has only results.
- The controller waits while the hub is unreachable. It exits with 0 after a signal to stop.
- On a terminal, tables fit its width, and a progress message appears after one second. Elsewhere no cell is cut. `NO_COLOR` turns colors off.
- `--kubeconfig`, `--context`, `--as`, `--as-group` and `--request-timeout` have the meaning that they have in `kubectl`.
- Durations have the format of Kubernetes: `15s`, `500ms`, `1m30s`. An address without a host means all IPv4 and IPv6 addresses of the machine.
- Logs are text on a terminal and JSON elsewhere. `RUST_LOG`, a filter such as `policy_sync=debug`, takes precedence over `--log-level`.
- `--webhook-bind-address 0` leaves existing webhook registrations in place: delete the webhook configurations first.
- `--version` and the metric `policy_sync_build_info` have the commit if `POLICY_SYNC_REVISION` contained it during the build.

## Plugin for kubectl, and completion

`kubectl policy-sync` is the same binary as `kubectl-policy_sync`, and `kubectl` completes it with `kubectl_complete-policy_sync`. Create both
links in the directory of `policy-sync`, which must be on the `PATH`:

    ln -s policy-sync kubectl-policy_sync
    ln -s policy-sync kubectl_complete-policy_sync

To complete `policy-sync` without `kubectl`, add a line to the profile of your shell:

    source <(policy-sync completion bash)          # ~/.bashrc
    source <(policy-sync completion zsh)           # ~/.zshrc, after compinit
    policy-sync completion fish | source           # ~/.config/fish/config.fish

Names of contexts, namespaces, kinds, clusters and objects are completed if the hub responds within one second.

";

/// Escapes a text for a table cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ").replace('<', "&lt;")
}

fn help(argument: &Arg) -> String {
    let help = argument.get_long_help().or(argument.get_help()).map(ToString::to_string).unwrap_or_default();
    let values = argument.get_possible_values();
    let values = values.iter().filter(|value| !value.is_hide_set());
    let values: Vec<String> =
        values.filter_map(|value| Some(format!("`{}`: {}", value.get_name(), value.get_help()?))).collect();
    if values.is_empty() { help } else { format!("{help}. {}", values.join("; ")) }
}

/// The names of an argument, such as `-o`, `--output <OUTPUT>`.
fn name(argument: &Arg) -> String {
    let value = argument.get_value_names().filter(|_| argument.get_action().takes_values());
    let value = value.map(|names| names.iter().map(|name| format!("<{name}>")).collect::<String>());
    let short = argument.get_short().map(|short| format!("`-{short}`, ")).unwrap_or_default();
    match argument.get_long() {
        None => format!("`{}`", value.unwrap_or_default()),
        Some(long) => {
            format!("{short}`--{long}{}`", value.map(|value| format!(" {value}")).unwrap_or_default())
        }
    }
}

fn table(page: &mut String, arguments: &[&Arg]) {
    if arguments.is_empty() {
        return;
    }
    page.push_str("| | default | |\n|---|---|---|\n");
    for argument in arguments {
        let defaults = argument.get_default_values().iter();
        let defaults: Vec<String> = defaults.map(|value| format!("`{}`", value.to_string_lossy())).collect();
        let shown = defaults.join(", ").replace("`false`", "");
        let name = name(argument).replace('|', "\\|");
        writeln!(page, "| {name} | {shown} | {} |", cell(&help(argument))).unwrap();
    }
    page.push('\n');
}

fn is_of_hub(argument: &Arg) -> bool {
    argument.get_help_heading() == Some(hub::HEADING)
}

fn section(page: &mut String, command: &Command, called: &str) {
    writeln!(page, "## `{called}`\n").unwrap();
    let about = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
    writeln!(page, "{about}\n").unwrap();
    let usage = command.clone().render_usage().to_string();
    for line in usage.trim_start_matches("Usage:").lines() {
        writeln!(page, "    {}", line.trim()).unwrap();
    }
    page.push('\n');
    let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    for line in examples.lines().skip(1) {
        writeln!(page, "{}", format!("  {line}").trim_end()).unwrap();
    }
    page.push('\n');
    let own = command.get_arguments().filter(|argument| !is_of_hub(argument) && argument.get_id() != "help");
    let own: Vec<&Arg> = own.filter(|argument| argument.get_id() != "version").collect();
    let mut headings: Vec<&str> = Vec::new();
    for heading in own.iter().filter_map(|argument| argument.get_help_heading()) {
        if !headings.contains(&heading) {
            headings.push(heading);
        }
    }
    let below = |heading: Option<&str>| {
        own.iter().copied().filter(|argument| argument.get_help_heading() == heading).collect::<Vec<_>>()
    };
    table(page, &below(None));
    for heading in headings {
        writeln!(page, "{heading}:\n").unwrap();
        table(page, &below(Some(heading)));
    }
    for command in command.get_subcommands().filter(|command| command.get_name() != "help") {
        section(page, command, &format!("{called} {}", command.get_name()));
    }
}

fn page() -> String {
    let mut command = Cli::command();
    command.build();
    let mut page = HEAD.to_owned();
    section(&mut page, &command, "policy-sync");
    page.push_str("## Hub options\n\nEach command has these, before or behind its name.\n\n");
    table(&mut page, &command.get_arguments().filter(|argument| is_of_hub(argument)).collect::<Vec<_>>());
    page.trim_end().to_owned() + "\n"
}

/// `POLICY_SYNC_UPDATE=1 cargo test --test repository` updates the page.
#[test]
fn command_line_documentation_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/cli.md");
    let page = page();
    if std::env::var_os("POLICY_SYNC_UPDATE").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "{} is outdated: set POLICY_SYNC_UPDATE=1 to update it", path.display());
}
