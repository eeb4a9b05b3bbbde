//! The page of effective policies: the rules in force on the hub's own routes or on clusters, for each path
//! or for one request.

use form_urlencoded::parse;
use maud::{Markup, html};

use super::address::{EFFECTIVE, cluster, gateway, with_query};
use super::cells::word;
use super::layout::{Notices, page, plain};
use super::links::linked;
use policy_sync_api::names::ObjectKey;
use policy_sync_api::text::{cut, printable};
use policy_sync_topology::Request;
use policy_sync_topology::show::{
    ClusterResult, ClustersReport, EffectivePolicyReport, EffectiveReport, NodeLabel, PathResult, Scope,
};

/// The maximum number of results on a page.
const PAGE_LIMIT: usize = 50;
/// The maximum number of Gateways in the initial list.
const GATEWAYS_LIMIT: usize = 100;
/// The maximum number of characters of a rule's value.
const VALUE_LIMIT: usize = 400;

/// The query string of the page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EffectiveQuery {
    /// The clusters: empty for the hub's own routes, `*` for all clusters, or the name of one cluster.
    pub cluster: String,
    namespace: String,
    gateway: String,
    host: String,
    path: String,
    method: String,
    port: String,
}

impl EffectiveQuery {
    /// Parses the query string. Unknown keys are ignored.
    #[must_use]
    pub fn read(query: &str) -> Self {
        let mut read = Self::default();
        for (key, value) in parse(query.as_bytes()) {
            let field = match &*key {
                "cluster" => &mut read.cluster,
                "namespace" => &mut read.namespace,
                "gateway" => &mut read.gateway,
                "host" => &mut read.host,
                "path" => &mut read.path,
                "method" => &mut read.method,
                "port" => &mut read.port,
                _ => continue,
            };
            // The value is displayed in the form.
            *field = printable(value.trim());
        }
        read
    }

    /// Whether the query restricts the result. Without a restriction, a large hub would have too many paths
    /// for a page.
    #[must_use]
    pub fn is_restricted(&self) -> bool {
        *self != Self { cluster: self.cluster.clone(), ..Self::default() }
    }

    /// The requested namespace and Gateway.
    #[must_use]
    pub fn scope(&self) -> Scope {
        let word = |text: &String| (!text.is_empty()).then(|| text.clone());
        Scope { namespace: word(&self.namespace), gateway: word(&self.gateway), ..Scope::default() }
    }

    /// The requested HTTP request, if there is one.
    ///
    /// # Errors
    ///
    /// The field that is invalid, with the reason.
    pub fn request(&self) -> Result<Option<Request>, String> {
        if [&self.host, &self.path, &self.method, &self.port].into_iter().all(String::is_empty) {
            return Ok(None);
        }
        let port = match &*self.port {
            "" => None,
            text => match text.parse() {
                Ok(port @ 1..) => Some(port),
                _ => return Err(format!("Port: invalid value {text:?}: expected 1 to 65535")),
            },
        };
        let mut request = Request { path: "/".to_owned(), port, ..Request::default() };
        if !self.host.is_empty() {
            request = request.with_host(&self.host).map_err(|error| format!("Host: {error}"))?;
        }
        if !self.path.is_empty() {
            request = request.with_path(&self.path).map_err(|error| format!("Path: {error}"))?;
        }
        if !self.method.is_empty() {
            request = request.with_method(&self.method).map_err(|error| format!("Method: {error}"))?;
        }
        Ok(Some(request))
    }
}

/// The effective policies.
#[derive(Debug)]
pub enum EffectiveResult {
    /// The effective policies on the hub's own routes.
    Hub(EffectiveReport),
    /// The effective policies on clusters.
    Clusters(ClustersReport),
}

