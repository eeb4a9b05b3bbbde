//! Parses YAML documents.
//!
//! go-yaml parses YAML 1.1 in the way of [libyaml](https://pyyaml.org/wiki/LibYAML), whereas the parser of this process
//! implements YAML 1.2. The two versions agree on usual documents. Constructs with different meanings are not
//! supported.

use std::collections::BTreeMap;
use std::ops::Range;

use granit_parser::{Event, Parser, ScalarStyle, StrInput, StructureStyle};
use regorus::Value;

use super::plain::{Plain, resolve};
use crate::memory::size::ELEMENT;
use crate::memory::{self, OverLimit};

/// The maximum nesting of a document.
const LEVELS: usize = 100;

/// The reason why a document has no value.
#[derive(Debug, PartialEq)]
pub(crate) enum Error {
    Invalid,
    /// The document has a construct that is not supported.
    Unsupported(&'static str),
    Memory(OverLimit),
}

type Result<T> = std::result::Result<T, Error>;

impl From<OverLimit> for Error {
    fn from(over: OverLimit) -> Self {
        Self::Memory(over)
    }
}

/// A node of a document.
pub(crate) struct Node {
    /// The number of the node's anchor; 0 without an anchor.
    pub anchor: usize,
    pub content: Content,
}

/// The content of a node.
pub(crate) enum Content {
    Scalar { text: String, is_plain: bool },
    List(Vec<Node>),
    Map(Vec<(Node, Node)>),
    Alias(usize),
}

/// The value of the first document in `text`. All documents must be valid.
pub(super) fn document(text: &str) -> Result<Value> {
    check_characters(text)?;
    first_document(text)
}

/// The root of the only document in `text`; `None` if the text has only comments.
///
/// # Errors
///
/// If the document is invalid, or go-yaml may parse it differently.
pub(crate) fn single(text: &str) -> Result<Option<Node>> {
    check_characters(text)?;
    let (mut events, mut root) = (Events::new(text), None);
    loop {
        match events.next()? {
            Event::StreamStart | Event::DocumentEnd => {}
            Event::StreamEnd => break,
            Event::DocumentStart(false, None) if root.is_none() => {
                let event = events.next()?;
                root = Some(events.node(event, 0)?);
            }
            _ => return Err(Error::Unsupported("several documents")),
        }
    }
    events.check()?;
    Ok(root)
}

fn check_characters(text: &str) -> Result<()> {
    for c in text.chars() {
        match c {
            '\t' | '\n' | '\r' | ' '..='~' => {}
            '\u{85}' | '\u{2028}' | '\u{2029}' | '\u{feff}' => {
                return Err(Error::Unsupported("line breaks of Unicode"));
            }
            '\0'..='\u{9f}' | '\u{fffe}' | '\u{ffff}' => return Err(Error::Invalid),
            _ => {}
        }
    }
    if starts_with_end(text) {
        return Err(Error::Invalid);
    }
    Ok(())
}

/// Whether `text` has a document end marker before any document.
fn starts_with_end(text: &str) -> bool {
    let is_content = |line: &&str| {
        let line = line.trim_start_matches([' ', '\t']);
        !line.is_empty() && !line.starts_with('#')
    };
    let first = text.lines().find(is_content).unwrap_or_default();
    first.strip_prefix("...").is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t']))
}

fn first_document(text: &str) -> Result<Value> {
    let mut events = Events::new(text);
    let (mut first, mut has_empty_key) = (None, false);
    loop {
        match events.next()? {
            Event::StreamStart | Event::DocumentEnd => {}
            Event::StreamEnd => break,
            Event::DocumentStart(_, Some(_)) => return Err(Error::Unsupported("directives")),
            Event::DocumentStart(is_explicit, None) => {
                if first.is_some() && !is_explicit {
                    return Err(Error::Invalid);
                }
                let event = events.next()?;
                if let Event::Scalar(_, ScalarStyle::Literal | ScalarStyle::Folded, ..) = event {
                    return Err(Error::Unsupported("block scalars at the root"));
                }
                let node = events.node(event, 0)?;
                has_empty_key |= first.is_some() && node.has_empty_key();
                first.get_or_insert(node);
            }
            _ => return Err(Error::Invalid),
        }
    }
    events.check()?;
    let Some(node) = first else { return Ok(Value::Null) };
    let value = Decoder::new(&node).value(&node)?;
    if has_empty_key || node.has_empty_key() {
        return Err(Error::Unsupported("empty keys"));
    }
    Ok(value)
}

/// A construct that libyaml may accept, in a `text` that this parser rejects.
fn odd_in_invalid(text: &str) -> Option<&'static str> {
    if text.contains("\\'") {
        return Some("escaped apostrophes");
    }
    let mut before = '\n';
    for c in text.chars() {
        let is_first = before.is_whitespace() || "[{,".contains(before);
        match c {
            '#' if !before.is_whitespace() => return Some("comments without a blank before them"),
            '!' if is_first => return Some("tags"),
            '*' | '&' if is_first => return Some("anchors and aliases"),
            ',' | ']' | '}' if before == '-' => return Some("- in a flow collection"),
            _ => {}
        }
        before = c;
    }
    let is_flow = text.contains(['[', '{']);
    text.lines().find_map(|line| {
        let content = line.trim_start_matches([' ', '\t']);
        let has_tab = line[..line.len() - content.len()].contains('\t');
        let header = line.split(" #").next().unwrap_or_default().trim_end();
        let header = header.trim_end_matches(|c: char| c.is_ascii_digit() || c == '+' || c == '-');
        if line.starts_with('%') {
            Some("directives")
        } else if has_tab && (is_flow || content.is_empty() || content.starts_with('#')) {
            Some("tabs")
        } else if content.starts_with(['|', '>']) || header.ends_with(['|', '>']) {
            Some("such block scalars")
        } else {
            None
        }
    })
}

