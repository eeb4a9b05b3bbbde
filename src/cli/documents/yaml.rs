//! Converts one YAML document to JSON as `kubectl` does, from the events of the parser.

use std::collections::{HashMap, HashSet};

use granit_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput, StructureStyle, Tag};
use serde_json::{Map, Value};

use super::Fault;
use super::corrections::CorrectedText;
use super::scalar::{self, Scalar};

/// The maximum nesting of lists and objects, with aliases expanded.
const MAX_DEPTH: usize = 128;
/// The approximate maximum memory for copies of anchored values in a document, in bytes.
const MAX_COPIED: usize = 1 << 28;
/// The approximate memory of a node without its text, in bytes.
const NODE_SIZE: usize = 64;
/// The namespace of YAML's own tags, such as `!!int`.
const TAGS: &str = "tag:yaml.org,2002:";

/// Parses `text`, which contains one document; `None` if the document is empty. Lines of `text` are counted from 1.
/// Subtracts the number of nodes in the document from `nodes`, the number of nodes that are still allowed.
///
/// # Errors
///
/// The first fault with its line.
pub(super) fn read(text: &str, nodes: &mut usize) -> Result<Option<(u64, Value)>, Fault> {
    let mut corrected = CorrectedText::new(text);
    loop {
        let mut left = *nodes;
        match compose(&corrected.text, &mut left) {
            Err(Failure::Fault(fault)) => return Err(fault),
            Err(Failure::Scan(error)) if corrected.correct(&error) => {}
            Err(Failure::Scan(error)) => {
                let (mark, text) = (error.marker(), error.info());
                return Err(Fault::new(mark.line() as u64, format!("{text} at column {}", mark.col() + 1)));
            }
            Ok(root) => {
                *nodes = left;
                return Ok(root);
            }
        }
    }
}

/// Why a document cannot be composed.
enum Failure {
    Scan(ScanError),
    Fault(Fault),
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

fn compose(text: &str, nodes: &mut usize) -> Result<Option<(u64, Value)>, Failure> {
    let mut options = granit_parser::options! {
        block_nesting_limit: 2 * MAX_DEPTH,
        bom_inside_document_as_content: true,
        emit_anchor_events: true,
        flow_nesting_limit: 2 * MAX_DEPTH,
    };
    options.set_emit_comments(false);
    let events = Parser::new_from_str_with_options(text, options);
    Composer { text, events, anchors: HashMap::new(), copied: 0, nodes, flow: 0 }.document()
}

/// A value while it is composed.
#[derive(Clone)]
enum Content {
    Scalar(Scalar),
    Collection(Value),
}

/// A composed node.
#[derive(Clone)]
struct Node {
    content: Content,
    /// The depth of nesting; 0 for a scalar.
    depth: usize,
    /// The approximate memory of the node in bytes.
    size: usize,
}

struct Composer<'t> {
    text: &'t str,
    events: Parser<'t, StrInput<'t>>,
    /// The anchored nodes, by the parser's number of the anchor.
    anchors: HashMap<usize, Node>,
    /// The memory of copies for anchors and aliases so far, in bytes.
    copied: usize,
    /// The number of nodes that may follow.
    nodes: &'t mut usize,
    /// The number of flow collections that are open.
    flow: usize,
}

type Next<'t> = (Event<'t>, Span);

impl<'t> Composer<'t> {
    fn document(mut self) -> Result<Option<(u64, Value)>, Failure> {
        let mut root = None;
        loop {
            match self.next()? {
                (Event::StreamEnd, _) => return Ok(root),
                (Event::StreamStart | Event::DocumentStart(..) | Event::DocumentEnd, _) => {}
                (_, span) if root.is_some() => {
                    return Err(fault(
                        span,
                        "a second document starts here: separate documents by a line `---`",
                    ));
                }
                next => {
                    let line = next.1.start.line() as u64;
                    let node = self.node(next, 0)?;
                    root = Some((line, value(node.content, line)?));
                }
            }
        }
    }

