//! `policy-sync status --watch`: prints changed rows until the command is stopped.
//!
//! If the hub becomes unreachable, that is reported once, and the watch continues when it returns.

use k8s_openapi::jiff::Timestamp;

use super::Hub;
use super::printer::{News, Printer};
use crate::cli::output::{print_while_read, say};
use crate::cli::text::printable;
use policy_sync_report::{Event, Seen, Watching};

/// A limit of each watch with policies, because ManagedClusters are not watched.
pub(super) const NOTE: &str =
    "--watch never shows Unreachable: clusters that are not available keep the state that they last reported";

/// Prints the items of `seen`, and then their changes, until the reader closes the pipe.
///
/// # Errors
///
/// If a kind may not be watched.
pub(super) async fn watch(hub: Hub, seen: Seen, mut printer: Printer) -> anyhow::Result<()> {
    let Hub { client, watching } = hub;
    let begin = seen.items().into_iter().map(|item| (item.key(), Some(item)));
    if !tell(&printer.news(begin, Timestamp::now())?)? {
        return Ok(());
    }
    let url = client.url().to_owned();
    let mut watching = Watching::start(client, watching, seen)?;
    loop {
        match watching.next().await? {
            Event::Changed(items) => {
                if !tell(&printer.news(items, Timestamp::now())?)? {
                    return Ok(());
                }
            }
            Event::Away(text) => say(printable(&format!("{text}; waiting for it"))),
            Event::Back => say(printable(&format!("the hub at {url} is reachable again"))),
        }
    }
}

/// Prints new output and diagnostics. Returns whether the reader still reads.
fn tell(news: &News) -> anyhow::Result<bool> {
    for text in &news.diagnostics {
        say(printable(text));
    }
    if news.printed.is_empty() { Ok(true) } else { print_while_read(&news.printed) }
}
