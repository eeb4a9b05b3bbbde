//! Joins modules of one package into one text for the embedded engine.
//!
//! For each text of a package, the engine stores the names of all rules of that package. With one text for each module,
//! memory and preparation time would grow with the square of the number of modules. Therefore modules with the same
//! syntax, package and imports are joined into one text. Only line numbers are offset; columns do not change.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::fault::{Fault, Position};
use super::loaded_module::LoadedModule;
use super::module::{ModuleId, Syntax};

/// The minimum number of modules to join. Fewer modules take little memory.
const MIN_JOINED_MODULES: usize = 16;
/// The maximum size of a joined text, in bytes and lines: half of the engine's limits for a text.
const MAX_TEXT_BYTES: usize = 512 << 10;
const MAX_TEXT_LINES: usize = 10_000;
/// The prefix of the names of joined texts. No id of a module on a hub has this prefix.
const NAME: &str = "policysync_joined/";

/// The texts for the engine.
#[derive(Debug, Default)]
pub(super) struct JoinedTexts(Vec<Members>);

/// The modules of a text, by their indexes in the bundle, each with the number of lines before it.
type Members = Vec<(usize, u32)>;

/// A text for the engine.
pub(super) struct JoinedText {
    pub(super) name: String,
    pub(super) text: String,
    pub(super) syntax: Syntax,
    /// The number of rules, including the separators between modules.
    pub(super) rules: usize,
}

impl JoinedTexts {
    pub(super) fn of(modules: &[Arc<LoadedModule>]) -> Self {
        Self::at_least(MIN_JOINED_MODULES, modules)
    }

    /// Gives each module its own texts, without joining modules.
    #[cfg(test)]
    pub(super) fn none(modules: &[Arc<LoadedModule>]) -> Self {
        Self::at_least(usize::MAX, modules)
    }

    fn at_least(least: usize, modules: &[Arc<LoadedModule>]) -> Self {
        let mut joinable: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        let mut texts = Vec::new();
        for (index, module) in modules.iter().enumerate() {
            if module.header.end > 0 {
                let key = (module.syntax == Syntax::V0, &module.package, &module.header.imports);
                joinable.entry(key).or_default().push(index);
            } else {
                texts.push(vec![(index, 0)]);
            }
        }
        for joinable in joinable.into_values() {
            if joinable.len() < least {
                texts.extend(joinable.into_iter().map(|index| vec![(index, 0)]));
            } else {
                join(modules, &joinable, &mut texts);
            }
        }
        // Texts are in the order of their first modules, as without joining.
        texts.sort_unstable_by_key(|members| members[0].0);
        Self(texts)
    }

    /// The texts for the engine. `modules` are the modules from which this value was created.
    pub(super) fn texts(&self, modules: &[Arc<LoadedModule>]) -> impl Iterator<Item = JoinedText> {
        self.0.iter().enumerate().flat_map(|(number, members)| {
            let first = &modules[members[0].0];
            if members.len() == 1 {
                return separate_texts(first);
            }
            let mut text = String::new();
            for (nth, (index, _)) in members.iter().enumerate() {
                if nth > 0 {
                    text.push_str(separator(first.syntax));
                }
                append(&modules[*index], nth == 0, &mut text);
            }
            let rules: usize = members.iter().map(|(index, _)| modules[*index].header.rules).sum();
            let rules = rules + members.len() - 1;
            vec![JoinedText { name: format!("{NAME}{number}"), text, syntax: first.syntax, rules }]
        })
    }

    /// Maps a fault of a joined text to its place in the rewritten text of its module.
    pub(super) fn map_fault(&self, modules: &[Arc<LoadedModule>], fault: Fault) -> Fault {
        let Fault { module, place, text } = fault;
        let text = self.map_text(modules, &text);
        let found = place.and_then(|place| {
            let number = module.as_str().strip_prefix(NAME)?.parse().ok()?;
            self.find(modules, number, place.line).map(|(id, line)| (id, Position { line, ..place }))
        });
        match found {
            Some((module, place)) => Fault { module, place: Some(place), text },
            None => Fault { module, place, text },
        }
    }

