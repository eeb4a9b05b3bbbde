//! The routes of `policy-sync web`. [`Guard`] authenticates requests, and the other modules of this crate render the
//! pages.

mod change_events;
mod guard;
mod page_cache;
mod pages;
mod security_headers;

use std::time::Duration;

use axum::Router;
use axum::extract::{Path, RawQuery, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use form_urlencoded::parse;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate as web;
use crate::{
    ClusterPage, EffectivePage, EffectiveQuery, EffectiveResult, FleetQuery, GatewayPage, Notices,
    PolicyPage, address,
};
use policy_sync_api::names::{ClusterName, ObjectKey};
use policy_sync_api::syntax::is_dns_subdomain;
use policy_sync_api::text::with_causes;
use policy_sync_connections::{Limits, serve_with};
use policy_sync_report::fleet::GraphSnapshot;
use policy_sync_report::snapshot::ReadError;
use policy_sync_report::{FleetObjects, FleetObjectsQuery, Item, Known, RequestedKinds};
use policy_sync_topology::show::picture::Picture;
use policy_sync_topology::show::{ClustersReport, EffectiveReport, Scope, TopologyReport};

pub use change_events::ChangeEvents;
pub use guard::{Guard, Key};
pub use pages::Pages;
use pages::{ErrorPage, HubReadError, OPTIONAL_DATA_TIMEOUT, Page, html};
use security_headers::WithSecurityHeaders;

/// The routes of all pages, protected by `guard`.
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
        .fallback(async |State(pages): State<Pages>| pages.not_found(PAGE_NOT_FOUND).into_response())
        .with_state(pages)
        .layer(axum::middleware::from_fn(move |request: Request, next| guard.clone().handle(request, next)))
}

/// Serves `router` on `listener` until `stop`.
pub async fn serve(listener: TcpListener, router: Router, stop: CancellationToken) {
    let wrap = async |stream| Ok(WithSecurityHeaders::new(stream));
    serve_with(listener, router, Limits::pages(), wrap, stop).await;
}

/// The message for an unknown address.
const PAGE_NOT_FOUND: &str = "There is no such page.";
/// How long a page waits for the topology to be read.
const TOPOLOGY_TIMEOUT: Duration = Duration::from_secs(20);
/// How many errors of objects a page lists.
const FAULTS_LIMIT: usize = 50;
/// How many clusters a selection list has.
const CLUSTERS_LIMIT: usize = 1_000;

async fn fleet(State(pages): State<Pages>, RawQuery(query): RawQuery) -> Response {
    let query = FleetQuery::read(&query.unwrap_or_default());
    let version = pages.change_events.version();
    html(pages.fleets.page(&query, version, || {
        let shown = pages.fleet(query.clone());
        // A page with incomplete data is not cached, because the arrival of the missing data may cause no event.
        (web::fleet(&shown).into_string(), shown.unlisted.is_empty())
    }))
}

async fn policy(
    State(pages): State<Pages>,
    Path((kind, namespace, name)): Path<(String, String, String)>,
    RawQuery(query): RawQuery,
) -> Result<Page, ErrorPage> {
    let what = format!("{kind} {namespace}/{name}");
    let is_full = kind.contains('.');
    if !is_full || ![&kind, &namespace, &name].into_iter().all(|text| is_dns_subdomain(text)) {
        return Err(pages.not_found(PAGE_NOT_FOUND));
    }
    let scope = policy_sync_mirror::Scope::Object(ObjectKey::new(&namespace, &name));
    let report = pages.read(RequestedKinds::Kind(&kind), scope, None).await;
    let report = report.map_err(|error| pages.read_failed(error))?;
    let found = report.report_mirror.items().into_iter().find_map(|item| match item {
        Item::Policy(report) => Some(*report),
        Item::Gateway(_) | Item::Copy(_) => None,
    });
    let Some(mut found) = found else {
        return Err(pages.not_found(&format!("There is no {what}, or it has no Placement.")));
    };
    let clusters_unread = {
        let view = pages.live.view();
        found.unavailable = view.unavailable().into();
        view.clusters_unread()
    };
    let query = query.unwrap_or_default();
    let why = value(&query, "why").filter(|why| !why.is_empty());
    let notices = Notices {
        unread: report.unread.into_iter().chain(clusters_unread).collect(),
        faults: report.faults,
        is_read_once: why.is_some(),
        ..pages.notices()
    };
    let (hub, skip) = (pages.hub(), skip(&query, "cluster"));
    let on_hub = pages.on_hub(&found).await;
    let why = match why {
        Some(cluster) => pages.explain(&found, cluster).await,
        None => None,
    };
    let is_explained = !pages.live.is_from_files();
    Ok(Page(web::policy(&PolicyPage { hub, notices, report: found, on_hub, is_explained, why, skip })))
}

