//! Limits the size of the list of clusters.
//!
//! [`cut_to_limit`] first cuts each entry, so that a long report of one cluster does not reduce the detail of others.
//! Then [`fit`] chooses how much of the list fits: everything, only problems, only the keys, or the first keys.

use std::borrow::Cow;

use serde::Serialize;

use crate::feedback::RECORD_CONDITIONS;
use policy_sync_api::annotations::{ENFORCED, Synced};
use policy_sync_api::json::length;
use policy_sync_api::names::ClusterName;

/// The maximum length of a message at the level `minimal`, in characters.
const MINIMAL_MESSAGE: usize = 256;

/// The maximum size of an entry, in bytes.
const ENTRY_LIMIT: usize = 1024;

/// The keys that RFC 0007 requires.
#[derive(Serialize)]
struct RequiredKeys<'e> {
    cluster: &'e ClusterName,
    name: &'e str,
    namespace: &'e str,
}

/// Returns `entry`. An entry that exceeds the size limit is shortened step by step, until it is small enough.
///
/// ```text
/// over 1 KiB ─▶ messages to 256 chars ─▶ no record conditions ─▶ no other fields ─▶ shorter messages ─▶ no reasons
/// ```
pub(super) fn cut_to_limit(entry: &Synced) -> Cow<'_, Synced> {
    if fits(entry) {
        return Cow::Borrowed(entry);
    }
    let mut entry = Synced { cut: true, ..entry.clone() };
    shorten(&mut entry, MINIMAL_MESSAGE);
    if !fits(&entry) {
        entry.fields.retain(|name, _| !name.starts_with(RECORD_CONDITIONS));
    }
    if !fits(&entry) {
        entry.fields.clear();
        entry.dropped.clear();
    }
    for characters in [128, 64, 32, 16] {
        if fits(&entry) {
            return Cow::Owned(entry);
        }
        shorten(&mut entry, characters);
    }
    if !fits(&entry) {
        entry.conditions.iter_mut().for_each(|condition| condition.reason = None);
    }
    Cow::Owned(entry)
}

/// Whether the JSON text of `entry` is within the limit. In that text, an escaped character takes up to six bytes.
fn fits(entry: &Synced) -> bool {
    length(entry) <= ENTRY_LIMIT
}

/// The highest level of detail at which `entries` fit into `room` bytes, and their text.
pub(super) fn fit(entries: &[Cow<'_, Synced>], room: usize) -> (String, String) {
    let minimal = || entries.iter().map(|entry| minimal(entry)).collect::<Vec<_>>();
    let levels: [(&str, &dyn Fn() -> String); 3] = [
        ("full", &|| json(&entries)),
        ("minimal", &|| json(&minimal())),
        ("keys", &|| json(&entries.iter().map(|entry| keys(entry)).collect::<Vec<_>>())),
    ];
    for (level, text) in levels {
        let text = text();
        if level.len() + text.len() <= room {
            return (level.to_owned(), text);
        }
    }
    first(entries, room)
}

fn first(entries: &[Cow<'_, Synced>], room: usize) -> (String, String) {
    let level = |count: usize| format!("first {count} of {}", entries.len());
    let mut texts: Vec<String> = Vec::new();
    // The longest text that names the level of detail, and two brackets.
    let mut bytes = level(entries.len()).len() + 2;
    for text in entries.iter().map(|entry| json(&keys(entry))) {
        bytes += text.len() + usize::from(!texts.is_empty());
        if bytes > room {
            break;
        }
        texts.push(text);
    }
    (level(texts.len()), format!("[{}]", texts.join(",")))
}

fn keys(entry: &Synced) -> RequiredKeys<'_> {
    RequiredKeys { cluster: &entry.cluster, name: &entry.name, namespace: &entry.namespace }
}

fn minimal(entry: &Synced) -> Synced {
    let mut entry = entry.clone();
    entry.fields.clear();
    entry.dropped.clear();
    // Conditions that are `True` are left out. If another condition is not `True`, `Enforced` is kept, because it
    // decides the state.
    let all_true = entry.conditions.iter().all(|condition| condition.status == "True");
    let is_kept = |name: &str| !all_true && name == ENFORCED;
    entry.conditions.retain(|condition| condition.status != "True" || is_kept(&condition.condition_type));
    shorten(&mut entry, MINIMAL_MESSAGE);
    entry
}

/// Shortens the messages of `entry` to this number of characters.
fn shorten(entry: &mut Synced, characters: usize) {
    let messages = entry.conditions.iter_mut().map(|condition| &mut condition.message);
    for message in messages.chain([&mut entry.message]).flatten() {
        if let Some((end, _)) = message.char_indices().nth(characters) {
            message.truncate(end);
        }
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
