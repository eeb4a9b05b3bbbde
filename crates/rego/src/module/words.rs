//! Parses modules in which a keyword is the first name of a rule, for example `if.foo := 1`. OPA parses a keyword as a
//! name if it begins a rule or a statement and is followed by `.` or `[`.
//!
//! In the tree, a head has a placeholder instead of the keyword, and a statement has the whole path of the rule:
//!
//! ```text
//! package a
//!
//! policysync_word_if.foo := 1
//!
//! p if data.a.if.foo == 1
//! ```
//!
//! The embedded engine parses such rules as rules of the package `a.if` ([`package_texts`](crate::package_texts)).
//! Therefore such rules refer to the other rules of the package `a` by whole paths, too.

use std::collections::BTreeSet;

use regorus::Value;
use regorus::unstable::{Expr, Module as Tree, Rule, RuleHead};

use super::repairs::{self, Parsed, Unparsed};
use super::{ModuleId, Syntax, is_name};
use crate::check::{argument_names, declared};
use crate::edit::{Edit, EditedText, offset, place_of};
use crate::fault::Fault;
use crate::parentheses::{KEYWORDS as STATEMENT_KEYWORDS, token_end};
use crate::tree::{self, WORD};

/// All keywords. `contains` is a name unless an element follows.
const KEYWORDS: [&str; 15] = [
    "as", "contains", "default", "else", "every", "false", "if", "import", "in", "not", "null", "package",
    "some", "true", "with",
];

/// A keyword that is a name.
struct KeywordName<'t> {
    at: usize,
    keyword: &'t str,
    /// Whether a rule begins with the keyword.
    is_head: bool,
}

/// The keywords in `text` that are names.
fn keyword_names(text: &str) -> Vec<KeywordName<'_>> {
    let is_part = |next: char| next.is_ascii_alphanumeric() || next == '_';
    let (mut words, mut depth, mut at) = (Vec::new(), 0_usize, 0);
    // The previous token, and whether a line ended after it.
    let (mut before, mut is_new_line) = ("", false);
    while let Some(next) = text[at..].chars().next() {
        let start = at;
        if is_part(next) {
            at += text[at..].find(|next| !is_part(next)).unwrap_or(text.len() - at);
            let (word, is_reference) = (&text[start..at], text[at..].starts_with(['.', '[']));
            let is_head = depth == 0 && before != "if";
            let is_start = match before {
                "if" => true,
                "{" | "|" | ";" => depth > 0,
                "default" | "}" if depth == 0 => true,
                _ => is_new_line && ends_statement(before),
            };
            if is_reference && is_start && word != "contains" && KEYWORDS.contains(&word) {
                words.push(KeywordName { at: start, keyword: word, is_head });
            }
            // After a dot, the word is a key and not a keyword.
            before = if before == "." { "\"" } else { word };
            is_new_line = false;
            continue;
        }
        at = token_end(text, start);
        match next {
            '\n' => is_new_line = true,
            '#' => {}
            _ if next.is_whitespace() => {}
            _ => {
                match next {
                    '(' | '[' | '{' => depth += 1,
                    ')' | ']' | '}' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                (before, is_new_line) = (&text[start..start + next.len_utf8()], false);
            }
        }
    }
    words
}

/// Whether a statement may end after the token `before`.
fn ends_statement(before: &str) -> bool {
    match before.chars().next() {
        Some(']' | '}' | ')' | '"' | '`') => true,
        Some(first) if first.is_ascii_alphanumeric() || first == '_' => !STATEMENT_KEYWORDS.contains(&before),
        _ => false,
    }
}

/// Parses `read`, in which keywords are names. Also returns the changed text. `None` if no keyword is a name.
///
/// # Errors
///
/// If the text does not parse, or the engine cannot parse a rule with such a name.
pub(super) fn parsed(
    id: &ModuleId,
    read: &EditedText,
    parse: &dyn Fn(&EditedText) -> Result<Parsed, Unparsed>,
) -> Option<Result<(EditedText, Parsed), Fault>> {
    let words = keyword_names(read.source());
    (!words.is_empty()).then(|| with_keyword_names(id, read, &words, parse))
}

