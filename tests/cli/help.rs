//! The format of `--help` on a terminal and elsewhere.

use crate::run::{command, run};
use crate::terminal::on_terminal;

const ESCAPE: char = '\u{1b}';

#[test]
fn help_wraps_at_the_terminals_width() {
    for arguments in [&["--help"][..], &["status", "--help"], &["controller", "--help"], &["plan", "-h"]] {
        for columns in [60, 90] {
            let mut help = command(arguments);
            help.env("NO_COLOR", "1");
            let ran = on_terminal(columns, &help);
            assert_eq!(ran.code, 0, "{ran:?}");
            // A single word, such as a default, may be longer than a line. Examples are not wrapped.
            let help = ran.stdout.split("Examples:").next().unwrap();
            let longest = |line: &&str| line.chars().count() > columns.into();
            let too_long = help
                .lines()
                .filter(longest)
                .find(|line| line.trim().contains(' ') && !line.contains("[default: "));
            assert_eq!(too_long, None, "{columns}: {help}");
            assert!(help.contains("Hub options:\n"), "{help}");
        }
        let (narrow, wide) = (on_terminal(60, &command(arguments)), on_terminal(200, &command(arguments)));
        assert!(narrow.stdout.lines().count() > wide.stdout.lines().count());
    }
}

#[test]
fn no_color_turns_colors_off() {
    let help = |value: Option<&str>| {
        let mut help = command(&["status", "--help"]);
        value.map(|value| help.env("NO_COLOR", value));
        on_terminal(80, &help).stdout
    };
    assert!(help(None).contains(ESCAPE) && help(Some("")).contains(ESCAPE));
    assert!(!help(Some("1")).contains(ESCAPE), "{}", help(Some("1")));
    assert!(!run(&["status", "--help"]).stdout.contains(ESCAPE));
}

#[test]
fn help_leaves_out_the_deprecated_name_of_a_flag() {
    for command in [&["controller"][..], &["audit"], &["placement", "diff"], &["placement", "apply"]] {
        let help = run(&[command, &["--help"]].concat()).stdout;
        assert!(help.contains("--rego-namespace") && !help.contains("--policy-namespace"), "{help}");
    }
}
