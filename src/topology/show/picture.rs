//! A graph as a picture, without its markup: boxes in columns, by what they are, and lines between them.
//!
//! ```text
//! GatewayClasses │ Gateways with their listeners │ ListenerSets │ routes with their rules │ what these lead to
//! ```
//!
//! A picture is for people, so it is bounded: what is at fault comes first, and one box counts the rest of a column.

mod order;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{Named, TopologyReport};
use crate::api::text::named;
use crate::topology::graph::{Graph, NodeId, ObjectRow};
use crate::topology::locator::{GATEWAY, GATEWAY_CLASS, LISTENER_SET, Locator};

/// The most boxes of a column.
const BOXES: usize = 100;
/// The most rows of a box that are not at fault and have no policies. An object of a hub has 64 listeners at most.
const ROWS: usize = 4;
/// From so many listeners of one object to one route on, one line from the object stands for all of them.
const LISTENERS: usize = 4;

/// What is in a column.
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
    /// Services, and whatever else rules lead to.
    Backends,
}

impl Column {
    /// All, from the left.
    pub const ALL: [Self; 5] = [Self::Classes, Self::Gateways, Self::Sets, Self::Routes, Self::Backends];

    /// What is in it, for people.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Classes => "GatewayClasses",
            Self::Gateways => "Gateways",
            Self::Sets => "ListenerSets",
            Self::Routes => "routes",
            Self::Backends => "backends",
        }
    }

    /// The same at the head of the column.
    #[must_use]
    pub fn heading(self) -> &'static str {
        match self {
            Self::Routes => "Routes",
            Self::Backends => "Backends",
            Self::Classes | Self::Gateways | Self::Sets => self.words(),
        }
    }

    fn of(graph: &Graph<'_>, node: NodeId) -> Self {
        let object = graph.object(node);
        match (&object.row, object.locator.kind) {
            (ObjectRow::Route(..), _) => Self::Routes,
            (_, GATEWAY_CLASS) => Self::Classes,
            (_, GATEWAY) => Self::Gateways,
            (_, LISTENER_SET) => Self::Sets,
            _ => Self::Backends,
        }
    }
}

/// A line of a box: its title, or a section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// What it says.
    pub text: String,
    /// What it says where there is room for more.
    pub title: String,
    /// The policies on it.
    pub policies: Vec<Named>,
    /// Whether something of it is at fault.
    pub faulty: bool,
}

/// A box.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tile {
    /// The object's name; `None` of the box that counts the rest.
    pub object: Option<Named>,
    /// Its title, and then its sections.
    pub rows: Vec<Row>,
    /// Why it is not attached, with the reason first.
    pub unattached: Vec<String>,
}

/// A row of a box: the number of the column, of the box in it, and of the row in that.
pub type Place = (usize, usize, usize);

/// A picture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Picture {
    /// The columns that have boxes, from the left.
    pub columns: Vec<(Column, Vec<Tile>)>,
    /// The lines.
    pub lines: BTreeSet<(Place, Place)>,
}

impl Picture {
    /// The picture of what `report` shows.
    #[must_use]
    pub fn new(report: &TopologyReport<'_, '_>) -> Self {
        Drawing::new(report).picture()
    }
}

/// A box, while it is put together.
struct Draft {
    node: NodeId,
    /// The nodes of its rows: the object, and those of its sections that are shown.
    rows: Vec<NodeId>,
    /// How many sections are not.
    more: usize,
}

struct Drawing<'r, 'g, 'f> {
    report: &'r TopologyReport<'g, 'f>,
    graph: &'g Graph<'f>,
    /// Why objects are not attached, by their locators.
    unattached: HashMap<Locator<'f>, Vec<String>>,
    /// The nodes at fault.
    faulty: BTreeSet<NodeId>,
    columns: BTreeMap<Column, Vec<Draft>>,
    rest: BTreeMap<Column, usize>,
}

