//! Cuts each entry to a size limit, so that a long report of one cluster does not reduce the detail of others.
//!
//! ```text
//! over 1 KiB? ─▶ messages to 256 characters ─▶ no record conditions ─▶ no other fields ─▶ shorter messages ─▶ no reasons
//! ```
//!
//! The size is that of the JSON text: an escaped character takes up to six bytes.

use std::borrow::Cow;

use super::detail::{MINIMAL_MESSAGE, shorten};
use crate::feedback::RECORD_CONDITIONS;
use policy_sync_api::annotations::Synced;
use policy_sync_api::json;

/// The maximum size of an entry, in bytes.
const ENTRY_LIMIT: usize = 1024;

/// Returns `entry`, shortened if it exceeds the limit.
pub(super) fn to_limit(entry: &Synced) -> Cow<'_, Synced> {
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

fn fits(entry: &Synced) -> bool {
    json::length(entry) <= ENTRY_LIMIT
}
