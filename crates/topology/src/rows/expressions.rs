//! Syntax errors in the regular expressions of a route.

use std::collections::HashMap;
use std::sync::Arc;

use regex_syntax::ast::ErrorKind;
use regex_syntax::ast::parse::Parser;

use super::matches::{Comparison, GrpcMatch, HttpMatch, MethodMatch, PathComparison, ValueMatch, grpc, http};
use super::route::Route;
use super::route_kind::RouteKind;
use crate::fault::Fault;
use policy_sync_api::json::step::Step;
use policy_sync_api::text::excerpt;

/// The maximum number of regular expressions of a route that are checked for errors.
const CHECKED_LIMIT: usize = 64;

/// The syntax errors in the regular expressions of `route` of `kind`: the first of each rule, with its path.
/// The API server accepts such expressions, and implementations treat them as matching nothing.
///
/// Expressions are parsed but not compiled, and only the first 64 distinct expressions of a route are parsed. So no
/// route is expensive to check. A [request](crate::Request) finds expressions that are too large after compilation.
#[must_use]
pub fn invalid_expressions(kind: RouteKind, route: &Route) -> Vec<Fault> {
    let mut checked: HashMap<Arc<str>, bool> = HashMap::new();
    let mut is_wrong = |expression: &Arc<str>| {
        if let Some(is_wrong) = checked.get(expression) {
            return *is_wrong;
        }
        if checked.len() == CHECKED_LIMIT {
            return false;
        }
        let is_wrong = !is_valid_expression(expression);
        checked.insert(expression.clone(), is_wrong);
        is_wrong
    };
    let mut faults = Vec::new();
    for (rule, row) in route.rules.iter().enumerate() {
        let Some(text) = &row.matches else { continue };
        // Most rules have no regular expressions. In JSON, the word `RegularExpression` may be written with escapes.
        if !text.contains("RegularExpression") && !text.contains("\\u") {
            continue;
        }
        let wrong = expressions(kind, text).find(|(.., expression)| is_wrong(expression));
        faults.extend(wrong.map(|(index, place, expression)| {
            let text = format!(
                "{:?} is not a valid RE2 regular expression: it matches nothing",
                excerpt(&expression)
            );
            Fault::new(format!("spec.rules{}.matches{}{place}", Step::Item(rule), Step::Item(index)), text)
        }));
    }
    faults
}

/// Whether `expression` has the syntax of a regular expression. Returns true for expressions that exceed a limit of the
/// parser, such as the limit on nesting.
pub fn is_valid_expression(expression: &str) -> bool {
    match Parser::new().parse(expression) {
        Ok(_) => true,
        Err(error) => {
            matches!(error.kind(), ErrorKind::NestLimitExceeded(_) | ErrorKind::CaptureLimitExceeded)
        }
    }
}

/// The regular expressions in the matches `text` of a rule, each with the index of its match and its place in the
/// match.
fn expressions(kind: RouteKind, text: &str) -> impl Iterator<Item = (usize, String, Arc<str>)> {
    let of_values = |field: &'static str, values: Vec<ValueMatch>| {
        let expressions = values
            .into_iter()
            .enumerate()
            .filter(|(_, value)| value.comparison == Comparison::RegularExpression);
        expressions.map(move |(index, value)| (format!(".{field}{}.value", Step::Item(index)), value.value))
    };
    let of_http = move |written: HttpMatch| -> Vec<(String, Arc<str>)> {
        let path = (written.path.comparison == PathComparison::RegularExpression)
            .then(|| (".path.value".to_owned(), written.path.value));
        let headers = of_values("headers", written.headers);
        path.into_iter().chain(headers).chain(of_values("queryParams", written.query_params)).collect()
    };
    let of_grpc = move |written: GrpcMatch| -> Vec<(String, Arc<str>)> {
        let MethodMatch { comparison, service, method } = written.method;
        let names = [(".method.service", service), (".method.method", method)].into_iter();
        let names = names.filter(|_| comparison == Comparison::RegularExpression);
        let names = names.filter_map(|(place, name)| Some((place.to_owned(), name?)));
        names.chain(of_values("headers", written.headers)).collect()
    };
    let of_matches: Vec<Vec<(String, Arc<str>)>> = match kind {
        RouteKind::Http => http(Some(text)).into_iter().map(of_http).collect(),
        RouteKind::Grpc => grpc(Some(text)).into_iter().map(of_grpc).collect(),
        RouteKind::Tcp | RouteKind::Tls | RouteKind::Udp => Vec::new(),
    };
    of_matches.into_iter().enumerate().flat_map(|(index, expressions)| {
        expressions.into_iter().map(move |(place, expression)| (index, place, expression))
    })
}