/// The content of the page.
#[derive(Debug)]
pub struct EffectivePage {
    /// The name of the source in the page header.
    pub hub: String,
    /// The notices at the top.
    pub notices: Notices,
    /// The parsed query string.
    pub query: EffectiveQuery,
    /// The names of the known clusters.
    pub clusters: Vec<String>,
    /// The Gateways for the initial list; empty if the query restricts the result.
    pub gateways: Vec<ObjectKey>,
    /// The result, or why the query is invalid; `None` for the initial page.
    pub result: Option<Result<EffectiveResult, String>>,
}

/// Renders the page.
#[must_use]
pub fn effective(shown: &EffectivePage) -> Markup {
    let body = html! {
        (form(shown))
        @match &shown.result {
            None => {
                p { "Enter a host, a Gateway or a namespace to see its rules in force and their policies." }
                (gateways(&shown.gateways))
            }
            Some(Err(fault)) => p.fault role="alert" { (plain(fault)) },
            Some(Ok(EffectiveResult::Hub(report))) => {
                (counted(report.answers.len(), report.empty_message()))
                @for result in report.answers.iter().take(PAGE_LIMIT) { (on_hub(result)) }
                (unknown(&report.unknown))
            }
            Some(Ok(EffectiveResult::Clusters(report))) => {
                (counted(report.answers.len(), if report.request.is_some() { "No cluster has a listener for this request." } else { "No cluster has a matching listener." }))
                @for result in report.answers.iter().take(PAGE_LIMIT) { (on_clusters(result)) }
                (unknown(&report.unknown))
            }
        }
    };
    page("Effective policies", &shown.hub, &shown.notices, body)
}

/// A list of Gateways, each with a link to its effective policies.
fn gateways(keys: &[ObjectKey]) -> Markup {
    let link =
        |key: &ObjectKey| with_query(EFFECTIVE, &[("namespace", &*key.namespace), ("gateway", &*key.name)]);
    html! {
        @if !keys.is_empty() {
            h2 { "Gateways" }
            ul {
                @for key in keys.iter().take(GATEWAYS_LIMIT) {
                    li {
                        a href=(gateway(key)) { (plain(&key.to_string())) }
                        ": "
                        a href=(link(key)) { "effective policies on " (plain(&key.to_string())) }
                    }
                }
            }
            @if keys.len() > GATEWAYS_LIMIT { p { "There are " (keys.len()) ": enter the name of one." } }
        }
    }
}

fn form(shown: &EffectivePage) -> Markup {
    let query = &shown.query;
    let input = |label: &str, name: &str, value: &str, like: &str| {
        html! { label { (label) " " input name=(name) value=(value) placeholder=(like) autocomplete="off"; } }
    };
    let is_other =
        !query.cluster.is_empty() && query.cluster != "*" && !shown.clusters.contains(&query.cluster);
    html! {
        form.filters action=(EFFECTIVE) method="get" {
            label {
                "On "
                select name="cluster" {
                    option value="" { "routes of the hub" }
                    option value="*" selected[query.cluster == "*"] { "all clusters" }
                    @for name in &shown.clusters {
                        option value=(plain(name)) selected[query.cluster == *name] { "cluster " (plain(name)) }
                    }
                    @if is_other { option value=(query.cluster) selected { "cluster " (plain(&query.cluster)) } }
                }
            }
            (input("Namespace", "namespace", &query.namespace, ""))
            (input("Gateway", "gateway", &query.gateway, ""))
            (input("Host", "host", &query.host, "shop.example.com"))
            (input("Path", "path", &query.path, "/cart"))
            (input("Method", "method", &query.method, "GET"))
            (input("Port", "port", &query.port, ""))
            button { "Show" }
            @if *query != EffectiveQuery::default() { " " a href=(EFFECTIVE) { "Clear" } }
        }
    }
}

fn counted(answers: usize, none: &str) -> Markup {
    html! {
        p {
            @match answers {
                0 => (none),
                1 => "1 path:",
                ..=PAGE_LIMIT => { (answers) " paths:" }
                _ => { "The first " (PAGE_LIMIT) " of " (answers) " paths: enter a host, a Gateway or a namespace to see fewer." }
            }
        }
    }
}

