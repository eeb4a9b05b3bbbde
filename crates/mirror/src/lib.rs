//! An in-memory mirror of the objects of a hub, pruned to the fields that decisions read.
//!
//! ```text
//! watch ──apply, delete, resync──▶ [ tables, index ] ──view──▶ plan
//!                                      │
//!                                      └──changes──▶ triggers
//! ```
//!
//! The mirror does no I/O and never awaits. It has one lock, which is held during a table operation or during a plan,
//! because a plan needs a consistent view of all tables. Every operation returns the [changes](MirrorChange). If only a
//! resource version changed, there are no changes. Capabilities decide which of their keys a change affects.
//!
//! A capability declares a [`Kind`] or [`Family`] for each kind of its rows, and an [`Index`] for derived data.

mod change;
mod index;
mod key;
mod kind;
mod mirror;
pub mod plurals;
mod row;
mod source;
mod state;
mod table;
mod tables;

pub use change::{MirrorChange, SourceEvent, WatchFailure, WatchFailureKind};
pub use index::{Cascade, Index};
pub use key::{Key, Priority};
pub use kind::{Family, Kind, RequiredApi};
pub use mirror::{Changes, Mirror, MirrorGuard};
pub use row::{AnyRow, ObjectRow, Pruner, Row};
pub use source::{DeclaredKind, KindDeclaration, Projection, Scope, Source, WatchedSources};
pub use table::Table;
pub use tables::{SourceFailure, Tables};