fn with_keyword_names(
    id: &ModuleId,
    read: &EditedText,
    words: &[KeywordName<'_>],
    parse: &dyn Fn(&EditedText) -> Result<Parsed, Unparsed>,
) -> Result<(EditedText, Parsed), Fault> {
    let source = read.source();
    let fault = |at: usize, text: &str| Fault::new(id, place_of(source, at), text);
    let edit = |word: &KeywordName<'_>, text: String| Edit {
        start: offset(word.at),
        end: offset(word.at + word.keyword.len()),
        text,
    };
    let placeholders: Vec<Edit> =
        words.iter().map(|word| edit(word, format!("{WORD}{}", word.keyword))).collect();
    let (first, parsed) = repairs::parsed(read.and(&placeholders), parse)?;
    let package = tree::constants(&parsed.tree.package.refr);
    let heads: BTreeSet<&str> = words.iter().filter(|word| word.is_head).map(|word| word.keyword).collect();
    if let Some(word) = words.iter().find(|word| !heads.contains(word.keyword)) {
        let path = path_in_data(package.iter().map(String::as_str).chain([word.keyword]));
        let text = format!(
            "variable {0} is unsafe: this module has no rule {0}: write {path} for one of another module",
            word.keyword
        );
        return Err(fault(word.at, &text));
    }
    let mut edits: Vec<Edit> = words
        .iter()
        .map(|word| {
            let path = package.iter().map(String::as_str).chain([word.keyword]);
            edit(word, if word.is_head { format!("{WORD}{}", word.keyword) } else { path_in_data(path) })
        })
        .collect();
    for reference in unqualified(&parsed.tree) {
        let at = match first.source_offset(reference.start) {
            Some(at) if *parsed.text == **first.text() => at,
            _ => {
                return Err(fault(
                    0,
                    "rules whose names begin with a keyword need whole paths: write data.PACKAGE. before the names of other rules",
                ));
            }
        };
        edits.push(Edit::insert(at, path_in_data(package.iter().map(String::as_str)) + "."));
    }
    let (read, parsed) = repairs::parsed(read.and(&edits), parse)?;
    for rule in &parsed.tree.policy {
        if let Some(text) = unreadable(&parsed, rule) {
            let place = super::place(tree::start(tree::reference(rule)));
            return Err(Fault::new(id, read.original(place), text));
        }
    }
    Ok((read, parsed))
}

/// `data` and the path of a rule or a package, as Rego text.
fn path_in_data<'p>(path: impl Iterator<Item = &'p str>) -> String {
    let mut text = "data".to_owned();
    for part in path {
        if is_name(part) {
            text.push('.');
            text.push_str(part);
        } else {
            text.push_str(&format!("[{}]", Value::from(part)));
        }
    }
    text
}

/// References to rules of the module by a name without a path. Only references in rules whose names begin with a
/// keyword are returned.
fn unqualified(tree: &Tree) -> Vec<&regorus::unstable::Span> {
    let constants = |rule| tree::constants(tree::reference(rule));
    let names: BTreeSet<String> =
        tree.policy.iter().filter_map(|rule| constants(rule).into_iter().next()).collect();
    let mut found = Vec::new();
    for rule in tree.policy.iter().filter(|rule| begins_with_keyword(rule)) {
        let variables = declared(rule);
        tree::each_root(rule, &mut |root| {
            if names.contains(root.text()) && !variables.contains(root.text()) {
                found.push(root);
            }
        });
    }
    found
}

/// Whether the name of `rule` begins with a keyword.
pub(crate) fn begins_with_keyword(rule: &Rule) -> bool {
    tree::start(tree::reference(rule)).text().starts_with(WORD)
}

/// The keywords at the start of the name of `rule`, and the name after them: `["if"]` and `foo` for `if.foo.bar`.
pub(crate) fn split(rule: &Rule) -> Option<(Vec<String>, &str)> {
    let (Expr::Var { span, .. }, _) = tree::steps(tree::reference(rule)) else { return None };
    let mut keywords = vec![span.text().strip_prefix(WORD)?.to_owned()];
    let mut fields = Vec::new();
    let mut expr = tree::reference(rule);
    loop {
        match expr {
            Expr::RefDot { refr, field, .. } => {
                fields.push(Some(field.0.text()));
                expr = refr;
            }
            Expr::RefBrack { refr, .. } => {
                fields.push(None);
                expr = refr;
            }
            _ => break,
        }
    }
    for field in fields.into_iter().rev() {
        match field? {
            keyword if KEYWORDS.contains(&keyword) => keywords.push(keyword.to_owned()),
            "data" | "input" => return None,
            name => return Some((keywords, name)),
        }
    }
    None
}