fn path(nodes: &[NodeLabel]) -> Markup {
    html! {
        h2 { @for (index, node) in nodes.iter().enumerate() { @if index > 0 { " › " } (linked(node)) } }
    }
}

fn on_hub(result: &PathResult) -> Markup {
    html! {
        section.answer {
            (path(&result.path))
            p { "Hosts: " (plain(&result.hostnames.join(", "))) }
            @if let Some(chosen) = &result.chosen {
                p {
                    @match &chosen.decided {
                        Some((criterion, rule)) => { "Chosen over " (plain(&rule.words)) ": " (criterion.words()) "." }
                        None => "No other rule matches.",
                    }
                    @if chosen.implementation_specific { " A regular expression matches: its syntax depends on the implementation." }
                }
            }
            @if result.effective.is_empty() { p { "No policy." } }
            @for of in &result.effective { (rules(of)) }
        }
    }
}

fn on_clusters(result: &ClusterResult) -> Markup {
    html! {
        section.answer {
            (path(&result.path))
            p {
                "On "
                @for (index, name) in result.clusters.iter().enumerate() { @if index > 0 { ", " } a href=(cluster(name)) { (plain(&name.0)) } }
                @if !result.certain { " (uncertain)" }
                ". Hosts: " (plain(&result.hostnames.join(", ")))
            }
            @if let Some(until) = &result.gateway.grace_period_end { p { "The Gateway is unplaced and keeps serving until " (plain(until)) "." } }
            @if let Some((code, text)) = &result.gateway.reason { p.message { "The Gateway: " (code) ": " (plain(text)) } }
            @if let Some(attached) = result.attached_routes { p { "Attached routes of the cluster: " (attached) } }
            @for of in &result.effective { (rules(of)) }
            @if result.policies.is_empty() { p { "It has no policy of the hub." } }
            @else {
                ul {
                    @for (policy, state) in &result.policies {
                        li {
                            (linked(policy)) ": "
                            @match state.state { Some(state) => (word(state)), None => "not on the cluster" }
                            (state.note())
                            @if let Some(why) = state.why() { ": " (plain(&why)) }
                            @if !state.differs().is_empty() { "; overrides for this cluster change " (plain(&state.differs().join(", "))) }
                        }
                    }
                }
            }
        }
    }
}

/// The rules of one kind that are in force, and the policies that were overridden.
fn rules(of: &EffectivePolicyReport) -> Markup {
    html! {
        h3 { (plain(&of.kind)) @if of.assumed { " (assumed)" } }
        @if of.assumed { p.note { "The merge strategy of this kind is assumed." } }
        @if of.rules.is_empty() { p { "No rules." } }
        @else {
            div.scroll role="region" tabindex="0" aria-label=(plain(&of.kind)) {
                table {
                    thead { tr { th scope="col" { "Rule" } th scope="col" { "Policy" } th scope="col" { "Value" } } }
                    tbody {
                        @for rule in &of.rules {
                            tr {
                                th scope="row" { (plain(&rule.key)) }
                                td {
                                    (linked(&rule.source))
                                    @if let Some(paths) = rule.shared_by.filter(|paths| *paths > 1) { ", on " (paths) " paths" }
                                }
                                td { code { (plain(&cut(&rule.value.to_string(), VALUE_LIMIT))) } }
                            }
                        }
                    }
                }
            }
        }
        @if !of.lost.is_empty() {
            p { "Overridden: " @for (index, policy) in of.lost.iter().enumerate() { @if index > 0 { ", " } (linked(policy)) } }
        }
    }
}

fn unknown(lines: &[String]) -> Markup {
    html! {
        @if !lines.is_empty() {
            section { h2 { "Unknown" } ul { @for line in lines { li { (plain(line)) } } } }
        }
    }
}
