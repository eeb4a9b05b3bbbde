//! Audits all replicated objects of the kinds that admission policies cover.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use regorus::Value;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::audit::{
    AuditExemptions, ExistingObject, Finding, Resource, TypeMeta, Violation, audit, unavailable_violation,
};
use crate::rego_loading::{AdmissionKinds, Loaded};
use policy_sync_api::names::{GroupResource, ObjectKey};
use policy_sync_rego::exemptions::Exemptions;
use policy_sync_rego::snapshot::Snapshot;

/// The name under which the audit requests replicated objects from the loader.
const COMPONENT: &str = "audit";
/// After this many slow evaluations for a kind in one namespace, the other objects of the kind in that namespace are
/// skipped.
const MAX_SLOW_PER_NAMESPACE: usize = 3;
/// After this many slow evaluations for a kind, the other objects of the kind are skipped.
const MAX_SLOW_PER_KIND: usize = 30;
/// How often readiness is checked.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// An object that violates placement policies.
#[derive(Clone, Debug)]
pub struct PlacementViolation {
    /// The object's resource.
    pub kind: GroupResource,
    /// The object's namespace and name.
    pub key: ObjectKey,
    /// The reason, from the Rego policies.
    pub why: Arc<str>,
    /// Whether the violation is only a warning, because remediation waits: for a user, or until the object may be
    /// patched again.
    pub is_warning: bool,
}

/// Audits all objects of a hub. Clones share one state.
#[derive(Clone, Debug)]
pub struct Auditor {
    loaded: Loaded,
    exemptions: Exemptions,
    is_enabled: bool,
    discovered: BTreeSet<GroupResource>,
    changed: Arc<Notify>,
}

impl Auditor {
    /// Creates an auditor with the Rego policies of `loaded`. The loading must not be started yet. The objects named by
    /// `exemptions` are not audited. If not `is_enabled`, no objects are replicated for the audit.
    #[must_use]
    pub fn new(loaded: Loaded, exemptions: Exemptions, is_enabled: bool) -> Self {
        let changed = Arc::new(Notify::new());
        let notify = changed.clone();
        loaded.follow(COMPONENT, move |_| notify.notify_one());
        Self { loaded, exemptions, is_enabled, discovered: BTreeSet::new(), changed }
    }

    /// Makes the auditor also discover the served versions of the kinds `discovered`.
    #[must_use]
    pub fn discovering(self, discovered: BTreeSet<GroupResource>) -> Self {
        Self { discovered, ..self }
    }

    /// Keeps a replica of the objects that admission policies cover, and adjusts it when Rego policies change. Returns
    /// when the sender of these changes is dropped.
    pub async fn keep(self) {
        let mut rego_usage = self.loaded.rego_usage();
        loop {
            let kinds =
                rego_usage.borrow_and_update().as_ref().map(|rego_usage| match &rego_usage.admission {
                    // The labels of Namespaces decide which objects are exempt.
                    Some(admission_kinds) if self.is_enabled => {
                        admission_kinds.kinds.iter().cloned().chain([GroupResource::namespaces()]).collect()
                    }
                    _ => BTreeSet::new(),
                });
            // While Rego policies are unknown, the current kinds stay replicated.
            if let Some(kinds) = kinds {
                self.loaded.keep(COMPONENT, kinds, self.discovered.clone());
                self.changed.notify_one();
            }
            if rego_usage.changed().await.is_err() {
                return;
            }
        }
    }

    /// Waits until an audit is possible: Rego policies and objects are loaded. [`Self::keep`] must run
    /// concurrently.
    pub async fn ready(&self) {
        while self.not_ready_reason().is_some() {
            // Failed lists cause no notification, so the condition is checked again after a while.
            let _ = timeout(POLL_INTERVAL, self.changed.notified()).await;
        }
    }

    /// Why an audit is not possible yet: Rego policies or objects are not loaded.
    #[must_use]
    pub fn not_ready_reason(&self) -> Option<String> {
        if let Some(why) = self.not_loaded_reason() {
            return Some(why);
        }
        let admission_kinds = self.admission_kinds()?;
        if let Some(plural) = &admission_kinds.unresolved {
            return Some(unknown(plural));
        }
        let mut kinds = admission_kinds.kinds.into_iter().chain([GroupResource::namespaces()]);
        kinds.find(|kind| self.loaded.is_awaited(kind)).map(|kind| format!("{kind} are not listed"))
    }

    /// Why Rego policies are not loaded yet.
    #[must_use]
    pub fn not_loaded_reason(&self) -> Option<String> {
        let (is_loaded, text) = self.loaded.health();
        let is_known = is_loaded && self.loaded.rego_usage().borrow().is_some();
        (!is_known).then(|| text.trim_end().replace('\n', "; "))
    }

    /// All audited kinds, if a Rego policy may deny objects of any kind. Otherwise `None`: Rego policies name all
    /// audited kinds.
    #[must_use]
    pub fn implied_kinds(&self) -> Option<BTreeSet<GroupResource>> {
        let admission_kinds = self.admission_kinds()?;
        admission_kinds.any.then(|| kinds(&admission_kinds, &self.loaded.snapshot()))
    }

    /// Whether placement policies are loaded.
    #[must_use]
    pub fn has_placement_policies(&self) -> bool {
        self.loaded.rego_usage().borrow().as_ref().is_some_and(|rego_usage| rego_usage.placement)
    }

