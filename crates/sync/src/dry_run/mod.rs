//! Plans all changes that a newly started controller would make on a hub.
//!
//! ```text
//! hub ─▶ mirror ─▶ works ─▶ the mirror with these works written ─▶ access works, annotations
//!                    └────────────────────┬────────────────────────────────┘
//!                                      changes
//! ```
//!
//! Some plans depend on works that other plans write: the access works, and the annotations of policies. Therefore all
//! other works are planned first. The remaining plans treat these works as written, without reports of spokes.
//!
//! A single snapshot does not show how long the state has been stable. So all plans assume that it has been stable for
//! a long time. Changes that the controller may still delay are marked.

mod change;
mod diagnostic;
mod parts;
mod snapshot;
mod works;

use crate::desired::eligibility::{KindEligibility, of_kind};
use crate::kinds::WORKS;
use crate::{Key, OfflineMirror, Problem, Settings, View, triggers};
use policy_sync_api::moment::Moment;
use policy_sync_api::names::Origin;

pub use change::{Change, Verb};
pub use diagnostic::{Diagnostic, Regarding, Severity};
pub use snapshot::HubSnapshot;
pub use works::incomplete;

/// The reason why planning failed. Each reason is a bug in this program.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// A planned work could not be parsed.
    #[error("cannot parse a planned work")]
    Unreadable(#[source] serde_json::Error),
    /// A planned work could not be built a second time.
    #[error("cannot serialize a planned work")]
    NotBuilt(#[source] Problem),
    /// A work to annotate does not exist.
    #[error("a work to annotate does not exist")]
    Missing,
}

/// The planned changes and the diagnostics.
pub type Planned = (Vec<Change>, Vec<Diagnostic>);

/// Plans all changes for the hub in `hub` at the time `now`.
///
/// # Errors
///
/// If a planned work cannot be read back, which is a bug in this program.
pub fn plan(mut hub: HubSnapshot, settings: &Settings, now: Moment) -> Result<Planned, PlanError> {
    let (mut changes, mut diagnostics) = parts::classes(&hub, now);
    let (actions, more) = works::works(&hub, settings, now);
    diagnostics.extend(more);
    let mut works = hub.apply(actions)?;
    hub.mirror.list(&WORKS.all(), hub.works.values(), now);
    let access = works::access_works(&hub, now);
    works.extend(hub.apply(access)?);
    works.sort_by(|left, right| left.key.cmp(&right.key));
    changes.extend(works);
    let (folds, more) = parts::folds(&hub, settings, now);
    diagnostics.extend(more);
    changes.extend(folds);
    changes.iter_mut().for_each(Change::hide);
    Ok((changes, diagnostics))
}

/// Calls `each` for every key, with one view.
fn keys(hub: &HubSnapshot, now: Moment, mut each: impl FnMut(View<'_>, &Key)) {
    let guard = hub.mirror.read();
    let everything = triggers::everything(guard.view(OfflineMirror::unsettled()));
    let view = guard.view(now);
    everything.iter().for_each(|key| each(view, key));
}

/// The name of the policy or Gateway `origin` in diagnostics.
fn regarding(view: View<'_>, origin: &Origin) -> Regarding {
    let (kind, object) = match origin {
        Origin::Gateway(key) => return Regarding::new(format_args!("Gateway {key}")),
        Origin::Object(kind, object) => (kind, object),
    };
    match of_kind(view, kind) {
        KindEligibility::Listed(_, info) | KindEligibility::Frozen(_, Some(info)) => {
            Regarding::new(format_args!("{} {object}", info.kind))
        }
        KindEligibility::Frozen(_, None) | KindEligibility::Unlisted => {
            Regarding::new(format_args!("{kind} {object}"))
        }
    }
}