/// The events of the parser, and the positions of scalars and flow collections.
struct Events<'t> {
    text: &'t str,
    parser: Parser<'t, StrInput<'t>>,
    scalars: Vec<(Range<usize>, ScalarStyle)>,
    flows: Vec<Range<usize>>,
    /// The start of the outermost flow collection, and the number of open collections in it.
    open: (usize, usize),
}

impl<'t> Events<'t> {
    fn new(text: &'t str) -> Self {
        let mut options = granit_parser::options! {
            block_scalar_eof_without_line_feed: true,
            bom_inside_document_as_content: true,
        };
        options.set_emit_comments(false);
        let parser = Parser::new_from_str_with_options(text, options);
        Self { text, parser, scalars: Vec::new(), flows: Vec::new(), open: (0, 0) }
    }

    fn next(&mut self) -> Result<Event<'t>> {
        let Some(Ok((event, span))) = self.parser.next_event() else {
            return Err(odd_in_invalid(self.text).map_or(Error::Invalid, Error::Unsupported));
        };
        let range = span.byte_range().ok_or(Error::Invalid)?;
        let (start, depth) = self.open;
        match &event {
            Event::Scalar(_, style, ..) => self.scalars.push((range, *style)),
            Event::SequenceStart(StructureStyle::Flow, ..)
            | Event::MappingStart(StructureStyle::Flow, ..)
                if depth == 0 =>
            {
                self.open = (range.start, 1);
            }
            Event::SequenceStart(..) | Event::MappingStart(..) if depth > 0 => self.open.1 += 1,
            Event::SequenceEnd | Event::MappingEnd if depth > 0 => {
                self.open.1 -= 1;
                if depth == 1 {
                    self.flows.push(start..range.end);
                }
            }
            _ => {}
        }
        Ok(event)
    }

    /// The node that begins with `event`.
    fn node(&mut self, event: Event<'t>, level: usize) -> Result<Node> {
        if level > LEVELS {
            return Err(Error::Unsupported("more than 100 levels"));
        }
        Ok(match event {
            Event::Scalar(.., Some(_))
            | Event::SequenceStart(.., Some(_))
            | Event::MappingStart(.., Some(_)) => {
                return Err(Error::Unsupported("tags"));
            }
            Event::Scalar(text, style, anchor, None) => {
                let is_plain = style == ScalarStyle::Plain;
                Node { anchor, content: Content::Scalar { text: text.into_owned(), is_plain } }
            }
            Event::Alias(anchor) => Node { anchor: 0, content: Content::Alias(anchor) },
            Event::SequenceStart(_, anchor, None) => {
                let mut items = Vec::new();
                loop {
                    match self.next()? {
                        Event::SequenceEnd => break,
                        event => items.push(self.node(event, level + 1)?),
                    }
                }
                Node { anchor, content: Content::List(items) }
            }
            Event::MappingStart(_, anchor, None) => {
                let mut fields = Vec::new();
                loop {
                    let key = match self.next()? {
                        Event::MappingEnd => break,
                        event => self.node(event, level + 1)?,
                    };
                    let value = self.next()?;
                    fields.push((key, self.node(value, level + 1)?));
                }
                Node { anchor, content: Content::Map(fields) }
            }
            _ => return Err(Error::Invalid),
        })
    }

    /// The style of the scalar at the position `at`.
    fn scalar_at(&self, at: usize) -> Option<ScalarStyle> {
        let next = self.scalars.partition_point(|(range, _)| range.start <= at);
        let (range, style) = self.scalars[..next].last()?;
        range.contains(&at).then_some(*style)
    }

    fn is_in_flow(&self, at: usize) -> bool {
        let next = self.flows.partition_point(|range| range.start <= at);
        self.flows[..next].last().is_some_and(|range| range.contains(&at))
    }

    /// Whether the position `at` is in a scalar that is not plain.
    fn is_quoted(&self, at: usize) -> bool {
        self.scalar_at(at).is_some_and(|style| style != ScalarStyle::Plain)
    }

    /// Fails if libyaml may parse the valid `text` differently.
    fn check(&self) -> Result<()> {
        let text = self.text;
        self.scalars.iter().try_for_each(|(range, style)| self.check_scalar(range, *style))?;
        for flow in &self.flows {
            if text[flow.clone()].lines().skip(1).any(|line| line.trim_start().starts_with(':')) {
                return Err(Error::Unsupported("a line in a flow collection that begins with :"));
            }
        }
        let mut before = '\n';
        for (at, c) in text.char_indices() {
            let is_first = before.is_whitespace() || "[{,".contains(before);
            before = c;
            if !matches!(c, '*' | '&') || !is_first || self.scalar_at(at).is_some() {
                continue;
            }
            let end = |c: char| c.is_whitespace() || "[]{},".contains(c);
            let name = text[at + 1..].split(end).next().unwrap_or_default();
            if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_') {
                return Err(Error::Unsupported("such names of anchors"));
            }
        }
        let mut start = 0;
        for line in text.split_inclusive('\n') {
            if line.starts_with('%') && !self.is_quoted(start) {
                return Err(Error::Unsupported("directives"));
            }
            let blanks = line.len() - line.trim_start_matches(' ').len();
            let mut tabs = line.match_indices('\t').map(|(tab, _)| tab);
            if let Some(tab) = tabs.find(|tab| !self.is_quoted(start + tab)) {
                let content = line.trim_start_matches([' ', '\t']).trim_end();
                let starts_token = tab == blanks && !content.is_empty() && !content.starts_with('#');
                if starts_token && !self.is_in_flow(start + tab) && self.scalar_at(start + tab).is_none() {
                    return Err(Error::Invalid);
                }
                return Err(Error::Unsupported("tabs"));
            }
            start += line.len();
        }
        Ok(())
    }

    fn check_scalar(&self, range: &Range<usize>, style: ScalarStyle) -> Result<()> {
        let text = self.text;
        let source = &text[range.clone()];
        let has = |pattern: &[char]| source.contains(pattern);
        let is_plain = style == ScalarStyle::Plain;
        if self.is_in_flow(range.start) && (has(&['\n']) || (is_plain && has(&['?', ':']))) {
            return Err(Error::Unsupported("several lines, ? or : in a scalar of a flow collection"));
        }
        match style {
            ScalarStyle::DoubleQuoted if source.contains("\\/") => {
                return Err(Error::Unsupported("escaped slashes"));
            }
            ScalarStyle::Literal | ScalarStyle::Folded => {}
            _ => return Ok(()),
        }
        // The range of a block scalar begins at its text, or at the line break before its text.
        let header_end = text[..range.start].trim_end().len();
        let header = text[..header_end].lines().last().unwrap_or_default();
        let header = header.split(" #").next().unwrap_or_default();
        let indicator = header.rfind(['|', '>']).map_or("", |at| &header[at..]);
        if indicator.contains(|c: char| c.is_ascii_digit()) {
            return Err(Error::Unsupported("indentation indicators"));
        }
        let blanks = source.len() - source.trim_start().len();
        if text[header_end..range.start + blanks].contains('\t') {
            return Err(Error::Unsupported("tabs at the start of a block scalar"));
        }
        Ok(())
    }
}

