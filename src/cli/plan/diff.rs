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
mod parts;
mod read;
mod show;
mod works;

use change::Change;
use read::Found;

use super::remark::{Remark, Subject};
use crate::api::moment::Moment;
use crate::api::names::Parent;
use crate::apply::Key;
use crate::plan::Settings;
use crate::plan::standing::{KindStanding, of_kind};
use crate::sync::View;
use crate::sync::kinds::WORKS;

pub(in crate::cli) use read::read;
pub(super) use show::{list, table, text};

/// What would change, and what there is to say.
type Planned = (Vec<Change>, Vec<Remark>);

/// Plans for the hub that was `found`, at the moment `now`.
///
/// # Errors
///
/// Where a planned work cannot be read back, which would be a fault of this program.
pub(super) fn plan(mut found: Found, settings: &Settings, now: Moment) -> anyhow::Result<Planned> {
    let (mut changes, mut remarks) = parts::classes(&found, now);
    let (actions, said) = works::works(&found, settings, now);
    remarks.extend(said);
    let mut works = found.carry_out(actions)?;
    found.scratch.list(&WORKS.all(), found.works.values());
    let access = works::access_works(&found, now);
    works.extend(found.carry_out(access)?);
    works.sort_by(|left, right| left.key.cmp(&right.key));
    changes.extend(works);
    let (folds, said) = parts::folds(&found, settings, now);
    remarks.extend(said);
    changes.extend(folds);
    changes.iter_mut().for_each(Change::hide);
    Ok((changes, remarks))
}

/// Shows every key to `each`, all from one view.
fn keys(found: &Found, now: Moment, mut each: impl FnMut(View<'_>, &Key)) {
    let everything = found.scratch.everything();
    let guard = found.scratch.read();
    let view = guard.view(now);
    everything.iter().for_each(|key| each(view, key));
}

/// The policy or the Gateway `parent`, as remarks name it.
fn subject(view: View<'_>, parent: &Parent) -> Subject {
    let object = &parent.object;
    if parent.is_gateway() {
        return Subject::on_hub(format_args!("Gateway {object}"));
    }
    match of_kind(view, &parent.kind) {
        KindStanding::Listed(_, info) | KindStanding::Frozen(_, Some(info)) => {
            Subject::on_hub(format_args!("{} {object}", info.kind))
        }
        KindStanding::Frozen(_, None) | KindStanding::Unlisted => {
            Subject::on_hub(format_args!("{} {object}", parent.kind))
        }
    }
}