async fn cluster(
    State(pages): State<Pages>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Page, ErrorPage> {
    let Some(cluster) = ClusterName::parse(&name) else {
        return Err(pages.not_found(PAGE_NOT_FOUND));
    };
    let mut notices = pages.notices();
    let managed = Known::of(pages.live.cluster(&cluster).await).map_err(|error| pages.hub_failed(&error))?;
    let unavailable_since = match managed.or_record(&mut notices.unread) {
        Some(Some(object)) => {
            object.status_as::<policy_sync_api::cluster::ManagedClusterStatus>().unavailable_since()
        }
        Some(None) => return Err(pages.not_found(&format!("There is no ManagedCluster {name}."))),
        None => None,
    };
    let copies = match pages
        .read(RequestedKinds::Cluster, policy_sync_mirror::Scope::All, Some(cluster.clone()))
        .await
    {
        Ok(report) => {
            notices.unread.extend(report.unread);
            notices.faults.extend(report.faults);
            let unavailable = unavailable_since.is_some();
            let copies = report.report_mirror.items().into_iter().filter_map(|item| match item {
                Item::Copy(mut copy) => {
                    copy.unavailable = unavailable;
                    Some(*copy)
                }
                Item::Gateway(_) | Item::Policy(_) => None,
            });
            Some(copies.collect())
        }
        Err(HubReadError::Forbidden(text)) => {
            notices.unread.push(text);
            None
        }
        Err(error) => return Err(pages.read_failed(error)),
    };
    let (of, skip) = (pages.hub(), skip(&query.unwrap_or_default(), "copy"));
    Ok(Page(web::cluster(&ClusterPage { hub: of, notices, cluster, unavailable_since, copies, skip })))
}

async fn gateway(
    State(pages): State<Pages>,
    Path((namespace, name)): Path<(String, String)>,
    RawQuery(query): RawQuery,
) -> Result<Response, ErrorPage> {
    if ![&namespace, &name].into_iter().all(|text| is_dns_subdomain(text)) {
        return Err(pages.not_found(PAGE_NOT_FOUND));
    }
    let key = ObjectKey::new(&namespace, &name);
    let scope = Scope { namespace: Some(namespace), gateway: Some(name), ..Scope::default() };
    let (hub, notices) = (pages.hub(), pages.notices());
    let page_cache = pages.gateways.clone();
    let routes = value(&query.unwrap_or_default(), "routes").unwrap_or_default();
    let shown = pages.graph(TOPOLOGY_TIMEOUT, move |GraphSnapshot { found, graph, number }| {
        if !found.objects.gateways().contains_key(&key) {
            return Err(if graph.knows_gateways() { Vec::new() } else { found.unread.clone() });
        }
        let notices = Notices { unread: found.unknown(graph), ..notices };
        Ok(page_cache.page(&(key.clone(), routes.clone(), notices.clone()), number, || {
            let report = TopologyReport::new(graph, scope, found.faults(graph));
            let report = report.with_unread(found.unread.clone());
            let (picture, verdict) = (Picture::with_routes(&report, &routes), report.verdict());
            let page = GatewayPage { hub, notices, key, routes, picture, verdict };
            (web::gateway(&page).into_string(), true)
        }))
    });
    match shown.await? {
        Ok(page) => Ok(html(page)),
        Err(unread) if unread.is_empty() => Err(pages.not_found("There is no such Gateway.")),
        Err(unread) => {
            let why = format!("It is unknown whether this Gateway exists: {}", unread.join("; "));
            Err(pages.read_failed(HubReadError::Forbidden(why)))
        }
    }
}

async fn effective(State(pages): State<Pages>, RawQuery(query): RawQuery) -> Result<Page, ErrorPage> {
    let query = EffectiveQuery::read(&query.unwrap_or_default());
    let (hub, mut notices) = (pages.hub(), pages.notices());
    let clusters: Vec<String> = {
        let view = pages.live.view();
        notices.unread.extend(view.clusters_unread());
        let mut names: Vec<String> = view
            .clusters()
            .into_iter()
            .flatten()
            .map(|(name, _)| name.to_string())
            .take(CLUSTERS_LIMIT)
            .collect();
        names.sort();
        names
    };
    let mut shown = EffectivePage { hub, notices, query, clusters, gateways: Vec::new(), result: None };
    let scope = shown.query.scope();
    let request = match shown.query.request() {
        Ok(request) => request,
        Err(fault) => {
            shown.result = Some(Err(fault));
            return Ok(Page(web::effective(&shown)));
        }
    };
    if !shown.query.is_restricted() {
        let gateways = pages.graph(OPTIONAL_DATA_TIMEOUT, |GraphSnapshot { found, .. }| {
            let gateways = found.objects.gateways().keys().cloned().collect::<Vec<ObjectKey>>();
            (gateways, found.unread.clone())
        });
        // While the hub is being read, the page lists no Gateways yet. The script reloads the page on each change.
        if let Ok((gateways, unread)) = gateways.await {
            shown.gateways = gateways;
            shown.notices.unread.extend(unread);
        }
        return Ok(Page(web::effective(&shown)));
    }
    if shown.query.cluster.is_empty() {
        let page = pages.graph(TOPOLOGY_TIMEOUT, move |GraphSnapshot { found, graph, .. }| {
            let report = EffectiveReport::new(graph, &scope, request, found.unknown(graph));
            let report = report.with_partial(!found.unread.is_empty());
            shown.notices.faults.extend(lines_of(found.faults(graph)));
            shown.result = Some(Ok(EffectiveResult::Hub(report)));
            web::effective(&shown)
        });
        return page.await.map(Page);
    }
    shown.notices.is_read_once = true;
    let cluster = match &*shown.query.cluster {
        "*" => None,
        name => match ClusterName::parse(name) {
            Some(cluster) => Some(cluster),
            None => return Err(pages.not_found(&format!("{name:?} is not a valid cluster name."))),
        },
    };
    let fleet_query =
        FleetObjectsQuery { settings: &pages.settings, cluster: cluster.as_ref(), scope: &scope };
    let fleet_objects = pages.live.fleet_objects(fleet_query).await.map_err(|error| match &error {
        ReadError::Hub(error) => pages.hub_failed(error),
        error => (StatusCode::BAD_GATEWAY, Page(web::error(&shown.hub, "Unknown hub", &with_causes(error)))),
    })?;
    let Some(fleet_objects) = fleet_objects else {
        return Err(pages.not_found(&format!("There is no ManagedCluster {}.", shown.query.cluster)));
    };
    // Rendering a large hub takes long, so it runs on a blocking thread.
    let making = tokio::task::spawn_blocking(move || {
        let FleetObjects { objects, fleet, unknown, faults, .. } = fleet_objects;
        shown.notices.faults.extend(lines_of(faults));
        let report = ClustersReport::new(&objects, &fleet, &scope, request, unknown);
        shown.result = Some(Ok(EffectiveResult::Clusters(report)));
        web::effective(&shown)
    });
    making.await.map(Page).map_err(|_| pages.internal_error())
}

/// One line for each of the first `faults`, and the number of further faults.
fn lines_of<F: ToString>(faults: Vec<F>) -> Vec<String> {
    let mut lines: Vec<String> = faults.iter().take(FAULTS_LIMIT).map(ToString::to_string).collect();
    if let Some(more) = faults.len().checked_sub(FAULTS_LIMIT).filter(|more| *more > 0) {
        lines.push(format!("{more} more"));
    }
    lines
}

async fn events(State(pages): State<Pages>) -> impl IntoResponse {
    pages.change_events.stream()
}

/// The trimmed value of the query parameter `name`.
fn value(query: &str, name: &str) -> Option<String> {
    parse(query.as_bytes()).find(|(key, _)| key == name).map(|(_, value)| value.trim().to_owned())
}

/// The number of items before the first item that is shown.
fn skip(query: &str, name: &str) -> usize {
    value(query, name).and_then(|value| value.parse().ok()).unwrap_or_default()
}
