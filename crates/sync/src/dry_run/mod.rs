//! What the controller would write on a hub, were it to start now.
//!
//! ```text
//! hub ─▶ mirror ─▶ works ─▶ the mirror with these works written ─▶ access works, annotations
//!                    └────────────────────┬────────────────────────────────┘
//!                                      changes
//! ```
//!
//! Plans of the controller follow from each other's writes: the access to a kind from the works that carry it, and a
//! policy's annotations from its works. So the works are planned first, and taken for written, without an answer yet.
//!
//! How long nothing has changed cannot be seen in one look, so all is planned as though nothing had changed for long.
//! What the controller would still wait with is marked.

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

/// Why there is no plan: a fault of this program.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// A planned work is no object.
    #[error("cannot read a planned work back")]
    Unreadable(#[source] serde_json::Error),
    /// A planned work cannot be made a second time.
    #[error("cannot make a planned work again")]
    Unmade(#[source] Problem),
    /// A work is to be marked, and is not there.
    #[error("a work to mark that is not there")]
    Missing,
}

/// What would change, and what there is to say.
pub type Planned = (Vec<Change>, Vec<Diagnostic>);

/// Plans for the hub that was read, at the moment `now`.
///
/// # Errors
///
/// Where a planned work cannot be read back, which would be a fault of this program.
pub fn plan(mut hub: HubSnapshot, settings: &Settings, now: Moment) -> Result<Planned, PlanError> {
    let (mut changes, mut diagnostics) = parts::classes(&hub, now);
    let (actions, more) = works::works(&hub, settings, now);
    diagnostics.extend(more);
    let mut works = hub.carry_out(actions)?;
    hub.mirror.list(&WORKS.all(), hub.works.values(), now);
    let access = works::access_works(&hub, now);
    works.extend(hub.carry_out(access)?);
    works.sort_by(|left, right| left.key.cmp(&right.key));
    changes.extend(works);
    let (folds, more) = parts::folds(&hub, settings, now);
    diagnostics.extend(more);
    changes.extend(folds);
    changes.iter_mut().for_each(Change::hide);
    Ok((changes, diagnostics))
}

/// Shows every key to `each`, all from one view.
fn keys(hub: &HubSnapshot, now: Moment, mut each: impl FnMut(View<'_>, &Key)) {
    let guard = hub.mirror.read();
    let everything = triggers::everything(guard.view(OfflineMirror::unsettled()));
    let view = guard.view(now);
    everything.iter().for_each(|key| each(view, key));
}

/// The policy or the Gateway `origin`, as diagnostics name it.
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
