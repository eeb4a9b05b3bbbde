//! Queries the hub for facts that no watch of objects provides: whether a kind in the parameters can be synced, and
//! which fields the installed ManifestWork supports.

mod resolve;
mod versions;

pub use resolve::resolve_for;
pub(crate) use versions::{check_unwatched, follow_work_schema, watch_while_resolved};
