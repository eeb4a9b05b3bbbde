//! The routes of `policy-sync web`. [`Guard`] authenticates requests, and the other modules of this crate render the pages.

mod connections;
mod guard;
mod headed;
mod news;
mod pages;
mod rendered;

use std::time::Duration;

use axum::Router;
use axum::extract::{Path, RawQuery, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use form_urlencoded::parse;

use crate as web;
use crate::{
    ClusterPage, EffectivePage, EffectiveQuery, FleetQuery, GatewayPage, InForceAt, Notices, PolicyPage,
    address,
};
use policy_sync_api::names::{ClusterName, ObjectKey};
use policy_sync_api::syntax::is_dns_subdomain;
use policy_sync_api::text::with_causes;
use policy_sync_report::fleet::GraphOf;
use policy_sync_report::snapshot::ReadError;
use policy_sync_report::{Across, AcrossQuery, Asked, Item, Known};
use policy_sync_topology::show::picture::Picture;
use policy_sync_topology::show::{ClustersReport, EffectiveReport, Scope, TopologyReport};

pub use connections::serve;
pub use guard::{Guard, Key};
pub use news::News;
pub use pages::Pages;
use pages::{A_MOMENT, Page, Refusal, Unanswered, html};

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
        .fallback(async |State(pages): State<Pages>| pages.missing(NO_PAGE).into_response())
        .with_state(pages)
        .layer(axum::middleware::from_fn(move |request: Request, next| guard.clone().answer(request, next)))
}

/// The message for an unknown address.
const NO_PAGE: &str = "There is no such page.";
/// How long a page waits for the topology to be read.
const PATIENCE: Duration = Duration::from_secs(20);
/// How many errors of objects a page lists.
const FAULTS: usize = 50;
/// How many clusters a selection list has.
const CLUSTERS: usize = 1_000;