impl<'r, 'g, 'f> Drawing<'r, 'g, 'f> {
    fn new(report: &'r TopologyReport<'g, 'f>) -> Self {
        let graph = report.graph();
        let mut unattached: HashMap<Locator<'f>, Vec<String>> = HashMap::new();
        for item in report.unattached().filter(|item| item.reason.is_fault()) {
            let why = format!("{}: {}", item.reason, item.message);
            unattached.entry(item.from).or_default().push(why);
        }
        let mut drawing = Self {
            report,
            graph,
            unattached,
            faulty: BTreeSet::new(),
            columns: BTreeMap::new(),
            rest: BTreeMap::new(),
        };
        drawing.find_faults();
        drawing.choose();
        drawing
    }

    fn find_faults(&mut self) {
        let objects: BTreeSet<&str> = self.report.faults().iter().map(|fault| &*fault.object).collect();
        let is_faulty = |node: &NodeId| {
            let locator = self.graph.locator(*node);
            let is_void = self.graph.policies_on(*node).any(|policy| policy.void.is_some());
            is_void
                || self.unattached.contains_key(&locator)
                || !objects.is_empty() && objects.contains(&*locator.to_string())
        };
        self.faulty = self.report.nodes().filter(is_faulty).collect();
    }

    fn is_faulty(&self, object: NodeId) -> bool {
        [object].into_iter().chain(self.graph.sections(object)).any(|node| self.faulty.contains(&node))
    }

    /// Chooses what is shown: of each column the boxes at fault first, of backends those that shown routes lead to.
    fn choose(&mut self) {
        let mut nodes: BTreeMap<Column, Vec<NodeId>> = BTreeMap::new();
        for node in self.report.nodes().filter(|node| !self.graph.is_section(*node)) {
            nodes.entry(Column::of(self.graph, node)).or_default().push(node);
        }
        for (column, mut all) in nodes {
            if column == Column::Backends {
                let led = self.led_to();
                let count = all.len();
                all.retain(|node| led.contains(node) || self.graph.policies_on(*node).next().is_some());
                *self.rest.entry(column).or_default() += count - all.len();
            }
            all.sort_by_key(|node| (!self.is_faulty(*node), *node));
            *self.rest.entry(column).or_default() += all.len().saturating_sub(BOXES);
            all.truncate(BOXES);
            all.sort();
            let drafts = all.into_iter().map(|node| self.draft(node)).collect();
            self.columns.insert(column, drafts);
        }
    }

    /// The objects that routes of the picture lead to.
    fn led_to(&self) -> BTreeSet<NodeId> {
        let routes = self.columns.get(&Column::Routes).into_iter().flatten();
        let rules = routes.flat_map(|draft| self.graph.sections(draft.node));
        rules.flat_map(|rule| self.graph.links(rule)).map(|to| self.object_of(to)).collect()
    }

    fn object_of(&self, node: NodeId) -> NodeId {
        if self.graph.is_section(node) { self.graph.holder(node) } else { node }
    }

    fn draft(&self, node: NodeId) -> Draft {
        let mut sections: Vec<NodeId> = self.graph.sections(node).collect();
        let count = sections.len();
        // Listeners are what a Gateway is; of the rest, what has something to say stands first.
        if self.graph.object(node).row.listeners().is_empty() && count > ROWS {
            let has_to_say = |section: &NodeId| {
                self.faulty.contains(section) || self.graph.policies_on(*section).next().is_some()
            };
            sections.sort_by_key(|section| (!has_to_say(section), *section));
            sections.truncate(ROWS);
            sections.sort();
        }
        let more = count - sections.len();
        Draft { node, rows: [node].into_iter().chain(sections).collect(), more }
    }