/// Why the engine cannot parse `rule`, whose name may begin with a keyword.
fn unreadable(parsed: &Parsed, rule: &Rule) -> Option<String> {
    if !begins_with_keyword(rule) {
        return None;
    }
    let keyword = tree::constants(tree::reference(rule)).into_iter().next()?;
    let Some((_, _)) = split(rule) else {
        return Some(format!(
            "after the keyword {keyword}, the path of this rule has no other name: write {keyword}.NAME"
        ));
    };
    // In the older syntax, a rule with a shorter path and without a value has another meaning.
    let is_plain = match rule {
        Rule::Spec { head: RuleHead::Compr { assign, .. }, .. } => {
            assign.is_some() || parsed.syntax == Syntax::V1
        }
        Rule::Spec { head: RuleHead::Set { refr, key, .. }, .. } => {
            key.is_some() && !matches!(refr.as_ref(), Expr::Var { .. })
        }
        Rule::Spec { head: RuleHead::Func { .. }, .. } | Rule::Default { .. } => true,
    };
    if !is_plain {
        return Some(format!(
            "the name of this rule begins with the keyword {keyword}: give it a value with :="
        ));
    }
    // The variables of `rule` must not have the names of rules, because rules are referred to by whole paths.
    let names: BTreeSet<String> = parsed
        .tree
        .policy
        .iter()
        .filter_map(|rule| tree::constants(tree::reference(rule)).into_iter().next())
        .collect();
    let arguments = argument_names(rule);
    let mut variables = declared(rule).into_iter().filter(|name| !arguments.contains(name));
    variables.find(|name| names.contains(*name)).map(|name| {
        format!("the variable {name} of this rule, whose name begins with the keyword {keyword}, has the name of another rule: rename it")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::module::{Module, Text};

    #[test]
    fn keywords_are_names_where_a_rule_or_a_statement_begins() {
        for (text, expected) in [
            ("package a\nif.x := 1", "if!"),
            ("package a\np := 1\nin.x := 1\ndefault default.x := 2", "in! default!"),
            ("package a\np if if.x\nq if { not.x; with[1]\nin.x == 2\n}", "if not with in"),
            ("package a\np := [y | some.x == y\nnull.x] else.x := 2", "some null"),
            ("package a\np if { false } else.x := 2", "else!"),
            ("package a\np := 1 == if.x\nq := f(if.x) # \nif.x", "if!"),
            ("package a\np := input.if\n.if.x # \n\"\nif.x\"", ""),
            ("package a\np if {\n\tnot if.x\n\tx ==\n\tif.x\n\tnot [1]\n\tcontains.x }", ""),
            ("package if.x\nimport data.if.x\np if [1]", ""),
        ] {
            let words = keyword_names(text);
            let words: Vec<String> = words
                .iter()
                .map(|word| format!("{}{}", word.keyword, if word.is_head { "!" } else { "" }))
                .collect();
            assert_eq!(words.join(" "), expected, "{text}");
        }
    }

    #[test]
    fn faults_are_at_the_name() {
        for (rules, expected) in [
            (
                "if[x] := 1 if some x in [1]",
                "2:1: after the keyword if, the path of this rule has no other name: write if.NAME",
            ),
            (
                "p := 1 if 1 == 1\nif.in := 1",
                "3:1: after the keyword if, the path of this rule has no other name: write if.NAME",
            ),
            (
                "not.x { true }",
                "2:1: the name of this rule begins with the keyword not: give it a value with :=",
            ),
            (
                "p if if.x",
                "2:6: variable if is unsafe: this module has no rule if: write data.a.if for one of another module",
            ),
            (
                "p := 1\nif.x := y if { y := [p | p := 2] }",
                "3:1: the variable p of this rule, whose name begins with the keyword if, has the name of another rule: rename it",
            ),
            ("policysync_word_if.x := 1", "2:1: names that begin with policysync_ are reserved"),
        ] {
            let text = Text { id: ModuleId::new("a"), text: format!("package a\n{rules}").into() };
            assert_eq!(Module::parse(&text).unwrap_err().to_string(), format!("a:{expected}"), "{rules}");
        }
    }
}
