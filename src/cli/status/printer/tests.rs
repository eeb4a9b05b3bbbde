use super::super::view::Rows;
use super::*;
use policy_sync_api::annotations::{POLICIES_SYNCED, POLICIES_SYNCED_SUMMARY, POLICY_SYNC_MESSAGE};
use policy_sync_report::PolicyReport;
use policy_sync_report::testing::{CLUSTERS, SUMMARY, gateway_on_two_clusters, report};

fn printer(rows: Rows, format: Format) -> Printer {
    Printer::new(
        View {
            rows,
            namespaces: false,
            wide: false,
            differences: None,
            item_filter: None,
            out_of_sync_times: None,
        },
        format,
        None,
    )
}

fn synced(message: Option<&str>) -> PolicyReport {
    let mut annotations = vec![(POLICIES_SYNCED_SUMMARY, SUMMARY), (POLICIES_SYNCED, CLUSTERS)];
    annotations.extend(message.map(|message| (POLICY_SYNC_MESSAGE, message)));
    report(&annotations)
}

fn update(printer: &mut Printer, report: Option<PolicyReport>, now: &str) -> PrinterOutput {
    let key = Item::from(synced(None)).key();
    printer.update([(key, report.map(Item::from))], now.parse().unwrap()).unwrap()
}

const NOW: &str = "2026-01-05T06:00:00Z";
const LATER: &str = "2026-01-09T06:00:00Z";

