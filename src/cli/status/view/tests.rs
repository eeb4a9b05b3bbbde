use super::*;
use policy_sync_api::annotations::{
    CLUSTER_OVERRIDES, POLICIES_SYNCED, POLICIES_SYNCED_DETAIL, POLICIES_SYNCED_SUMMARY, POLICY_SYNC_MESSAGE,
};
use policy_sync_api::names::ClusterName;
use policy_sync_report::testing::{CLUSTERS, SUMMARY, report};
use policy_sync_sync::rows::Strings;

const OVERRIDES: &str = r#"[
    {"clusterSelector": "region=us", "patch": {"limits": {"a": {"rate": 5, "burst": {}}, "b c": null}}},
    {"clusterSelector": "region", "patch": {"limits": {"a": {"rate": 6}}}}]"#;

fn with(annotations: &[(&str, &str)]) -> PolicyReport {
    let written = [(POLICIES_SYNCED_SUMMARY, SUMMARY), (POLICIES_SYNCED, CLUSTERS)];
    report(&[&written[..], annotations].concat())
}

fn labels(clusters: &[(&str, &str)]) -> Option<BTreeMap<ClusterName, Strings>> {
    let labels = |region: &str| Strings::from([("region".to_owned(), region.to_owned())]);
    Some(clusters.iter().map(|(name, region)| (ClusterName::from(*name), labels(region))).collect())
}

fn table(report: PolicyReport, rows: Rows, labels: Option<BTreeMap<ClusterName, Strings>>) -> String {
    let view = View {
        rows,
        namespaces: false,
        wide: true,
        differences: Some(Differences::new(labels)),
        item_filter: None,
        out_of_sync_times: None,
    };
    view.tables(&[Item::from(report)], "2026-01-05T06:00:00Z".parse::<Timestamp>().unwrap(), None)
}

#[test]
fn each_cluster_shows_the_fields_that_its_overrides_change() {
    let overridden = with(&[(CLUSTER_OVERRIDES, OVERRIDES)]);
    let labels = labels(&[("us-1", "us"), ("eu-2", "eu")]);
    insta::assert_snapshot!(table(overridden.clone(), Rows::Clusters, labels.clone()), @r#"
    CLUSTER   STATE        APPLIED   ENFORCED   REASON       MESSAGE           DIFFERS
    eu-1      Overridden   yes       False      Overridden   by local/limits   ?
    us-1      Enforced     yes       True       Enforced     -                 limits.a.burst,limits.a.rate,limits["b c"]
    "#);
    insta::assert_snapshot!(table(overridden, Rows::OnCluster("us-1".to_owned()), labels), @r#"
    KIND              NAME     STATE      APPLIED   ENFORCED   REASON     CONDITIONS      FIELDS   MESSAGE   DIFFERS                                      AGE
    RateLimitPolicy   limits   Enforced   yes       True       Enforced   Enforced=True   -        -         limits.a.burst,limits.a.rate,limits["b c"]   4d6h
    "#);
}

#[test]
fn differences_are_unknown_without_labels_or_valid_overrides() {
    let us = || labels(&[("us-1", "us")]);
    let cell = |annotations: &[(&str, &str)], labels| {
        let differences = Some(Differences::new(labels));
        let view = View {
            rows: Rows::Clusters,
            namespaces: false,
            wide: true,
            differences,
            item_filter: None,
            out_of_sync_times: None,
        };
        view.differs(&with(annotations), "us-1").concat()
    };
    assert_eq!(cell(&[], us()), "-");
    assert_eq!(cell(&[(CLUSTER_OVERRIDES, "[]")], us()), "-");
    // The labels of a deleted ManagedCluster are unknown.
    assert_eq!(cell(&[(CLUSTER_OVERRIDES, "[]")], labels(&[("eu-1", "eu")])), "?");
    let empty = |patch: &str| format!(r#"[{{"clusterSelector": "", "patch": {patch}}}]"#);
    assert_eq!(cell(&[(CLUSTER_OVERRIDES, &empty("{}"))], us()), "-");
    assert_eq!(cell(&[(CLUSTER_OVERRIDES, &empty(r#"{"a": {}}"#))], us()), "a");
    assert_eq!(cell(&[(CLUSTER_OVERRIDES, OVERRIDES)], labels(&[])), "?", "a cluster that is gone");
    assert_eq!(cell(&[(CLUSTER_OVERRIDES, OVERRIDES)], None), "?", "labels may not be read");
    assert_eq!(cell(&[(CLUSTER_OVERRIDES, "nonsense")], us()), "?");
    let refused =
        "annotation kuadrant.io/cluster-overrides[0].patch.limits: expected a list, found an object";
    assert_eq!(cell(&[(CLUSTER_OVERRIDES, OVERRIDES), (POLICY_SYNC_MESSAGE, refused)], us()), "?");
    let other = "the reference to Gateway bank/web is dropped";
    let places = "limits.a.burst,limits.a.rate,limits[\"b c\"]";
    assert_eq!(cell(&[(CLUSTER_OVERRIDES, OVERRIDES), (POLICY_SYNC_MESSAGE, other)], us()), places);
}

#[test]
fn truncated_list_ends_with_unknown_differences() {
    let keys = r#"[{"cluster":"us-1","name":"limits","namespace":"kuadrant-shop"}]"#;
    let cut = report(&[
        (POLICIES_SYNCED_SUMMARY, &SUMMARY.replace("\"clusters\":2", "\"clusters\":9")),
        (POLICIES_SYNCED, keys),
        (POLICIES_SYNCED_DETAIL, "first 1 of 9"),
        (CLUSTER_OVERRIDES, r#"[{"clusterSelector": "", "patch": {"limits": null}}]"#),
    ]);
    insta::assert_snapshot!(table(cut, Rows::Clusters, labels(&[("us-1", "us")])), @r"
    CLUSTER   STATE   APPLIED   ENFORCED   REASON   MESSAGE   DIFFERS
    us-1      ?       ?         ?          ?        ?         limits
    +8 more   ?       ?         ?          ?        ?         ?
    ");
}