    fn admission_kinds(&self) -> Option<AdmissionKinds> {
        self.loaded.rego_usage().borrow().as_ref()?.admission.clone()
    }

    /// Audits all objects and passes each finding to `add`. Evaluates the admission policies for each object.
    ///
    /// # Errors
    ///
    /// If Rego policies are not loaded, an external engine cannot be reached, or `should_continue` returned false.
    pub fn audit(
        &self,
        add: &mut impl FnMut(Finding),
        should_continue: impl Fn() -> bool,
    ) -> Result<(), String> {
        if let Some(why) = self.not_loaded_reason() {
            return Err(why);
        }
        let (snapshot, Some(admission_kinds)) = (self.loaded.snapshot(), self.admission_kinds()) else {
            return Ok(());
        };
        unavailable_violation(&snapshot).into_iter().map(Finding::Violation).for_each(&mut *add);
        if let Some(plural) = &admission_kinds.unresolved {
            add(error(Resource { kind: plural.clone(), ..Resource::default() }, unknown(plural)));
        }
        let spaces = self.loaded.objects(&GroupResource::namespaces());
        if let Err(why) = &spaces {
            add(error(of_kind(&GroupResource::namespaces()), why.clone()));
        }
        let spaces = spaces.unwrap_or_default();
        let left_out =
            AuditExemptions::new(&self.exemptions, spaces.iter().map(|(key, space)| (&*key.name, space)));
        for (kind, namespace, why) in self.loaded.left_out() {
            add(error(Resource { namespace: namespace.to_string(), ..of_kind(&kind) }, why));
        }
        for kind in kinds(&admission_kinds, &snapshot) {
            match self.loaded.objects(&kind) {
                Ok(mut objects) => {
                    objects.sort_by(|(one, _), (other, _)| one.cmp(other));
                    self.audit_kind(&kind, &objects, &snapshot, &left_out, add, &should_continue)?;
                }
                Err(why) => add(error(of_kind(&kind), why)),
            }
        }
        Ok(())
    }

    /// Passes a violation to `add` for each of `objects` that still exists.
    pub fn placement_violations(
        &self,
        objects: impl IntoIterator<Item = PlacementViolation>,
        add: &mut impl FnMut(Finding),
    ) {
        let snapshot = self.loaded.snapshot();
        for PlacementViolation { kind, key, why, is_warning } in objects {
            let (Some(object), Some((gvr, _))) =
                (self.loaded.object(&kind, &key), self.loaded.gvr_and_version(&kind))
            else {
                continue;
            };
            let ObjectKey { namespace, name } = key;
            let kind = snapshot.names_of(&kind).into_iter().next().unwrap_or_default();
            let resource = Resource { kind, namespace: namespace.to_string(), name: name.to_string() };
            let type_meta = TypeMeta::of(&gvr, &object);
            add(Finding::Violation(Violation::placement(resource, type_meta, &why, is_warning)));
        }
    }

    /// Audits `objects` of `kind`.
    fn audit_kind(
        &self,
        kind: &GroupResource,
        objects: &[(ObjectKey, Value)],
        snapshot: &Snapshot,
        left_out: &AuditExemptions<'_>,
        add: &mut impl FnMut(Finding),
        should_continue: &impl Fn() -> bool,
    ) -> Result<(), String> {
        let Some((gvr, _)) = self.loaded.gvr_and_version(kind) else {
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
            if !should_continue() {
                return Err("the audit was cancelled".to_owned());
            }
            let (namespace, name) = (&*key.namespace, &*key.name);
            let existing = ExistingObject { gvr: &gvr, namespace, name, object };
            let is_slow = by_namespace.get(namespace).is_some_and(|count| *count >= MAX_SLOW_PER_NAMESPACE);
            if is_slow || left_out.has(existing) {
                continue;
            }
            let outcome = audit(snapshot, existing);
            if let Some(why) = outcome.unreached {
                return Err(why);
            }
            outcome.violations.into_iter().map(Finding::Violation).for_each(&mut *add);
            outcome.conflict.into_iter().map(Finding::Conflict).for_each(&mut *add);
            if !outcome.is_too_long {
                continue;
            }
            in_all += 1;
            let count = by_namespace.entry(namespace).or_default();
            *count += 1;
            if in_all == MAX_SLOW_PER_KIND {
                add(error(of_kind(kind), too_long(in_all)));
                break;
            }
            // Slow evaluations in one namespace must not affect other namespaces.
            if *count == MAX_SLOW_PER_NAMESPACE {
                add(error(Resource { namespace: namespace.to_owned(), ..of_kind(kind) }, too_long(*count)));
            }
        }
        Ok(())
    }
}

/// Reports that `resource` could not be audited.
fn error(resource: Resource, why: String) -> Finding {
    Finding::Violation(Violation::error(resource, why))
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
fn kinds(admission_kinds: &AdmissionKinds, snapshot: &Snapshot) -> BTreeSet<GroupResource> {
    let mut kinds = admission_kinds.kinds.clone();
    if admission_kinds.any {
        kinds.extend(snapshot.kinds().cloned());
    }
    // Exempt kinds are not audited, because the webhooks do not review them.
    kinds.retain(|kind| !Exemptions::is_exempt_kind(kind));
    kinds
}
