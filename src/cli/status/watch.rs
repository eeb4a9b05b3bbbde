//! `policy-sync status --watch`: prints again what has changed, until it is asked to stop.
//!
//! A hub that is away is said once, and waited for.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::bail;
use futures::StreamExt;
use k8s_openapi::jiff::Timestamp;
use kube::api::DynamicObject;
use kube::runtime::watcher::{self, Event};
use serde_json::value::to_raw_value;

use super::gateways::Gateways;
use super::hub::{Hub, Selection, Watched};
use super::item::{Item, Key};
use super::report::Report;
use super::shown::{News, Shown};
use super::spoke::Spoke;
use crate::api::names::ObjectKey;
use crate::api::object::{HubObject, Metadata};
use crate::cli::kinds::PolicyKind;
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
    watched: &[Watched],
    selection: Selection<'_>,
    mut shown: Shown,
    items: Vec<Item>,
    mut seen: Seen,
) -> anyhow::Result<()> {
    let begin = items.into_iter().map(|item| (item.key(), Some(item)));
    if !tell(&shown.news(begin, Timestamp::now())?)? {
        return Ok(());
    }
    let mut events = std::pin::pin!(hub.events(watched, selection));
    let mut outage = Outage::default();
    while let Some((watched, event)) = events.next().await {
        let kind = watched.kind();
        let resource = kind.gvr.kind.to_string();
        let news = match event {
            Ok(event) => {
                if matches!(event, Event::InitDone | Event::Apply(_) | Event::Delete(_))
                    && outage.ends(&resource)
                {
                    say(printable(&format!("the hub at {} answers again", hub.url())));
                }
                shown.news(seen.changes(watched, event, &shown), Timestamp::now())?
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

/// What has been seen.
#[derive(Default)]
pub(super) struct Seen {
    /// What lists that are not complete have brought.
    pub(super) listed: BTreeMap<String, Vec<HubObject>>,
    /// The Gateways, where they are watched.
    pub(super) gateways: Option<Gateways>,
    /// The one cluster that is shown.
    pub(super) spoke: Option<Spoke>,
}

impl Seen {
    /// What an event says of what is shown. A list counts once it is complete.
    fn changes(
        &mut self,
        watched: &Watched,
        event: Event<DynamicObject>,
        shown: &Shown,
    ) -> Vec<(Key, Option<Item>)> {
        let listed = self.listed.entry(watched.kind().gvr.kind.to_string()).or_default();
        let change = match event {
            Event::Init => {
                listed.clear();
                return Vec::new();
            }
            Event::InitApply(object) => {
                listed.push(hub_object(object));
                return Vec::new();
            }
            Event::InitDone => Change::Listed(std::mem::take(listed)),
            Event::Apply(object) => Change::Applied(hub_object(object)),
            Event::Delete(object) => Change::Deleted(hub_object(object)),
        };
        let of_works = matches!(watched, Watched::Works { .. });
        let changes = match (watched, &mut self.gateways, &mut self.spoke) {
            (Watched::Works { .. }, _, Some(spoke)) => {
                let keys = works_of(spoke, change);
                return keys.into_iter().map(|key| on_spoke(spoke, key)).collect();
            }
            (Watched::Policies(kind), ..) => policies(kind, change, shown),
            (_, Some(gateways), _) => {
                let keys = changed(gateways, of_works, change);
                let item = |key: ObjectKey| {
                    let item = gateways.report(&key).map(Item::from);
                    (Key::gateway(&key.namespace, &key.name), item)
                };
                keys.into_iter().map(item).collect()
            }
            (_, None, _) => Vec::new(),
        };
        let Some(spoke) = &mut self.spoke else { return changes };
        changes
            .into_iter()
            .map(|(key, item)| {
                let key = spoke.take(&key, item.as_ref());
                on_spoke(spoke, key)
            })
            .collect()
    }
}

fn on_spoke(spoke: &Spoke, key: Key) -> (Key, Option<Item>) {
    let item = spoke.report(&key).map(Item::from);
    (key, item)
}

/// Takes a change of the works of one cluster in, and returns what may be shown otherwise.
fn works_of(spoke: &mut Spoke, change: Change) -> BTreeSet<Key> {
    match change {
        Change::Listed(works) => spoke.list_works(&works),
        Change::Applied(work) => spoke.apply_work(&work).into_iter().collect(),
        Change::Deleted(work) => spoke.delete_work(&work).into_iter().collect(),
    }
}

/// An event.
enum Change {
    Listed(Vec<HubObject>),
    Applied(HubObject),
    Deleted(HubObject),
}

fn policies(kind: &PolicyKind, change: Change, shown: &Shown) -> Vec<(Key, Option<Item>)> {
    let there = |object: HubObject| {
        let item = Item::from(Report::new(kind, &object.metadata));
        (item.key(), Some(item))
    };
    match change {
        Change::Listed(objects) => {
            let mut changes: BTreeMap<Key, Option<Item>> = objects.into_iter().map(there).collect();
            for key in shown.of_kind(&kind.gvr.kind.to_string()) {
                changes.entry(key.clone()).or_insert(None);
            }
            changes.into_iter().collect()
        }
        Change::Applied(object) => vec![there(object)],
        Change::Deleted(object) => vec![(there(object).0, None)],
    }
}

/// Takes a change of Gateways, or of their works, in, and returns the Gateways that may be shown otherwise.
fn changed(gateways: &mut Gateways, of_works: bool, change: Change) -> BTreeSet<ObjectKey> {
    match (change, of_works) {
        (Change::Listed(objects), true) => gateways.list_works(&objects),
        (Change::Listed(objects), false) => gateways.list(objects),
        (Change::Applied(work), true) => gateways.apply_work(&work).into_iter().collect(),
        (Change::Applied(gateway), false) => BTreeSet::from([gateways.apply(gateway)]),
        (Change::Deleted(work), true) => gateways.delete_work(&work).into_iter().collect(),
        (Change::Deleted(gateway), false) => BTreeSet::from([gateways.delete(&gateway)]),
    }
}

fn hub_object(object: DynamicObject) -> HubObject {
    let part = |name: &str| object.data.get(name).and_then(|part| to_raw_value(part).ok());
    let (spec, status) = (part("spec"), part("status"));
    let metadata = object.metadata;
    HubObject {
        api_version: String::new(),
        kind: String::new(),
        metadata: Metadata {
            name: metadata.name.unwrap_or_default(),
            namespace: metadata.namespace.unwrap_or_default(),
            generation: metadata.generation.unwrap_or_default(),
            labels: metadata.labels.unwrap_or_default(),
            annotations: metadata.annotations.unwrap_or_default(),
            creation_timestamp: metadata.creation_timestamp,
            deletion_timestamp: metadata.deletion_timestamp,
            ..Metadata::default()
        },
        spec,
        status,
        data: None,
        object_type: None,
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