impl Node {
    fn has_empty_key(&self) -> bool {
        let is_empty = |key: &Self| match &key.content {
            Content::Scalar { text, is_plain: true } => text.is_empty() || text == "~",
            _ => false,
        };
        match &self.content {
            Content::List(items) => items.iter().any(Self::has_empty_key),
            Content::Map(fields) => fields
                .iter()
                .any(|(key, value)| is_empty(key) || key.has_empty_key() || value.has_empty_key()),
            _ => false,
        }
    }

    fn add_anchors<'n>(&'n self, anchors: &mut BTreeMap<usize, &'n Self>) {
        if self.anchor > 0 {
            anchors.insert(self.anchor, self);
        }
        match &self.content {
            Content::List(items) => items.iter().for_each(|item| item.add_anchors(anchors)),
            Content::Map(fields) => fields.iter().for_each(|(key, value)| {
                key.add_anchors(anchors);
                value.add_anchors(anchors);
            }),
            _ => {}
        }
    }
}

/// Converts nodes to values. Aliases are limited as in go-yaml.
struct Decoder<'n> {
    anchors: BTreeMap<usize, &'n Node>,
    /// The anchors of the nodes that are being decoded.
    open: Vec<usize>,
    /// The number of nodes, and the number of nodes that were reached through an alias.
    nodes: usize,
    aliased: usize,
    /// The number of aliases that lead to the current node.
    aliases: usize,
}

