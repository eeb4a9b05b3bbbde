//! `policy-sync status --watch`: prints changed rows until the command is stopped.
//!
//! An unreachable hub is reported once. The watch continues when the hub is reachable again.

use k8s_openapi::jiff::Timestamp;

use super::HubClients;
use super::printer::{Printer, PrinterOutput};
use crate::cli::output::{print_message, print_while_read};
use crate::cli::text::printable;
use policy_sync_report::{ReportMirror, ReportWatch, WatchEvent};

/// A note for each watch of policies, because ManagedClusters are not watched.
pub(super) const NOTE: &str =
    "--watch never shows Unreachable: clusters that are not available keep the state that they last reported";

/// Prints the items of `report_mirror`, and then their changes, until the reader closes the pipe.
///
/// # Errors
///
/// If the user may not watch a kind.
pub(super) async fn watch(
    hub: HubClients,
    report_mirror: ReportMirror,
    mut printer: Printer,
) -> anyhow::Result<()> {
    let HubClients { client, watching } = hub;
    let begin = report_mirror.items().into_iter().map(|item| (item.key(), Some(item)));
    if !print_output(&printer.update(begin, Timestamp::now())?)? {
        return Ok(());
    }
    let url = client.url().to_owned();
    let mut watching = ReportWatch::start(client, watching, report_mirror)?;
    loop {
        match watching.next().await? {
            WatchEvent::Changed(items) => {
                if !print_output(&printer.update(items, Timestamp::now())?)? {
                    return Ok(());
                }
            }
            WatchEvent::Disconnected(text) => print_message(printable(&format!("{text}; waiting for it"))),
            WatchEvent::Reconnected => {
                print_message(printable(&format!("the hub at {url} is reachable again")))
            }
        }
    }
}

/// Prints new output and diagnostics. Returns whether the pipe is still open.
fn print_output(update: &PrinterOutput) -> anyhow::Result<bool> {
    for text in &update.diagnostics {
        print_message(printable(text));
    }
    if update.printed.is_empty() { Ok(true) } else { print_while_read(&update.printed) }
}
