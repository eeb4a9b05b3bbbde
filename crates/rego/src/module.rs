//! Modules: parsed texts of Rego.

mod repairs;
pub(super) mod words;

use std::fmt;
use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::{Arc, LazyLock};

use regex::Regex;
use regorus::unstable::{Expr, Module as Tree, Ref, Rule, RuleHead, Span};
use regorus::{Engine, PolicyLengthConfig};
use serde::{Deserialize, Serialize};

use self::repairs::Parsed;
use super::edit::{Edit, EditedText, offset, place_of};
use super::fault::{Fault, Position};
use super::queries::QueriedPackages;
use super::{parentheses, template_strings, tree};
use policy_sync_api::text::group_digits;

/// The maximum size of a module in bytes, lines and columns.
const LENGTH: PolicyLengthConfig = PolicyLengthConfig {
    max_file_bytes: NonZeroUsize::new(1 << 20).unwrap(),
    max_lines: NonZeroUsize::new(20_000).unwrap(),
    max_col: NonZeroU32::new(4_096).unwrap(),
};

/// The limits for rewritten texts, which may join several lines.
const REWRITTEN_LENGTH: PolicyLengthConfig = PolicyLengthConfig {
    max_file_bytes: NonZeroUsize::new(4 << 20).unwrap(),
    max_lines: LENGTH.max_lines,
    max_col: NonZeroU32::MAX,
};

/// A byte order mark may precede a text.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// The fault of a rule with neither value nor body.
pub(super) const NO_VALUE: &str = "a rule must have a value or a body";

/// The fault of a line with too many columns.
pub(super) const LONG_LINE: &str = "the line has more than 4,096 bytes: split it";

/// The id of a module: `<namespace>/<name>/<key>` of a ConfigMap, `regopolicies/<name>`, or the path of a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ModuleId(Arc<str>);

impl ModuleId {
    /// Creates an id from its text.
    #[must_use]
    pub fn new(id: &str) -> Self {
        Self(id.into())
    }

    /// The object that carries the module: `<namespace>/<name>` of a ConfigMap, the whole id of a RegoPolicy, or the
    /// folder of a file.
    #[must_use]
    pub fn carrier(&self) -> &str {
        match self.0.rsplit_once('/') {
            Some((carrier, _)) if carrier.contains('/') => carrier,
            _ => &self.0,
        }
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ModuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A text to parse as a module.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Text {
    /// The id of the module.
    pub id: ModuleId,
    /// The text as written.
    pub text: Arc<str>,
}

/// The package that `text` declares, without parsing the rest. `None` unless the declaration is the first line besides
/// comments, and its names have no quotes or brackets.
pub(super) fn declared_package(text: &str) -> Option<String> {
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    let mut lines = text.lines().map(|line| line.split_once('#').map_or(line, |(before, _)| before).trim());
    let path = lines.find(|line| !line.is_empty())?.strip_prefix("package")?;
    let package = path.strip_prefix([' ', '\t'])?.trim_start();
    package.split('.').all(is_name).then(|| package.to_owned())
}

/// Whether `text` is a Rego name: letters, digits and `_`, without a digit in front. Keywords count as names.
pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && text.chars().all(|next| next.is_ascii_alphanumeric() || next == '_')
}

/// The syntax of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syntax {
    /// The syntax before OPA 1.0: `deny[msg] { … }`.
    V0,
    /// The syntax since OPA 1.0: `deny contains msg if { … }`.
    V1,
}

/// The type of the operand of `not` in a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Negation {
    /// An expression. Its operands are evaluated before the negation. If an operand is undefined, the statement is
    /// undefined.
    OfExpressions,
    /// A body. If an operand is undefined, the negation is true. Modules with `import future.keywords` or `import
    /// future.keywords.not` have this kind of negation.
    OfBodies,
}

impl Negation {
    fn of(tree: &Tree) -> Self {
        let is_of_bodies = tree.imports.iter().any(|import| {
            let path = tree::constants(&import.refr).join(".");
            path == "future.keywords" || path == "future.keywords.not"
        });
        if is_of_bodies { Self::OfBodies } else { Self::OfExpressions }
    }
}

