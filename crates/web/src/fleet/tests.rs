use std::sync::Arc;

use super::*;
use policy_sync_api::annotations::Summary;
use policy_sync_api::names::{ClusterName, GroupResource, ObjectKey};
use policy_sync_api::policy_state::PolicyState;
use policy_sync_report::fleet::Cell;

fn column(cluster: &str, out_of_sync: usize) -> Column {
    Column { cluster: ClusterName::from(cluster), unavailable_since: None, out_of_sync }
}

fn row(name: &str, message: Option<&str>, cells: Vec<Option<Cell>>) -> MatrixRow {
    let synced = cells.iter().flatten().all(|cell| cell.in_sync);
    MatrixRow {
        kind: "RateLimitPolicy".to_owned(),
        resource: GroupResource::new("kuadrant.io", "ratelimitpolicies"),
        key: ObjectKey::new("shop", name),
        in_sync: synced && message.is_none(),
        is_annotated: true,
        summary: Some(Summary {
            clusters: 2,
            applied: 1,
            enforced: 1,
            overridden: 0,
            pending: 1,
            synced,
            ..Summary::default()
        }),
        message: message.map(Arc::from),
        cells,
    }
}

fn cell(state: PolicyState, message: Option<&str>) -> Option<Cell> {
    let in_sync = matches!(state, PolicyState::Enforced | PolicyState::Applied | PolicyState::Overridden);
    Some(Cell { state, in_sync, message: message.map(Arc::from) })
}

fn page(query: &str, matrix: Matrix) -> FleetPage {
    FleetPage {
        hub: "Hub https://hub.example.com:6443".to_owned(),
        controller: "kuadrant.io/policy-sync".to_owned(),
        namespace: None,
        notices: Notices::default(),
        kinds: vec!["RateLimitPolicy".to_owned()],
        unlisted: Vec::new(),
        has_classes: true,
        query: FleetQuery::read(query),
        matrix: Ok(matrix),
    }
}

fn sample_matrix() -> Matrix {
    Matrix {
        rows: vec![
            row(
                "limits",
                None,
                vec![cell(PolicyState::Rejected, Some("no room")), cell(PolicyState::Enforced, None)],
            ),
            row("quotas", Some("frozen since today"), vec![cell(PolicyState::Frozen, None), None]),
        ],
        columns: vec![column("eu-1", 1), column("us-1", 0)],
        of: (240, 2),
        policies: 300,
        not_synced: 2,
        clusters: Some(2),
    }
}

#[test]
fn the_page_is_a_table_with_words_and_links() {
    let text = fleet(&page("kind=ratelimitpolicy&not-synced=1", sample_matrix())).into_string();
    // One line for each element makes snapshot differences readable.
    insta::assert_snapshot!(text.replace('>', ">\n"));
}

#[test]
fn fleet_page_escapes_names_and_messages() {
    let evil = "<script>alert(1)</script>\"'&\u{202e}\u{7f}";
    let mut matrix = sample_matrix();
    matrix.rows[0] = row(evil, Some(evil), vec![cell(PolicyState::Rejected, Some(evil)), None]);
    matrix.rows[0].kind = evil.to_owned();
    matrix.columns[0] = column(evil, 1);
    let query = form_urlencoded::Serializer::new(String::new())
        .append_pair("namespace", evil)
        .append_pair("kind", evil)
        .append_pair("clusters", evil)
        .finish();
    let mut shown = page(&query, matrix);
    (shown.hub, shown.controller, shown.kinds) = (evil.to_owned(), evil.to_owned(), vec![evil.to_owned()]);
    shown.notices = Notices {
        watch_errors: vec![evil.to_owned()],
        unread: vec![evil.to_owned()],
        faults: vec![evil.to_owned()],
        is_read_once: true,
    };
    shown.unlisted = vec![evil.to_owned()];
    for has_classes in [true, false] {
        shown.has_classes = has_classes;
        let text = fleet(&shown).into_string();
        assert!(!text.contains("<script>alert") && !text.contains("\"'"), "{text}");
        assert!(!text.contains('\u{202e}') && !text.contains('\u{7f}'), "{text}");
    }
    shown.matrix = Err(evil.to_owned());
    let text = fleet(&shown).into_string();
    assert!(!text.contains("<script>alert") && !text.contains('\u{202e}'), "{text}");
}

#[test]
fn links_to_further_rows_keep_the_filters() {
    let text = fleet(&page("kind=ratelimitpolicy&policy=100", sample_matrix())).into_string();
    assert!(text.contains("Policies: 101 to 102 of 240"), "{text}");
    assert!(text.contains(r#"href="/?kind=ratelimitpolicy""#), "{text}");
    assert!(text.contains(r#"href="/?kind=ratelimitpolicy&amp;policy=102""#), "{text}");
    let past = fleet(&page("policy=1000", Matrix { rows: Vec::new(), ..sample_matrix() })).into_string();
    assert!(past.contains("There are only 240 policies"), "{past}");
}

#[test]
fn empty_table_is_replaced_by_a_sentence() {
    let none = Matrix { clusters: Some(2), ..Matrix::default() };
    let text = |shown: &FleetPage| fleet(shown).into_string();
    let mut shown = page("", none.clone());
    assert!(text(&shown).contains("There is no policy of the kinds RateLimitPolicy yet"));
    shown.namespace = Some("shop".to_owned());
    assert!(text(&shown).contains("of the kinds RateLimitPolicy in namespace shop yet"));
    shown.unlisted = vec!["RateLimitPolicy".to_owned()];
    assert!(
        text(&shown).contains("Still being read: RateLimitPolicy") && !text(&shown).contains("There is no")
    );
    shown.kinds = Vec::new();
    assert!(text(&shown).contains("list no policy kind"));
    shown.has_classes = false;
    assert!(text(&shown).contains("No GatewayClass has"));
    // The user may not read the objects, so they may exist.
    shown = page("", none);
    shown.notices.unread = vec!["RateLimitPolicy: forbidden".to_owned()];
    assert!(text(&shown).contains("Some objects cannot be read") && !text(&shown).contains("There is no"));
    let mut some = page("", Matrix { policies: 3, ..Matrix::default() });
    assert!(text(&some).contains("All are in sync."));
    some.notices.unread = shown.notices.unread.clone();
    assert!(
        text(&some).contains("It is unknown whether there are more")
            && !text(&some).contains("All are in sync.")
    );
    some.notices.unread = Vec::new();
    some.unlisted = vec!["AuthPolicy".to_owned()];
    assert!(
        text(&some).contains("It is unknown whether there are more")
            && !text(&some).contains("All are in sync.")
    );
    let filtered = page("kind=authpolicy", Matrix { policies: 3, ..Matrix::default() });
    assert!(text(&filtered).contains("No policy matches"));
    assert!([&shown, &filtered].into_iter().all(|shown| !text(shown).contains("<table")));
}

#[test]
fn unknown_query_parameters_are_ignored() {
    assert_eq!(FleetQuery::read("x=1&policy=-1&cluster=%ff&not-synced="), FleetQuery::default());
    assert!(FleetQuery::read("clusters=a+in+b").matrix().is_err());
    let read =
        FleetQuery::read("namespace=+shop+&kind=rlp&clusters=region%3Deu&not-synced=1&policy=100&cluster=50");
    let address = read.after(read.skip);
    assert_eq!(FleetQuery::read(address.split_once('?').unwrap().1), read);
}
