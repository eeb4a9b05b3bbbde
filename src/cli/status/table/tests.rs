mod copies;

use super::super::view::{Rows, View};
use super::*;
use policy_sync_api::annotations::{
    POLICIES_SYNCED, POLICIES_SYNCED_DETAIL, POLICIES_SYNCED_SUMMARY, POLICY_SYNC_MESSAGE,
};
use policy_sync_report::Item;
use policy_sync_report::testing::{CLUSTERS, SUMMARY, report};

fn table(reports: &[PolicyReport], rows: Rows, wide: bool) -> String {
    let view =
        View { rows, namespaces: true, wide, differences: None, item_filter: None, out_of_sync_times: None };
    let items: Vec<Item> = reports.iter().cloned().map(Item::from).collect();
    view.tables(&items, "2026-01-05T06:00:00Z".parse().unwrap(), None)
}

fn on(cluster: &str) -> Rows {
    Rows::OnCluster(cluster.to_owned())
}

fn synced(message: &str) -> PolicyReport {
    report(&[(POLICIES_SYNCED_SUMMARY, SUMMARY), (POLICIES_SYNCED, CLUSTERS), (POLICY_SYNC_MESSAGE, message)])
}

#[test]
fn each_policy_has_a_row() {
    let reports = [
        synced("a long message that says why, where and what to change, and is whole in a pipe"),
        report(&[]),
        report(&[(POLICIES_SYNCED_SUMMARY, "?"), (POLICIES_SYNCED, "?")]),
    ];
    insta::assert_snapshot!(table(&reports, Rows::Policies, false), @r"
    NAMESPACE   KIND              NAME     STATE        CLUSTERS   ENFORCED   OVERRIDDEN   MESSAGE                                                                          AGE
    shop        RateLimitPolicy   limits   Overridden   2/2        1/2        eu-1         a long message that says why, where and what to change, and is whole in a pipe   4d6h
    shop        RateLimitPolicy   limits   -            -          -          -            -                                                                                4d6h
    shop        RateLimitPolicy   limits   ?            ?          ?          ?            -                                                                                4d6h
    ");
}

#[test]
fn single_policy_has_a_row_for_each_cluster() {
    let failing = r#"[
        {"cluster":"eu-1","name":"l","namespace":"n","applied":false,"message":"conflict with \"kubectl\""},
        {"cluster":"eu-2","name":"l","namespace":"n","applied":true,"pending":true},
        {"cluster":"eu-3","name":"l","namespace":"n","deleting":true},
        {"cluster":"eu-4","name":"l","namespace":"n","applied":true,
         "conditions":[{"type":"Accepted","status":"False","reason":"Invalid","message":"no such gateway"}]},
        {"cluster":"eu-5","name":"l","namespace":"n","applied":true,
         "conditions":[{"type":"Enforced","status":"False","reason":"Overridden","message":"by local/limits"}]}]"#;
    let failing = report(&[(POLICIES_SYNCED_SUMMARY, SUMMARY), (POLICIES_SYNCED, failing)]);
    insta::assert_snapshot!(table(&[failing], Rows::Clusters, true), @r#"
    CLUSTER   STATE        APPLIED    ENFORCED   REASON                    MESSAGE
    eu-1      NotApplied   no         -          -                         conflict with "kubectl"
    eu-2      Pending      yes        pending    -                         -
    eu-3      Removing     deleting   -          -                         -
    eu-4      Rejected     yes        -          Accepted=False: Invalid   no such gateway
    eu-5      Overridden   yes        False      Overridden                by local/limits
    "#);
}

#[test]
fn cell_names_ten_clusters_unless_wide() {
    let entry = |index: usize| {
        format!(
            r#"{{"cluster":"eu-{index}","name":"l","namespace":"n","applied":true,
                "conditions":[{{"type":"Enforced","status":"False","reason":"Overriden"}}]}}"#
        )
    };
    let list = format!("[{}]", (1..=12).map(entry).collect::<Vec<_>>().join(","));
    let report = report(&[(POLICIES_SYNCED_SUMMARY, SUMMARY), (POLICIES_SYNCED, &list)]);
    let ten = "eu-1,eu-2,eu-3,eu-4,eu-5,eu-6,eu-7,eu-8,eu-9,eu-10";
    assert_eq!(overridden(&report, false), format!("{ten},+2"));
    assert_eq!(overridden(&report, true), format!("{ten},eu-11,eu-12"));
}

#[test]
fn shortened_list_shows_the_counts_of_the_summary() {
    let keys = r#"[{"cluster":"eu-1","name":"limits","namespace":"kuadrant-shop"}]"#;
    let report = report(&[
        (POLICIES_SYNCED_SUMMARY, SUMMARY),
        (POLICIES_SYNCED, keys),
        (POLICIES_SYNCED_DETAIL, "keys"),
    ]);
    assert_eq!(overridden(&report, false), "(1)");
    assert_eq!(clusters(&report, |_| true)[0].state, ["?"; 5]);
}

