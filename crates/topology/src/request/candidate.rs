//! The matches that apply to a request, and their order of precedence.

use std::cmp::Reverse;
use std::sync::Arc;

use super::verdict::{self, Expressions, MatchResult, NotEvaluated};
use super::{Criterion, Request, has_host, is_of_http, specificity};
use crate::attachment::hosts;
use crate::graph::{Graph, NodeId};
use crate::rows::matches::{self, Comparison, GrpcMatch, HttpMatch, PathComparison, PathMatch, ValueMatch};
use crate::rows::{Created, Listener, Route, RouteKind};

/// A match that applies to the request, or may apply.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) route: NodeId,
    pub(super) rule: NodeId,
    pub(super) has_expression: bool,
    /// The reason why it is unknown whether the match applies.
    pub(super) not_evaluated: Option<NotEvaluated>,
    /// The ranks in the order of the criteria; a greater rank takes precedence.
    ranks: [(Criterion, (u64, u64)); 6],
    age: (Created, String, RouteKind),
    place: (usize, usize),
}

impl Candidate {
    /// The criterion by which this match takes precedence over `other`, a match of another rule.
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

    /// The sort key: the match that takes precedence is the lesser.
    pub(super) fn order(&self) -> impl Ord + '_ {
        let ranks = self.ranks.each_ref().map(|(_, rank)| Reverse(*rank));
        (ranks, &self.age, self.place)
    }
}

impl Request {
    /// The matches of `route`, attached to `listener`, that apply to this request, or may apply.
    pub(super) fn candidates(
        &self,
        graph: &Graph<'_>,
        (listener, kind): (&Listener, RouteKind),
        (node, route): (NodeId, &Route),
        mut expressions: Expressions<'_>,
    ) -> Vec<Candidate> {
        // TCP and UDP have no host.
        let host = self.host.as_deref().filter(|_| is_of_http(kind) || kind == RouteKind::Tls);
        let hostnames = hosts(listener, route);
        let matches_host = |hostname: &&&str| kind == RouteKind::Tcp || has_host(hostname, host);
        let Some(hostname) = hostnames.iter().filter(matches_host).map(|name| specificity(name)).max() else {
            return Vec::new();
        };
        let hostname = (u64::from(hostname.0), hostname.1 as u64);
        let age = (route.created, graph.locator(node).object(), kind);
        let candidate = |rule: NodeId, place: (usize, usize), found: MatchRank| {
            let [first, second, third, fourth, fifth] = found.ranks;
            Candidate {
                route: node,
                rule,
                has_expression: found.has_expression,
                not_evaluated: found.not_evaluated,
                ranks: [(Criterion::Hostname, hostname), first, second, third, fourth, fifth],
                age: age.clone(),
                place,
            }
        };
        let mut candidates = Vec::new();
        for rule in graph.sections(node) {
            let Some(row) = graph.rule(rule) else { continue };
            let place = graph.place(rule);
            for (index, found) in
                self.found(kind, row.matches.as_deref(), &mut expressions).into_iter().enumerate()
            {
                candidates.extend(found.map(|found| candidate(rule, (place, index), found)));
            }
        }
        if route.rules.is_empty() && self.found(kind, None, &mut expressions).iter().any(Option::is_some) {
            candidates.push(candidate(node, (0, 0), MatchRank::default()));
        }
        candidates
    }

    /// The rank of each match of a rule; `None` for a match that does not apply.
    fn found(
        &self,
        kind: RouteKind,
        text: Option<&str>,
        expressions: &mut Expressions<'_>,
    ) -> Vec<Option<MatchRank>> {
        match kind {
            RouteKind::Http => {
                matches::http(text).iter().map(|written| self.has_http(written, expressions)).collect()
            }
            RouteKind::Grpc => {
                matches::grpc(text).iter().map(|written| self.has_grpc(written, expressions)).collect()
            }
            RouteKind::Tcp | RouteKind::Tls | RouteKind::Udp => vec![Some(MatchRank::default())],
        }
    }

    fn has_http(&self, written: &HttpMatch, expressions: &mut Expressions<'_>) -> Option<MatchRank> {
        let mut comparisons = Vec::new();
        let path = self.has_path(&written.path, &mut comparisons)?;
        let method = self.method.as_deref().unwrap_or("GET");
        if written.method.as_deref().is_some_and(|wanted| wanted != method) {
            return None;
        }
        self.has_headers(&written.headers, &mut comparisons)?;
        for wanted in &written.query_params {
            let value = self.query.get(&*wanted.name)?;
            compare(wanted.comparison, &wanted.value, vec![value], &mut comparisons)?;
        }
        MatchRank::new(
            &comparisons,
            expressions,
            [
                (Criterion::Path, path),
                (Criterion::Method, (written.method.is_some().into(), 0)),
                (Criterion::Headers, (written.headers.len() as u64, 0)),
                (Criterion::Query, (written.query_params.len() as u64, 0)),
                (Criterion::Query, (0, 0)),
            ],
        )
    }

