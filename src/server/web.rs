//! The pages of `policy-sync web`: routes only. Who may see them is [`Guard`]'s to say, and how they look is [`crate::web`]'s.

mod connections;
mod guard;
mod news;
mod rendered;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, RawQuery, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use form_urlencoded::parse;
use maud::Markup;
use tokio::time::timeout;

use crate::api::names::{ClusterName, ObjectKey};
use crate::api::syntax::is_dns_subdomain;
use crate::api::text::with_causes;
use crate::hub::{self, HubError};
use crate::report::fleet::{Attached, AttachedError, GraphOf, Live};
use crate::report::{self, Across, AcrossQuery, Asked, Item, PolicyReport, Query, QueryError, Report};
use crate::sync::Settings;
use crate::sync::dry_run::ReadError;
use crate::topology::locator::{KindRef, Locator};
use crate::topology::show::picture::Picture;
use crate::topology::show::{self, ClustersReport, EffectiveReport, Named, Scope, TopologyReport};
use crate::web::{
    self, ClusterPage, EffectivePage, EffectiveQuery, FleetPage, FleetQuery, GatewayPage, InForceAt, Notices,
    OnHub, PolicyPage, address,
};

pub use connections::serve;
pub use guard::{Guard, Key};
pub use news::News;
use rendered::Rendered;

/// What the pages are made of.
#[derive(Clone, Debug)]
pub struct Pages {
    live: Arc<Live>,
    news: News,
    fleets: Arc<Rendered<FleetQuery>>,
    gateways: Arc<Rendered<(ObjectKey, Notices)>>,
    settings: Arc<Settings>,
}

impl Pages {
    /// Pages of what is watched by `live`; `news` tells what changes there, and plans are made as `settings` say.
    #[must_use]
    pub fn new(live: Arc<Live>, news: News, settings: Settings) -> Self {
        Self { live, news, fleets: Arc::default(), gateways: Arc::default(), settings: settings.into() }
    }
}

/// All pages, behind `guard`.
pub fn router(pages: Pages, guard: Guard) -> Router {
    let text = |kind: &'static str, text: &'static str| {
        get(move || std::future::ready(([(header::CONTENT_TYPE, kind)], text)))
    };
    Router::new()
        .route(address::FLEET, get(fleet))
        .route("/policies/{kind}/{namespace}/{name}", get(policy))
        .route("/clusters/{name}", get(cluster))
        .route("/gateways/{namespace}/{name}", get(gateway))
        .route(address::EFFECTIVE, get(effective))
        .route(address::EVENTS, get(events))
        .route(address::STYLE, text("text/css; charset=utf-8", web::STYLE))
        .route(address::SCRIPT, text("text/javascript; charset=utf-8", web::SCRIPT))
        .fallback(async |State(pages): State<Pages>| pages.missing(NO_PAGE).into_response())
        .with_state(pages)
        .layer(axum::middleware::from_fn(move |request: Request, next| guard.clone().answer(request, next)))
}

/// What is said where an address is none.
const NO_PAGE: &str = "There is no such page.";
/// What a page says that is not followed.
const READ: &str = "What is on clusters is read where the page is opened.";
/// What is said while that takes longer.
const LISTING: &str = "What is attached is still being read: try again.";
/// For how long a page waits until what is attached has been listed.
const PATIENCE: Duration = Duration::from_secs(20);
/// For how long one waits that has something else to show.
const A_MOMENT: Duration = Duration::from_secs(2);
/// The most clusters that a list to choose from has.
const CLUSTERS: usize = 1_000;

/// Why there is no page.
type Refusal = (StatusCode, Page);

/// A page on its way out.
struct Page(Markup);

impl IntoResponse for Page {
    fn into_response(self) -> Response {
        html(self.0.into_string())
    }
}

