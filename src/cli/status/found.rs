//! What a user asks for, as far as the hub has it and lets it be read.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::bail;

use super::gateways::Gateways;
use super::hub::{Hub, Kinds, Selection, Watched};
use super::item::{Item, Key};
use super::report::Report;
use super::spoke::Spoke;
use crate::api::names::ControllerName;
use crate::api::object::HubObject;
use crate::cli::kinds::{self, Meant, PolicyKind, full};
use crate::cli::live::is_forbidden;
use crate::cli::scratch::Scratch;

/// What a user asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked<'a> {
    /// Gateways and policies.
    Everything,
    /// Gateways.
    Gateways,
    /// Policies of the kind that the word means, or of all.
    Policies(Option<&'a str>),
    /// Everything on one cluster.
    Cluster,
}

impl<'a> Asked<'a> {
    /// What `word` asks for.
    pub(super) fn by(word: Option<&'a str>) -> Self {
        match word {
            None => Self::Everything,
            Some("policies") => Self::Policies(None),
            Some("cluster" | "clusters" | "managedcluster" | "managedclusters") => Self::Cluster,
            Some(word) if PolicyKind::gateways().is_meant_by(word) => Self::Gateways,
            Some(word) => Self::Policies(Some(word)),
        }
    }

    /// What it is called where there is none.
    pub(super) fn named(self) -> &'static str {
        match self {
            Self::Everything | Self::Cluster => "Gateway and no policy",
            Self::Gateways => "Gateway",
            Self::Policies(_) => "policy",
        }
    }
}

/// What was found.
#[derive(Default)]
pub(super) struct Found {
    /// The kinds whose policies may be read.
    pub(super) kinds: Vec<PolicyKind>,
    /// The Gateways, where they were asked for and may be read.
    pub(super) gateways: Option<Gateways>,
    /// Gateways and policies.
    pub(super) items: Vec<Item>,
    /// What is wrong with the parameters.
    pub(super) faults: Vec<String>,
    /// What may not be read.
    pub(super) unread: Vec<String>,
    /// What may not be read, and is missing in what is shown of Gateways.
    pub(super) works: Option<String>,
    /// Whether there is any class of ours.
    pub(super) classes: bool,
}

impl Found {
    /// Reads what is `asked` for, as far as `selection` selects it. `hint` is added where rights are missing.
    ///
    /// # Errors
    ///
    /// Where a word means no kind, or nothing can be read.
    pub(super) async fn read(
        hub: &Hub,
        controller: &ControllerName,
        asked: Asked<'_>,
        selection: Selection<'_>,
        hint: &str,
    ) -> anyhow::Result<Self> {
        let classes = hub.classes(controller).await?;
        let names = our_classes(&classes);
        let mut found = Self { classes: !names.is_empty(), ..Self::default() };
        if let Asked::Everything | Asked::Policies(_) | Asked::Cluster = asked {
            let word = if let Asked::Policies(word) = asked { word } else { None };
            found.policies(hub, &classes, word, selection, hint).await?;
        }
        if !matches!(asked, Asked::Policies(_)) {
            // Of one cluster, its own works say more.
            let works = asked != Asked::Cluster;
            found.gateways(hub, Gateways::new(controller.clone(), names), selection, works, hint).await?;
        }
        let none = found.kinds.is_empty() && found.gateways.is_none();
        if none && asked != Asked::Cluster && !found.unread.is_empty() {
            bail!(found.unread.join("; "));
        }
        found.items.sort_by_cached_key(|item| match item {
            Item::Gateway(_) | Item::Copy(_) => (item.key(), String::new()),
            // By the kind that is shown, not by its plural.
            Item::Policy(report) => {
                (Key { resource: report.kind.clone(), ..item.key() }, report.resource.clone())
            }
        });
        Ok(found)
    }