    fn has_path<'c>(
        &'c self,
        written: &'c PathMatch,
        comparisons: &mut Vec<verdict::ExpressionValues<'c>>,
    ) -> Option<(u64, u64)> {
        let value = &*written.value;
        match written.comparison {
            PathComparison::Exact => (self.path == value).then_some((2, 0)),
            PathComparison::RegularExpression => {
                comparisons.push((value, vec![&self.path]));
                Some((1, 0))
            }
            PathComparison::PathPrefix => {
                let prefix = value.trim_end_matches('/');
                let rest = self.path.strip_prefix(prefix)?;
                let ends_an_element = rest.is_empty() || rest.starts_with('/');
                ends_an_element.then(|| (0, prefix.chars().count() as u64))
            }
        }
    }

    fn has_grpc(&self, written: &GrpcMatch, expressions: &mut Expressions<'_>) -> Option<MatchRank> {
        let (service, method) = self.path.strip_prefix('/')?.split_once('/')?;
        let is_call = !service.is_empty() && !method.is_empty() && !method.contains('/');
        if !is_call || self.method.as_deref().is_some_and(|method| method != "POST") {
            return None;
        }
        let mut comparisons = Vec::new();
        self.has_headers(&written.headers, &mut comparisons)?;
        let name = &written.method;
        let length = |wanted: &Option<Arc<str>>, value: &str| match wanted {
            None => 0,
            Some(_) => value.chars().count() as u64,
        };
        let (of_service, of_method) = (length(&name.service, service), length(&name.method, method));
        for (wanted, value) in [(&name.service, service), (&name.method, method)] {
            if let Some(wanted) = wanted {
                compare(name.comparison, wanted, vec![value], &mut comparisons)?;
            }
        }
        let is_named = name.service.is_some() || name.method.is_some();
        let class = match (is_named, name.comparison) {
            (false, _) => 0,
            (true, Comparison::RegularExpression) => 1,
            (true, Comparison::Exact) => 2,
        };
        MatchRank::new(
            &comparisons,
            expressions,
            [
                (Criterion::Service, (class, of_service)),
                (Criterion::ServiceMethod, (of_method, 0)),
                (Criterion::Headers, (written.headers.len() as u64, 0)),
                (Criterion::Query, (0, 0)),
                (Criterion::Query, (0, 0)),
            ],
        )
    }

    fn has_headers<'c>(
        &'c self,
        wanted: &'c [ValueMatch],
        comparisons: &mut Vec<verdict::ExpressionValues<'c>>,
    ) -> Option<()> {
        for wanted in wanted {
            let values = self.headers.get(&wanted.name.to_ascii_lowercase())?;
            let values = values.iter().map(String::as_str).collect();
            compare(wanted.comparison, &wanted.value, values, comparisons)?;
        }
        Some(())
    }
}

/// Compares `values` with `wanted`. A regular expression is added to `comparisons`, for evaluation later.
fn compare<'c>(
    comparison: Comparison,
    wanted: &'c str,
    values: Vec<&'c str>,
    comparisons: &mut Vec<verdict::ExpressionValues<'c>>,
) -> Option<()> {
    match comparison {
        Comparison::Exact => values.contains(&wanted).then_some(()),
        Comparison::RegularExpression => {
            comparisons.push((wanted, values));
            Some(())
        }
    }
}

/// The rank of a match that applies.
#[derive(Debug)]
struct MatchRank {
    has_expression: bool,
    not_evaluated: Option<NotEvaluated>,
    ranks: [(Criterion, (u64, u64)); 5],
}

impl MatchRank {
    /// Evaluates the regular expressions of a match whose other conditions hold; `None` if an expression does not
    /// match.
    fn new(
        comparisons: &[verdict::ExpressionValues<'_>],
        expressions: &mut Expressions<'_>,
        ranks: [(Criterion, (u64, u64)); 5],
    ) -> Option<Self> {
        let not_evaluated = match expressions.match_all(comparisons) {
            MatchResult::Yes => None,
            MatchResult::No => return None,
            MatchResult::Unknown(why) => Some(why),
        };
        Some(Self { has_expression: !comparisons.is_empty(), not_evaluated, ranks })
    }
}

impl Default for MatchRank {
    fn default() -> Self {
        Self { has_expression: false, not_evaluated: None, ranks: [(Criterion::Path, (0, 0)); 5] }
    }
}