/// A parsed module.
#[derive(Clone)]
pub struct Module {
    pub(super) id: ModuleId,
    /// The text as written.
    pub(super) original: Arc<str>,
    /// The original with changes that let the engine parse it.
    pub(super) read: EditedText,
    /// The text from which `tree` was parsed: `read` with the bodies that [`body_of_element`] inserts. Its lines and
    /// columns are the same as in `read`.
    pub(super) text: Arc<str>,
    pub(super) syntax: Syntax,
    pub(super) tree: Ref<Tree>,
    pub(super) negation: Negation,
    /// The path of the module's package: `["data", "admission"]`.
    pub(super) package: Vec<String>,
    /// The purpose of queries of the module's package, one of [`PURPOSES`](crate::queries::PURPOSES); `None` if the
    /// package is not queried.
    pub(super) purpose: Option<&'static str>,
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Module").field("id", &self.id).field("syntax", &self.syntax).finish_non_exhaustive()
    }
}

impl Module {
    /// Parses `text` in the syntax since OPA 1.0 or, if that fails, in the older syntax.
    ///
    /// The time doubles with each nested literal. Call this function only for texts that have been
    /// [checked](super::confined), or in the process that checks them.
    ///
    /// # Errors
    ///
    /// If `text` is invalid in both syntaxes. Of the two errors, returns the one at the later place.
    pub fn parse(text: &Text) -> Result<Self, Fault> {
        if let Some(at) = text.text.find(tree::WORD) {
            let fault = "names that begin with policysync_ are reserved";
            return Err(Fault::new(&text.id, place_of(&text.text, at), fault));
        }
        Self::parse_edited(text)
    }

    /// Like [`Self::parse`], for an edited text of a module.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Self::parse`].
    pub(super) fn parse_edited(text: &Text) -> Result<Self, Fault> {
        let too_much = |count: usize, limit: NonZeroUsize, what: &str| {
            let fault = format!(
                "has {} {what}, at most {} are allowed",
                group_digits(count),
                group_digits(limit.get())
            );
            if count > limit.get() { Err(Fault::new(&text.id, None, fault)) } else { Ok(()) }
        };
        too_much(text.text.len(), LENGTH.max_file_bytes, "bytes")?;
        too_much(text.text.lines().count(), LENGTH.max_lines, "lines")?;
        // The engine treats NUL as the end of the text.
        if let Some(at) = text.text.find('\0') {
            return Err(Fault::new(&text.id, place_of(&text.text, at), "has a NUL character"));
        }
        let read = template_strings::replaced(&text.text)
            .map_err(|error| Fault::new(&text.id, place_of(&text.text, error.at), error.to_string()))?;
        // The edits of parentheses do not support template strings, which may contain quotes and parentheses.
        let has_templates = !read.is_unchanged();
        let mut edits = if has_templates { Vec::new() } else { parentheses::edits(&text.text) };
        if text.text.starts_with(BYTE_ORDER_MARK) {
            edits.push(Edit { start: 0, end: offset(BYTE_ORDER_MARK.len_utf8()), text: String::new() });
        }
        let read = if edits.is_empty() { read } else { read.and(&edits) };
        let columns = LENGTH.max_col.get() as usize;
        let is_long = |line: &str| line.len() > columns;
        let is_plain = read.is_unchanged();
        // The engine checks the length of lines only in unedited texts.
        if !is_plain && let Some(line) = text.text.lines().position(is_long) {
            let place = Position { line: u32::try_from(line + 1).unwrap_or(u32::MAX), column: 1 };
            return Err(Fault::new(&text.id, place, LONG_LINE));
        }
        let parse = |read: &EditedText| {
            let plain = Text { id: text.id.clone(), text: read.text().clone() };
            let of = |syntax| {
                let parsed = parse_as(&plain, read.is_unchanged(), syntax);
                parsed.map(|(text, tree)| Parsed { syntax, text, tree }).map_err(|fault| (fault, syntax))
            };
            let parsed = of(Syntax::V1).or_else(|newer| {
                // If both syntaxes have the same fault, the newer syntax is returned with it. The fault of the newer
                // syntax is also returned for a rule with neither value nor body, because the newer syntax then parsed
                // the whole text.
                let is_whole = newer.0.text == NO_VALUE;
                let is_older = |older: &Fault| !is_whole && older != &newer.0 && older.place >= newer.0.place;
                of(Syntax::V0).map_err(|older| if is_older(&older.0) { older } else { newer.clone() })
            });
            parsed.map_err(|(fault, syntax)| {
                (Fault { place: fault.place.map(|place| read.original(place)), ..fault }, syntax)
            })
        };
        let parsed = repairs::parsed(read.clone(), &parse).or_else(|fault| {
            let with_words = (!has_templates).then(|| words::parsed(&text.id, &read, &parse)).flatten();
            with_words.unwrap_or(Err(fault))
        });
        let parsed = parsed.map_err(|fault| match missing_syntax(&text.text) {
            Some((at, missing)) => Fault::new(&text.id, place_of(&text.text, at), missing),
            None => fault,
        });
        let (read, Parsed { syntax, text: parsed, tree }) = parsed?;
        let package = ["data".to_owned()].into_iter().chain(tree::constants(&tree.package.refr)).collect();
        let (id, original) = (text.id.clone(), text.text.clone());
        let negation = Negation::of(&tree);
        let module =
            Self { id, original, read, text: parsed, syntax, tree, negation, package, purpose: None };
        Ok(module.with_purpose(&QueriedPackages::default()))
    }