#[test]
fn row_is_printed_when_it_changes_but_not_when_it_only_ages() {
    let mut printer = printer(Rows::Policies, Format::Table);
    let first = update(&mut printer, Some(synced(None)), NOW).printed;
    assert_eq!(first.lines().count(), 2, "{first}");
    assert_eq!(update(&mut printer, Some(synced(None)), LATER), PrinterOutput::default());
    let frozen = update(&mut printer, Some(synced(Some("frozen"))), LATER).printed;
    insta::assert_snapshot!(format!("{first}{frozen}"), @r"
    KIND              NAME     STATE        CLUSTERS   ENFORCED   OVERRIDDEN   MESSAGE                             AGE
    RateLimitPolicy   limits   Overridden   2/2        1/2        eu-1         eu-1: Overridden: by local/limits   4d6h
    RateLimitPolicy   limits   Overridden   2/2        1/2        eu-1         frozen                              8d
    ");
}

#[test]
fn deleted_item_is_printed_once() {
    let mut table = printer(Rows::Policies, Format::Table);
    update(&mut table, Some(synced(None)), NOW);
    let gone = update(&mut table, None, NOW).printed;
    assert_eq!(
        gone.split_whitespace().collect::<Vec<_>>(),
        ["RateLimitPolicy", "limits", "gone", "-", "-", "-", "-", "-"]
    );
    assert_eq!(update(&mut table, None, NOW), PrinterOutput::default());

    let mut json = printer(Rows::Policies, Format::Json);
    update(&mut json, Some(synced(None)), NOW);
    let gone: Value = serde_json::from_str(&update(&mut json, None, NOW).printed).unwrap();
    assert_eq!((&gone["name"], &gone["gone"]), (&json!("limits"), &json!(true)));
    assert_eq!(update(&mut json, None, NOW), PrinterOutput::default());
}

#[test]
fn only_changed_clusters_are_printed() {
    let mut printer = printer(Rows::Clusters, Format::Wide);
    assert_eq!(update(&mut printer, Some(synced(None)), NOW).printed.lines().count(), 3);
    let summary = SUMMARY.replace("\"clusters\":2", "\"clusters\":1");
    let only_us = r#"[{"cluster":"us-1","name":"limits","namespace":"kuadrant-shop","applied":false}]"#;
    let changed = report(&[(POLICIES_SYNCED_SUMMARY, &summary), (POLICIES_SYNCED, only_us)]);
    let printed = update(&mut printer, Some(changed), NOW).printed;
    let words: Vec<Vec<&str>> =
        printed.lines().map(|line| line.split_whitespace().take(2).collect()).collect();
    assert_eq!(words, [["us-1", "Pending"], ["eu-1", "gone"]]);
}

#[test]
fn policy_no_longer_planned_for_the_cluster_is_gone() {
    for format in [Format::Table, Format::Json] {
        let mut printer = printer(Rows::OnCluster("eu-1".into()), format);
        assert!(update(&mut printer, Some(report(&[])), NOW).printed.is_empty());
        assert!(update(&mut printer, Some(synced(None)), NOW).printed.contains("Overridden"));
        assert!(update(&mut printer, Some(report(&[])), NOW).printed.contains("gone"));
    }
}

#[test]
fn change_is_a_json_line_or_a_yaml_document() {
    let mut json = printer(Rows::Policies, Format::Json);
    let both = update(&mut json, Some(synced(None)), NOW).printed
        + &update(&mut json, Some(report(&[])), NOW).printed;
    let documents: Vec<Value> = both.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((documents.len(), &documents[1]["clusters"]), (2, &Value::Null));

    let mut yaml = printer(Rows::Policies, Format::Yaml);
    let both = update(&mut yaml, Some(synced(None)), NOW).printed
        + &update(&mut yaml, Some(report(&[])), NOW).printed;
    let documents: Vec<Value> = serde_saphyr::from_multiple(&both).unwrap();
    assert_eq!((documents.len(), &documents[0]["name"]), (2, &json!("limits")));
}

#[test]
fn fault_is_reported_when_it_appears() {
    let mut printer = printer(Rows::Policies, Format::Table);
    let broken = || report(&[(POLICIES_SYNCED_SUMMARY, SUMMARY), (POLICIES_SYNCED, "[")]);
    assert_eq!(update(&mut printer, Some(broken()), NOW).diagnostics.len(), 1);
    assert_eq!(update(&mut printer, Some(broken()), NOW), PrinterOutput::default());
    update(&mut printer, Some(synced(None)), NOW);
    assert_eq!(update(&mut printer, Some(broken()), NOW).diagnostics.len(), 1);
}

#[test]
fn note_is_printed_once() {
    let mut printer = printer(Rows::Policies, Format::Table).with_note("no clusters");
    assert_eq!(update(&mut printer, Some(synced(None)), NOW).diagnostics, ["no clusters"]);
    assert_eq!(update(&mut printer, Some(synced(Some("frozen"))), NOW).diagnostics, Vec::<String>::new());
}

#[test]
fn rows_of_another_table_follow_its_headers() {
    let mut printer = printer(Rows::Policies, Format::Table);
    let web = Item::from(gateway_on_two_clusters("True"));
    let news_of = |printer: &mut Printer, items: Vec<Item>| {
        let items = items.into_iter().map(|item| (item.key(), Some(item)));
        printer.update(items, NOW.parse().unwrap()).unwrap().printed
    };
    let both = news_of(&mut printer, vec![synced(None).into(), web.clone()]);
    let more = news_of(&mut printer, vec![synced(Some("frozen")).into()]);
    let again = news_of(&mut printer, vec![gateway_on_two_clusters("False").into()]);
    insta::assert_snapshot!(format!("{both}{more}{again}"), @r"
    NAME   CLASS   CLUSTERS    PROGRAMMED   ACCEPTED   MESSAGE   AGE
    web    multi   eu-1,us-1   2/2          True       -         4d6h

    KIND              NAME     STATE        CLUSTERS   ENFORCED   OVERRIDDEN   MESSAGE                             AGE
    RateLimitPolicy   limits   Overridden   2/2        1/2        eu-1         eu-1: Overridden: by local/limits   4d6h
    RateLimitPolicy   limits   Overridden   2/2        1/2        eu-1         frozen                              4d6h

    NAME   CLASS   CLUSTERS    PROGRAMMED   ACCEPTED   MESSAGE       AGE
    web    multi   eu-1,us-1   1/2          True       not on us-1   4d6h
    ");
}

#[test]
fn terminal_is_redrawn_with_all_items() {
    let view = View {
        rows: Rows::Policies,
        namespaces: false,
        wide: false,
        differences: None,
        item_filter: None,
        out_of_sync_times: None,
    };
    let mut printer = Printer::new(view, Format::Table, Some(|| None)).with_note("no clusters");
    let web = Item::from(gateway_on_two_clusters("True"));
    let first = printer.update([(web.key(), Some(web.clone()))], NOW.parse().unwrap()).unwrap();
    assert!(first.printed.starts_with(CLEAR), "{first:?}");
    let broken = || report(&[(POLICIES_SYNCED_SUMMARY, SUMMARY), (POLICIES_SYNCED, "[")]);
    let both = update(&mut printer, Some(broken()), NOW);
    assert_eq!(both.diagnostics, Vec::<String>::new());
    insta::assert_snapshot!(both.printed.strip_prefix(CLEAR).unwrap(), @r"
    NAME   CLASS   CLUSTERS    PROGRAMMED   ACCEPTED   MESSAGE   AGE
    web    multi   eu-1,us-1   2/2          True       -         4d6h

    KIND              NAME     STATE   CLUSTERS   ENFORCED   OVERRIDDEN   MESSAGE   AGE
    RateLimitPolicy   limits   ?       2/2        1/2        ?            -         4d6h

    RateLimitPolicy shop/limits: annotation kuadrant.io/policies-synced: EOF while parsing a list at line 1 column 1
    no clusters
    ");
    // A row in which only the age changes is not redrawn. A deleted row disappears from the screen.
    assert_eq!(update(&mut printer, Some(broken()), LATER), PrinterOutput::default());
    let gone = update(&mut printer, None, NOW).printed;
    assert!(!gone.contains("limits") && gone.contains("web"), "{gone}");
}