#[test]
fn truncated_list_ends_with_the_number_of_other_clusters() {
    let keys = r#"[{"cluster":"eu-1","name":"limits","namespace":"kuadrant-shop"}]"#;
    let report = report(&[
        (POLICIES_SYNCED_SUMMARY, &SUMMARY.replace("\"clusters\":2", "\"clusters\":9")),
        (POLICIES_SYNCED, keys),
        (POLICIES_SYNCED_DETAIL, "first 1 of 9"),
    ]);
    insta::assert_snapshot!(table(&[report], Rows::Clusters, true), @r"
    CLUSTER   STATE   APPLIED   ENFORCED   REASON   MESSAGE
    eu-1      ?       ?         ?          ?        ?
    +8 more   ?       ?         ?          ?        ?
    ");
}

#[test]
fn one_cluster_has_a_row_for_each_policy() {
    let list = r#"[{"cluster":"eu-1","name":"l","namespace":"n","applied":true,"fields":{"generation":2,"who":"me"},
        "conditions":[{"type":"Accepted","status":"True","reason":"Accepted"},
                      {"type":"Enforced","status":"False","reason":"Overridden","message":"by local/limits"}]}]"#;
    let list_of_conflict =
        r#"[{"cluster":"eu-1","name":"l","namespace":"n","pending":true,"message":"conflict"}]"#;
    let one = SUMMARY.replace("\"clusters\":2", "\"clusters\":1");
    let with = |list: &str, detail: &str| {
        report(&[(POLICIES_SYNCED_SUMMARY, &one), (POLICIES_SYNCED, list), (POLICIES_SYNCED_DETAIL, detail)])
    };
    let silent = r#"[{"cluster":"eu-1","name":"l","namespace":"n","applied":true}]"#;
    let reports = [
        with(list, "full"),
        with(list_of_conflict, "full"),
        with(silent, "full"),
        with(silent, "minimal"),
        with(silent, "keys"),
    ];
    insta::assert_snapshot!(table(&reports, on("eu-1"), true), @r#"
    NAMESPACE   KIND              NAME     STATE        APPLIED   ENFORCED   REASON       CONDITIONS                     FIELDS                  MESSAGE           AGE
    shop        RateLimitPolicy   limits   Overridden   yes       False      Overridden   Accepted=True,Enforced=False   generation=2,who="me"   by local/limits   4d6h
    shop        RateLimitPolicy   limits   NotApplied   no        pending    -            -                              -                       conflict          4d6h
    shop        RateLimitPolicy   limits   Unknown      yes       -          -            -                              -                       -                 4d6h
    shop        RateLimitPolicy   limits   Enforced     yes       ?          -            ?                              ?                       -                 4d6h
    shop        RateLimitPolicy   limits   Enforced     ?         ?          ?            ?                              ?                       ?                 4d6h
    "#);
    assert_eq!(on_cluster(reports[0].on("eu-1").unwrap(), false).len(), 5);
}

#[test]
fn texts_of_spokes_are_escaped() {
    let evil = "\u{1b}[2J\r\nNAMESPACE\u{9b}\u{202e}";
    let list = serde_json::json!([{"cluster": evil, "name": "l", "namespace": "n", "message": evil,
        "fields": {(evil): evil}, "conditions": [{"type": "Enforced", "status": evil, "reason": evil, "message": evil}]}]);
    let report = report(&[
        (POLICIES_SYNCED_SUMMARY, SUMMARY),
        (POLICIES_SYNCED, &list.to_string()),
        (POLICY_SYNC_MESSAGE, evil),
    ]);
    for rows in [on(evil), Rows::Clusters, Rows::Policies] {
        let text = table(std::slice::from_ref(&report), rows, true);
        assert_eq!(text.lines().count(), 2, "{text:?}");
        assert!(!text.chars().any(|c| (c.is_control() && c != '\n') || c == '\u{202e}'), "{text:?}");
    }
}

#[test]
fn ages_have_the_format_of_kubectl() {
    let now: Timestamp = "2026-06-01T00:00:00Z".parse().unwrap();
    let ago = |seconds: i64| age(Timestamp::from_second(now.as_second() - seconds).unwrap(), now);
    let expected = [
        (-5, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (130, "2m10s"),
        (601, "10m"),
        (3 * 3600 + 61, "3h1m"),
        (47 * 3600, "47h"),
        (3 * 86400 + 7200, "3d2h"),
        (100 * 86400, "100d"),
        (3 * 365 * 86400, "3y"),
    ];
    for (seconds, text) in expected {
        assert_eq!(ago(seconds), text, "{seconds}");
    }
}
