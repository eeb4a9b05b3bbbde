use super::*;

fn rows(message: &str) -> Vec<Vec<String>> {
    let row = |cells: [&str; 4]| cells.map(str::to_owned).to_vec();
    vec![
        row(["NAME", "CLUSTERS", "MESSAGE", "AGE"]),
        row(["a-long-name", "eu-1,eu-2,eu-3", message, "5m"]),
        row(["web", "-", "-", "12d"]),
    ]
}

fn fits(text: &str, width: usize) {
    assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
}

#[test]
fn wide_terminal_truncates_nothing() {
    let message = "conflict with \"kubectl\" ".repeat(20);
    let whole = fitted_table(rows(&message), 1, None);
    assert!(whole.contains(message.trim_end()), "{whole}");
    assert_eq!(fitted_table(rows("short"), 1, Some(200)), fitted_table(rows("short"), 1, None));
    // The exact width suffices.
    let width = fitted_table(rows("short"), 1, None).lines().map(|line| line.chars().count()).max().unwrap();
    assert_eq!(fitted_table(rows("short"), 1, Some(width)), fitted_table(rows("short"), 1, None));
    assert_ne!(fitted_table(rows("short"), 1, Some(width - 1)), fitted_table(rows("short"), 1, None));
}

#[test]
fn widest_cells_are_truncated_first_and_names_last() {
    let message = "conflict with \"kubectl\" using v1";
    insta::assert_snapshot!(fitted_table(rows(message), 1, Some(60)), @r#"
    NAME          CLUSTERS         MESSAGE                   AGE
    a-long-name   eu-1,eu-2,eu-3   conflict with "kubectl…   5m
    web           -                -                         12d
    "#);
    insta::assert_snapshot!(fitted_table(rows(message), 1, Some(44)), @r#"
    NAME          CLUSTERS      MESSAGE      AGE
    a-long-name   eu-1,eu-2,…   conflict …   5m
    web           -             -            12d
    "#);
    for width in 36..100 {
        fits(&fitted_table(rows(message), 1, Some(width)), width);
    }
    insta::assert_snapshot!(fitted_table(rows(message), 1, Some(36)), @r"
    NAME        CLUSTERS   MESSAGE   AGE
    a-long-n…   eu-1,eu…   confli…   5m
    web         -          -         12d
    ");
}

#[test]
fn headers_are_never_truncated() {
    let narrowest = fitted_table(rows("conflict"), 1, Some(1));
    assert_eq!(narrowest.lines().next(), Some("NAME   CLUSTERS   MESSAGE   AGE"));
    assert_eq!(fitted_table(Vec::new(), 1, Some(1)), "");
}

#[test]
fn escaped_cell_counts_with_its_printed_width() {
    let text = fitted_table(rows("\u{1b}[2J\n".repeat(9).as_str()), 1, Some(60));
    fits(&text, 60);
    assert_eq!(text.lines().count(), 3, "{text}");
}
