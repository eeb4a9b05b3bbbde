//! The data for all pages, and the error pages.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use maud::Markup;
use tokio::time::timeout;

use super::news::News;
use super::rendered::Rendered;
use crate as web;
use crate::{FleetPage, FleetQuery, Notices, OnHub, Why};
use policy_sync_api::names::{ClusterName, ObjectKey};
use policy_sync_api::text::with_causes;
use policy_sync_hub::HubError;
use policy_sync_report::fleet::{Attached, AttachedError, GraphOf, Live, Matrix};
use policy_sync_report::{Asked, PolicyReport, QueryError, Report};
use policy_sync_sync::Settings;
use policy_sync_topology::locator::{KindRef, Locator};
use policy_sync_topology::show::{self, Named};

/// The message while the topology is still being read.
const LISTING: &str = "Attachments are still being loaded: try again.";
/// How long a page waits for optional data.
pub(super) const A_MOMENT: Duration = Duration::from_secs(2);

/// The data for all pages. Clones share it.
#[derive(Clone, Debug)]
pub struct Pages {
    pub(super) live: Arc<Live>,
    pub(super) news: News,
    pub(super) fleets: Arc<Rendered<FleetQuery>>,
    pub(super) gateways: Arc<Rendered<(ObjectKey, String, Notices)>>,
    pub(super) settings: Arc<Settings>,
}

impl Pages {
    /// Pages about the objects in `live`. `news` announces changes; `settings` are those of the sync.
    #[must_use]
    pub fn new(live: Arc<Live>, news: News, settings: Settings) -> Self {
        Self { live, news, fleets: Arc::default(), gateways: Arc::default(), settings: settings.into() }
    }
}

/// The error page, with its status.
pub(super) type Refusal = (StatusCode, Page);

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
pub(super) enum Unanswered {
    /// Access is forbidden.
    Forbidden(String),
    /// Another error, with its page.
    Other(Refusal),
}

impl Pages {
    /// The name of the hub or of the files.
    pub(super) fn hub(&self) -> String {
        self.live.name()
    }

    /// The page for an unknown object.
    pub(super) fn missing(&self, why: &str) -> Refusal {
        (StatusCode::NOT_FOUND, Page(web::error(&self.hub(), "Not found", why)))
    }

    /// The error page for a failed request to the hub.
    pub(super) fn failed(&self, error: &HubError) -> Refusal {
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
    pub(super) fn refused(&self, unanswered: Unanswered) -> Refusal {
        match unanswered {
            Unanswered::Forbidden(text) => {
                (StatusCode::FORBIDDEN, Page(web::error(&self.hub(), "Forbidden", &text)))
            }
            Unanswered::Other(refusal) => refusal,
        }
    }

    /// The notices at the top of each page.
    pub(super) fn notices(&self) -> Notices {
        let attached = self.live.watched().into_iter().flat_map(Attached::away);
        let away: BTreeSet<String> = self.live.look().away().into_iter().chain(attached).collect();
        // On a hub, faults are shown with their policies.
        let faults =
            if self.live.is_of_files() { self.live.look().roster().faults.clone() } else { Vec::new() };
        Notices { away: away.into_iter().collect(), faults, ..Notices::default() }
    }

    /// The matrix of policies and clusters for `query`.
    pub(super) fn fleet(&self, query: FleetQuery) -> FleetPage {
        let look = self.live.look();
        let roster = look.roster();
        let matrix =
            query.matrix().map(|query| Matrix::new(&look, &query)).map_err(|error| error.to_string());
        let (away, unread, faults) = (look.away(), look.unread(), roster.faults.clone());
        FleetPage {
            hub: self.hub(),
            controller: self.live.controller().as_str().to_owned(),
            namespace: self.live.namespace().map(str::to_owned),
            notices: Notices { away, unread, faults, ..Notices::default() },
            kinds: roster.kinds.iter().map(|kind| kind.kind.clone()).collect(),
            unlisted: look.unlisted().into_iter().map(str::to_owned).collect(),
            has_classes: roster.has_classes,
            query,
            matrix,
        }
    }

    /// Calls `ask` with the topology, after waiting for it up to `patience`.
    pub(super) async fn graph<T: Send + 'static>(
        &self,
        patience: Duration,
        ask: impl FnOnce(GraphOf<'_>) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let attached = self.live.attached().await.map_err(|error| match &error {
            AttachedError::Hub(error) => self.failed(error),
            AttachedError::Unstarted(_) => self.unmade(),
        })?;
        match timeout(patience, attached.ask(ask)).await {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err(self.unmade()),
            Err(_) => {
                let away = attached.away();
                let why = if away.is_empty() { LISTING.to_owned() } else { away.join(" ") };
                Err((StatusCode::SERVICE_UNAVAILABLE, Page(web::error(&self.hub(), "Not loaded yet", &why))))
            }
        }
    }

    /// The attachments of a policy on the hub; `None` if the object is not a policy.
    pub(super) async fn on_hub(&self, policy: &PolicyReport) -> Option<OnHub> {
        let (kind, origin) = (policy.kind.clone(), policy.origin.clone());
        let asked = self.graph(A_MOMENT, move |GraphOf { found, graph, .. }| {
            let kind = KindRef { group: &origin.kind().group, kind: &kind };
            let report = show::PolicyReport::new(graph, kind, origin.object(), found.unknown(graph))?;
            let locator = Locator::of(kind, origin.object());
            let policy = graph.policies().iter().find(|policy| policy.locator == locator)?;
            let targets = policy.targets.iter().map(|target| Named::object(target.locator)).collect();
            Some(OnHub { targets, report })
        });
        asked.await.unwrap_or_else(|_| {
            let unknown = vec!["attachments are not loaded yet".to_owned()];
            let report = show::PolicyReport { unknown, ..show::PolicyReport::default() };
            Some(OnHub { report, ..OnHub::default() })
        })
    }

    /// Why `policy` is on the cluster, or is not; `None` if the pages are about files.
    pub(super) async fn why(&self, policy: &PolicyReport, cluster: String) -> Option<Why> {
        let answer = match ClusterName::parse(&cluster) {
            None => Err(format!("{cluster:?} is not a valid cluster name.")),
            Some(name) => {
                let kind = self.live.look().roster().kind(policy.origin.kind()).cloned();
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
        Some(Why { cluster, answer })
    }

    /// The error page after an internal error.
    pub(super) fn unmade(&self) -> Refusal {
        let why = "The page could not be rendered: see standard error.";
        (StatusCode::INTERNAL_SERVER_ERROR, Page(web::error(&self.hub(), "No page", why)))
    }

    /// Reads objects from the hub that are not watched.
    pub(super) async fn read(
        &self,
        asked: Asked<'_>,
        scope: policy_sync_mirror::Scope,
        cluster: Option<ClusterName>,
    ) -> Result<Report, Unanswered> {
        self.live.report(asked, scope, cluster).await.map_err(|error| match error {
            QueryError::Hub(error) if error.is_forbidden() => Unanswered::Forbidden(error.to_string()),
            QueryError::Hub(error) => Unanswered::Other(self.failed(&error)),
            QueryError::Unread(text) => Unanswered::Forbidden(text),
            QueryError::Kind(text) => Unanswered::Other(self.missing(&text)),
        })
    }
}
