//! A read-only view of the mirror for plans.

use std::collections::{BTreeMap, BTreeSet};

use regorus::Value;

use super::index::Index;
use super::key::CarrierKey;
use super::kinds::{self, CONFIG_MAPS, DOCUMENTS, REGO_POLICIES, RESOLVED_PLURALS, documents, plural_key};
use super::rows::{Carrier, Document};
use super::settings::Settings;
use super::shares::NamespacedKind;
use super::usage::LeftOutDocuments;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ControllerName, GroupResource, GroupVersionResource, ObjectKey};
use policy_sync_api::rego_policy::PLURAL;
use policy_sync_mirror::plurals::ResolvedPlural;
use policy_sync_mirror::{Source, Tables, WatchFailureKind};

/// The mirror at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'m> {
    tables: &'m Tables,
    index: &'m Index,
    pub now: Moment,
}

/// The state of a kind that modules read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KindState {
    /// All objects of the kind are known.
    Listed(GroupResource),
    /// The hub does not serve the kind, so there are no objects.
    Nowhere,
    /// The kind is not listed yet. Contains the reason if the state lasts.
    Awaited(Option<String>),
    /// The hub rejects the list, with this message.
    Forbidden(String),
}

impl<'m> View<'m> {
    pub(super) fn new(tables: &'m Tables, index: &'m Index, now: Moment) -> Self {
        Self { tables, index, now }
    }

