//! What a user asks for, as far as the hub has it and lets it be read.

use anyhow::bail;

use super::hub::{Hub, Kinds, Selection};
use super::kinds::{self, Meant, PolicyKind};
use super::report::Report;
use crate::api::names::ControllerName;
use crate::cli::live::is_forbidden;

/// What was found.
pub(super) struct Found {
    /// The kinds whose policies may be read.
    pub(super) kinds: Vec<PolicyKind>,
    /// Their policies.
    pub(super) reports: Vec<Report>,
    /// What is wrong with the parameters.
    pub(super) faults: Vec<String>,
    /// What may not be read.
    pub(super) unread: Vec<String>,
    /// Whether there is any class of ours.
    pub(super) classes: bool,
}

impl Found {
    /// Reads the policies of `selection`, of the kind that `word` means or of all that the classes of `controller`
    /// list. `hint` is added where rights are missing.
    ///
    /// # Errors
    ///
    /// Where `word` means no such kind, or nothing can be read.
    pub(super) async fn read(
        hub: &Hub,
        controller: &ControllerName,
        word: Option<&str>,
        selection: Selection<'_>,
        hint: &str,
    ) -> anyhow::Result<Self> {
        let Kinds { mut kinds, faults, mut unread, classes } = hub.kinds(controller).await?;
        if kinds.is_empty() && !unread.is_empty() {
            bail!(unread.join("; "));
        }
        if let Some(word) = word {
            kinds = vec![kind_of(hub, &kinds, word).await?.clone()];
        }
        let (mut reports, mut forbidden, all) = (Vec::new(), Vec::new(), kinds.len());
        let mut readable = Vec::new();
        for kind in kinds {
            match hub.policies(&kind, selection).await {
                Ok(policies) => {
                    reports.extend(policies.iter().map(|policy| Report::new(&kind, &policy.metadata)));
                    readable.push(kind);
                }
                Err(error) if is_forbidden(&error) => forbidden.push((kind, error)),
                Err(error) => return Err(hub.failure(&format!("list {}", kind.gvr.kind), &error)),
            }
        }
        if let Some((_, error)) = forbidden.first() {
            let names: Vec<&str> = forbidden.iter().map(|(kind, _)| &*kind.kind).collect();
            unread.push(format!("{}{hint}", hub.failure(&format!("list {}", names.join(", ")), error)));
            if forbidden.len() == all {
                bail!(unread.join("; "));
            }
        }
        reports.sort_by(|a, b| (&a.namespace, &a.kind, &a.name).cmp(&(&b.namespace, &b.kind, &b.name)));
        Ok(Self { kinds: readable, reports, faults, unread, classes })
    }
}

/// The kind that a user means by `word`.
async fn kind_of<'k>(hub: &Hub, kinds: &'k [PolicyKind], word: &str) -> anyhow::Result<&'k PolicyKind> {
    let listed = || match kinds {
        [] => "none".to_owned(),
        kinds => kinds.iter().map(|kind| &*kind.kind).collect::<Vec<_>>().join(", "),
    };
    let full = |kinds: &[&PolicyKind]| {
        kinds.iter().map(|kind| kind.gvr.kind.to_string()).collect::<Vec<_>>().join(" or ")
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
