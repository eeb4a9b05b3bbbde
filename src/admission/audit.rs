//! What stands, and breaks policies: each object is reviewed as if it was written now.
//!
//! ```text
//! objects ─▶ those that webhooks are asked about ─▶ denials of each ─▶ findings: all counted, the first kept
//! ```

mod findings;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use json_patch::PatchOperation;
use regorus::Value;
use serde::Serialize;
use serde_json::json;
use tracing::error;

pub use self::findings::Findings;
use super::denial::{Denial, MESSAGE, Place};
use super::operation::Operation;
use super::patches;
use super::question::input;
use super::secrets;
use policy_sync_api::names::{GroupResource, GroupVersionResource};
use policy_sync_api::rego_policy::Enforcement;
use policy_sync_api::text::{capped, one_line};
use policy_sync_rego::asked::ADMISSION;
use policy_sync_rego::exemptions::Exemptions;
use policy_sync_rego::snapshot::{Snapshot, Unanswered};

/// The operation of such a review.
const OPERATION: &str = "AUDIT";
/// How strict what cannot be looked at is.
const ERROR: &str = "error";
/// How strict anything is.
pub const ENFORCEMENTS: [&str; 4] = ["deny", "warn", "dryrun", ERROR];
/// What placement's own errors are called.
const PLACEMENT: &str = "placement";
/// The most bytes of the patches of a violation that are told.
const PATCHES: usize = 8 << 10;

/// An object that stands.
#[derive(Clone, Copy, Debug)]
pub struct Existing<'o> {
    /// How it is read.
    pub gvr: &'o GroupVersionResource,
    /// Its namespace, empty for what is cluster-scoped.
    pub namespace: &'o str,
    /// Its name.
    pub name: &'o str,
    /// The object.
    pub object: &'o Value,
}

/// What an object breaks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Violation {
    /// The object.
    pub resource: Resource,
    /// What the policy calls it; empty where it is a text alone.
    pub id: String,
    /// What would mend it.
    pub resolution: Resolution,
    /// The module, where its head says so.
    pub policy: Option<String>,
    /// What it comes to when it is written: `deny`, `warn`, `dryrun`; `error` where policies cannot be asked.
    pub enforcement: String,
    /// What the object says that it is.
    #[serde(skip)]
    pub sort: Sort,
}

/// What an object says that it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sort {
    /// `apps/v1`
    pub api_version: String,
    /// `Deployment`
    pub kind: String,
}

impl Sort {
    /// That of `object`, which is read so.
    #[must_use]
    pub fn of(gvr: &GroupVersionResource, object: &Value) -> Self {
        let kind = object["kind"].as_string().map_or_else(|_| String::new(), ToString::to_string);
        Self { api_version: gvr.api_version(), kind }
    }
}

/// An object, as policies call it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Resource {
    /// The plural.
    pub kind: String,
    /// The namespace, empty for what is cluster-scoped.
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// What would mend a violation.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Resolution {
    /// Why it is one.
    pub message: String,
    /// Operations of a JSON Patch.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub patches: Vec<PatchOperation>,
}

/// What an object breaks, and whether policies took too long to say so.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Judged {
    /// In order.
    pub violations: Vec<Violation>,
    /// Whether an evaluation ran out of time.
    pub is_too_long: bool,
    /// Why who evaluates cannot be asked: no other object can be looked at now.
    pub unreached: Option<String>,
    /// Two policies that would mend the object otherwise, if any would: it cannot be written.
    pub conflict: Option<Conflict>,
}

/// Two policies that want to mend an object otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Their modules.
    pub policies: [String; 2],
    /// Which object, and what they want: `pods shop/web: a: replace /spec/x conflicts with b: replace /spec/x`
    pub text: String,
}

/// What an audit finds.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    /// What an object breaks.
    Violation(Violation),
    /// Policies that do not fit each other.
    Conflict(Conflict),
}

