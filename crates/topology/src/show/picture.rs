//! The layout of a graph as a picture, without markup: boxes in columns by kind, and lines between them.
//!
//! ```text
//! GatewayClasses │ Gateways with their listeners │ ListenerSets │ routes with their rules │ backends
//! ```
//!
//! The size of a picture is bounded. If a column has too many objects, objects with faults are kept first. The last box
//! of the column counts the objects that are omitted.

mod order;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::{NodeLabel, TopologyReport};
use crate::graph::{Graph, NodeId, ObjectRow};
use crate::locator::{GATEWAY, GATEWAY_CLASS, Locator};
use crate::rows::SetKind;
use policy_sync_api::text::named;

/// The maximum number of boxes in a column.
const BOXES: usize = 100;
/// The maximum number of sections in a box. Sections with faults or policies are kept first. Listeners are not limited,
/// because an object of a hub has at most 64 listeners.
const ROWS: usize = 4;
/// If at least this many listeners of one object carry the same route, a single line from the object replaces the lines
/// from these listeners.
const LISTENERS: usize = 4;

/// The columns of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Column {
    /// GatewayClasses.
    Classes,
    /// Gateways.
    Gateways,
    /// ListenerSets.
    Sets,
    /// Routes.
    Routes,
    /// Services and other backends of rules.
    Backends,
    /// Policies without effect, and policies whose targets are unknown.
    Policies,
}

impl Column {
    /// The name of the column's content, for use in a sentence.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Classes => "GatewayClasses",
            Self::Gateways => "Gateways",
            Self::Sets => "ListenerSets",
            Self::Routes => "routes",
            Self::Backends => "backends",
            Self::Policies => "policies without effect",
        }
    }

    /// The heading of the column.
    #[must_use]
    pub fn heading(self) -> &'static str {
        match self {
            Self::Routes => "Routes",
            Self::Backends => "Backends",
            Self::Policies => "Policies without effect",
            Self::Classes | Self::Gateways | Self::Sets => self.words(),
        }
    }

    fn of(graph: &Graph<'_>, node: NodeId) -> Self {
        let object = graph.object(node);
        match (&object.row, object.locator.kind) {
            (ObjectRow::Route(..), _) => Self::Routes,
            (_, GATEWAY_CLASS) => Self::Classes,
            (_, GATEWAY) => Self::Gateways,
            (_, kind) if SetKind::named(kind).is_some() => Self::Sets,
            _ => Self::Backends,
        }
    }
}

/// A row of a box: its title or a section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The text of the row.
    pub text: String,
    /// The tooltip, which may be longer.
    pub title: String,
    /// The policies on the object or section.
    pub policies: Vec<NodeLabel>,
    /// Whether the object or section has a fault.
    pub faulty: bool,
}

/// A box in a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tile {
    /// The object; `None` for the box that counts omitted objects.
    pub object: Option<NodeLabel>,
    /// The object's title, followed by its sections.
    pub rows: Vec<Row>,
    /// The faults of the object: why it is not attached or has no effect, and faults in its fields.
    pub faults: Vec<String>,
}

/// The position of a row: the index of the column, of the box in it, and of the row in the box.
pub type RowPosition = (usize, usize, usize);

/// A picture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Picture {
    /// The columns with boxes, from left to right.
    pub columns: Vec<(Column, Vec<Tile>)>,
    /// The lines between rows.
    pub lines: BTreeSet<(RowPosition, RowPosition)>,
}

impl Picture {
    /// Lays out the content of `report`.
    #[must_use]
    pub fn new(report: &TopologyReport<'_, '_>) -> Self {
        Self::with_routes(report, "")
    }

    /// Like [`new`](Self::new), but only with routes whose name (`HTTPRoute shop/cart`) or host contains
    /// `text`, ignoring case.
    #[must_use]
    pub fn with_routes(report: &TopologyReport<'_, '_>, text: &str) -> Self {
        PictureBuilder::new(report, text).picture()
    }
}

/// A box under construction.
struct TileDraft {
    node: NodeId,
    /// The nodes of the box's rows: the object and the sections to show.
    rows: Vec<NodeId>,
    /// The number of omitted sections.
    more: usize,
}

