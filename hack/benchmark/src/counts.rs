//! Counts requests with the API server's own metrics.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use kube::Client;

/// Number of completed requests for each verb, resource and status code. The numbers are floats, as in Prometheus
/// metrics.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Counts(BTreeMap<[String; 3], f64>);

/// Resources whose requests are counted neither as writes nor as reads: Leases, Events, access reviews.
const APART: [&str; 6] = [
    "leases",
    "events",
    "selfsubjectaccessreviews",
    "selfsubjectreviews",
    "subjectaccessreviews",
    "tokenreviews",
];

impl Counts {
    /// All requests so far, including rejected requests.
    pub(super) async fn now(client: &Client) -> Result<Self> {
        let request =
            http::Request::get("/metrics").body(Vec::new()).context("building the metrics request")?;
        let text = client.request_text(request).await.context("reading the API server's metrics")?;
        Ok(Self::parse(&text))
    }

    fn parse(text: &str) -> Self {
        let mut counts = BTreeMap::new();
        for line in text.lines().filter_map(|line| line.strip_prefix("apiserver_request_total{")) {
            let Some((labels, count)) = line.rsplit_once("} ") else { continue };
            let label = |name: &str| {
                let (_, rest) = labels.split_once(&format!("{name}=\""))?;
                rest.split_once('"').map(|(value, _)| value.to_owned())
            };
            let [Some(verb), Some(resource), Some(code)] = ["verb", "resource", "code"].map(label) else {
                continue;
            };
            *counts.entry([verb, resource, code]).or_default() += count.parse::<f64>().unwrap_or_default();
        }
        Self(counts)
    }

    /// Requests since `before`.
    pub(super) fn since(&self, before: &Self) -> Self {
        let more = |(key, count): (&[String; 3], &f64)| {
            let more = count - before.0.get(key).unwrap_or(&0.0);
            (more > 0.0).then(|| (key.clone(), more))
        };
        Self(self.0.iter().filter_map(more).collect())
    }

    pub(super) fn add(&mut self, others: &Self) {
        for (key, count) in &others.0 {
            *self.0.entry(key.clone()).or_default() += count;
        }
    }

    /// Mutating requests, without Leases, Events and access reviews.
    pub(super) fn writes(&self) -> f64 {
        self.sum(is_write)
    }

    /// Mutating requests for one resource.
    pub(super) fn writes_of(&self, resource: &str) -> f64 {
        self.sum(|verb, of| is_write(verb, of) && of == resource)
    }

    /// Gets and lists of objects.
    pub(super) fn reads(&self) -> f64 {
        self.sum(is_read)
    }

    fn sum(&self, fits: impl Fn(&str, &str) -> bool) -> f64 {
        self.fitting(fits).fold(0.0, |sum, (_, count)| sum + count)
    }

    fn fitting(&self, fits: impl Fn(&str, &str) -> bool) -> impl Iterator<Item = (&[String; 3], f64)> {
        let fitting = self.0.iter().filter(move |([verb, resource, _], _)| fits(verb, resource));
        fitting.map(|(key, count)| (key, *count))
    }

    /// The writes as text: `PATCH manifestworks 200: 100`.
    pub(super) fn describe_writes(&self) -> String {
        self.describe(is_write)
    }

    /// The reads as text.
    pub(super) fn describe_reads(&self) -> String {
        self.describe(is_read)
    }

    fn describe(&self, fits: impl Fn(&str, &str) -> bool) -> String {
        let counted = self
            .fitting(fits)
            .map(|([verb, resource, code], count)| format!("{verb} {resource} {code}: {count}"));
        counted.collect::<Vec<_>>().join(", ")
    }
}

fn is_write(verb: &str, resource: &str) -> bool {
    !matches!(verb, "GET" | "LIST" | "WATCH" | "CONNECT") && !APART.contains(&resource)
}

/// Requests without an object (discovery, health, metrics) have no resource.
fn is_read(verb: &str, resource: &str) -> bool {
    matches!(verb, "GET" | "LIST") && !resource.is_empty() && !APART.contains(&resource)
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS: &str = r#"# TYPE apiserver_request_total counter
apiserver_request_total{code="201",group="g",resource="manifestworks",scope="resource",verb="POST",version="v1"} 7
apiserver_request_total{code="409",group="g",resource="manifestworks",scope="resource",verb="POST",version="v1"} 1
apiserver_request_total{code="200",group="g",resource="manifestworks",scope="cluster",verb="LIST",version="v1"} 3
apiserver_request_total{code="200",group="coordination.k8s.io",resource="leases",scope="resource",verb="PUT",version="v1"} 20
apiserver_request_total{code="200",group="",resource="",scope="",verb="GET",version=""} 11
"#;

    #[test]
    fn writes_include_rejected_requests() {
        assert_eq!(Counts::parse(METRICS).writes(), 8.0);
    }

    #[test]
    fn reads_are_gets_and_lists_of_objects() {
        let counts = Counts::parse(METRICS);
        assert_eq!((counts.reads(), counts.describe_reads().as_str()), (3.0, "LIST manifestworks 200: 3"));
        assert_eq!(counts.writes_of("manifestworks"), 8.0);
        assert_eq!(counts.writes_of("gateways"), 0.0);
    }

    #[test]
    fn since_counts_only_the_difference() {
        let before = Counts::parse(METRICS);
        let after = Counts::parse(&METRICS.replace("} 7", "} 9"));
        assert_eq!(after.since(&before).writes(), 2.0);
        let mut sum = before.clone();
        sum.add(&after.since(&before));
        assert_eq!(sum, after);
        assert_eq!(after.since(&before).describe_writes(), "POST manifestworks 201: 2");
        assert_eq!(before.since(&before), Counts::default());
    }
}
