//! The format of results and logs on a terminal and elsewhere.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use policy_sync_api::annotations::POLICY_SYNC_MESSAGE;
use policy_sync_testenv::proxy::{Fault, Target};
use policy_sync_testenv::{Fleet, Proxy, fixtures};

use crate::refusals::away;
use crate::run::{command, finish};
use crate::status::{annotated, annotations, tenant};
use crate::terminal::{Terminal, on_terminal};

const ESCAPE: char = '\u{1b}';

#[tokio::test]
async fn logs_have_colors_on_a_terminal_unless_no_color_is_set() -> Result<()> {
    let directory = tempfile::tempdir()?;
    for no_color in [false, true] {
        let mut controller =
            command(&["controller", "--metrics-bind-address=0", "--health-probe-bind-address=0"]);
        controller.arg("--kubeconfig").arg(away(directory.path()));
        if no_color {
            controller.env("NO_COLOR", "1");
        }
        let mut terminal = Terminal::start(200, &controller);
        let shown = terminal.shows("started").await;
        ensure!(shown.contains(ESCAPE) != no_color, "{shown:?}");
        // The user presses Ctrl-C.
        terminal.types("\u{3}");
        ensure!(terminal.ends().await == Some(0));
    }
    Ok(())
}

#[tokio::test]
async fn tables_are_cut_to_the_terminal_width_only_on_terminals() {
    let tenant = tenant("terminal-tables").await;
    let message =
        "annotation kuadrant.io/cluster-selector: a message that is longer than any terminal ".repeat(4);
    let mut frozen = annotations(true);
    frozen.insert(POLICY_SYNC_MESSAGE, message.trim_end().to_owned());
    annotated(tenant.client(), fixtures::rate_limit_policy(tenant.name(), "limits", "web"), frozen).await;
    let status = |arguments: &[&str]| {
        let controller = tenant.controller_name();
        let mut command =
            command(&["status", "policies", "--controller-name", &controller, "-n", tenant.name()]);
        command.arg("--kubeconfig").arg(tenant.hub().kubeconfig()).args(arguments);
        command
    };
    let whole = finish(status(&[]), "").stdout;
    assert!(whole.contains(message.trim_end()), "{whole}");
    // If the hub is slow, the terminal first shows a progress message, which the table then overwrites.
    let on_terminal = |columns, command: &std::process::Command| {
        let shown = on_terminal(columns, command).stdout;
        let visible = shown.lines().map(|line| line.rsplit('\r').next().unwrap_or(line));
        visible.collect::<Vec<_>>().join("\n")
    };
    for columns in [100, 120] {
        let shown = on_terminal(columns, &status(&[]));
        assert!(shown.contains('…') && shown.contains("RateLimitPolicy   limits"), "{shown}");
        let longest = shown.lines().map(|line| line.chars().count()).max();
        assert_eq!(
            longest,
            Some(columns.into()),
            "the longest line does not equal the terminal width: {shown}"
        );
    }
    for arguments in [&["-o", "wide"][..], &["-o", "yaml"]] {
        assert!(on_terminal(80, &status(arguments)).contains(message.trim_end()), "{arguments:?}");
    }
    // All columns except for the age.
    let columns = |text: &str| {
        text.lines().map(|line| line.rsplit_once("   ").unwrap().0.to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(columns(&on_terminal(500, &status(&[]))), columns(&whole));
}

const WAITING: &str = "waiting for the hub…";
/// The delay of the hub's response, long enough for the progress message.
const LATE: Duration = Duration::from_millis(2500);

/// A hub whose first list of GatewayClasses is delayed.
async fn late_hub(name: &str) -> Result<Proxy> {
    let target = Target { verb: "list", resource: "gatewayclasses", nth: 1 };
    Proxy::start(Fleet::shared_hub().await?.hub(), name, Some((target, Fault::Late(LATE)))).await
}

fn status_at(kubeconfig: &Path, arguments: &[&str]) -> std::process::Command {
    let mut command = command(&["status", "-A", "--controller-name", "example.com/nobody", "--kubeconfig"]);
    command.arg(kubeconfig).args(arguments);
    command
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_message_appears_on_a_terminal_after_one_second() -> Result<()> {
    let says = "no GatewayClass of the hub has the controllerName example.com/nobody\n";
    let late = late_hub("late-terminal").await?;
    let ran = on_terminal(80, &status_at(late.kubeconfig(), &[]));
    let erased = format!("{WAITING}\r{}\r{says}", " ".repeat(WAITING.chars().count()));
    ensure!((ran.code, ran.stdout.as_str()) == (0, erased.as_str()), "{ran:?}");
    // The second list is not delayed. On a busy machine the command may still take longer than a second.
    let begin = Instant::now();
    let ran = on_terminal(80, &status_at(late.kubeconfig(), &[]));
    let expected =
        if ran.stdout == erased && begin.elapsed() > Duration::from_secs(1) { &erased } else { says };
    ensure!((ran.code, ran.stdout.as_str()) == (0, expected), "{ran:?}");

    let late = late_hub("late-elsewhere").await?;
    let ran = finish(status_at(late.kubeconfig(), &[]), "");
    ensure!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()) == (0, "", says), "{ran:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_prints_no_progress_message() -> Result<()> {
    let late = late_hub("late-watch").await?;
    let terminal = Terminal::start(80, &status_at(late.kubeconfig(), &["--watch"]));
    let shown = terminal.shows("example.com/nobody").await;
    ensure!(!shown.contains(WAITING), "{shown:?}");
    Ok(())
}