impl<'n> Decoder<'n> {
    fn new(root: &'n Node) -> Self {
        let mut anchors = BTreeMap::new();
        root.add_anchors(&mut anchors);
        Self { anchors, open: Vec::new(), nodes: 0, aliased: 0, aliases: 0 }
    }

    /// Counts a node.
    fn count(&mut self) -> Result<()> {
        self.nodes += 1;
        if self.aliases == 0 {
            return Ok(());
        }
        self.aliased += 1;
        let allowed = match self.nodes {
            ..=400_000 => 0.99,
            4_000_000.. => 0.1,
            nodes => 0.99 - 0.89 * ((nodes - 400_000) as f64 / 3_600_000.0),
        };
        if self.aliased > 100 && self.nodes > 1_000 && self.aliased as f64 / self.nodes as f64 > allowed {
            return Err(Error::Invalid);
        }
        Ok(memory::check(2 * ELEMENT)?)
    }

    fn value(&mut self, node: &Node) -> Result<Value> {
        self.count()?;
        if node.anchor > 0 {
            self.open.push(node.anchor);
        }
        let value = match &node.content {
            Content::Alias(anchor) => self.aliased_value(*anchor)?,
            Content::Scalar { text, is_plain: false } => text.as_str().into(),
            Content::Scalar { text, is_plain: true } => match resolve(text) {
                Plain::Null => Value::Null,
                Plain::Bool(value) => value.into(),
                Plain::Integer(number) => number.into(),
                Plain::Unsigned(number) => number.into(),
                Plain::Float(number) => float(number).ok_or(Error::Invalid)?,
                Plain::Text => text.as_str().into(),
                Plain::Merge => return Err(Error::Unsupported("merge keys")),
            },
            Content::List(items) => {
                items.iter().map(|item| self.value(item)).collect::<Result<Vec<_>>>()?.into()
            }
            Content::Map(fields) => self.map(fields)?,
        };
        if node.anchor > 0 {
            self.open.pop();
        }
        Ok(value)
    }

