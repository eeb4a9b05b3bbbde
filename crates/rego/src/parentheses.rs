//! Separates statements on lines that begin with a parenthesis. The embedded engine parses `x` and `(y)` on two lines
//! as the call `x(y)`, whereas in OPA the parenthesis of a call must be on the same line. The edit inserts a semicolon.

use super::edit::{Edit, offset};

/// Words after which a parenthesis belongs to the same statement.
pub(super) const KEYWORDS: [&str; 14] = [
    "as", "contains", "default", "else", "every", "if", "import", "in", "not", "package", "some", "with",
    "and", "or",
];

/// The edits that insert semicolons into `text`.
pub(super) fn edits(text: &str) -> Vec<Edit> {
    if !text.lines().any(|line| line.trim_start().starts_with('(')) {
        return Vec::new();
    }
    let (mut edits, mut brackets) = (Vec::new(), Vec::new());
    // The end of the last token that is neither blank nor comment, and whether a line ended after that token.
    let (mut end, mut is_new_line, mut at) = (0, false, 0);
    while let Some(next) = text[at..].chars().next() {
        let start = at;
        at += next.len_utf8();
        match next {
            '\n' => is_new_line = true,
            '#' => at = token_end(text, start),
            _ if next.is_whitespace() => {}
            _ => {
                at = token_end(text, start);
                match next {
                    '(' if is_new_line
                        && is_operand(&text[..end])
                        && matches!(brackets.last(), Some('{' | '[')) =>
                    {
                        edits.push(Edit::insert(offset(start), "; ".to_owned()));
                        brackets.push(next);
                    }
                    '(' | '[' | '{' => brackets.push(next),
                    ')' | ']' | '}' => drop(brackets.pop()),
                    _ => {}
                }
                (end, is_new_line) = (at, false);
            }
        }
    }
    edits
}

/// The end of the parentheses that open at `open`.
pub(super) fn closing(text: &str, open: usize) -> Option<usize> {
    let (mut depth, mut at) = (0_usize, open);
    while let Some(next) = text[at..].chars().next() {
        at = token_end(text, at);
        match next {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// The end of the comment, string or other character at `start`.
pub(super) fn token_end(text: &str, start: usize) -> usize {
    let rest = &text[start..];
    let Some(first) = rest.chars().next() else { return start };
    let after = start + first.len_utf8();
    let found = match first {
        '#' => rest.find('\n').map(|end| start + end),
        '`' => text[after..].find('`').map(|end| after + end + 1),
        '"' => return string_end(text, after),
        _ => return after,
    };
    found.unwrap_or(text.len())
}

/// The end of the string whose opening quote ends at `at`. A line break also ends the string.
pub(super) fn string_end(text: &str, at: usize) -> usize {
    let mut chars = text[at..].char_indices();
    while let Some((offset, next)) = chars.next() {
        match next {
            '\\' => drop(chars.next()),
            '"' | '\n' => return at + offset + 1,
            _ => {}
        }
    }
    text.len()
}

/// Whether `before` ends with an operand, which the engine would call as a function.
fn is_operand(before: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let word = &before[before.trim_end_matches(is_part).len()..];
    let is_key = before[..before.len() - word.len()].ends_with('.');
    before.ends_with([']', ')', '}', '"', '`']) || (!word.is_empty() && (is_key || !KEYWORDS.contains(&word)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edit::EditedText;

    #[test]
    fn statement_in_parentheses_on_its_own_line_is_no_argument() {
        for (text, expected) in [
            ("p if {\n\tinput.x\n\t(input.x + 1) == 2\n}", "p if {\n\tinput.x\n\t; (input.x + 1) == 2\n}"),
            ("p { x := f(1) # (\n\n  (x) }", "p { x := f(1) # (\n\n  ; (x) }"),
            ("p := [x | x := input.l[_]\n(x > 1)]", "p := [x | x := input.l[_]\n; (x > 1)]"),
            ("p { x := \"a\\\"(\"\n(x) }", "p { x := \"a\\\"(\"\n; (x) }"),
            ("p { x := `\n(`\n(x) }", "p { x := `\n(`\n; (x) }"),
            ("p { input.in\n(x) }", "p { input.in\n; (x) }"),
        ] {
            assert_eq!(EditedText::new(&text.into(), edits(text)).text().as_ref(), expected);
        }
    }

    #[test]
    fn parentheses_end_where_they_close() {
        for (text, expected) in [
            ("f(\")\", [`)`], {1: (2)}) + (3)", Some(23)),
            ("f(# )\n1)", Some(8)),
            ("f(\"\\\")", None),
            ("f(", None),
            ("f(}", Some(3)),
        ] {
            assert_eq!(closing(text, 1), expected, "{text}");
        }
    }

    #[test]
    fn parentheses_that_follow_no_statement_are_unchanged() {
        for text in [
            "p if {\n\tnot\n\t(input.x)\n}",
            "p if\n(input.x)",
            "p { x :=\n(1 + 2) }",
            "p { f(\n(1)) }",
            "p { x in\n(y) }",
            "p {\n(x)\n}",
            "# x\n(y)",
        ] {
            assert_eq!(edits(text), []);
        }
    }
}