struct PictureBuilder<'r, 'g, 'f> {
    report: &'r TopologyReport<'g, 'f>,
    graph: &'g Graph<'f>,
    /// The text that the names or hosts of routes must contain, in lower case; empty for all routes.
    routes: String,
    /// The reasons why objects and sections are not attached.
    unattached: HashMap<Locator<'f>, Vec<String>>,
    /// The reasons why references of sections do not resolve. The flag is true if the reason is a fault.
    unresolved: HashMap<Locator<'f>, Vec<(bool, String)>>,
    /// Other faults of objects, by their locators.
    faults: HashMap<&'r str, Vec<String>>,
    columns: BTreeMap<Column, Vec<TileDraft>>,
    rest: BTreeMap<Column, usize>,
}

impl<'r, 'g, 'f> PictureBuilder<'r, 'g, 'f> {
    fn new(report: &'r TopologyReport<'g, 'f>, routes: &str) -> Self {
        let graph = report.graph();
        let mut unattached: HashMap<Locator<'f>, Vec<String>> = HashMap::new();
        for item in report.unattached().filter(|item| item.reason.is_fault()) {
            let why = format!("{}: {}", item.reason, item.message);
            unattached.entry(item.from).or_default().push(why);
        }
        let mut unresolved: HashMap<Locator<'f>, Vec<(bool, String)>> = HashMap::new();
        for item in report.unresolved() {
            let why = format!("{}: {}", item.reason, item.message);
            unresolved.entry(item.from).or_default().push((item.reason.is_fault(), why));
        }
        let mut faults: HashMap<&str, Vec<String>> = HashMap::new();
        for fault in report.faults() {
            faults.entry(&fault.object).or_default().push(fault.message.clone());
        }
        let (columns, rest) = (BTreeMap::new(), BTreeMap::new());
        let mut drawing = Self {
            report,
            graph,
            routes: routes.to_lowercase(),
            unattached,
            unresolved,
            faults,
            columns,
            rest,
        };
        drawing.choose();
        drawing
    }

    fn is_faulty(&self, node: NodeId) -> bool {
        let locator = self.graph.locator(node);
        self.unattached.contains_key(&locator)
            || self.unresolved.get(&locator).into_iter().flatten().any(|(is_fault, _)| *is_fault)
            || !self.faults.is_empty() && self.faults.contains_key(&*locator.to_string())
    }

    /// Whether an object or one of its sections has a fault.
    fn has_faults(&self, object: NodeId) -> bool {
        [object].into_iter().chain(self.graph.sections(object)).any(|node| self.is_faulty(node))
    }

    /// The objects in the report, and the objects that the report omits because they do not attach.
    fn objects(&self) -> impl Iterator<Item = NodeId> {
        let refused: HashSet<Locator<'f>> = self.unattached.keys().map(|from| from.with(None)).collect();
        let nodes = self.graph.object_nodes();
        nodes.filter(move |node| self.report.shows(*node) || refused.contains(&self.graph.locator(*node)))
    }

    /// Selects the objects to show. Objects with faults are selected first. Backends are shown only if they have
    /// policies, or if shown routes refer to them.
    fn choose(&mut self) {
        let mut nodes: BTreeMap<Column, Vec<NodeId>> = BTreeMap::new();
        for node in self.objects() {
            nodes.entry(Column::of(self.graph, node)).or_default().push(node);
        }
        for (column, mut all) in nodes {
            if column == Column::Routes && !self.routes.is_empty() {
                all.retain(|node| self.matches_filter(*node));
            }
            if column == Column::Backends {
                let routed = self.routed_backends();
                let count = all.len();
                all.retain(|node| routed.contains(node) || self.graph.policies_on(*node).next().is_some());
                *self.rest.entry(column).or_default() += count - all.len();
            }
            all.sort_by_cached_key(|node| (!self.has_faults(*node), *node));
            *self.rest.entry(column).or_default() += all.len().saturating_sub(BOXES);
            all.truncate(BOXES);
            all.sort();
            let drafts = all.into_iter().map(|node| self.draft(node)).collect();
            self.columns.insert(column, drafts);
        }
    }