    fn aliased_value(&mut self, anchor: usize) -> Result<Value> {
        let Some(target) = self.anchors.get(&anchor).copied() else { return Err(Error::Invalid) };
        // The value would contain itself.
        if self.open.contains(&anchor) {
            return Err(Error::Invalid);
        }
        if self.aliases >= LEVELS {
            return Err(Error::Unsupported("more than 100 levels"));
        }
        self.aliases += 1;
        let value = self.value(target);
        self.aliases -= 1;
        value
    }

    /// Converts `fields` to an object. If several keys are equal, the last of them is used.
    fn map(&mut self, fields: &[(Node, Node)]) -> Result<Value> {
        let mut last = BTreeMap::new();
        for (key, value) in fields {
            let key = key.key()?;
            let is_date = key.as_bytes().get(4) == Some(&b'-');
            if last.insert(key, value).is_some() && is_date {
                return Err(Error::Unsupported("equal keys that are dates"));
            }
        }
        let mut map = BTreeMap::new();
        for (key, value) in last {
            self.count()?;
            map.insert(Value::from(key), self.value(value)?);
        }
        Ok(map.into())
    }
}

impl Node {
    /// The node as a key of an object, which is a text in JSON.
    fn key(&self) -> Result<String> {
        let (text, is_plain) = match &self.content {
            Content::Scalar { text, is_plain } => (text, *is_plain),
            Content::Alias(_) => return Err(Error::Unsupported("aliases as keys")),
            _ => return Err(Error::Invalid),
        };
        if !is_plain {
            return Ok(text.clone());
        }
        match resolve(text) {
            Plain::Null => Err(Error::Invalid),
            Plain::Bool(value) => Ok(value.to_string()),
            Plain::Integer(number) => Ok(number.to_string()),
            Plain::Unsigned(number) => Ok(number.to_string()),
            Plain::Float(number) if number.is_nan() => Ok(".nan".to_owned()),
            Plain::Float(f64::INFINITY) => Ok(".inf".to_owned()),
            Plain::Float(f64::NEG_INFINITY) => Ok("-.inf".to_owned()),
            // Go formats numbers with an exponent differently.
            Plain::Float(number) if number == 0.0 || (1e-4..1e6).contains(&number.abs()) => {
                Ok((number as f32).to_string())
            }
            Plain::Float(_) => Err(Error::Unsupported("such fractions as keys")),
            Plain::Text => Ok(text.clone()),
            Plain::Merge => Err(Error::Unsupported("merge keys")),
        }
    }
}

/// A number in the form that OPA has after a conversion to JSON; `None` if JSON cannot represent it.
fn float(number: f64) -> Option<Value> {
    if !number.is_finite() {
        return None;
    }
    if number.fract() == 0.0 && number.abs() < 1e21 {
        return Value::from_json_str(&format!("{number}")).ok();
    }
    Some(number.into())
}
