//! Lists the commands in groups in `policy-sync --help`. clap has no groups of subcommands, so the groups are part
//! of the help template.

use clap::Command;
use clap::builder::Styles;

use super::output::terminal_width;

/// A command line and its description. Without a description, the help shows the description of the command.
type Entry = (&'static str, Option<&'static str>);

/// The groups of commands, in the order of the help.
const GROUPS: [(&str, &[Entry]); 4] = [
    (
        "Inspect",
        &[("status", None), ("explain", None), ("topology", None), ("effective", None), ("web", None)],
    ),
    (
        "Before you apply",
        &[
            ("plan", None),
            ("params", None),
            ("rego", None),
            ("audit -f", Some("List objects in manifests that violate Rego policies")),
        ],
    ),
    ("Operate", &[("controller", None), ("placement", None), ("audit", None)]),
    ("Other", &[("completion", None), ("help", Some("Print this message or the help of a command"))]),
];

/// The width of the help in columns if standard output is no terminal. clap has the same default.
const WIDTH: usize = 100;

/// Lists the subcommands of `command` in groups, and hides them from clap, which would list them again. Completion
/// needs a command without hidden subcommands, so do not use the returned command for completion.
pub(super) fn group(command: Command) -> Command {
    let template = template(&command, terminal_width().unwrap_or(WIDTH));
    let styles = Styles::styled();
    let literal = styles.get_literal();
    let name = command.get_bin_name().unwrap_or(command.get_name());
    // By default, the usage has no `<COMMAND>` if all commands are hidden.
    let usage = format!("{literal}{name}{literal:#} [OPTIONS] <COMMAND>");
    command.mut_subcommands(|command| command.hide(true)).override_usage(usage).help_template(template)
}

/// clap's default template, with the groups in front of the options.
fn template(command: &Command, width: usize) -> String {
    let list = list(command, width);
    format!(
        "{{before-help}}{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{list}{{all-args}}{{after-help}}"
    )
}

fn list(command: &Command, width: usize) -> String {
    let styles = Styles::styled();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let longest =
        GROUPS.iter().flat_map(|(_, entries)| *entries).map(|(name, _)| name.len()).max().unwrap_or(0);
    let indent = longest + 4;
    let mut list = String::new();
    for (heading, entries) in GROUPS {
        list.push_str(&format!("{header}{heading}:{header:#}\n"));
        for (name, description) in entries.iter().filter(|(name, _)| is_built(name)) {
            let about = || command.find_subcommand(name)?.get_about().map(ToString::to_string);
            let text = description.map(str::to_owned).or_else(about).unwrap_or_default();
            let padding = " ".repeat(longest + 2 - name.len());
            let lines = wrap(&text, width.saturating_sub(indent)).join(&format!("\n{}", " ".repeat(indent)));
            list.push_str(&format!("  {literal}{name}{literal:#}{padding}{lines}\n"));
        }
        list.push('\n');
    }
    list
}

/// Whether the command of `entry` is part of this build.
fn is_built(entry: &str) -> bool {
    cfg!(feature = "web") || entry != "web"
}

/// Breaks `text` between words into lines of at most `width` characters. A longer word has a line of its own.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn every_command_is_in_a_group() {
        let mut command = Cli::command();
        command.build();
        let all: BTreeSet<&str> = command.get_subcommands().map(Command::get_name).collect();
        let entries = GROUPS.iter().flat_map(|(_, entries)| *entries);
        let names = entries.map(|(name, _)| *name).filter(|name| is_built(name));
        let listed: BTreeSet<&str> = names.filter_map(|name| name.split(' ').next()).collect();
        assert_eq!(listed, all);
    }

    #[test]
    fn help_lists_each_command_once_with_its_options() {
        let help = group(Cli::command().bin_name("policy-sync")).render_help().to_string();
        assert!(
            help.contains("Usage: policy-sync [OPTIONS] <COMMAND>\n\nInspect:\n  status      Show "),
            "{help}"
        );
        assert!(help.contains("\nOperate:\n  controller  Run the controller on a hub\n"), "{help}");
        assert!(help.contains("\n\nOptions:\n") && help.contains("\n\nHub options:\n"), "{help}");
        assert!(!help.contains("Commands:") && help.matches("\n  status ").count() == 1, "{help}");
    }

    #[test]
    fn descriptions_are_wrapped_between_words() {
        let lines = list(&Cli::command(), 60);
        assert!(lines.lines().map(unstyled).all(|line| line.chars().count() <= 60), "{lines}");
        assert_eq!(wrap("a bb ccc", 4), ["a bb", "ccc"]);
        assert_eq!(wrap("a bbbbbb c", 4), ["a", "bbbbbb", "c"]);
    }

    /// `line` without the codes of styles.
    fn unstyled(line: &str) -> String {
        let mut parts = line.split('\u{1b}');
        let first = parts.next().unwrap_or_default().to_owned();
        first + &parts.filter_map(|part| part.split_once('m')).map(|(_, text)| text).collect::<String>()
    }
}