async fn fleet(State(pages): State<Pages>, RawQuery(query): RawQuery) -> Response {
    let query = FleetQuery::read(&query.unwrap_or_default());
    let version = pages.news.version();
    html(pages.fleets.page(&query, version, || {
        let shown = pages.fleet(query.clone());
        // A page of incomplete data is not cached, because not every addition is announced.
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
    let scope = policy_sync_mirror::Scope::Object(ObjectKey::new(&namespace, &name));
    let report = pages.read(Asked::Kind(&kind), scope, None).await;
    let report = report.map_err(|unanswered| pages.refused(unanswered))?;
    let found = report.seen.items().into_iter().find_map(|item| match item {
        Item::Policy(report) => Some(*report),
        Item::Gateway(_) | Item::Copy(_) => None,
    });
    let Some(mut found) = found else {
        return Err(pages.missing(&format!("There is no {what}, or it has no Placement.")));
    };
    let clusters_unread = {
        let look = pages.live.look();
        found.unavailable = look.unavailable().into();
        look.clusters_unread()
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
        Some(cluster) => pages.why(&found, cluster).await,
        None => None,
    };
    let is_explained = !pages.live.is_of_files();
    Ok(Page(web::policy(&PolicyPage { hub, notices, report: found, on_hub, is_explained, why, skip })))
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
    let managed = Known::of(pages.live.cluster(&cluster).await).map_err(|error| pages.failed(&error))?;
    let silent_since = match managed.or_note(&mut notices.unread) {
        Some(Some(object)) => {
            object.status_as::<policy_sync_api::cluster::ManagedClusterStatus>().unavailable_since()
        }
        Some(None) => return Err(pages.missing(&format!("There is no ManagedCluster {name}."))),
        None => None,
    };
    let copies = match pages.read(Asked::Cluster, policy_sync_mirror::Scope::All, Some(cluster.clone())).await
    {
        Ok(report) => {
            notices.unread.extend(report.unread);
            notices.faults.extend(report.faults);
            let unavailable = silent_since.is_some();
            let copies = report.seen.items().into_iter().filter_map(|item| match item {
                Item::Copy(mut copy) => {
                    copy.unavailable = unavailable;
                    Some(*copy)
                }
                Item::Gateway(_) | Item::Policy(_) => None,
            });
            Some(copies.collect())
        }
        Err(Unanswered::Forbidden(text)) => {
            notices.unread.push(text);
            None
        }
        Err(unanswered) => return Err(pages.refused(unanswered)),
    };
    let (of, skip) = (pages.hub(), skip(&query.unwrap_or_default(), "copy"));
    Ok(Page(web::cluster(&ClusterPage { hub: of, notices, cluster, silent_since, copies, skip })))
}

async fn gateway(
    State(pages): State<Pages>,
    Path((namespace, name)): Path<(String, String)>,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    if ![&namespace, &name].into_iter().all(|text| is_dns_subdomain(text)) {
        return Err(pages.missing(NO_PAGE));
    }
    let key = ObjectKey::new(&namespace, &name);
    let scope = Scope { namespace: Some(namespace), gateway: Some(name), ..Scope::default() };
    let (hub, notices) = (pages.hub(), pages.notices());
    let rendered = pages.gateways.clone();
    let routes = value(&query.unwrap_or_default(), "routes").unwrap_or_default();
    let shown = pages.graph(PATIENCE, move |GraphOf { found, graph, number }| {
        if !found.objects.gateways().contains_key(&key) {
            return Err(if graph.knows_gateways() { Vec::new() } else { found.unread.clone() });
        }
        let notices = Notices { unread: found.unknown(graph), ..notices };
        Ok(rendered.page(&(key.clone(), routes.clone(), notices.clone()), number, || {
            let report = TopologyReport::new(graph, scope, found.faults(graph));
            let report = report.with_unread(found.unread.clone());
            let (picture, verdict) = (Picture::with_routes(&report, &routes), report.verdict());
            let page = GatewayPage { hub, notices, key, routes, picture, verdict };
            (web::gateway(&page).into_string(), true)
        }))
    });
    match shown.await? {
        Ok(page) => Ok(html(page)),
        Err(unread) if unread.is_empty() => Err(pages.missing("There is no such Gateway.")),
        Err(unread) => {
            let why = format!("It is unknown whether this Gateway exists: {}", unread.join("; "));
            Err(pages.refused(Unanswered::Forbidden(why)))
        }
    }
}

async fn effective(State(pages): State<Pages>, RawQuery(query): RawQuery) -> Result<Page, Refusal> {
    let query = EffectiveQuery::read(&query.unwrap_or_default());
    let (hub, mut notices) = (pages.hub(), pages.notices());
    let clusters: Vec<String> = {
        let look = pages.live.look();
        notices.unread.extend(look.clusters_unread());
        let mut names: Vec<String> =
            look.clusters().into_iter().flatten().map(|(name, _)| name.to_string()).take(CLUSTERS).collect();
        names.sort();
        names
    };
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
            let gateways = found.objects.gateways().keys().cloned().collect::<Vec<ObjectKey>>();
            (gateways, found.unread.clone())
        });
        // While the hub is being read, the page without Gateways is reloaded on each change.
        if let Ok((gateways, unread)) = gateways.await {
            shown.gateways = gateways;
            shown.notices.unread.extend(unread);
        }
        return Ok(Page(web::effective(&shown)));
    }
    if shown.query.cluster.is_empty() {
        let page = pages.graph(PATIENCE, move |GraphOf { found, graph, .. }| {
            let report = EffectiveReport::new(graph, &scope, request, found.unknown(graph));
            let report = report.with_partial(!found.unread.is_empty());
            shown.notices.faults.extend(lines_of(found.faults(graph)));
            shown.answer = Some(Ok(InForceAt::Hub(report)));
            web::effective(&shown)
        });
        return page.await.map(Page);
    }
    shown.notices.is_read_once = true;
    let cluster = match &*shown.query.cluster {
        "*" => None,
        name => match ClusterName::parse(name) {
            Some(cluster) => Some(cluster),
            None => return Err(pages.missing(&format!("{name:?} is not a valid cluster name."))),
        },
    };
    let asked = AcrossQuery { settings: &pages.settings, cluster: cluster.as_ref(), scope: &scope };
    let across = pages.live.across(asked).await.map_err(|error| match &error {
        ReadError::Hub(error) => pages.failed(error),
        error => (StatusCode::BAD_GATEWAY, Page(web::error(&shown.hub, "Unknown hub", &with_causes(error)))),
    })?;
    let Some(across) = across else {
        return Err(pages.missing(&format!("There is no ManagedCluster {}.", shown.query.cluster)));
    };
    // Rendering a large hub takes long, so it runs on a blocking thread.
    let making = tokio::task::spawn_blocking(move || {
        let Across { objects, fleet, unknown, faults, .. } = across;
        shown.notices.faults.extend(lines_of(faults));
        let report = ClustersReport::new(&objects, &fleet, &scope, request, unknown);
        shown.answer = Some(Ok(InForceAt::Clusters(report)));
        web::effective(&shown)
    });
    making.await.map(Page).map_err(|_| pages.unmade())
}

/// One line for each of the first `faults`, and the number of further ones.
fn lines_of<F: ToString>(faults: Vec<F>) -> Vec<String> {
    let mut lines: Vec<String> = faults.iter().take(FAULTS).map(ToString::to_string).collect();
    if let Some(more) = faults.len().checked_sub(FAULTS).filter(|more| *more > 0) {
        lines.push(format!("{more} more"));
    }
    lines
}

async fn events(State(pages): State<Pages>) -> impl IntoResponse {
    pages.news.stream()
}

/// The trimmed value of the query parameter `name`.
fn value(query: &str, name: &str) -> Option<String> {
    parse(query.as_bytes()).find(|(key, _)| key == name).map(|(_, value)| value.trim().to_owned())
}

/// How many items come before the first one shown.
fn skip(query: &str, name: &str) -> usize {
    value(query, name).and_then(|value| value.parse().ok()).unwrap_or_default()
}