    fn next(&mut self) -> Result<Next<'t>, Failure> {
        match self.events.next_event() {
            Some(Ok((Event::Anchor(_, name), span))) => {
                // go-yaml ends the name of an anchor at the first character outside this set.
                let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
                if name.chars().all(is_name) {
                    return self.next();
                }
                Err(fault(span, format!("anchor `{name}` may contain only letters, digits, `-` and `_`")))
            }
            Some(Ok(next)) => Ok(next),
            Some(Err(error)) => Err(Failure::Scan(error)),
            None => Err(Fault::new(1, "unexpected end of the text").into()),
        }
    }

    /// Composes the node that starts with this event. `above` is the number of collections that contain the node.
    fn node(&mut self, (event, span): Next<'t>, above: usize) -> Result<Node, Failure> {
        *self.nodes = self.nodes.checked_sub(1).ok_or_else(|| fault(span, "the file has too many nodes"))?;
        let node = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let scalar = self.scalar(&text, style, tag.as_deref(), span)?;
                let node = Node { content: Content::Scalar(scalar), depth: 0, size: NODE_SIZE + text.len() };
                return self.anchored(anchor, node, span);
            }
            Event::Alias(anchor) => {
                let Some(node) = self.anchors.get(&anchor) else {
                    return Err(fault(span, "the value of an anchor contains itself"));
                };
                let node = node.clone();
                self.copy(&node, span)?;
                node
            }
            Event::SequenceStart(style, anchor, _) => {
                check_depth(above + 1, span)?;
                let sequence = self.within(style, |this| this.sequence(above + 1))?;
                self.anchored(anchor, sequence, span)?
            }
            Event::MappingStart(style, anchor, _) => {
                check_depth(above + 1, span)?;
                let mapping = self.within(style, |this| this.mapping(above + 1))?;
                self.anchored(anchor, mapping, span)?
            }
            _ => return Err(fault(span, "expected a value")),
        };
        check_depth(above + node.depth, span)?;
        Ok(node)
    }

    /// Stores a copy of `node` for aliases. If `anchor` is 0, the node has no anchor.
    fn anchored(&mut self, anchor: usize, node: Node, span: Span) -> Result<Node, Failure> {
        if anchor != 0 {
            self.copy(&node, span)?;
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn copy(&mut self, node: &Node, span: Span) -> Result<(), Failure> {
        self.copied += node.size;
        if self.copied > MAX_COPIED {
            return Err(fault(span, "anchors and aliases take too much memory"));
        }
        Ok(())
    }

    fn within<T>(&mut self, style: StructureStyle, read: impl FnOnce(&mut Self) -> T) -> T {
        let is_flow = usize::from(style == StructureStyle::Flow);
        self.flow += is_flow;
        let read = read(self);
        self.flow -= is_flow;
        read
    }

    fn sequence(&mut self, above: usize) -> Result<Node, Failure> {
        let (mut items, mut depth, mut size) = (Vec::new(), 0, NODE_SIZE);
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => break,
                next => {
                    let line = next.1.start.line() as u64;
                    let node = self.node(next, above)?;
                    (depth, size) = (depth.max(node.depth), size + node.size);
                    items.push(value(node.content, line)?);
                }
            }
        }
        Ok(Node { content: Content::Collection(items.into()), depth: depth + 1, size })
    }

    fn mapping(&mut self, above: usize) -> Result<Node, Failure> {
        // Keys that come only from merges may be repeated.
        let (mut fields, mut only_merged) = (Map::new(), HashSet::new());
        let (mut depth, mut size) = (0, NODE_SIZE);
        loop {
            let next = match self.next()? {
                (Event::MappingEnd, _) => break,
                next => next,
            };
            let span = next.1;
            if is_merge(&next.0) {
                let merged = self.merged(above)?;
                (depth, size) = (depth.max(merged.depth.saturating_sub(1)), size + merged.size);
                // As in kubectl, the last of several values wins, whether it is merged or not.
                if let Content::Collection(Value::Object(merged)) = merged.content {
                    for (key, value) in merged {
                        if fields.insert(key.clone(), value).is_none() {
                            only_merged.insert(key);
                        }
                    }
                }
                continue;
            }
            let key = match self.node(next, above)?.content {
                Content::Scalar(scalar) => scalar.key(),
                Content::Collection(_) => Err("a list or an object cannot be a key".to_owned()),
            };
            let key = key.map_err(|text| fault(span, text))?;
            if fields.contains_key(&key) && !only_merged.remove(&key) {
                return Err(fault(span, format!("duplicate key {key:?}")));
            }
            let next = self.next()?;
            let line = next.1.start.line() as u64;
            let node = self.node(next, above)?;
            (depth, size) = (depth.max(node.depth), size + key.len() + node.size);
            fields.insert(key, value(node.content, line)?);
        }
        Ok(Node { content: Content::Collection(fields.into()), depth: depth + 1, size })
    }

    /// The mapping that a merge key `<<` adds. If the key lists several mappings, the first one wins.
    fn merged(&mut self, above: usize) -> Result<Node, Failure> {
        let (event, span) = self.next()?;
        if !matches!(event, Event::SequenceStart(..)) {
            return self.merged_mapping((event, span), above);
        }
        let mut mappings = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => break,
                next => mappings.push(self.merged_mapping(next, above)?),
            }
        }
        let (mut fields, mut depth, mut size) = (Map::new(), 1, NODE_SIZE);
        for node in mappings.into_iter().rev() {
            (depth, size) = (depth.max(node.depth), size + node.size);
            if let Content::Collection(Value::Object(merged)) = node.content {
                fields.extend(merged);
            }
        }
        Ok(Node { content: Content::Collection(fields.into()), depth, size })
    }

    fn merged_mapping(&mut self, next: Next<'t>, above: usize) -> Result<Node, Failure> {
        let span = next.1;
        let node = match next.0 {
            Event::Alias(_) | Event::MappingStart(..) => Some(self.node(next, above)?),
            _ => None,
        };
        node.filter(|node| matches!(node.content, Content::Collection(Value::Object(_))))
            .ok_or_else(|| fault(span, "`<<` merges an object or a list of objects"))
    }

    fn scalar(
        &self,
        text: &str,
        style: ScalarStyle,
        tag: Option<&Tag>,
        span: Span,
    ) -> Result<Scalar, Failure> {
        let is_plain = style == ScalarStyle::Plain;
        if is_plain && self.flow > 0 {
            self.check_plain_in_flow(text, span)?;
        }
        let Some(tag) = tag else {
            return Ok(if is_plain { scalar::resolve(text) } else { Scalar::Text(text.to_owned()) });
        };
        let name = tag.suffix_in_namespace(TAGS);
        scalar::tagged(name.as_deref().unwrap_or_default(), text).map_err(|text| fault(span, text))
    }

    /// Rejects plain scalars that YAML 1.1, and thus go-yaml, would split differently.
    fn check_plain_in_flow(&self, text: &str, span: Span) -> Result<(), Failure> {
        if text.contains('?') {
            return Err(fault(span, format!("quote {text:?}: it has a `?` between brackets or braces")));
        }
        if text.is_empty() {
            return Ok(());
        }
        let rest = span.end.byte_offset().and_then(|end| self.text.get(end..)).unwrap_or_default();
        if rest.strip_prefix(':').is_some_and(|rest| rest.starts_with([',', ']', '}'])) {
            return Err(fault(span, format!("write a space after the `:` of {text:?}")));
        }
        Ok(())
    }
}

fn is_merge(event: &Event) -> bool {
    let Event::Scalar(text, style, _, tag) = event else { return false };
    let tag = tag.as_ref().map(|tag| tag.suffix_in_namespace(TAGS));
    text == "<<"
        && match tag {
            None => *style == ScalarStyle::Plain,
            Some(name) => name.as_deref() == Some("merge"),
        }
}

fn check_depth(depth: usize, span: Span) -> Result<(), Failure> {
    if depth > MAX_DEPTH {
        return Err(fault(span, format!("lists and objects are nested more than {MAX_DEPTH} deep")));
    }
    Ok(())
}

fn value(content: Content, line: u64) -> Result<Value, Failure> {
    match content {
        Content::Scalar(scalar) => scalar.value().map_err(|text| Fault::new(line, text).into()),
        Content::Collection(value) => Ok(value),
    }
}

fn fault(span: Span, text: impl Into<String>) -> Failure {
    Fault::new(span.start.line() as u64, text).into()
}
