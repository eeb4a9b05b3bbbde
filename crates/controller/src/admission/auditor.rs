//! Audits all replicated objects of the kinds that admission policies cover.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use regorus::Value;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::audit::{Existing, Found, LeftOut, Resource, Sort, Violation, audit, unasked};
use crate::rego_loading::{Gated, Loaded};
use policy_sync_api::names::{GroupResource, ObjectKey};
use policy_sync_rego::exemptions::Exemptions;
use policy_sync_rego::snapshot::Snapshot;

/// The name under which objects are kept in the replica.
const KEEPER: &str = "audit";
/// After this many slow evaluations in a namespace, the other objects of the kind there are skipped.
const TOO_LONG: usize = 3;
/// After this many slow evaluations of a kind, its other objects are skipped.
const TOO_LONG_IN_ALL: usize = 30;
/// How often readiness is checked.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// An object that violates placement policies.
#[derive(Clone, Debug)]
pub struct Misplaced {
    /// Its resource.
    pub kind: GroupResource,
    /// Its namespace and name.
    pub key: ObjectKey,
    /// The reason, from the Rego policies.
    pub why: Arc<str>,
    /// Whether placement policies only report, and a user has to act.
    pub is_warning: bool,
}

/// Audits all objects of a hub. Clones share one state.
#[derive(Clone, Debug)]
pub struct Auditor {
    loaded: Loaded,
    exemptions: Exemptions,
    is_wanted: bool,
    named: BTreeSet<GroupResource>,
    moved: Arc<Notify>,
}

impl Auditor {
    /// Audits with the Rego policies of `loaded`, which must not be started yet, without the objects named by
    /// `exemptions`. If not `is_wanted`, no objects are kept.
    #[must_use]
    pub fn new(loaded: Loaded, exemptions: Exemptions, is_wanted: bool) -> Self {
        let moved = Arc::new(Notify::new());
        let notify = moved.clone();
        loaded.follow(KEEPER, move |_| notify.notify_one());
        Self { loaded, exemptions, is_wanted, named: BTreeSet::new(), moved }
    }

    /// Also discovers the served versions of the kinds `named`.
    #[must_use]
    pub fn naming(self, named: BTreeSet<GroupResource>) -> Self {
        Self { named, ..self }
    }

    /// Keeps the objects that admission policies cover in the replica, and follows policy changes. Returns
    /// when the sender is dropped.
    pub async fn keep(self) {
        let mut in_use = self.loaded.in_use();
        loop {
            let kinds = in_use.borrow_and_update().as_ref().map(|in_use| match &in_use.admission {
                // The labels of Namespaces decide which objects are exempt.
                Some(gated) if self.is_wanted => {
                    gated.kinds.iter().cloned().chain([GroupResource::namespaces()]).collect()
                }
                _ => BTreeSet::new(),
            });
            // While Rego policies are unknown, keep the current kinds.
            if let Some(kinds) = kinds {
                self.loaded.keep(KEEPER, kinds, self.named.clone());
                self.moved.notify_one();
            }
            if in_use.changed().await.is_err() {
                return;
            }
        }
    }

    /// Waits until an audit is possible: Rego policies and objects are loaded. [`Self::keep`] must run
    /// concurrently.
    pub async fn ready(&self) {
        while self.missing().is_some() {
            // There is no notification for failed lists, so check again from time to time.
            let _ = timeout(LOOK_AGAIN, self.moved.notified()).await;
        }
    }

    /// Why an audit is not possible yet: Rego policies or objects are not loaded.
    #[must_use]
    pub fn missing(&self) -> Option<String> {
        if let Some(why) = self.unloaded() {
            return Some(why);
        }
        let gated = self.gated()?;
        if let Some(plural) = &gated.awaited {
            return Some(unknown(plural));
        }
        let mut kinds = gated.kinds.into_iter().chain([GroupResource::namespaces()]);
        kinds.find(|kind| self.loaded.is_awaited(kind)).map(|kind| format!("{kind} are not listed"))
    }

    /// Why Rego policies are not loaded yet.
    #[must_use]
    pub fn unloaded(&self) -> Option<String> {
        let (is_loaded, text) = self.loaded.health();
        let is_known = is_loaded && self.loaded.in_use().borrow().is_some();
        (!is_known).then(|| text.trim_end().replace('\n', "; "))
    }

    /// The kinds audited although no Rego policy names them: all replicated kinds, if a policy denies objects
    /// of any kind.
    #[must_use]
    pub fn unnamed(&self) -> Option<BTreeSet<GroupResource>> {
        let gated = self.gated()?;
        gated.any.then(|| kinds(&gated, &self.loaded.snapshot()))
    }

    /// Whether placement policies are loaded.
    #[must_use]
    pub fn places(&self) -> bool {
        self.loaded.in_use().borrow().as_ref().is_some_and(|in_use| in_use.placement)
    }

    fn gated(&self) -> Option<Gated> {
        self.loaded.in_use().borrow().as_ref()?.admission.clone()
    }