    /// Replaces the names and lines of joined texts in the engine's `text` by the names and lines of modules.
    pub(super) fn map_text(&self, modules: &[Arc<LoadedModule>], text: &str) -> String {
        let mut parts = text.split(NAME);
        let mut relocated = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let found = part.split_once(':').and_then(|(number, rest)| {
                let digits = rest.find(|next: char| !next.is_ascii_digit()).unwrap_or(rest.len());
                let (line, rest) = rest.split_at(digits);
                let (id, line) = self.find(modules, number.parse().ok()?, line.parse().ok()?)?;
                Some(format!("{id}:{line}{rest}"))
            });
            relocated.push_str(&found.unwrap_or_else(|| format!("{NAME}{part}")));
        }
        relocated
    }

    /// The module at `line` of text `number`, and the line in that module.
    fn find(&self, modules: &[Arc<LoadedModule>], number: usize, line: u32) -> Option<(ModuleId, u32)> {
        let members = self.0.get(number)?;
        let after = members.partition_point(|(_, before)| *before < line);
        let (index, before) = members.get(after.checked_sub(1)?)?;
        Some((modules[*index].id.clone(), line - before))
    }
}

/// The texts of a module that is not joined.
fn separate_texts(module: &LoadedModule) -> Vec<JoinedText> {
    let joined_text = |text: &str, rules: usize| JoinedText {
        name: module.id.as_str().to_owned(),
        text: text.to_owned(),
        syntax: module.syntax,
        rules,
    };
    if module.package_texts.is_empty() {
        return vec![joined_text(module.rewritten.text(), module.header.rules)];
    }
    module.package_texts.iter().map(|part| joined_text(&part.text, part.count)).collect()
}

/// Joins the modules with the indexes `joinable`, and adds the joined texts to `texts`.
fn join(modules: &[Arc<LoadedModule>], joinable: &[usize], texts: &mut Vec<Members>) {
    let (mut members, mut bytes, mut lines) = (Members::new(), 0, 0);
    for &index in joinable {
        let text = modules[index].rewritten.text();
        let (more, more_lines) = (text.len(), text.lines().count() + 1);
        if !members.is_empty() && (bytes + more > MAX_TEXT_BYTES || lines + more_lines > MAX_TEXT_LINES) {
            texts.push(std::mem::take(&mut members));
            (bytes, lines) = (0, 0);
        }
        members.push((index, u32::try_from(lines).unwrap_or(u32::MAX)));
        bytes += more + separator(Syntax::V1).len();
        lines += more_lines;
    }
    texts.push(members);
}

/// Appends the text of `module` to `text`, without its package and imports unless it is the first. Ends with a line
/// break.
fn append(module: &LoadedModule, is_first: bool, text: &mut String) {
    let rewritten = module.rewritten.text();
    let (header, rules) = rewritten.split_at(module.header.end);
    if is_first {
        text.push_str(header);
    } else {
        // Only the line breaks of the header remain. Blanks do not replace its comments, because the engine limits the
        // columns of blanks but not those of comments. In the last line, blanks keep the column of the first rule.
        let last = header.rsplit('\n').next().unwrap_or_default();
        text.extend(header.matches('\n'));
        text.extend(last.chars().map(|next| if next == '\t' { next } else { ' ' }));
    }
    text.push_str(rules);
    if !text.ends_with('\n') {
        text.push('\n');
    }
}

/// A separator between two modules: an unused function, so that no rule continues in the text of the next module.
fn separator(syntax: Syntax) -> &'static str {
    match syntax {
        Syntax::V0 => "policysync_separator(_) = true { true }\n",
        Syntax::V1 => "policysync_separator(_) := true if { true }\n",
    }
}

#[cfg(test)]
mod tests;
