use serde_json::{Value, json};

use super::super::view::{Rows, View};
use super::*;
use policy_sync_report::Item;
use policy_sync_report::testing::{
    BOTH_CLUSTERS, gateway, gateway_on_two_clusters, gateway_report, gateway_work,
};

fn table(reports: &[GatewayReport], rows: Rows, wide: bool) -> String {
    let items: Vec<Item> = reports.iter().cloned().map(Item::from).collect();
    let view =
        View { rows, namespaces: true, wide, differences: None, item_filter: None, out_of_sync_times: None };
    view.tables(&items, "2026-01-05T06:00:00Z".parse().unwrap(), None)
}

#[test]
fn each_gateway_has_a_row() {
    let all = gateway_on_two_clusters("True");
    let one = gateway_on_two_clusters("False");
    assert!(all.in_sync() && !one.in_sync());
    let stale = gateway_report(&gateway("True", "", 1, BOTH_CLUSTERS), None);
    assert!(!stale.in_sync());
    let many = (1..=5).map(|index| format!("\"eu-{index}\"")).collect::<Vec<_>>().join(",");
    let many = gateway_report(&gateway("True", "", 2, &format!("[{many}]")), None);
    let new = gateway_report(&gateway("True", "", 1, "[]"), Some(&[]));
    insta::assert_snapshot!(table(&[all, one, stale, many, new], Rows::Policies, false), @r"
    NAMESPACE   NAME   CLASS   CLUSTERS                   PROGRAMMED   ACCEPTED   MESSAGE                                                  AGE
    shop        web    multi   eu-1,us-1                  2/2          True       -                                                        4d6h
    shop        web    multi   eu-1,us-1                  1/2          True       not on us-1                                              4d6h
    shop        web    multi   eu-1,us-1                  ?/2          ?          the controller has not reported its current generation   4d6h
    shop        web    multi   eu-1,eu-2,eu-3,eu-4,eu-5   5/5          True       -                                                        4d6h
    shop        web    multi   -                          -            ?          the controller has not reported its current generation   4d6h
    ");
}

#[test]
fn wide_rows_name_addresses_and_clusters_in_grace() {
    let unplaced = [
        gateway_work("eu-1", Some("True"), true, false),
        gateway_work("us-1", None, false, false),
        gateway_work("ap-1", Some("True"), true, true),
    ];
    let unplaced = gateway_report(&gateway("False", "refused", 2, BOTH_CLUSTERS), Some(&unplaced));
    let unread = gateway_report(&gateway("False", "refused", 2, BOTH_CLUSTERS), None);
    insta::assert_snapshot!(table(&[unplaced.clone(), unread], Rows::Policies, true), @r"
    NAMESPACE   NAME   CLASS   CLUSTERS    PROGRAMMED   ACCEPTED   ADDRESSES                       IN GRACE   MESSAGE   AGE
    shop        web    multi   eu-1,us-1   1/2          True       eu-1/192.0.2.1,us-1/192.0.2.2   eu-1       refused   4d6h
    shop        web    multi   eu-1,us-1   ?/2          True       eu-1/192.0.2.1,us-1/192.0.2.2   ?          refused   4d6h
    ");
    let json = unplaced.json();
    assert_eq!(
        json["clusters"][1],
        json!({"cluster": "eu-1", "applied": true, "programmed": true, "deleting": false,
        "displacedSince": "2026-01-05T05:59:00Z", "message": null})
    );
    let names: Vec<_> =
        json["clusters"].as_array().unwrap().iter().map(|cluster| &cluster["cluster"]).collect();
    assert_eq!(names, ["ap-1", "eu-1", "us-1"]);
}

#[test]
fn one_cluster_has_a_row_for_each_present_or_planned_gateway() {
    let here = [gateway_work("us-1", None, false, false), gateway_work("ap-1", Some("True"), true, true)];
    let web = gateway_report(&gateway("False", "refused", 2, BOTH_CLUSTERS), Some(&here));
    let on = |cluster: &str| table(std::slice::from_ref(&web), Rows::OnCluster(cluster.to_owned()), true);
    let all: String = ["eu-1", "us-1", "ap-1"].map(on).concat();
    insta::assert_snapshot!(all, @r#"
    NAMESPACE   NAME   CLASS   APPLIED   PROGRAMMED   ADDRESSES   IN GRACE SINCE   MESSAGE   AGE
    shop        web    multi   no        no           192.0.2.1   -                refused   4d6h
    NAMESPACE   NAME   CLASS   APPLIED   PROGRAMMED   ADDRESSES   IN GRACE SINCE   MESSAGE                   AGE
    shop        web    multi   no        no           192.0.2.2   -                conflict with "kubectl"   4d6h
    NAMESPACE   NAME   CLASS   APPLIED    PROGRAMMED   ADDRESSES   IN GRACE SINCE         MESSAGE                                    AGE
    shop        web    multi   deleting   -            -           2026-01-05T05:59:00Z   the previous copy is still being deleted   4d6h
    "#);
    assert!(web.on("eu-2").is_none());
    let in_sync = |report: &GatewayReport, cluster: &str| report.on(cluster).unwrap().in_sync();
    assert!(
        in_sync(&gateway_on_two_clusters("False"), "eu-1")
            && !in_sync(&gateway_on_two_clusters("False"), "us-1")
            && !in_sync(&web, "eu-1")
    );
    assert_eq!(gateway_on_two_clusters("True").on("us-1").unwrap().json()["addresses"], json!(["192.0.2.2"]));
}

#[test]
fn unreadable_annotation_is_a_fault_with_unknown_clusters() {
    let odd = gateway_report(&gateway("True", "", 2, "{"), None);
    assert!(!odd.in_sync() && odd.on("eu-1").is_some());
    assert_eq!(odd.row.faults.len(), 1);
    assert_eq!(row(&odd, true)[1..3], ["?", "?/?"]);
    assert_eq!(odd.json()["clusters"], Value::Null);
}

#[test]
fn truncated_list_of_clusters_is_unknown() {
    let mut cut = gateway("False", "x", 2, r#"["eu-1"]"#);
    let mut status: Value = cut.status_as();
    status["conditions"][0]["message"] =
        "left out, because they do not fit: 1 clusters in kuadrant.io/gateway-clusters".into();
    cut.status = serde_json::value::to_raw_value(&status).ok();
    let unread = gateway_report(&cut, None);
    assert_eq!((row(&unread, false)[1].as_str(), unread.on("us-1").is_some()), ("?", true));
    let here = [gateway_work("us-1", Some("True"), false, false)];
    assert_eq!(row(&gateway_report(&cut, Some(&here)), false)[1..3], ["us-1", "1/1"]);
}