fn html(text: impl Into<axum::body::Body>) -> Response {
    let mut response = Response::new(text.into());
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

async fn fleet(State(pages): State<Pages>, RawQuery(query): RawQuery) -> Response {
    let query = FleetQuery::read(&query.unwrap_or_default());
    let version = pages.news.version();
    html(pages.fleets.page(&query, version, || {
        let shown = pages.fleet(query.clone());
        // While it is read more comes than is told.
        (web::fleet(&shown).into_string(), shown.unlisted.is_empty())
    }))
}

async fn policy(
    State(pages): State<Pages>,
    Path((kind, namespace, name)): Path<(String, String, String)>,
    RawQuery(query): RawQuery,
) -> Result<Page, Refusal> {
    let what = format!("{kind} {namespace}/{name}");
    let is_full = kind.contains('.');
    if !is_full || ![&kind, &namespace, &name].into_iter().all(|text| is_dns_subdomain(text)) {
        return Err(pages.missing(NO_PAGE));
    }
    let scope = hub::Scope::Object(ObjectKey::new(&namespace, &name));
    let report = pages.read(Asked::Kind(&kind), scope, None).await?;
    let found = report.seen.items().into_iter().find_map(|item| match item {
        Item::Policy(report) => Some(*report),
        Item::Gateway(_) | Item::Copy(_) => None,
    });
    let Some(found) = found else {
        return Err(pages.missing(&format!("The hub has no {what}, or nothing places it.")));
    };
    let notices = Notices { unread: report.unread, faults: report.faults, ..pages.notices() };
    let (hub, skip) = (pages.hub(), skip(query.as_deref(), "cluster"));
    let on_hub = pages.on_hub(&found).await;
    Ok(Page(web::policy(&PolicyPage { hub, notices, report: found, on_hub, skip })))
}

async fn cluster(
    State(pages): State<Pages>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Page, Refusal> {
    let Some(cluster) = ClusterName::parse(&name) else {
        return Err(pages.missing(NO_PAGE));
    };
    let mut notices = pages.notices();
    let hub = pages.live.hub();
    let silent_since = match report::cluster(hub, &cluster).await {
        Ok(Some(object)) => {
            object.status_as::<crate::api::cluster::ManagedClusterStatus>().unavailable_since()
        }
        Ok(None) => return Err(pages.missing(&format!("The hub has no ManagedCluster {name}."))),
        Err(error) if error.is_forbidden() => {
            notices.unread.push(error.to_string());
            None
        }
        Err(error) => return Err(pages.failed(&error)),
    };
    let copies = match pages.read(Asked::Cluster, hub::Scope::All, Some(cluster.clone())).await {
        Ok(report) => {
            notices.unread.extend(report.unread);
            notices.faults.extend(report.faults);
            let copies = report.seen.items().into_iter().filter_map(|item| match item {
                Item::Copy(copy) => Some(*copy),
                Item::Gateway(_) | Item::Policy(_) => None,
            });
            Some(copies.collect())
        }
        Err(Unanswered::Forbidden(text)) => {
            notices.unread.push(text);
            None
        }
        Err(Unanswered::Other(refusal)) => return Err(refusal),
    };
    let (of, skip) = (pages.hub(), skip(query.as_deref(), "copy"));
    Ok(Page(web::cluster(&ClusterPage { hub: of, notices, cluster, silent_since, copies, skip })))
}

async fn gateway(
    State(pages): State<Pages>,
    Path((namespace, name)): Path<(String, String)>,
) -> Result<Response, Refusal> {
    if ![&namespace, &name].into_iter().all(|text| is_dns_subdomain(text)) {
        return Err(pages.missing(NO_PAGE));
    }
    let key = ObjectKey::new(&namespace, &name);
    let scope = Scope { namespace: Some(namespace), gateway: Some(name), ..Scope::default() };
    let (hub, notices) = (pages.hub(), pages.notices());
    let rendered = pages.gateways.clone();
    let shown = pages.graph(PATIENCE, move |GraphOf { found, graph, number }| {
        found.objects.gateways().contains_key(&key).then(|| {
            let notices = Notices { unread: found.unknown(graph), ..notices };
            rendered.page(&(key.clone(), notices.clone()), number, || {
                let report = TopologyReport::new(graph, scope, found.faults(graph));
                let (picture, is_fine) = (Picture::new(&report), report.is_fine());
                (web::gateway(&GatewayPage { hub, notices, key, picture, is_fine }).into_string(), true)
            })
        })
    });
    match shown.await? {
        Some(page) => Ok(html(page)),
        None => Err(pages.missing("The hub has no such Gateway, or it may not be read.")),
    }
}

async fn effective(State(pages): State<Pages>, RawQuery(query): RawQuery) -> Result<Page, Refusal> {
    let query = EffectiveQuery::read(&query.unwrap_or_default());
    let clusters: Vec<String> = {
        let look = pages.live.look();
        let mut names: Vec<String> =
            look.clusters().into_iter().flatten().map(|(name, _)| name.to_string()).take(CLUSTERS).collect();
        names.sort();
        names
    };
    let (hub, notices) = (pages.hub(), pages.notices());
    let mut shown = EffectivePage { hub, notices, query, clusters, gateways: Vec::new(), answer: None };
    let scope = shown.query.scope();
    let request = match shown.query.request() {
        Ok(request) => request,
        Err(fault) => {
            shown.answer = Some(Err(fault));
            return Ok(Page(web::effective(&shown)));
        }
    };
    if !shown.query.asks() {
        let gateways = pages.graph(A_MOMENT, |GraphOf { found, .. }| {
            found.objects.gateways().keys().cloned().collect::<Vec<ObjectKey>>()
        });
        // Those of a hub that is not read yet come with what changes.
        shown.gateways = gateways.await.unwrap_or_default();
        return Ok(Page(web::effective(&shown)));
    }
    if shown.query.cluster.is_empty() {
        let page = pages.graph(PATIENCE, move |GraphOf { found, graph, .. }| {
            let report = EffectiveReport::new(graph, &scope, request, found.unknown(graph));
            shown.answer = Some(Ok(InForceAt::Hub(report)));
            web::effective(&shown)
        });
        return page.await.map(Page);
    }
    shown.notices.notes.push(READ.to_owned());
    let cluster = match &*shown.query.cluster {
        "*" => None,
        name => match ClusterName::parse(name) {
            Some(cluster) => Some(cluster),
            None => return Err(pages.missing(&format!("{name:?} is no name of a cluster."))),
        },
    };
    let asked = AcrossQuery { settings: &pages.settings, cluster: cluster.as_ref(), scope: &scope };
    let across = report::across(pages.live.hub(), pages.live.controller(), asked).await;
    let across = across.map_err(|error| match &error {
        ReadError::Hub(error) => pages.failed(error),
        error => {
            (StatusCode::BAD_GATEWAY, Page(web::error(&shown.hub, "No hub of ours", &with_causes(error))))
        }
    })?;
    // A large hub takes a while.
    let making = tokio::task::spawn_blocking(move || {
        let Across { objects, fleet, unknown, .. } = across;
        let report = ClustersReport::new(&objects, &fleet, &scope, request, unknown);
        shown.answer = Some(Ok(InForceAt::Clusters(report)));
        web::effective(&shown)
    });
    making.await.map(Page).map_err(|_| pages.unmade())
}

async fn events(State(pages): State<Pages>) -> impl IntoResponse {
    pages.news.stream()
}

/// How many come before the first that is shown.
fn skip(query: Option<&str>, name: &str) -> usize {
    let of = |(key, value): (std::borrow::Cow<'_, str>, std::borrow::Cow<'_, str>)| {
        (key == name).then(|| value.parse().ok()).flatten()
    };
    parse(query.unwrap_or_default().as_bytes()).find_map(of).unwrap_or_default()
}

/// Why the hub did not answer what a page asks.
enum Unanswered {
    /// It may not be read.
    Forbidden(String),
    /// Something else, and the page that says so.
    Other(Refusal),
}

impl From<Unanswered> for Refusal {
    fn from(unanswered: Unanswered) -> Self {
        match unanswered {
            Unanswered::Forbidden(text) => {
                (StatusCode::FORBIDDEN, Page(web::error("", "Not to be read", &text)))
            }
            Unanswered::Other(refusal) => refusal,
        }
    }
}

impl Pages {
    fn hub(&self) -> String {
        self.live.hub().url().to_owned()
    }

    fn missing(&self, why: &str) -> Refusal {
        (StatusCode::NOT_FOUND, Page(web::error(&self.hub(), "Not found", why)))
    }

    /// What keeps a page from being made.
    fn failed(&self, error: &HubError) -> Refusal {
        let (status, title) = match error {
            HubError::NotServed { .. } => (StatusCode::NOT_FOUND, "Not found"),
            error if error.is_forbidden() => (StatusCode::FORBIDDEN, "Not to be read"),
            _ => (StatusCode::BAD_GATEWAY, "The hub does not answer"),
        };
        (status, Page(web::error(&self.hub(), title, &with_causes(error))))
    }

    /// What is said above each page.
    fn notices(&self) -> Notices {
        let attached = self.live.watched().into_iter().flat_map(Attached::away);
        let away: BTreeSet<String> = self.live.look().away().into_iter().chain(attached).collect();
        Notices { away: away.into_iter().collect(), ..Notices::default() }
    }

    fn fleet(&self, query: FleetQuery) -> FleetPage {
        let look = self.live.look();
        let roster = look.roster();
        let matrix = query.matrix().map(|query| look.matrix(&query)).map_err(|error| error.to_string());
        let (away, unread, faults) = (look.away(), look.unread(), roster.faults.clone());
        FleetPage {
            hub: self.hub(),
            controller: self.live.controller().as_str().to_owned(),
            namespace: self.live.namespace().map(str::to_owned),
            notices: Notices { away, unread, faults, notes: Vec::new() },
            kinds: roster.kinds.iter().map(|kind| kind.kind.clone()).collect(),
            unlisted: look.unlisted().into_iter().map(str::to_owned).collect(),
            has_classes: roster.has_classes,
            query,
            matrix,
        }
    }

    /// What `ask` says of what is attached to what, which is waited for so long.
    async fn graph<T: Send + 'static>(
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
                Err((StatusCode::SERVICE_UNAVAILABLE, Page(web::error(&self.hub(), "Not read yet", &why))))
            }
        }
    }

    /// A policy on the hub itself; `None` where it is no policy.
    async fn on_hub(&self, policy: &PolicyReport) -> Option<OnHub> {
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
            let unknown = vec!["what is attached has not been read yet".to_owned()];
            let report = show::PolicyReport { unknown, ..show::PolicyReport::default() };
            Some(OnHub { report, ..OnHub::default() })
        })
    }

    /// What is said where a page cannot be made.
    fn unmade(&self) -> Refusal {
        let why = "It could not be made: see standard error.";
        (StatusCode::INTERNAL_SERVER_ERROR, Page(web::error(&self.hub(), "No page", why)))
    }

    async fn read(
        &self,
        asked: Asked<'_>,
        scope: hub::Scope,
        cluster: Option<ClusterName>,
    ) -> Result<Report, Unanswered> {
        let query = Query { controller: self.live.controller(), asked, scope, cluster, hint: "" };
        Report::read(self.live.hub(), &query).await.map_err(|error| match error {
            QueryError::Hub(error) if error.is_forbidden() => Unanswered::Forbidden(error.to_string()),
            QueryError::Hub(error) => Unanswered::Other(self.failed(&error)),
            QueryError::Unread(text) => Unanswered::Forbidden(text),
            QueryError::Kind(text) => Unanswered::Other(self.missing(&text)),
        })
    }
}