    async fn policies(
        &mut self,
        hub: &Hub,
        classes: &Scratch,
        word: Option<&str>,
        selection: Selection<'_>,
        hint: &str,
    ) -> anyhow::Result<()> {
        let Kinds { mut kinds, faults, unread } = hub.kinds(classes).await?;
        (self.faults, self.unread) = (faults, unread);
        if let Some(word) = word {
            if kinds.is_empty() && !self.unread.is_empty() {
                bail!(self.unread.join("; "));
            }
            kinds = vec![kind_of(hub, &kinds, word).await?.clone()];
        }
        let mut forbidden = Vec::new();
        for kind in kinds {
            match hub.policies(&kind, selection).await {
                Ok(policies) => {
                    let report = |policy: &HubObject| Item::from(Report::new(&kind, &policy.metadata));
                    self.items.extend(policies.iter().map(report));
                    self.kinds.push(kind);
                }
                Err(error) if is_forbidden(&error) => forbidden.push((kind, error)),
                Err(error) => return Err(hub.failure(&format!("list {}", kind.gvr.kind), &error)),
            }
        }
        if let Some((_, error)) = forbidden.first() {
            let names: Vec<&str> = forbidden.iter().map(|(kind, _)| &*kind.kind).collect();
            self.unread.push(format!("{}{hint}", hub.failure(&format!("list {}", names.join(", ")), error)));
        }
        Ok(())
    }

    async fn gateways(
        &mut self,
        hub: &Hub,
        mut gateways: Gateways,
        selection: Selection<'_>,
        works: bool,
        hint: &str,
    ) -> anyhow::Result<()> {
        match hub.gateways(selection).await {
            Ok(objects) => drop(gateways.list(objects)),
            Err(error) if is_forbidden(&error) => {
                self.unread.push(format!("{}{hint}", hub.failure("list Gateways", &error)));
                return Ok(());
            }
            Err(error) => return Err(hub.failure("list Gateways", &error)),
        }
        if works {
            match hub.works("", &gateways.selector()).await {
                Ok(works) => drop(gateways.list_works(&works)),
                // Tenants may read their Gateways, and not what is in the namespaces of clusters.
                Err(error) if is_forbidden(&error) => {
                    self.works = Some(hub.failure("list ManifestWorks", &error).to_string());
                }
                Err(error) => return Err(hub.failure("list ManifestWorks", &error)),
            }
        }
        self.items.extend(gateways.reports().into_iter().map(Item::from));
        self.gateways = Some(gateways);
        Ok(())
    }

    /// What to watch for what was found; `spoke` is the cluster that was asked for.
    pub(super) fn watched(&self, spoke: Option<&Spoke>) -> Vec<Watched> {
        let policies = self.kinds.iter().cloned().map(Watched::Policies);
        let gateways = self.gateways.iter().flat_map(|gateways| {
            let works = self.works.is_none() && spoke.is_none();
            let works = works.then(|| Watched::works(None, gateways.selector()));
            [Watched::gateways()].into_iter().chain(works)
        });
        let works = spoke.map(|spoke| Watched::works(Some(&spoke.cluster), spoke.selector()));
        works.into_iter().chain(gateways).chain(policies).collect()
    }
}

fn our_classes(classes: &Scratch) -> BTreeSet<Arc<str>> {
    let guard = classes.read();
    let view = guard.view(Scratch::settled());
    view.our_classes().into_keys().map(|key| key.name.clone()).collect()
}

/// The kind that a user means by `word`.
async fn kind_of<'k>(hub: &Hub, kinds: &'k [PolicyKind], word: &str) -> anyhow::Result<&'k PolicyKind> {
    let listed = || match kinds {
        [] => "none".to_owned(),
        kinds => kinds.iter().map(|kind| &*kind.kind).collect::<Vec<_>>().join(", "),
    };
    let none = match kinds::meant(kinds, word) {
        Meant::Kind(kind) => return Ok(kind),
        Meant::Ambiguous(several) => bail!("{word:?} is ambiguous: write {}", full(&several)),
        Meant::Nothing => format!("{word:?} is no kind of policies that is synced"),
    };
    let known = match kinds::meant(&hub.served().await, word) {
        Meant::Kind(kind) => full(&[kind]),
        Meant::Ambiguous(several) => full(&several),
        Meant::Nothing => bail!("{none}: the parameters of our GatewayClasses list {}", listed()),
    };
    bail!("{none}: no parameters of our GatewayClasses list {known}, but {}", listed());
}