    /// Whether a route contains the searched text.
    fn matches_filter(&self, route: NodeId) -> bool {
        let hosts = match &self.graph.object(route).row {
            ObjectRow::Route(_, route) => &*route.hostnames,
            _ => &[],
        };
        NodeLabel::object(self.graph.locator(route)).words.to_lowercase().contains(&self.routes)
            || hosts.iter().any(|host| host.to_string().contains(&self.routes))
    }

    /// The backends of the routes in the picture.
    fn routed_backends(&self) -> BTreeSet<NodeId> {
        let routes = self.columns.get(&Column::Routes).into_iter().flatten();
        let rules = routes.flat_map(|draft| self.graph.sections(draft.node));
        rules.flat_map(|rule| self.graph.links(rule)).map(|to| self.graph.object_node(to)).collect()
    }

    fn draft(&self, node: NodeId) -> TileDraft {
        let mut sections: Vec<NodeId> = self.graph.sections(node).collect();
        let count = sections.len();
        // All listeners are shown. Of other sections, sections with faults or policies are kept first.
        if self.graph.object(node).row.listeners().is_empty() && count > ROWS {
            let has_faults_or_policies = |section: &NodeId| {
                self.is_faulty(*section) || self.graph.policies_on(*section).next().is_some()
            };
            sections.sort_by_key(|section| (!has_faults_or_policies(section), *section));
            sections.truncate(ROWS);
            sections.sort();
        }
        let more = count - sections.len();
        TileDraft { node, rows: [node].into_iter().chain(sections).collect(), more }
    }

    fn picture(mut self) -> Picture {
        let lines = self.lines();
        let nodes = self.columns.values().flatten().map(|draft| draft.node);
        let unattached: BTreeSet<NodeId> =
            nodes.filter(|node| self.unattached.contains_key(&self.graph.locator(*node))).collect();
        order::order(&mut self.columns, &lines, &unattached);
        let mut places: HashMap<NodeId, RowPosition> = HashMap::new();
        let mut columns = Vec::new();
        for (column, drafts) in &self.columns {
            for (index, draft) in drafts.iter().enumerate() {
                for (row, node) in draft.rows.iter().enumerate() {
                    places.insert(*node, (columns.len(), index, row));
                }
                // The lines of omitted sections begin and end at the row that counts the omitted sections.
                for section in self.graph.sections(draft.node) {
                    places.entry(section).or_insert((columns.len(), index, draft.rows.len()));
                }
            }
            let mut tiles: Vec<Tile> = drafts.iter().map(|draft| self.tile(draft)).collect();
            let rest = self.rest.get(column).copied().unwrap_or_default();
            if rest > 0 {
                tiles.push(rest_of(*column, rest));
            }
            if !tiles.is_empty() {
                columns.push((*column, tiles));
            }
        }
        let no_effect = self.no_effect();
        if !no_effect.is_empty() {
            columns.push((Column::Policies, no_effect));
        }
        let placed = lines.iter().filter_map(|(from, to)| Some((*places.get(from)?, *places.get(to)?)));
        Picture { lines: placed.collect(), columns }
    }

    /// The lines between nodes of different boxes. Lines from many listeners of one object to one route are
    /// combined.
    fn lines(&self) -> Vec<(NodeId, NodeId)> {
        let drawn: BTreeSet<NodeId> = self.columns.values().flatten().map(|draft| draft.node).collect();
        let mut lines: BTreeMap<(NodeId, NodeId), Vec<NodeId>> = BTreeMap::new();
        for draft in self.columns.values().flatten() {
            for from in [draft.node].into_iter().chain(self.graph.sections(draft.node)) {
                for to in self.graph.links(from) {
                    let object = self.graph.object_node(to);
                    if object != draft.node && drawn.contains(&object) {
                        lines.entry((draft.node, to)).or_default().push(from);
                    }
                }
            }
        }
        let each = lines.into_iter().flat_map(|((object, to), from)| {
            let is_listener = |node: &NodeId| self.graph.listener(*node).is_some();
            let are_many = from.len() >= LISTENERS && from.iter().all(is_listener);
            let from = if are_many { vec![object] } else { from };
            from.into_iter().map(move |from| (from, to))
        });
        each.collect()
    }

