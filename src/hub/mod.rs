//! The hub's API: what is watched of it, kept, and looked at.
//!
//! ```text
//! registry of kinds ──▶ watch ──apply, delete, resync──▶ mirror ──changes──▶ capabilities
//!                                                          └──view──▶ plans
//! ```
//!
//! Nothing here knows what an object is for. A capability has a line for each [`Kind`] of which it keeps rows, and an
//! [`Index`] for what it derives from them.

mod client;
mod connection;
mod discovery;
mod error;
mod kind;
mod metered;
pub mod mirror;
mod pages;
mod request_timeout;
mod row;
pub mod served;
mod source;
pub mod watch;

pub use client::{HubClient, Requirement};
pub use connection::{IDLE_TIMEOUT, watching};
pub(crate) use discovery::served_beside;
pub use error::{HubError, innermost};
pub use kind::{Family, Kind};
pub use mirror::{
    Cascade, Change, Changed, Changes, Failing, Failure, FailureKind, Index, Mirror, MirrorGuard, Table,
    Tables,
};
pub use pages::Pages;
pub use request_timeout::RequestTimeout;
pub use row::{AnyRow, Pruned, Prunes, Row};
pub use source::{Extent, Line, Registered, Scope, Source, Wanted};