    fn picture(mut self) -> Picture {
        let lines = self.lines();
        let nodes = self.columns.values().flatten().map(|draft| draft.node);
        let unattached: BTreeSet<NodeId> =
            nodes.filter(|node| self.unattached.contains_key(&self.graph.locator(*node))).collect();
        order::order(&mut self.columns, &lines, &unattached);
        let mut places: HashMap<NodeId, Place> = HashMap::new();
        let mut columns = Vec::new();
        for (column, drafts) in &self.columns {
            for (index, draft) in drafts.iter().enumerate() {
                for (row, node) in draft.rows.iter().enumerate() {
                    places.insert(*node, (columns.len(), index, row));
                }
                // What is not shown leads from the row that counts it.
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
        let placed = lines.iter().filter_map(|(from, to)| Some((*places.get(from)?, *places.get(to)?)));
        Picture { lines: placed.collect(), columns }
    }

    /// The lines between nodes of different boxes, those from many listeners of one object to one route drawn once.
    fn lines(&self) -> Vec<(NodeId, NodeId)> {
        let drawn: BTreeSet<NodeId> = self.columns.values().flatten().map(|draft| draft.node).collect();
        let mut lines: BTreeMap<(NodeId, NodeId), Vec<NodeId>> = BTreeMap::new();
        for draft in self.columns.values().flatten() {
            for from in [draft.node].into_iter().chain(self.graph.sections(draft.node)) {
                for to in self.graph.links(from) {
                    let object = self.object_of(to);
                    if object != draft.node && drawn.contains(&object) {
                        lines.entry((draft.node, to)).or_default().push(from);
                    }
                }
            }
        }
        let each = lines.into_iter().flat_map(|((object, to), from)| {
            let from = if from.len() >= LISTENERS { vec![object] } else { from };
            from.into_iter().map(move |from| (from, to))
        });
        each.collect()
    }

    fn tile(&self, draft: &Draft) -> Tile {
        let mut rows: Vec<Row> = draft.rows.iter().map(|node| self.row(*node)).collect();
        if draft.more > 0 {
            let text = format!("{} more", draft.more);
            rows.push(Row { title: text.clone(), text, policies: Vec::new(), faulty: false });
        }
        let object = self.graph.locator(draft.node);
        let unattached = self.unattached.get(&object).cloned().unwrap_or_default();
        Tile { object: Some(Named::object(object)), rows, unattached }
    }

    fn row(&self, node: NodeId) -> Row {
        let graph = self.graph;
        let locator = graph.locator(node);
        let words = Named::on_path(graph, node).words;
        let (text, more) = match (graph.listener(node), graph.rule(node), &graph.object(node).row) {
            (Some(listener), ..) => {
                let host = listener.hostname.as_deref().unwrap_or("*");
                let text = format!("{}: {} {}", listener.name, listener.protocol, listener.port);
                (format!("{text} {host}"), Vec::new())
            }
            (_, Some(_), _) => (words.clone(), self.unattached.get(&locator).cloned().unwrap_or_default()),
            (_, _, ObjectRow::Route(_, route)) => {
                (words.clone(), route.hostnames.iter().map(|name| name.to_string()).collect())
            }
            (_, _, ObjectRow::Leaf(_)) => (format!("{words} (not known)"), Vec::new()),
            _ if graph.is_section(node) => (
                format!("port {}", locator.section.map(|port| port.to_string()).unwrap_or_default()),
                Vec::new(),
            ),
            _ => (
                words.clone(),
                graph.origin(node).map(|origin| format!("copy of the hub's {origin}")).into_iter().collect(),
            ),
        };
        let title = if more.is_empty() { text.clone() } else { format!("{text}: {}", named(&more)) };
        let policies = graph.policies_on(node).map(|policy| Named::object(policy.locator)).collect();
        Row { text, title, policies, faulty: self.faulty.contains(&node) }
    }
}

fn rest_of(column: Column, count: usize) -> Tile {
    let text = format!("{count} more {}", column.words());
    let row = Row { title: text.clone(), text, policies: Vec::new(), faulty: false };
    Tile { object: None, rows: vec![row], unattached: Vec::new() }
}