    /// Sets the purpose of the module's package according to the queried `packages`.
    #[must_use]
    pub fn with_purpose(self, packages: &QueriedPackages) -> Self {
        Self { purpose: packages.purpose(&self.package()), ..self }
    }

    /// The module's id.
    #[must_use]
    pub fn id(&self) -> &ModuleId {
        &self.id
    }

    /// The parts of the package's name.
    #[must_use]
    pub fn path(&self) -> &[String] {
        &self.package[1..]
    }

    /// The package's name: `io.k8s.federation.admission`.
    #[must_use]
    pub fn package(&self) -> String {
        self.path().join(".")
    }

    /// A fault of the package declaration.
    pub(super) fn fault_of_package(&self, text: &str) -> Fault {
        self.fault(tree::start(&self.tree.package.refr), format!("package {}: {text}", self.package()))
    }

    pub(super) fn fault(&self, span: &Span, text: impl AsRef<str>) -> Fault {
        Fault::new(&self.id, self.place(span), text)
    }

    /// The place in the original where `span` begins.
    pub(super) fn place(&self, span: &Span) -> Position {
        self.read.original(place(span))
    }

    /// The same module, with its field `text` as the original.
    pub(super) fn of_its_text(&self) -> Self {
        Self { original: self.text.clone(), read: EditedText::unchanged(&self.text), ..self.clone() }
    }

    /// The same module with the rewritten `text`, which has the same package and imports.
    ///
    /// # Errors
    ///
    /// If the engine does not parse `text`.
    pub(super) fn with_text(&self, text: &Arc<str>) -> Result<Self, Fault> {
        let tree = tree_of(&self.id, text, false, self.syntax)?;
        Ok(Self { text: text.clone(), tree, ..self.clone() }.of_its_text())
    }

    /// The text at `span`.
    pub(super) fn slice(&self, span: &Span) -> &str {
        self.text.get(span.start as usize..span.end as usize).unwrap_or_default()
    }
}

