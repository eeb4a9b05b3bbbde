//! [`WatchedKinds`]: the kinds that GatewayClasses list, and the watches that these kinds require. The GatewayClasses
//! are read again periodically.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::inbox::{ChangedPart, Inbox};
use super::rows::{CLUSTERS, POLICIES};
use crate::ServedKind;
use crate::query::ClassParameters;
use policy_sync_api::names::{ControllerName, GroupResource};
use policy_sync_api::text::with_causes;
use policy_sync_hub::tasks::send_if_changed;
use policy_sync_hub::{HubClient, HubError};
use policy_sync_mirror::{Scope, Source, Tables, WatchFailureKind, WatchedSources};

/// How often GatewayClasses are read again. They change seldom, and many users lack the right to watch them.
pub(super) const REFRESH_INTERVAL: Duration = Duration::from_secs(10);

/// The page size of lists. It is small because a user waits for the first page.
pub(super) const PAGE: u32 = 500;

/// The kinds to watch, from the parameters of the controller's GatewayClasses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchedKinds {
    /// The listed kinds that the hub serves.
    pub kinds: Vec<ServedKind>,
    /// Errors in the parameters.
    pub faults: Vec<String>,
    /// The parameters that the user may not read.
    pub unread: Vec<String>,
    /// Whether a GatewayClass of the controller exists.
    pub has_classes: bool,
    /// Why the last read failed. The other fields are then those of the last successful read.
    pub failure: Option<String>,
}

impl WatchedKinds {
    /// Reads the GatewayClasses of `controller`.
    pub(super) async fn read(hub: &HubClient, controller: &ControllerName) -> Result<Self, HubError> {
        let ClassParameters { kinds, faults, unread, has_classes, .. } =
            ClassParameters::read(hub, controller).await?;
        Ok(Self { kinds, faults, unread, has_classes, failure: None })
    }

    /// The kind that is served as `resource`.
    #[must_use]
    pub fn kind(&self, resource: &GroupResource) -> Option<&ServedKind> {
        self.kinds.iter().find(|kind| kind.gvr.kind == *resource)
    }
}

/// All sources to watch for `watched_kinds` within `scope`.
pub(super) fn wanted(watched_kinds: &WatchedKinds, scope: &Scope) -> WatchedSources {
    let policies = watched_kinds.kinds.iter().map(|kind| (source(kind, scope), kind.gvr.clone()));
    policies.chain([(CLUSTERS.all(), CLUSTERS.gvr())]).collect()
}

/// The source of policies of `kind` within `scope`.
pub(super) fn source(kind: &ServedKind, scope: &Scope) -> Source {
    POLICIES.resource(kind.gvr.kind.clone()).within(scope.clone())
}

/// One line for each source of `tables` that cannot be watched, if its failure satisfies `counts`. `named`
/// returns the displayed name of a source.
pub(super) fn failing(
    tables: &Tables,
    counts: impl Fn(WatchFailureKind) -> bool,
    named: impl Fn(&Source) -> String,
) -> Vec<String> {
    let lines = tables.failing().into_keys().filter_map(|source| {
        let failing = tables.failure(source).filter(|failing| counts(failing.kind))?;
        Some(match failing.kind {
            WatchFailureKind::NoResponse => failing.text.clone(),
            _ => format!("{}: {}", named(source), failing.text),
        })
    });
    lines.collect()
}

/// The task that follows changes of GatewayClasses.
pub(super) struct KindsPoller {
    pub(super) hub: HubClient,
    pub(super) controller: ControllerName,
    pub(super) scope: Scope,
    pub(super) watched_kinds: watch::Sender<Arc<WatchedKinds>>,
    pub(super) wanted: watch::Sender<WatchedSources>,
    pub(super) inbox: Arc<Inbox>,
}

impl KindsPoller {
    /// Reads the GatewayClasses periodically, forever.
    pub(super) async fn run(self) {
        loop {
            tokio::time::sleep(REFRESH_INTERVAL).await;
            let before = self.watched_kinds.borrow().clone();
            let now = match WatchedKinds::read(&self.hub, &self.controller).await {
                Ok(watched_kinds) => watched_kinds,
                Err(error) => WatchedKinds { failure: Some(with_causes(&error)), ..(*before).clone() },
            };
            if now == *before {
                continue;
            }
            send_if_changed(&self.wanted, wanted(&now, &self.scope));
            self.watched_kinds.send_replace(Arc::new(now));
            self.inbox.put([ChangedPart::Everything]);
        }
    }
}
