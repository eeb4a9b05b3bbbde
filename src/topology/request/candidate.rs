//! Matches that have a request, and which of two comes first.

use std::cmp::Reverse;
use std::sync::Arc;

use regex::Regex;

use super::{Criterion, Request, has_host, is_of_http, specificity};
use crate::topology::attachment::hosts;
use crate::topology::graph::{Graph, NodeId};
use crate::topology::rows::matches::{
    self, Comparison, GrpcMatch, HttpMatch, PathComparison, PathMatch, ValueMatch, whole,
};
use crate::topology::rows::{Created, Listener, Route, RouteKind};

/// A match that has the request.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) route: NodeId,
    pub(super) rule: NodeId,
    pub(super) has_expression: bool,
    /// What makes it come first, in the order of criteria, the greater first.
    ranks: [(Criterion, (u64, u64)); 6],
    age: (Created, String, RouteKind),
    place: (usize, usize),
}

impl Candidate {
    /// What puts this one before `other`, which is of another rule.
    pub(super) fn criterion_against(&self, other: &Self) -> Criterion {
        let mut ranks = self.ranks.iter().zip(&other.ranks);
        let differs = ranks.find(|((_, own), (_, others))| own != others);
        match differs {
            Some(((criterion, _), _)) => *criterion,
            None if self.age.0 != other.age.0 => Criterion::Age,
            None if self.route != other.route => Criterion::Name,
            None => Criterion::Place,
        }
    }

    /// The one that comes first is the lesser.
    pub(super) fn order(&self) -> impl Ord + '_ {
        let ranks = self.ranks.each_ref().map(|(_, rank)| Reverse(*rank));
        (ranks, &self.age, self.place)
    }
}

impl Request {
    /// The matches of `route`, which is attached to `listener`, that have this request.
    pub(super) fn candidates(
        &self,
        graph: &Graph<'_>,
        (listener, kind): (&Listener, RouteKind),
        (node, route): (NodeId, &Route),
    ) -> Vec<Candidate> {
        // What TCP and UDP carry has no host.
        let host = self.host.as_deref().filter(|_| is_of_http(kind) || kind == RouteKind::Tls);
        let hostnames = hosts(listener, route);
        let is_had = |hostname: &&&str| kind == RouteKind::Tcp || has_host(hostname, host);
        let Some(hostname) = hostnames.iter().filter(is_had).map(|name| specificity(name)).max() else {
            return Vec::new();
        };
        let hostname = (u64::from(hostname.0), hostname.1 as u64);
        let age = (route.created, graph.locator(node).object(), kind);
        let candidate = |rule: NodeId, place: (usize, usize), found: Found| {
            let [first, second, third, fourth, fifth] = found.ranks;
            Candidate {
                route: node,
                rule,
                has_expression: found.has_expression,
                ranks: [(Criterion::Hostname, hostname), first, second, third, fourth, fifth],
                age: age.clone(),
                place,
            }
        };
        let mut candidates = Vec::new();
        for rule in graph.sections(node) {
            let Some(row) = graph.rule(rule) else { continue };
            let place = graph.place(rule);
            for (index, found) in self.found(kind, row.matches.as_deref()).into_iter().enumerate() {
                candidates.extend(found.map(|found| candidate(rule, (place, index), found)));
            }
        }
        if route.rules.is_empty() && self.found(kind, None).iter().any(Option::is_some) {
            candidates.push(candidate(node, (0, 0), Found::default()));
        }
        candidates
    }

    /// For each match of a rule, what it is worth where it has the request.
    fn found(&self, kind: RouteKind, text: Option<&str>) -> Vec<Option<Found>> {
        match kind {
            RouteKind::Http => matches::http(text).iter().map(|written| self.has_http(written)).collect(),
            RouteKind::Grpc => matches::grpc(text).iter().map(|written| self.has_grpc(written)).collect(),
            RouteKind::Tcp | RouteKind::Tls | RouteKind::Udp => vec![Some(Found::default())],
        }
    }

