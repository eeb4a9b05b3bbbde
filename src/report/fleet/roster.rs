//! What is watched of the fleet, and what follows the classes that say so.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::inbox::{Inbox, Place};
use super::rows::{CLUSTERS, POLICIES};
use crate::report::ServedKind;
use crate::report::query::Listed;
use policy_sync_api::names::{ControllerName, GroupResource};
use policy_sync_api::text::with_causes;
use policy_sync_hub::tasks::announce;
use policy_sync_hub::{HubClient, HubError};
use policy_sync_mirror::{FailureKind, Scope, Source, Tables, Wanted};

/// How often it is looked what the classes list: they change seldom, and may not be watched with the rights of many.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(10);

/// How many objects are listed at a time: somebody waits for them.
pub(super) const PAGE: u32 = 500;

/// What is watched: what the classes of the controller list, as far as that may be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roster {
    /// The kinds.
    pub kinds: Vec<ServedKind>,
    /// What is wrong with the parameters.
    pub faults: Vec<String>,
    /// What may not be read of them.
    pub unread: Vec<String>,
    /// Whether there is any class of the controller.
    pub has_classes: bool,
    /// Why it could not be looked again; the kinds are those of the last time.
    pub failure: Option<String>,
}

impl Roster {
    /// Reads what the classes of `controller` list.
    pub(super) async fn read(hub: &HubClient, controller: &ControllerName) -> Result<Self, HubError> {
        let Listed { kinds, faults, unread, has_classes, .. } = Listed::read(hub, controller).await?;
        Ok(Self { kinds, faults, unread, has_classes, failure: None })
    }

    /// The kind in objects of what is served as `resource`.
    #[must_use]
    pub fn kind(&self, resource: &GroupResource) -> Option<&ServedKind> {
        self.kinds.iter().find(|kind| kind.gvr.kind == *resource)
    }
}

/// All that is watched of `roster` within `scope`.
pub(super) fn wanted(roster: &Roster, scope: &Scope) -> Wanted {
    let policies = roster.kinds.iter().map(|kind| (source(kind, scope), kind.gvr.clone()));
    policies.chain([(CLUSTERS.all(), CLUSTERS.gvr())]).collect()
}

/// How policies of `kind` are watched within `scope`.
pub(super) fn source(kind: &ServedKind, scope: &Scope) -> Source {
    POLICIES.resource(kind.gvr.kind.clone()).within(scope.clone())
}

/// Why sources of `tables` cannot be watched, where that is of a kind that `counts`, a line each; `named` says what is watched.
pub(super) fn failing(
    tables: &Tables,
    counts: impl Fn(FailureKind) -> bool,
    named: impl Fn(&Source) -> String,
) -> Vec<String> {
    let lines = tables.failing().into_keys().filter_map(|source| {
        let failing = tables.failure(source).filter(|failing| counts(failing.kind))?;
        Some(match failing.kind {
            FailureKind::NoAnswer => failing.text.clone(),
            _ => format!("{}: {}", named(source), failing.text),
        })
    });
    lines.collect()
}

/// What follows the classes.
pub(super) struct Following {
    pub(super) hub: HubClient,
    pub(super) controller: ControllerName,
    pub(super) scope: Scope,
    pub(super) roster: watch::Sender<Arc<Roster>>,
    pub(super) wanted: watch::Sender<Wanted>,
    pub(super) inbox: Arc<Inbox>,
}

impl Following {
    /// Looks at them now and again, for ever.
    pub(super) async fn run(self) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let before = self.roster.borrow().clone();
            let now = match Roster::read(&self.hub, &self.controller).await {
                Ok(roster) => roster,
                Err(error) => Roster { failure: Some(with_causes(&error)), ..(*before).clone() },
            };
            if now == *before {
                continue;
            }
            announce(&self.wanted, wanted(&now, &self.scope));
            self.roster.send_replace(Arc::new(now));
            self.inbox.put([Place::Everything]);
        }
    }
}