/// The place and the fault of syntax that the engine lacks, in a text that does not parse. The place is a byte offset.
fn missing_syntax(text: &str) -> Option<(usize, &'static str)> {
    static IMPORT: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r"(?m)^[ \t]*import[ \t]+(future\.keywords(?:\.(\w+))?|rego\.v[2-9])\b").ok()
    });
    static BODY: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\bnot\s*\{").ok());
    for import in IMPORT.as_ref()?.captures_iter(text) {
        let (path, keyword) = (import.get(1)?, import.get(2).map(|keyword| keyword.as_str()));
        let missing = match keyword {
            Some("and" | "or") => {
                "the embedded engine does not support the keywords and and or: write two statements for and, and two rules for or"
            }
            Some("not") | None if path.as_str().starts_with("future") => {
                if !BODY.as_ref()?.is_match(text) {
                    continue;
                }
                "the embedded engine does not support negated bodies (not { … }): move the body to a rule, and negate the rule"
            }
            None => "the embedded engine only supports rego.v1: import it instead",
            Some(_) => continue,
        };
        return Some((path.start(), missing));
    }
    None
}

/// Parses `text`. Also returns the text from which the tree was parsed, which may have additional bodies.
fn parse_as(text: &Text, is_plain: bool, syntax: Syntax) -> Result<(Arc<str>, Ref<Tree>), Fault> {
    let tree = tree_of(&text.id, &text.text, is_plain, syntax)?;
    if let Some(rule) = tree.policy.iter().find(|rule| lacks_value_and_body(rule)) {
        return Err(Fault::new(&text.id, place(rule.span()), NO_VALUE));
    }
    let bodies: Vec<Edit> = tree.policy.iter().filter_map(|rule| body_of_element(rule)).collect();
    if bodies.is_empty() {
        return Ok((text.text.clone(), tree));
    }
    let read = EditedText::new(&text.text, bodies).text().clone();
    let tree = tree_of(&text.id, &read, is_plain, syntax)?;
    Ok((read, tree))
}

/// Parses `text`. Unless `is_plain`, the text has been edited, and its lines may be longer than those of the original.
fn tree_of(id: &ModuleId, text: &str, is_plain: bool, syntax: Syntax) -> Result<Ref<Tree>, Fault> {
    let mut engine = engine_for(syntax);
    if !is_plain {
        accept_rewritten(&mut engine);
    }
    let parsed = engine.add_policy(id.as_str().to_owned(), text.to_owned());
    parsed.map_err(|error| Fault::of_engine(id, &error))?;
    Ok(engine.get_modules()[0].clone())
}

/// The body to insert after `rule`; `None` if the engine parses `rule` correctly. A rule such as `exempt["a"]` has no
/// body and adds an element to a set. If the next rule begins with a keyword, the engine parses the element as the key
/// of an object, unless a body precedes the keyword. No other rule follows on the same line, so the columns of other
/// rules do not change.
fn body_of_element(rule: &Rule) -> Option<Edit> {
    let Rule::Spec { head: RuleHead::Compr { refr, assign: None, span }, bodies, .. } = rule else {
        return None;
    };
    let (Expr::RefBrack { refr, .. } | Expr::RefDot { refr, .. }) = refr.as_ref() else { return None };
    let is_element = bodies.is_empty() && name_of(refr).is_some();
    is_element.then(|| Edit::insert(span.end, " { true }".to_owned()))
}

/// Whether `rule` has no value and no body: it is a single word, or is named `if`. The older syntax parses `p if { … }`
/// as the rules `p` and `if`.
fn lacks_value_and_body(rule: &Rule) -> bool {
    let Rule::Spec { head, bodies, .. } = rule else { return false };
    let is_alone = matches!(head, RuleHead::Compr { assign: None, .. }) && bodies.is_empty();
    let name = name_of(tree::reference(rule));
    name == Some("if") || (is_alone && name.is_some())
}

/// An engine that parses one syntax.
pub(super) fn engine_for(syntax: Syntax) -> Engine {
    let mut engine = Engine::new();
    engine.set_policy_length_config(LENGTH);
    engine.set_rego_v0(syntax == Syntax::V0);
    engine
}

/// Makes `engine` accept rewritten texts.
pub(super) fn accept_rewritten(engine: &mut Engine) {
    engine.set_policy_length_config(REWRITTEN_LENGTH);
}

/// The place where `span` begins.
pub(super) fn place(span: &Span) -> Position {
    Position { line: span.line, column: span.col }
}

/// The name of a variable.
pub(super) fn name_of(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Var { span, .. } => Some(span.text()),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