    /// The controller that the mirror belongs to.
    #[must_use]
    pub(super) fn controller(&self) -> &'m ControllerName {
        self.index.controller()
    }

    /// Whether `source` is completely listed.
    #[must_use]
    pub(super) fn is_listed(&self, source: &Source) -> bool {
        self.tables.synced(source).is_some()
    }

    /// Whether `source` is watched and was listed at least in part.
    #[must_use]
    pub(super) fn is_watched(&self, source: &Source) -> bool {
        self.tables.has(source)
    }

    /// The highest resource version seen from `source`.
    #[must_use]
    pub(super) fn version(&self, source: &Source) -> u64 {
        self.tables.version(source)
    }

    /// The hub's error message if `source` cannot be listed or watched.
    #[must_use]
    pub(super) fn failure(&self, source: &Source) -> Option<&'m str> {
        self.tables.failure(source).map(|failing| failing.text.as_str())
    }

    /// The sources of Rego policies: ConfigMaps, and RegoPolicies if the hub serves them.
    pub(super) fn sources(&self, settings: &Settings) -> Vec<Source> {
        let rego_policies = matches!(self.served(&kinds::rego_policies()), Some(ResolvedPlural::Resource(_)));
        kinds::carriers(settings).chain(rego_policies.then(|| REGO_POLICIES.all())).collect()
    }

    /// Why not all Rego policies are known yet: `configmaps in policies are not listed: no answer`.
    #[must_use]
    pub(super) fn unread(&self, settings: &Settings) -> Option<String> {
        let why = |what: String, failure: Option<&str>| match failure {
            Some(failure) => format!("{what} are not listed: {failure}"),
            None => format!("{what} are not listed"),
        };
        match self.served(&kinds::rego_policies()) {
            Some(ResolvedPlural::DiscoveryFailed(fault)) => return Some(why(PLURAL.into(), Some(fault))),
            None => return Some(why(PLURAL.into(), None)),
            Some(_) => {}
        }
        let unread = self.sources(settings).into_iter().find(|source| !self.is_listed(source))?;
        Some(why(unread.to_string(), self.failure(&unread)))
    }

    /// Why the hub rejects lists of Rego policies; one line for each source that was never listed.
    #[must_use]
    pub(super) fn refused(&self, settings: &Settings) -> Vec<String> {
        let unlisted = self.sources(settings).into_iter().filter(|source| !self.is_listed(source));
        let refused = unlisted.filter_map(|source| {
            let refusal = self.tables.access_denial(&source)?;
            Some(format!("cannot list {source}: {}", refusal.text))
        });
        refused.collect()
    }

    /// All objects that may carry Rego policies.
    pub(super) fn carriers(&self, settings: &Settings) -> impl Iterator<Item = (CarrierKey, &'m Carrier)> {
        let tables = self.tables;
        let sources = self.sources(settings).into_iter();
        let rows = sources.filter_map(move |source| tables.table::<Carrier>(&source));
        rows.flat_map(|table| table.iter()).map(|(key, carrier)| (CarrierKey(key.clone()), carrier))
    }

    #[must_use]
    pub(super) fn carrier(&self, key: &CarrierKey) -> Option<&'m Carrier> {
        self.tables.row(&key.source(), &key.0)
    }

    /// The result of API discovery for `plural`; `None` if not known yet.
    #[must_use]
    pub(super) fn served(&self, plural: &str) -> Option<&'m ResolvedPlural> {
        self.tables.get(&RESOLVED_PLURALS, &plural_key(plural))
    }

    /// The resource and version of the kind that modules call `plural`.
    #[must_use]
    pub(super) fn gvr(&self, plural: &str) -> Option<&'m GroupVersionResource> {
        match self.served(plural)? {
            ResolvedPlural::Resource(gvr) => Some(gvr),
            ResolvedPlural::NotWatchable | ResolvedPlural::NotServed | ResolvedPlural::DiscoveryFailed(_) => {
                None
            }
        }
    }

    /// The kind that modules call `plural`.
    #[must_use]
    pub(super) fn resource(&self, plural: &str) -> Option<&'m GroupResource> {
        self.gvr(plural).map(|gvr| &gvr.kind)
    }

    /// The state of the kind that modules call `plural`.
    #[must_use]
    pub(super) fn kind(&self, plural: &str) -> KindState {
        let gvr = match self.served(plural) {
            None => return KindState::Awaited(None),
            Some(ResolvedPlural::DiscoveryFailed(fault)) => return KindState::Awaited(Some(fault.clone())),
            Some(ResolvedPlural::NotServed) => return KindState::Nowhere,
            Some(ResolvedPlural::NotWatchable) => {
                return KindState::Forbidden("the hub does not support list for them".to_owned());
            }
            Some(ResolvedPlural::Resource(gvr)) => gvr,
        };
        let source = documents(&gvr.kind);
        if self.is_listed(&source) {
            return KindState::Listed(gvr.kind.clone());
        }
        match self.tables.failure(&source) {
            Some(failing) if failing.kind == WatchFailureKind::Forbidden => {
                KindState::Forbidden(failing.text.clone())
            }
            Some(failing) => KindState::Awaited(failing.persistent.then(|| failing.text.clone())),
            None => KindState::Awaited(None),
        }
    }

    /// The number of objects of each watched kind.
    #[must_use]
    pub(super) fn counts(&self) -> BTreeMap<&'m GroupResource, usize> {
        let tables = self.tables.resources(&DOCUMENTS);
        tables.map(|(kind, table)| (kind, table.count())).collect()
    }

    /// The number of objects that Rego policies can read. Left-out objects do not count.
    #[must_use]
    pub(super) fn readable(&self) -> BTreeMap<&'m GroupResource, usize> {
        let (mut counts, left_out) = (self.counts(), self.left_out_by_kind());
        for (kind, count) in &mut counts {
            *count = count.saturating_sub(left_out.get(kind).copied().unwrap_or_default());
        }
        counts
    }

    /// The number of left-out objects, for kinds with left-out objects.
    #[must_use]
    pub(super) fn left_out_by_kind(&self) -> BTreeMap<&'m GroupResource, usize> {
        let mut left_out = BTreeMap::new();
        for (part, found) in self.left_out() {
            *left_out.entry(&part.kind).or_default() += found.objects;
        }
        left_out
    }

    /// The objects of `kind`, in the form of `data.kubernetes`.
    #[must_use]
    pub(super) fn documents(&self, kind: &GroupResource) -> Value {
        self.index.documents(kind).cloned().unwrap_or_else(Value::new_object)
    }

    /// All objects of `kind` that are not left out.
    pub(super) fn documents_of(
        &self,
        kind: &GroupResource,
    ) -> impl Iterator<Item = (&'m ObjectKey, &'m Value)> {
        let table = self.tables.table::<Document>(&documents(kind));
        let rows = table.into_iter().flat_map(|table| table.iter());
        rows.filter_map(|(key, document)| Some((key, document.object()?)))
    }

    /// The estimated memory of all documents in bytes.
    #[must_use]
    pub(super) fn bytes(&self) -> usize {
        self.index.usage.kept()
    }

    /// The parts that are left out. A part is the documents of one kind in one namespace.
    pub(super) fn left_out(&self) -> impl Iterator<Item = (&'m NamespacedKind, LeftOutDocuments)> {
        self.index.usage.left_out()
    }

    /// The number of cluster-scoped objects of each watched kind.
    #[must_use]
    pub(super) fn cluster_scoped(&self) -> BTreeMap<&'m GroupResource, usize> {
        self.index.usage.cluster_scoped()
    }

    /// The kinds with left-out documents that now fit the limits.
    #[must_use]
    pub(super) fn returning(&self) -> BTreeSet<GroupResource> {
        self.index.usage.returning()
    }

    /// The row of an object of `kind`, which may be left out.
    #[must_use]
    pub(super) fn document(&self, kind: &GroupResource, key: &ObjectKey) -> Option<&'m Document> {
        self.tables.row(&documents(kind), key)
    }

    /// The failing sources of Rego policies and documents, with their errors.
    pub(super) fn failing(&self) -> impl Iterator<Item = (&'m Source, &'m str)> {
        let failing = self.tables.failing().into_iter();
        failing.filter(|(source, _)| {
            source.is(&DOCUMENTS) || source.is(&CONFIG_MAPS) || source.is(&REGO_POLICIES)
        })
    }
}