    /// The policies without effect.
    fn no_effect(&self) -> Vec<Tile> {
        let policies = self.report.policies().filter_map(|policy| Some((policy, policy.no_effect.as_ref()?)));
        let mut tiles: Vec<Tile> = policies
            .map(|(policy, (reason, message))| {
                let object = NodeLabel::object(policy.locator);
                let why = format!("{reason}: {message}");
                let mut rows = vec![Row::plain(object.words.clone(), reason.is_fault())];
                let faults = if reason.is_fault() {
                    vec![why]
                } else {
                    rows.push(Row::plain(why, false));
                    Vec::new()
                };
                Tile { object: Some(object), rows, faults }
            })
            .collect();
        let rest = tiles.len().saturating_sub(BOXES);
        tiles.truncate(BOXES);
        tiles.extend((rest > 0).then(|| rest_of(Column::Policies, rest)));
        tiles
    }

    fn tile(&self, draft: &TileDraft) -> Tile {
        let mut rows: Vec<Row> = draft.rows.iter().map(|node| self.row(*node)).collect();
        if draft.more > 0 {
            rows.push(Row::plain(format!("{} more", draft.more), false));
        }
        let object = NodeLabel::object(self.graph.locator(draft.node));
        let unattached = self.unattached.get(&self.graph.locator(draft.node)).into_iter().flatten();
        let faults = self.faults.get(&*object.id).into_iter().flatten();
        let faults = unattached.chain(faults).cloned().collect();
        Tile { object: Some(object), rows, faults }
    }

    fn row(&self, node: NodeId) -> Row {
        let graph = self.graph;
        let locator = graph.locator(node);
        let words = NodeLabel::on_path(graph, node).words;
        let reasons = || {
            let unattached = self.unattached.get(&locator).into_iter().flatten();
            let unresolved = self.unresolved.get(&locator).into_iter().flatten().map(|(_, why)| why);
            unattached.chain(unresolved).cloned().collect::<Vec<String>>()
        };
        let (text, more) = match (graph.listener(node), graph.rule(node), &graph.object(node).row) {
            (Some(listener), ..) => {
                let host = listener.hostname.as_deref().unwrap_or("*");
                let text = format!("{}: {} {} {host}", listener.name, listener.protocol, listener.port);
                (text, reasons())
            }
            (_, Some(_), _) => (words, reasons()),
            _ if graph.is_section(node) => {
                let what = if Column::of(graph, node) == Column::Backends { "port" } else { "listener" };
                let section = locator.section.map(|section| section.to_string()).unwrap_or_default();
                (format!("{what} {section}"), Vec::new())
            }
            (_, _, ObjectRow::Route(_, route)) => {
                let hosts = route.hostnames.iter().map(|name| name.to_string());
                let unresolved = self.unresolved.get(&locator).into_iter().flatten();
                (words, hosts.chain(unresolved.map(|(_, why)| why.clone())).collect())
            }
            (_, _, ObjectRow::Leaf(_)) => (format!("{words} (unknown)"), Vec::new()),
            _ => (
                words,
                graph.origin(node).map(|hub| format!("copy of the hub's {hub}")).into_iter().collect(),
            ),
        };
        let title = if more.is_empty() { text.clone() } else { format!("{text}: {}", named(&more)) };
        let policies = graph.policies_on(node).map(|policy| NodeLabel::object(policy.locator)).collect();
        Row { text, title, policies, faulty: self.is_faulty(node) }
    }
}

impl Row {
    fn plain(text: String, faulty: bool) -> Self {
        Self { title: text.clone(), text, policies: Vec::new(), faulty }
    }
}

fn rest_of(column: Column, count: usize) -> Tile {
    let row = Row::plain(format!("{count} more {}", column.words()), false);
    Tile { object: None, rows: vec![row], faults: Vec::new() }
}
