//! The data for all pages, and the error pages.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use maud::Markup;
use tokio::time::timeout;

use super::change_events::ChangeEvents;
use super::page_cache::PageCache;
use crate as web;
use crate::{ClusterExplanation, FleetPage, FleetQuery, Notices, PolicyOnHub};
use policy_sync_api::names::{ClusterName, ObjectKey};
use policy_sync_api::text::with_causes;
use policy_sync_hub::HubError;
use policy_sync_report::fleet::{GraphSnapshot, Live, Matrix, TopologyError, WatchedTopology};
use policy_sync_report::{PolicyReport, QueryError, Report, RequestedKinds};
use policy_sync_sync::Settings;
use policy_sync_topology::locator::{KindRef, Locator};
use policy_sync_topology::show::{self, NodeLabel};

/// The message while the topology is still being read.
const STILL_LOADING: &str = "Attachments are still being loaded: try again.";
/// How long a page waits for optional data.
pub(super) const OPTIONAL_DATA_TIMEOUT: Duration = Duration::from_secs(2);

/// The data for all pages. Clones share it.
#[derive(Clone, Debug)]
pub struct Pages {
    pub(super) live: Arc<Live>,
    pub(super) change_events: ChangeEvents,
    pub(super) fleets: Arc<PageCache<FleetQuery>>,
    pub(super) gateways: Arc<PageCache<(ObjectKey, String, Notices)>>,
    pub(super) settings: Arc<Settings>,
}

impl Pages {
    /// Pages about the objects in `live`. `change_events` announces changes; `settings` are the settings of the sync.
    #[must_use]
    pub fn new(live: Arc<Live>, change_events: ChangeEvents, settings: Settings) -> Self {
        Self {
            live,
            change_events,
            fleets: Arc::default(),
            gateways: Arc::default(),
            settings: settings.into(),
        }
    }
}

/// The error page, with its HTTP status.
pub(super) type ErrorPage = (StatusCode, Page);

/// A rendered page.
pub(super) struct Page(pub(super) Markup);

impl IntoResponse for Page {
    fn into_response(self) -> Response {
        html(self.0.into_string())
    }
}