    /// Audits all objects and passes each finding to `add`. Takes one evaluation for each object.
    ///
    /// # Errors
    ///
    /// If Rego policies are not loaded, an external engine cannot be reached, or `goes_on` returned false.
    pub fn audit(&self, add: &mut impl FnMut(Found), goes_on: impl Fn() -> bool) -> Result<(), String> {
        if let Some(why) = self.unloaded() {
            return Err(why);
        }
        let (snapshot, Some(gated)) = (self.loaded.snapshot(), self.gated()) else { return Ok(()) };
        unasked(&snapshot).into_iter().map(Found::Violation).for_each(&mut *add);
        if let Some(plural) = &gated.awaited {
            add(error(Resource { kind: plural.clone(), ..Resource::default() }, unknown(plural)));
        }
        let spaces = self.loaded.objects(&GroupResource::namespaces());
        if let Err(why) = &spaces {
            add(error(of_kind(&GroupResource::namespaces()), why.clone()));
        }
        let spaces = spaces.unwrap_or_default();
        let left_out = LeftOut::new(&self.exemptions, spaces.iter().map(|(key, space)| (&*key.name, space)));
        for (kind, namespace, why) in self.loaded.left_out() {
            add(error(Resource { namespace: namespace.to_string(), ..of_kind(&kind) }, why));
        }
        for kind in kinds(&gated, &snapshot) {
            match self.loaded.objects(&kind) {
                Ok(mut objects) => {
                    objects.sort_by(|(one, _), (other, _)| one.cmp(other));
                    self.look_at(&kind, &objects, &snapshot, &left_out, add, &goes_on)?;
                }
                Err(why) => add(error(of_kind(&kind), why)),
            }
        }
        Ok(())
    }

    /// Passes a violation to `add` for each of `objects` that still exists.
    pub fn misplaced(&self, objects: impl IntoIterator<Item = Misplaced>, add: &mut impl FnMut(Found)) {
        let snapshot = self.loaded.snapshot();
        for Misplaced { kind, key, why, is_warning } in objects {
            let (Some(object), Some((gvr, _))) =
                (self.loaded.object(&kind, &key), self.loaded.read_as(&kind))
            else {
                continue;
            };
            let ObjectKey { namespace, name } = key;
            let kind = snapshot.names_of(&kind).into_iter().next().unwrap_or_default();
            let resource = Resource { kind, namespace: namespace.to_string(), name: name.to_string() };
            let sort = Sort::of(&gvr, &object);
            add(Found::Violation(Violation::placement(resource, sort, &why, is_warning)));
        }
    }

    /// Audits `objects` of `kind`.
    fn look_at(
        &self,
        kind: &GroupResource,
        objects: &[(ObjectKey, Value)],
        snapshot: &Snapshot,
        left_out: &LeftOut<'_>,
        add: &mut impl FnMut(Found),
        goes_on: &impl Fn() -> bool,
    ) -> Result<(), String> {
        let Some((gvr, _)) = self.loaded.read_as(kind) else {
            if !objects.is_empty() {
                add(error(of_kind(kind), unknown(&kind.to_string())));
            }
            return Ok(());
        };
        let too_long = |count: usize| {
            format!("Rego policies timed out for {count} of these objects: the others are not audited")
        };
        let (mut in_all, mut by_namespace) = (0, BTreeMap::<&str, usize>::new());
        for (key, object) in objects {
            if !goes_on() {
                return Err("the audit was cancelled".to_owned());
            }
            let (namespace, name) = (&*key.namespace, &*key.name);
            let existing = Existing { gvr: &gvr, namespace, name, object };
            let is_slow = by_namespace.get(namespace).is_some_and(|count| *count >= TOO_LONG);
            if is_slow || left_out.has(existing) {
                continue;
            }
            let judged = audit(snapshot, existing);
            if let Some(why) = judged.unreached {
                return Err(why);
            }
            judged.violations.into_iter().map(Found::Violation).for_each(&mut *add);
            judged.conflict.into_iter().map(Found::Conflict).for_each(&mut *add);
            if !judged.is_too_long {
                continue;
            }
            in_all += 1;
            let count = by_namespace.entry(namespace).or_default();
            *count += 1;
            if in_all == TOO_LONG_IN_ALL {
                add(error(of_kind(kind), too_long(in_all)));
                break;
            }
            // Slow evaluations in one namespace must not affect others.
            if *count == TOO_LONG {
                add(error(Resource { namespace: namespace.to_owned(), ..of_kind(kind) }, too_long(*count)));
            }
        }
        Ok(())
    }
}

/// Reports that `resource` could not be audited.
fn error(resource: Resource, why: String) -> Found {
    Found::Violation(Violation::error(resource, why))
}

/// The message for a resource that API discovery does not list.
fn unknown(plural: &str) -> String {
    format!("API discovery has not found {plural}")
}

/// A [`Resource`] that represents all objects of a kind.
fn of_kind(kind: &GroupResource) -> Resource {
    Resource { kind: kind.to_string(), ..Resource::default() }
}

/// The kinds to audit.
fn kinds(gated: &Gated, snapshot: &Snapshot) -> BTreeSet<GroupResource> {
    let mut kinds = gated.kinds.clone();
    if gated.any {
        kinds.extend(snapshot.kinds().cloned());
    }
    // These kinds are exempt from the webhooks too.
    kinds.retain(|kind| !Exemptions::is_exempt_kind(kind));
    kinds
}