/// What `existing` breaks of the policies of `snapshot`. It takes the time of one evaluation for each name that policies have
/// for its kind. What fails is told as an `error` of this object, and keeps no other from being looked at; a policy that cannot be
/// asked is told by [`unasked`], and keeps no other from being asked.
#[must_use]
pub fn audit(snapshot: &Snapshot, existing: Existing<'_>) -> Judged {
    // Whatever an object holds, it ends nothing.
    let judged = catch_unwind(AssertUnwindSafe(|| judge(snapshot, existing)));
    judged.unwrap_or_else(|_| {
        let Existing { gvr, namespace, name, .. } = existing;
        error!(kind = %gvr.kind, "an audit panicked");
        let resource =
            Resource { kind: gvr.kind.to_string(), namespace: namespace.into(), name: name.into() };
        let message = "asking policies about it panicked: see the log".to_owned();
        Judged { violations: vec![Violation::error(resource, message)], ..Judged::default() }
    })
}

fn judge(snapshot: &Snapshot, existing: Existing<'_>) -> Judged {
    let Existing { gvr, namespace, name, object } = existing;
    if !snapshot.is_asked(ADMISSION) {
        return Judged::default();
    }
    let withheld = match snapshot.withholds(&gvr.kind) {
        Ok(true) => Some(secrets::without_contents(object.clone())),
        Ok(false) => None,
        Err(error) => return unread(existing, error.to_string()),
    };
    let object = withheld.as_ref().unwrap_or(object);
    let existing = Existing { object, ..existing };
    let query = format!("{}.deny", snapshot.query(ADMISSION));
    let (mut violations, mut is_too_long, mut conflict) = (Vec::new(), false, None);
    for kind in snapshot.names_of(&gvr.kind) {
        let resource =
            || Resource { kind: kind.clone(), namespace: namespace.to_owned(), name: name.to_owned() };
        let place = Place { kind: &kind, namespace, name };
        let input = input(request(existing), place, object.clone());
        let denials = match snapshot.ask_the_others(&query, &input) {
            Ok(None) => continue,
            Ok(Some(answer)) => Denial::read(&answer, place).map_err(|fault| format!("{query}: {fault}")),
            Err(Unanswered::Unreached(why)) => {
                return Judged { unreached: Some(why), ..Judged::default() };
            }
            Err(error) => {
                is_too_long |= error.is_too_long();
                Err(error.to_string())
            }
        };
        match denials {
            Ok(denials) => {
                let denials = secrets::without_patches_of_contents(&gvr.kind, denials);
                conflict = conflict.or_else(|| conflicting(snapshot, &denials, object, place));
                violations.extend(denials.into_iter().map(|denial| of(snapshot, resource(), denial)))
            }
            Err(message) => violations.push(Violation::error(resource(), message)),
        }
    }
    let sort = Sort::of(gvr, object);
    violations.iter_mut().for_each(|violation| violation.sort = sort.clone());
    violations.sort_by(|one, other| one.said().cmp(&other.said()));
    // A kind may have two names.
    violations.dedup_by(|one, other| one.said() == other.said() && one.resolution == other.resolution);
    Judged { violations, is_too_long, unreached: None, conflict }
}

/// An error in place of the review of `existing`.
fn unread(existing: Existing<'_>, why: String) -> Judged {
    let Existing { gvr, namespace, name, object } = existing;
    let resource = Resource { kind: gvr.kind.to_string(), namespace: namespace.into(), name: name.into() };
    let violation = Violation { sort: Sort::of(gvr, object), ..Violation::error(resource, why) };
    Judged { violations: vec![violation], ..Judged::default() }
}

/// Two policies that mend `object`, which is at `place`, otherwise, where `denials` are all to be mended when it is written.
fn conflicting(
    snapshot: &Snapshot,
    denials: &[Denial],
    object: &Value,
    place: Place<'_>,
) -> Option<Conflict> {
    let is_strict =
        |denial: &&Denial| denial.enforcement(|policy| snapshot.enforcement(policy)) == Enforcement::Deny;
    let strict: Vec<&Denial> = denials.iter().filter(is_strict).collect();
    let are_mended = strict.iter().all(|denial| !denial.patches.is_empty());
    if strict.len() < 2 || !are_mended {
        return None;
    }
    let patches::Conflict { policies, text } =
        patches::conflicting(&strict, &serde_json::to_value(object).ok()?)?;
    let Place { kind, namespace, name } = place;
    let at = if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") };
    Some(Conflict { policies: policies.map(str::to_owned), text: format!("{kind} {at}: {text}") })
}

/// That a policy cannot be asked, where one cannot be: what it would deny is not found.
#[must_use]
pub fn unasked(snapshot: &Snapshot) -> Option<Violation> {
    let why = snapshot.unasked(ADMISSION)?;
    Some(Violation::error(Resource::default(), why.to_owned()))
}

