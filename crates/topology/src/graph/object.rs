//! The objects of a graph.

use std::collections::BTreeMap;

use crate::locator::{Locator, Section};
use crate::rows::{Class, Gateway, Listener, ListenerSet, Route, RouteKind, Service};

/// An object of a graph.
#[derive(Debug)]
pub struct Object<'f> {
    /// The object's kind, namespace and name.
    pub locator: Locator<'f>,
    /// The fields that the graph reads.
    pub row: ObjectRow<'f>,
}

/// The fields of an object that the graph reads.
#[derive(Debug)]
pub enum ObjectRow<'f> {
    /// A GatewayClass.
    Class(&'f Class),
    /// A Gateway.
    Gateway(&'f Gateway),
    /// A ListenerSet.
    Set(&'f ListenerSet),
    /// A route.
    Route(RouteKind, &'f Route),
    /// A Service or another backend.
    Backend(&'f Service),
    /// An object that other objects refer to, but whose content is unknown, with the sections that references name.
    Leaf(Vec<Section<'f>>),
}

impl<'f> ObjectRow<'f> {
    /// The listeners of a Gateway or ListenerSet; empty for objects of other kinds.
    #[must_use]
    pub fn listeners(&self) -> &'f [Listener] {
        match self {
            Self::Gateway(gateway) => &gateway.listeners,
            Self::Set(set) => &set.listeners,
            _ => &[],
        }
    }

    /// The object's labels; `None` if they are not read.
    pub fn labels(&self) -> Option<&'f BTreeMap<String, String>> {
        match self {
            Self::Gateway(gateway) => gateway.labels.as_deref(),
            Self::Set(set) => set.labels.as_deref(),
            Self::Route(_, route) => route.labels.as_deref(),
            Self::Class(_) | Self::Backend(_) | Self::Leaf(_) => None,
        }
    }

    /// Whether paths may begin at the object, if it has no parent.
    pub(super) fn may_be_root(&self) -> bool {
        matches!(self, Self::Class(_) | Self::Gateway(_) | Self::Leaf(_))
    }

    /// The number of sections, at most 65,535. No object of the API has more sections.
    pub(super) fn sections(&self) -> usize {
        let count = match self {
            Self::Class(_) => 0,
            Self::Gateway(_) | Self::Set(_) => self.listeners().len(),
            Self::Route(_, route) => route.rules.len(),
            Self::Backend(backend) => backend.ports.len(),
            Self::Leaf(sections) => sections.len(),
        };
        count.min(u16::MAX.into())
    }

    /// The section at `place`.
    pub(super) fn section(&self, place: usize) -> Option<Section<'f>> {
        match self {
            Self::Class(_) => None,
            Self::Gateway(_) | Self::Set(_) => {
                self.listeners().get(place).map(|listener| Section::Named(&listener.name))
            }
            Self::Route(_, route) => route.rules.get(place).map(|rule| match &rule.name {
                Some(name) => Section::Named(name),
                None => {
                    let section = Section::Rule(place + 1);
                    let mut names = route.rules.iter().filter_map(|rule| rule.name.as_deref());
                    if names.any(|name| section.is(name)) { Section::Shadowed(place + 1) } else { section }
                }
            }),
            Self::Backend(backend) => backend.ports.get(place).map(|port| match &port.name {
                Some(name) => Section::Named(name),
                None => Section::Port(port.port),
            }),
            Self::Leaf(sections) => sections.get(place).copied(),
        }
    }
}