/// A response with an HTML page.
pub(super) fn html(text: impl Into<axum::body::Body>) -> Response {
    let mut response = Response::new(text.into());
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// Why the hub returned no data.
pub(super) enum HubReadError {
    /// Access is forbidden.
    Forbidden(String),
    /// Another error, with its page.
    Other(ErrorPage),
}

impl Pages {
    /// The name of the hub or of the files.
    pub(super) fn hub(&self) -> String {
        self.live.name()
    }

    /// The page for an unknown object.
    pub(super) fn not_found(&self, why: &str) -> ErrorPage {
        (StatusCode::NOT_FOUND, Page(web::error(&self.hub(), "Not found", why)))
    }

    /// The error page for a failed request to the hub.
    pub(super) fn hub_failed(&self, error: &HubError) -> ErrorPage {
        let (status, title) = match error {
            HubError::NotServed { .. } | HubError::Absent { .. } | HubError::Spoke { .. } => {
                (StatusCode::NOT_FOUND, "Not found")
            }
            error if error.is_forbidden() => (StatusCode::FORBIDDEN, "Forbidden"),
            _ => (StatusCode::BAD_GATEWAY, "The hub does not respond"),
        };
        (status, Page(web::error(&self.hub(), title, &with_causes(error))))
    }

    /// The error page for missing data.
    pub(super) fn read_failed(&self, error: HubReadError) -> ErrorPage {
        match error {
            HubReadError::Forbidden(text) => {
                (StatusCode::FORBIDDEN, Page(web::error(&self.hub(), "Forbidden", &text)))
            }
            HubReadError::Other(refusal) => refusal,
        }
    }

    /// The notices at the top of each page.
    pub(super) fn notices(&self) -> Notices {
        let watched_topology =
            self.live.started_topology().into_iter().flat_map(WatchedTopology::watch_errors);
        let watch_errors: BTreeSet<String> =
            self.live.view().watch_errors().into_iter().chain(watched_topology).collect();
        // Only faults in files are notices. Faults on a hub are shown with the policies that they affect.
        let faults = if self.live.is_from_files() {
            self.live.view().watched_kinds().faults.clone()
        } else {
            Vec::new()
        };
        Notices { watch_errors: watch_errors.into_iter().collect(), faults, ..Notices::default() }
    }

    /// The matrix of policies and clusters for `query`.
    pub(super) fn fleet(&self, query: FleetQuery) -> FleetPage {
        let view = self.live.view();
        let watched_kinds = view.watched_kinds();
        let matrix =
            query.matrix().map(|query| Matrix::new(&view, &query)).map_err(|error| error.to_string());
        let (watch_errors, unread, faults) =
            (view.watch_errors(), view.unread(), watched_kinds.faults.clone());
        FleetPage {
            hub: self.hub(),
            controller: self.live.controller().as_str().to_owned(),
            namespace: self.live.namespace().map(str::to_owned),
            notices: Notices { watch_errors, unread, faults, ..Notices::default() },
            kinds: watched_kinds.kinds.iter().map(|kind| kind.kind.clone()).collect(),
            unlisted: view.unlisted().into_iter().map(str::to_owned).collect(),
            has_classes: watched_kinds.has_classes,
            query,
            matrix,
        }
    }

    /// Calls `query` with the topology, after waiting for it up to `timeout_after`.
    pub(super) async fn graph<T: Send + 'static>(
        &self,
        timeout_after: Duration,
        query: impl FnOnce(GraphSnapshot<'_>) -> T + Send + 'static,
    ) -> Result<T, ErrorPage> {
        let watched_topology = self.live.watched_topology().await.map_err(|error| match &error {
            TopologyError::Hub(error) => self.hub_failed(error),
            TopologyError::ThreadStart(_) => self.internal_error(),
        })?;
        match timeout(timeout_after, watched_topology.query(query)).await {
            Ok(Some(found)) => Ok(found),
            Ok(None) => Err(self.internal_error()),
            Err(_) => {
                let watch_errors = watched_topology.watch_errors();
                let why =
                    if watch_errors.is_empty() { STILL_LOADING.to_owned() } else { watch_errors.join(" ") };
                Err((StatusCode::SERVICE_UNAVAILABLE, Page(web::error(&self.hub(), "Not loaded yet", &why))))
            }
        }
    }

    /// The attachments of a policy on the hub; `None` if the object is not a policy.
    pub(super) async fn on_hub(&self, policy: &PolicyReport) -> Option<PolicyOnHub> {
        let (kind, origin) = (policy.kind.clone(), policy.origin.clone());
        let on_hub = self.graph(OPTIONAL_DATA_TIMEOUT, move |GraphSnapshot { found, graph, .. }| {
            let kind = KindRef { group: &origin.kind().group, kind: &kind };
            let report = show::PolicyReport::new(graph, kind, origin.object(), found.unknown(graph))?;
            let locator = Locator::of(kind, origin.object());
            let policy = graph.policies().iter().find(|policy| policy.locator == locator)?;
            let targets = policy.targets.iter().map(|target| NodeLabel::object(target.locator)).collect();
            Some(PolicyOnHub { targets, report })
        });
        on_hub.await.unwrap_or_else(|_| {
            let unknown = vec!["attachments are not loaded yet".to_owned()];
            let report = show::PolicyReport { unknown, ..show::PolicyReport::default() };
            Some(PolicyOnHub { report, ..PolicyOnHub::default() })
        })
    }

    /// Why `policy` is on the cluster, or is not; `None` if the pages are about files.
    pub(super) async fn explain(&self, policy: &PolicyReport, cluster: String) -> Option<ClusterExplanation> {
        let result = match ClusterName::parse(&cluster) {
            None => Err(format!("{cluster:?} is not a valid cluster name.")),
            Some(name) => {
                let kind = self.live.view().watched_kinds().kind(policy.origin.kind()).cloned();
                match kind {
                    None => Err(format!("{} is no longer a synced kind.", policy.kind)),
                    Some(kind) => {
                        let key = policy.origin.object().clone();
                        let explained = self.live.explain(&self.settings, &kind, key, &name).await;
                        explained.map_err(|error| with_causes(&error)).transpose()?
                    }
                }
            }
        };
        Some(ClusterExplanation { cluster, result })
    }

    /// The error page after an internal error.
    pub(super) fn internal_error(&self) -> ErrorPage {
        let why = "The page could not be rendered: see standard error.";
        (StatusCode::INTERNAL_SERVER_ERROR, Page(web::error(&self.hub(), "No page", why)))
    }

    /// Reads unwatched objects from the hub.
    pub(super) async fn read(
        &self,
        requested: RequestedKinds<'_>,
        scope: policy_sync_mirror::Scope,
        cluster: Option<ClusterName>,
    ) -> Result<Report, HubReadError> {
        self.live.report(requested, scope, cluster).await.map_err(|error| match error {
            QueryError::Hub(error) if error.is_forbidden() => HubReadError::Forbidden(error.to_string()),
            QueryError::Hub(error) => HubReadError::Other(self.hub_failed(&error)),
            QueryError::Unread(text) => HubReadError::Forbidden(text),
            QueryError::Kind(text) => HubReadError::Other(self.not_found(&text)),
        })
    }
}
