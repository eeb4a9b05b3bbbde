//! The audit of a hub: each object of each kind that policies deny, as far as it is known here.

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

/// Who keeps what is audited.
const KEEPER: &str = "audit";
/// How many objects of a kind in a namespace may take policies too long: the others there are left alone.
const TOO_LONG: usize = 3;
/// How many of a kind may: the others are left alone.
const TOO_LONG_IN_ALL: usize = 30;
/// How often is looked whether all is known.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// An object that is not where policies say.
#[derive(Clone, Debug)]
pub struct Misplaced {
    /// Its kind.
    pub kind: GroupResource,
    /// Which it is.
    pub key: ObjectKey,
    /// What policies say.
    pub why: Arc<str>,
    /// Whether that is only told, and somebody's to do.
    pub is_warning: bool,
}

/// Audits a hub. Clones are the same.
#[derive(Clone, Debug)]
pub struct Auditor {
    loaded: Loaded,
    exemptions: Exemptions,
    is_wanted: bool,
    named: BTreeSet<GroupResource>,
    moved: Arc<Notify>,
}

impl Auditor {
    /// One that audits by what is `loaded`, which is about to be started, and leaves out whom `exemptions` name. Where nobody wants
    /// it, it keeps nothing.
    #[must_use]
    pub fn new(loaded: Loaded, exemptions: Exemptions, is_wanted: bool) -> Self {
        let moved = Arc::new(Notify::new());
        let notify = moved.clone();
        loaded.follow(KEEPER, move |_| notify.notify_one());
        Self { loaded, exemptions, is_wanted, named: BTreeSet::new(), moved }
    }

    /// The same, which also finds out how these kinds are read.
    #[must_use]
    pub fn naming(self, named: BTreeSet<GroupResource>) -> Self {
        Self { named, ..self }
    }

    /// Keeps what policies deny, as that changes, for ever.
    pub async fn keep(self) {
        let mut in_use = self.loaded.in_use();
        loop {
            let kinds = in_use.borrow_and_update().as_ref().map(|in_use| match &in_use.admission {
                // Namespaces say what is left out.
                Some(gated) if self.is_wanted => {
                    gated.kinds.iter().cloned().chain([GroupResource::namespaces()]).collect()
                }
                _ => BTreeSet::new(),
            });
            // While policies are not known, what is kept stays.
            if let Some(kinds) = kinds {
                self.loaded.keep(KEEPER, kinds, self.named.clone());
                self.moved.notify_one();
            }
            if in_use.changed().await.is_err() {
                return;
            }
        }
    }

    /// Waits until policies, and what they deny, are known, or it is known why not; [`Self::keep`] has to run meanwhile.
    pub async fn ready(&self) {
        while self.missing().is_some() {
            // Nobody is told of what cannot be listed.
            let _ = timeout(LOOK_AGAIN, self.moved.notified()).await;
        }
    }

    /// What is not known yet, in words: policies, or objects that they deny.
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

    /// Why policies are not known yet, where they are not.
    #[must_use]
    pub fn unloaded(&self) -> Option<String> {
        let (is_loaded, text) = self.loaded.health();
        let is_known = is_loaded && self.loaded.in_use().borrow().is_some();
        (!is_known).then(|| text.trim_end().replace('\n', "; "))
    }

    /// The kinds of which objects are looked at by no policy's name, but because one denies any.
    #[must_use]
    pub fn unnamed(&self) -> Option<BTreeSet<GroupResource>> {
        let gated = self.gated()?;
        gated.any.then(|| kinds(&gated, &self.loaded.snapshot()))
    }

    /// Whether there are policies that say where objects go.
    #[must_use]
    pub fn places(&self) -> bool {
        self.loaded.in_use().borrow().as_ref().is_some_and(|in_use| in_use.placement)
    }

    fn gated(&self) -> Option<Gated> {
        self.loaded.in_use().borrow().as_ref()?.admission.clone()
    }

    /// Looks at each object, as long as it `goes_on`, and gives what it finds to `add`. It takes the time of one evaluation for each.
    ///
    /// # Errors
    ///
    /// Where it is not known which policies there are, or it does not go on.
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

    /// Gives to `add` those objects that are not where policies say, as far as they are there.
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

    /// Gives to `add` what `objects` of `kind` break.
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
        let too_long =
            |count: usize| format!("policies took too long for {count} of these: the rest is not looked at");
        let (mut in_all, mut by_namespace) = (0, BTreeMap::<&str, usize>::new());
        for (key, object) in objects {
            if !goes_on() {
                return Err("it was given up".to_owned());
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
            // Whoever slows policies down is in no other's way.
            if *count == TOO_LONG {
                add(error(Resource { namespace: namespace.to_owned(), ..of_kind(kind) }, too_long(*count)));
            }
        }
        Ok(())
    }
}

/// That something cannot be looked at.
fn error(resource: Resource, why: String) -> Found {
    Found::Violation(Violation::error(resource, why))
}

/// What is said of a kind of which nobody knows what it is.
fn unknown(plural: &str) -> String {
    format!("it is not known what {plural} are")
}

/// What is said of all of a kind.
fn of_kind(kind: &GroupResource) -> Resource {
    Resource { kind: kind.to_string(), ..Resource::default() }
}

/// The kinds whose objects are looked at.
fn kinds(gated: &Gated, snapshot: &Snapshot) -> BTreeSet<GroupResource> {
    let mut kinds = gated.kinds.clone();
    if gated.any {
        kinds.extend(snapshot.kinds().cloned());
    }
    // No webhook is asked about the others.
    kinds.retain(|kind| !Exemptions::is_exempt_kind(kind));
    kinds
}
