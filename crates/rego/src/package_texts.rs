//! Splits modules with rules whose names begin with a keyword into several texts for the embedded engine. The engine
//! does not support such names, but keywords may occur in the path of a package. So the rule `if.foo` of the package
//! `a` becomes the rule `foo` of the package `a.if`.
//!
//! Each text has the rules of one package. Blanks replace all other rules, so that lines and columns do not change.

use std::collections::{BTreeMap, BTreeSet};

use regorus::unstable::Rule;

use super::edit::EditedText;
use super::module::{Module, words};
use super::package_preludes;
use super::rewrites;
use super::tree::{self, WORD};

/// A text with the rules of one package.
#[derive(Debug)]
pub(super) struct PackageText {
    /// The package of the text, without `data`.
    pub(super) package: Vec<String>,
    /// The first parts of the names of the rules in this package, without functions.
    pub(super) rules: BTreeSet<String>,
    pub(super) text: String,
    /// The number of rules in `text`.
    pub(super) count: usize,
}

/// Splits the `rewritten` text of `module`. The first text keeps the package of the module. Returns no text if no rule
/// begins with a keyword.
pub(super) fn package_texts(module: &Module, rewritten: &EditedText) -> Vec<PackageText> {
    let policy = &module.tree.policy;
    if !policy.iter().any(|rule| words::begins_with_keyword(rule)) {
        return Vec::new();
    }
    let mut packages: BTreeMap<Vec<String>, Vec<&Rule>> = BTreeMap::from([(Vec::new(), Vec::new())]);
    for rule in policy {
        let keywords = words::split(rule).map(|(keywords, _)| keywords).unwrap_or_default();
        packages.entry(keywords).or_default().push(rule);
    }
    packages.iter().map(|(keywords, rules)| package_text(module, rewritten, keywords, rules)).collect()
}

/// The text with `rules`, whose names begin with `keywords`.
fn package_text(
    module: &Module,
    rewritten: &EditedText,
    keywords: &[String],
    rules: &[&Rule],
) -> PackageText {
    let range = |rule: &Rule| {
        let span = rule.span();
        let end = closed(module, span.end);
        rewritten.text_offset(span.start, false) as usize..rewritten.text_offset(end, true) as usize
    };
    let mut text = rewritten.text().as_bytes().to_vec();
    for rule in &module.tree.policy {
        if !rules.iter().any(|own| std::ptr::eq(*own, rule.as_ref())) {
            // Tabs are kept, because they may count as several columns.
            text[range(rule)]
                .iter_mut()
                .filter(|byte| !matches!(byte, b'\n' | b'\t'))
                .for_each(|byte| *byte = b' ');
        }
    }
    let mut text = String::from_utf8_lossy(&text).into_owned();
    let mut package = module.path().to_vec();
    if !keywords.is_empty() {
        let placeholder = format!("{WORD}{}.", keywords.join("."));
        text = text.replace(&placeholder, &" ".repeat(placeholder.len()));
        package.extend_from_slice(keywords);
        let declared = &module.tree.package.refr;
        let start = rewritten.text_offset(tree::start(declared).start, false) as usize;
        let end = rewritten.text_offset(declared.span().end, true) as usize;
        text.replace_range(start..end, &package_preludes::path_text(&package));
    }
    let values = rules.iter().filter(|rule| tree::arity(rule).is_none());
    let first = |rule: &&&Rule| match words::split(rule) {
        Some((_, name)) => Some(name.to_owned()),
        None => tree::constants(tree::reference(rule)).into_iter().next(),
    };
    PackageText {
        package,
        rules: values.filter_map(|rule| first(&rule)).collect(),
        text,
        count: rewrites::count(&module.tree.policy, |rule| rules.iter().any(|own| std::ptr::eq(*own, rule))),
    }
}

/// The end in the text of a rule that ends at `end` in the tree. The tree has strings without their quotes.
fn closed(module: &Module, end: u32) -> u32 {
    end + u32::from(module.text[end as usize..].starts_with(['"', '`']))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::module::{ModuleId, Text};
    use crate::rewrites::rewritten;

    /// The package texts of a module with this text, without blanks.
    fn texts(text: &str) -> Vec<String> {
        let module = Module::parse(&Text { id: ModuleId::new("a"), text: text.into() }).unwrap();
        let package_texts = package_texts(&module, &rewritten(&module));
        for package_text in &package_texts {
            let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
            assert_eq!(lines(&package_text.text).len(), lines(text).len(), "{}", package_text.text);
        }
        let words =
            |package_text: &PackageText| package_text.text.split_whitespace().collect::<Vec<_>>().join(" ");
        package_texts.iter().map(words).collect()
    }

    #[test]
    fn each_package_has_its_rules() {
        let text = "package a.b\nimport rego.v1\np := 1 if if.x == 1\nif.x := n if {\n\tn\n}\nelse := 2\n\
                    default not.in.s(_) := \"}\"\nif.y contains \"é\"\nn := 1 # end\n";
        assert_eq!(
            texts(text),
            [
                "package a.b import rego.v1 p := 1 if data.a.b.if.x == 1 n := 1 # end",
                "package a[\"b\"][\"if\"] import rego.v1 \
                 x := policysync_given_0 if { data.a.b.n; policysync_given_0 := data.a.b.n } else := 2 \
                 y contains \"é\" # end",
                "package a[\"b\"][\"not\"][\"in\"] import rego.v1 default s(_) := \"}\" # end",
            ]
        );
        assert_eq!(texts("package a\np.if := 1"), [""; 0]);
    }

    #[test]
    fn lines_and_columns_stay() {
        let text = "package a\n\tif.x := input.y if input.z\np := 1\n";
        let module = Module::parse(&Text { id: ModuleId::new("a"), text: text.into() }).unwrap();
        let rewritten = rewritten(&module);
        let package_texts = package_texts(&module, &rewritten);
        for (package_text, name) in package_texts.iter().zip(["p := 1", "input.z"]) {
            let place =
                |text: &str| text.lines().enumerate().find_map(|(nth, line)| Some((nth, line.find(name)?)));
            assert_eq!(place(&package_text.text), place(rewritten.text()), "{}", package_text.text);
        }
    }
}