    fn has_http(&self, written: &HttpMatch) -> Option<Found> {
        let path = self.has_path(&written.path)?;
        let method = self.method.as_deref().unwrap_or("GET");
        if written.method.as_deref().is_some_and(|wanted| wanted != method) {
            return None;
        }
        self.has_headers(&written.headers)?;
        let parameter = |wanted: &ValueMatch| {
            self.query.get(&*wanted.name).is_some_and(|value| is(wanted.comparison, &wanted.value, value))
        };
        written.query_params.iter().all(parameter).then_some(())?;
        let expressions = [&written.headers, &written.query_params].into_iter().flatten();
        Some(Found {
            has_expression: written.path.comparison == PathComparison::RegularExpression
                || has_expression(expressions),
            ranks: [
                (Criterion::Path, path),
                (Criterion::Method, (written.method.is_some().into(), 0)),
                (Criterion::Headers, (written.headers.len() as u64, 0)),
                (Criterion::Query, (written.query_params.len() as u64, 0)),
                (Criterion::Query, (0, 0)),
            ],
        })
    }

    fn has_path(&self, written: &PathMatch) -> Option<(u64, u64)> {
        let value = &*written.value;
        match written.comparison {
            PathComparison::Exact => (self.path == value).then_some((2, 0)),
            PathComparison::RegularExpression => expression(value)?.is_match(&self.path).then_some((1, 0)),
            PathComparison::PathPrefix => {
                let prefix = value.trim_end_matches('/');
                let rest = self.path.strip_prefix(prefix)?;
                let ends_an_element = rest.is_empty() || rest.starts_with('/');
                ends_an_element.then(|| (0, prefix.chars().count() as u64))
            }
        }
    }

    fn has_grpc(&self, written: &GrpcMatch) -> Option<Found> {
        let (service, method) = self.path.strip_prefix('/')?.split_once('/')?;
        let is_call = !service.is_empty() && !method.is_empty() && !method.contains('/');
        if !is_call || self.method.as_deref().is_some_and(|method| method != "POST") {
            return None;
        }
        self.has_headers(&written.headers)?;
        let name = &written.method;
        let part = |wanted: &Option<Arc<str>>, value: &str| match wanted {
            None => Some(0),
            Some(wanted) => is(name.comparison, wanted, value).then_some(value.chars().count() as u64),
        };
        let (of_service, of_method) = (part(&name.service, service)?, part(&name.method, method)?);
        let is_named = name.service.is_some() || name.method.is_some();
        let is_expression = is_named && name.comparison == Comparison::RegularExpression;
        let class = match (is_named, is_expression) {
            (false, _) => 0,
            (true, true) => 1,
            (true, false) => 2,
        };
        Some(Found {
            has_expression: is_expression || has_expression(written.headers.iter()),
            ranks: [
                (Criterion::Service, (class, of_service)),
                (Criterion::ServiceMethod, (of_method, 0)),
                (Criterion::Headers, (written.headers.len() as u64, 0)),
                (Criterion::Query, (0, 0)),
                (Criterion::Query, (0, 0)),
            ],
        })
    }

    fn has_headers(&self, wanted: &[ValueMatch]) -> Option<()> {
        let is_there = |wanted: &ValueMatch| {
            let values = self.headers.get(&wanted.name.to_ascii_lowercase());
            values.into_iter().flatten().any(|value| is(wanted.comparison, &wanted.value, value))
        };
        wanted.iter().all(is_there).then_some(())
    }
}

/// What a match is worth.
#[derive(Debug)]
struct Found {
    has_expression: bool,
    ranks: [(Criterion, (u64, u64)); 5],
}

impl Default for Found {
    fn default() -> Self {
        Self { has_expression: false, ranks: [(Criterion::Path, (0, 0)); 5] }
    }
}

fn has_expression<'m>(mut values: impl Iterator<Item = &'m ValueMatch>) -> bool {
    values.any(|value| value.comparison == Comparison::RegularExpression)
}

fn is(comparison: Comparison, wanted: &str, value: &str) -> bool {
    match comparison {
        Comparison::Exact => wanted == value,
        Comparison::RegularExpression => {
            expression(wanted).is_some_and(|expression| expression.is_match(value))
        }
    }
}

/// An expression that is for all of a text; none where it cannot be read, which a fault says.
fn expression(text: &str) -> Option<Regex> {
    whole(text).ok()
}
