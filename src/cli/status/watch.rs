//! `policy-sync status --watch`: prints again what has changed, until it is asked to stop.
//!
//! A hub that is away is said once, and waited for.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::bail;
use futures::StreamExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::{self, Event};

use super::hub::{Hub, Seen, Selection};
use super::kinds::PolicyKind;
use super::report::Report;
use super::shown::{Key, News, Shown};
use crate::api::object::Metadata;
use crate::cli::live::is_forbidden;
use crate::cli::output::{print_while_read, say};
use crate::cli::text::printable;

/// Prints what is new, and then what becomes new, until nobody reads it.
///
/// # Errors
///
/// Where a kind may not be watched.
pub(super) async fn watch(
    hub: &Hub,
    kinds: &[PolicyKind],
    selection: Selection<'_>,
    mut shown: Shown,
    reports: Vec<Report>,
) -> anyhow::Result<()> {
    let begin = reports.into_iter().map(|report| (Key::of(&report), Some(report)));
    if !tell(&shown.news(begin, Timestamp::now())?)? {
        return Ok(());
    }
    let mut events = std::pin::pin!(hub.events(kinds, selection));
    let mut listed: BTreeMap<String, Vec<Report>> = BTreeMap::new();
    let mut outage = Outage::default();
    while let Some((kind, event)) = events.next().await {
        let resource = kind.gvr.kind.to_string();
        let news = match event {
            Ok(event) => {
                if matches!(event, Event::InitDone | Event::Apply(_) | Event::Delete(_))
                    && outage.ends(&resource)
                {
                    say(printable(&format!("the hub at {} answers again", hub.url())));
                }
                let changes = changes(kind, event, &shown, listed.entry(resource).or_default());
                shown.news(changes, Timestamp::now())?
            }
            Err(error) => {
                if let Some(failure) = failure(hub, kind, error) {
                    // A hub that starts may refuse for a while what it allowed.
                    if failure.forbidden && !outage.is_on() {
                        bail!(failure.text);
                    }
                    if outage.is_new(resource, &failure.text) {
                        say(printable(&format!("{}; waiting for it", failure.text)));
                    }
                }
                continue;
            }
        };
        if !tell(&news)? {
            break;
        }
    }
    Ok(())
}

/// Prints and says what is new, and returns whether anyone still reads.
fn tell(news: &News) -> anyhow::Result<bool> {
    for text in &news.said {
        say(printable(text));
    }
    if news.printed.is_empty() { Ok(true) } else { print_while_read(&news.printed) }
}

/// What an event says of policies. A list counts once it is complete.
fn changes(
    kind: &PolicyKind,
    event: Seen,
    shown: &Shown,
    listed: &mut Vec<Report>,
) -> Vec<(Key, Option<Report>)> {
    let report = |object: PartialObjectMeta<_>| Report::new(kind, &metadata(object.metadata));
    match event {
        Event::Init => listed.clear(),
        Event::InitApply(object) => listed.push(report(object)),
        Event::InitDone => {
            let there = std::mem::take(listed).into_iter().map(|report| (Key::of(&report), Some(report)));
            let mut changes: BTreeMap<Key, Option<Report>> = there.collect();
            for key in shown.of_kind(&kind.gvr.kind.to_string()) {
                changes.entry(key.clone()).or_insert(None);
            }
            return changes.into_iter().collect();
        }
        Event::Apply(object) => {
            let report = report(object);
            return vec![(Key::of(&report), Some(report))];
        }
        Event::Delete(object) => return vec![(Key::of(&report(object)), None)],
    }
    Vec::new()
}

fn metadata(metadata: ObjectMeta) -> Metadata {
    Metadata {
        name: metadata.name.unwrap_or_default(),
        namespace: metadata.namespace.unwrap_or_default(),
        annotations: metadata.annotations.unwrap_or_default(),
        creation_timestamp: metadata.creation_timestamp,
        ..Metadata::default()
    }
}

struct Failure {
    text: String,
    forbidden: bool,
}

/// Why `kind` could not be watched; `None` where the watch was only too far behind.
fn failure(hub: &Hub, kind: &PolicyKind, error: watcher::Error) -> Option<Failure> {
    let what = format!("watch {}", kind.kind);
    let error = match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => error,
        watcher::Error::WatchError(status) => kube::Error::Api(status),
        watcher::Error::NoResourceVersion => {
            let text = format!("cannot {what} on the hub at {}: an object without a version", hub.url());
            return Some(Failure { text, forbidden: false });
        }
    };
    let expired = matches!(&error, kube::Error::Api(status) if status.code == 410);
    (!expired)
        .then(|| Failure { text: hub.failure(&what, &error).to_string(), forbidden: is_forbidden(&error) })
}

/// Which kinds cannot be watched at present, and what was said about that.
#[derive(Default)]
struct Outage {
    kinds: BTreeSet<String>,
    said: BTreeSet<String>,
}

impl Outage {
    fn is_on(&self) -> bool {
        !self.kinds.is_empty()
    }

    /// Notes a failure of `kind`, and returns whether it has yet to be said.
    fn is_new(&mut self, kind: String, text: &str) -> bool {
        self.kinds.insert(kind);
        self.said.insert(text.to_owned())
    }

    /// Notes that `kind` is watched, and returns whether that ends it all.
    fn ends(&mut self, kind: &str) -> bool {
        let ends = self.kinds.remove(kind) && self.kinds.is_empty();
        if ends {
            self.said.clear();
        }
        ends
    }
}

#[cfg(test)]
mod tests;
