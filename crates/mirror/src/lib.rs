//! An in-memory mirror of the objects of a hub, pruned to the fields that decisions read.
//!
//! ```text
//! watch ──apply, delete, resync──▶ [ tables, index ] ──view──▶ plan
//!                                      │
//!                                      └──changes──▶ triggers
//! ```
//!
//! No I/O and no await. The one lock is held for the length of a table operation or of a plan, because a plan needs a
//! consistent view of all tables. Every operation returns the [changes](MirrorChange), and none if only a resource version
//! changed. Capabilities decide which of their keys a change affects.
//!
//! A capability declares a [`Kind`] or [`Family`] for each kind of its rows, and an [`Index`] for derived data.

mod change;
mod index;
mod key;
mod kind;
mod mirror;
pub mod plurals;
mod required_api;
mod row;
mod source;
mod source_failure;
mod state;
mod table;
mod tables;

pub use change::{MirrorChange, SourceEvent, WatchFailure, WatchFailureKind};
pub use index::{Cascade, Index};
pub use key::{Key, Priority};
pub use kind::{Family, Kind};
pub use mirror::{Changes, Mirror, MirrorGuard};
pub use required_api::RequiredApi;
pub use row::{AnyRow, ObjectRow, Pruner, Row};
pub use source::{DeclaredKind, KindDeclaration, Projection, Scope, Source, WatchedSources};
pub use source_failure::SourceFailure;
pub use table::Table;
pub use tables::Tables;
