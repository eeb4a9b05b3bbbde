//! What is found out of the hub beside what is watched of it: whether a kind that parameters list can be synced, and what
//! ManifestWorks can say.

mod discovered;
mod resolve;
mod versions;
mod work_schema;

pub(crate) use resolve::{resolve_for, says_direct, told};
pub(crate) use versions::{look_up, while_resolved};
pub(crate) use work_schema::follow_work_schema;
