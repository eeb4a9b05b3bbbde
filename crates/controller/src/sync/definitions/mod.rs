//! Queries the hub for facts that no watch of objects provides: whether a kind in the parameters can be synced, and
//! which fields the installed ManifestWork supports.

mod resolve;
mod versions;
mod work_schema;

pub use resolve::resolve_for;
pub(crate) use versions::{check_unwatched, watch_while_resolved};
pub(crate) use work_schema::follow_work_schema;