/// Whose objects are left out, as webhooks are not asked about them either.
#[derive(Debug)]
pub struct LeftOut<'e> {
    exemptions: &'e Exemptions,
    ignored: BTreeSet<String>,
}

impl<'e> LeftOut<'e> {
    /// What `exemptions` name, and those that a label of these Namespaces leaves alone, each with its name.
    #[must_use]
    pub fn new<'n>(
        exemptions: &'e Exemptions,
        namespaces: impl IntoIterator<Item = (&'n str, &'n Value)>,
    ) -> Self {
        let ignored = namespaces.into_iter().filter(|(_, namespace)| Exemptions::is_ignored(namespace));
        Self { exemptions, ignored: ignored.map(|(name, _)| name.to_owned()).collect() }
    }

    /// Whether `existing` is left out.
    #[must_use]
    pub fn has(&self, existing: Existing<'_>) -> bool {
        let namespace = match existing.namespace {
            // A Namespace is in itself.
            "" if existing.gvr.kind == GroupResource::namespaces() => existing.name,
            namespace => namespace,
        };
        match namespace {
            "" => self.exemptions.is_own(&existing.gvr.kind, existing.name),
            _ => self.exemptions.names(namespace) || self.ignored.contains(namespace),
        }
    }
}

impl Violation {
    /// That `resource` is not where policies of placement say, and why; where they do no more than to say so, it is a warning.
    #[must_use]
    pub fn placement(resource: Resource, sort: Sort, why: &str, is_warning: bool) -> Self {
        let message = capped(&one_line(why), MESSAGE).into_owned();
        let resolution = Resolution { message, patches: Vec::new() };
        let enforcement = if is_warning { Enforcement::Warn } else { Enforcement::Deny }.to_string();
        Self { resource, id: PLACEMENT.to_owned(), resolution, policy: None, enforcement, sort }
    }

    /// That `resource` could not be looked at.
    #[must_use]
    pub fn error(resource: Resource, message: String) -> Self {
        let resolution = Resolution { message, patches: Vec::new() };
        let (id, enforcement, sort) = (String::new(), ERROR.to_owned(), Sort::default());
        Self { resource, id, resolution, policy: None, enforcement, sort }
    }

    /// Where it stands among others.
    #[must_use]
    pub fn place(&self) -> (&str, &str, &str, &str, &str) {
        let Resource { kind, namespace, name } = &self.resource;
        (kind, namespace, name, &self.id, &self.resolution.message)
    }

    /// What is said of the object.
    fn said(&self) -> (&str, &str, Option<&str>) {
        (&self.id, &self.resolution.message, self.policy.as_deref())
    }
}

/// What a denial comes to.
fn of(snapshot: &Snapshot, resource: Resource, denial: Denial) -> Violation {
    let enforcement = match denial.is_fault {
        true => ERROR.to_owned(),
        false => denial.enforcement(|policy| snapshot.enforcement(policy)).to_string(),
    };
    let patches: Vec<_> = denial.patches.iter().map(Operation::operation).cloned().collect();
    // What is too large to be read is found by whoever writes the object.
    let is_told = serde_json::to_vec(&patches).is_ok_and(|text| text.len() <= PATCHES);
    let patches = if is_told { patches } else { Vec::new() };
    let resolution = Resolution { message: denial.message, patches };
    Violation {
        resource,
        id: denial.id,
        resolution,
        policy: denial.policy,
        enforcement,
        sort: Sort::default(),
    }
}

/// The request that `existing` would be written by.
fn request(existing: Existing<'_>) -> Value {
    let Existing { gvr, namespace, name, object } = existing;
    let GroupVersionResource { kind: GroupResource { group, resource }, version } = gvr;
    let mut request = Value::from(json!({
        "operation": OPERATION,
        "kind": {"group": &**group, "version": &**version, "kind": object["kind"].as_string().map_or("", |kind| kind.as_ref())},
        "resource": {"group": &**group, "version": &**version, "resource": &**resource},
        "namespace": namespace, "name": name, "userInfo": {}, "dryRun": true,
    }));
    if let Ok(fields) = request.as_object_mut() {
        fields.insert("object".into(), object.clone());
    }
    request
}

#[cfg(test)]
mod tests;
