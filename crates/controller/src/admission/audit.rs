//! The audit of an existing object: reviews it with the admission policies as if it were written now.
//!
//! ```text
//! objects ─▶ those covered by webhooks ─▶ denials of each ─▶ findings: all counted, the first kept
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
use super::denial::{Denial, MAX_MESSAGE_BYTES, ResourceRef};
use super::operation::Operation;
use super::patches;
use super::review_query::input;
use super::secrets;
use policy_sync_api::names::{GroupResource, GroupVersionResource};
use policy_sync_api::rego_policy::EnforcementAction;
use policy_sync_api::text::{one_line, truncate_bytes};
use policy_sync_rego::exemptions::Exemptions;
use policy_sync_rego::queries::ADMISSION;
use policy_sync_rego::snapshot::{RegoQueryError, Snapshot};

/// `request.operation` in the input of an audit.
const OPERATION: &str = "AUDIT";
/// The enforcement of violations that report a failed evaluation.
const ERROR: &str = "error";
/// All values of [`Violation::enforcement`].
pub const ENFORCEMENTS: [&str; 4] = ["deny", "warn", "dryrun", ERROR];
/// The `id` of violations of placement policies.
const PLACEMENT_ID: &str = "placement";
/// Maximum size of the patches in a violation, in bytes of JSON. Larger patches are omitted.
const MAX_PATCH_BYTES: usize = 8 << 10;

/// An object to audit.
#[derive(Clone, Copy, Debug)]
pub struct ExistingObject<'o> {
    /// The object's resource and version.
    pub gvr: &'o GroupVersionResource,
    /// The object's namespace; empty if cluster-scoped.
    pub namespace: &'o str,
    /// The object's name.
    pub name: &'o str,
    /// The whole object.
    pub object: &'o Value,
}

/// One violation of a Rego policy by an object.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Violation {
    /// The object that violates the Rego policy.
    pub resource: Resource,
    /// The `id` of the denial; empty if the denial is a plain string.
    pub id: String,
    /// The denial's message and patches.
    pub resolution: Resolution,
    /// The Rego module, if the denial has a `policy` field.
    pub policy: Option<String>,
    /// The effect on a write of the object: `deny`, `warn` or `dryrun`; `error` if Rego policies cannot be
    /// evaluated.
    pub enforcement: String,
    /// The API version and kind of the object.
    #[serde(skip)]
    pub type_meta: TypeMeta,
}

/// The API version and kind of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypeMeta {
    /// The group and version, for example `apps/v1`.
    pub api_version: String,
    /// The kind, for example `Deployment`.
    pub kind: String,
}

impl TypeMeta {
    /// Takes the version from `gvr`, the kind from `object`.
    #[must_use]
    pub fn of(gvr: &GroupVersionResource, object: &Value) -> Self {
        let kind = object["kind"].as_string().map_or_else(|_| String::new(), ToString::to_string);
        Self { api_version: gvr.api_version(), kind }
    }
}

/// The identity of an object, in the form used in Rego policies.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Resource {
    /// The plural name of the resource.
    pub kind: String,
    /// The namespace; empty if cluster-scoped.
    pub namespace: String,
    /// The name of the object.
    pub name: String,
}

/// The message of a violation, and patches that repair the object.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Resolution {
    /// Why the object violates the Rego policy.
    pub message: String,
    /// JSON Patch operations that would repair the object.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub patches: Vec<PatchOperation>,
}

/// The result of auditing one object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AuditOutcome {
    /// The violations, sorted by id, message and Rego policy.
    pub violations: Vec<Violation>,
    /// Whether an evaluation ran out of time.
    pub is_too_long: bool,
    /// Why an external engine could not be reached. The audit of other objects would fail too.
    pub unreached: Option<String>,
    /// Two Rego policies with conflicting patches for the object, if any. Such an object cannot be written.
    pub conflict: Option<Conflict>,
}

/// Two Rego policies with conflicting patches for an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The two Rego modules.
    pub policies: [String; 2],
    /// The object and the two patches: `pods shop/web: a: replace /spec/x conflicts with b: replace /spec/x`
    pub text: String,
}

/// One finding of an audit.
#[derive(Clone, Debug, PartialEq)]
pub enum Finding {
    /// An object violates a Rego policy.
    Violation(Violation),
    /// Two Rego policies have conflicting patches.
    Conflict(Conflict),
}

/// Audits `existing` with the admission policies of `snapshot`. Evaluates them once for each name (plural or alias)
/// that they use for the kind. A failure is returned as a violation with enforcement `error`, so that the audit can
/// continue. [`unavailable_violation`] reports that the admission policies are unavailable for all objects.
#[must_use]
pub fn audit(snapshot: &Snapshot, existing: ExistingObject<'_>) -> AuditOutcome {
    // A panic in one evaluation must not end the audit.
    let outcome = catch_unwind(AssertUnwindSafe(|| audit_object(snapshot, existing)));
    outcome.unwrap_or_else(|_| {
        let ExistingObject { gvr, namespace, name, .. } = existing;
        error!(kind = %gvr.kind, "an audit panicked");
        let resource =
            Resource { kind: gvr.kind.to_string(), namespace: namespace.into(), name: name.into() };
        let message = "the evaluation of Rego policies panicked: see the log".to_owned();
        AuditOutcome { violations: vec![Violation::error(resource, message)], ..AuditOutcome::default() }
    })
}

fn audit_object(snapshot: &Snapshot, existing: ExistingObject<'_>) -> AuditOutcome {
    let ExistingObject { gvr, namespace, name, object } = existing;
    if !snapshot.has_policies_for(ADMISSION) {
        return AuditOutcome::default();
    }
    let withheld = match snapshot.is_redacted(&gvr.kind) {
        Ok(true) => Some(secrets::without_contents(object.clone())),
        Ok(false) => None,
        Err(error) => return not_reviewed(existing, error.to_string()),
    };
    let object = withheld.as_ref().unwrap_or(object);
    let existing = ExistingObject { object, ..existing };
    let query = format!("{}.deny", snapshot.query(ADMISSION));
    let (mut violations, mut is_too_long, mut conflict) = (Vec::new(), false, None);
    for kind in snapshot.names_of(&gvr.kind) {
        let resource =
            || Resource { kind: kind.clone(), namespace: namespace.to_owned(), name: name.to_owned() };
        let resource_ref = ResourceRef { kind: &kind, namespace, name };
        let input = input(request(existing), resource_ref, object.clone());
        let denials = match snapshot.query_ignoring_rejected(&query, &input) {
            Ok(None) => continue,
            Ok(Some(value)) => {
                Denial::read(&value, resource_ref).map_err(|fault| format!("{query}: {fault}"))
            }
            Err(RegoQueryError::Unreachable(why)) => {
                return AuditOutcome { unreached: Some(why), ..AuditOutcome::default() };
            }
            Err(error) => {
                is_too_long |= error.is_timeout();
                Err(error.to_string())
            }
        };
        match denials {
            Ok(denials) => {
                let denials = secrets::without_patches_of_contents(&gvr.kind, denials);
                conflict = conflict.or_else(|| conflicting(snapshot, &denials, object, resource_ref));
                violations.extend(denials.into_iter().map(|denial| of(snapshot, resource(), denial)))
            }
            Err(message) => violations.push(Violation::error(resource(), message)),
        }
    }
    let type_meta = TypeMeta::of(gvr, object);
    violations.iter_mut().for_each(|violation| violation.type_meta = type_meta.clone());
    violations.sort_by(|one, other| one.identity().cmp(&other.identity()));
    // If Rego policies use two names for a kind, each denial is returned twice.
    violations
        .dedup_by(|one, other| one.identity() == other.identity() && one.resolution == other.resolution);
    AuditOutcome { violations, is_too_long, unreached: None, conflict }
}

/// Reports that the object could not be reviewed.
fn not_reviewed(existing: ExistingObject<'_>, why: String) -> AuditOutcome {
    let ExistingObject { gvr, namespace, name, object } = existing;
    let resource = Resource { kind: gvr.kind.to_string(), namespace: namespace.into(), name: name.into() };
    let violation = Violation { type_meta: TypeMeta::of(gvr, object), ..Violation::error(resource, why) };
    AuditOutcome { violations: vec![violation], ..AuditOutcome::default() }
}

/// The first conflict between the patches of `denials` for `object` at `resource_ref`. `None` unless all enforced
/// denials have patches, because otherwise the object is rejected without patches.
fn conflicting(
    snapshot: &Snapshot,
    denials: &[Denial],
    object: &Value,
    resource_ref: ResourceRef<'_>,
) -> Option<Conflict> {
    let is_strict = |denial: &&Denial| {
        denial.enforcement(|policy| snapshot.enforcement(policy)) == EnforcementAction::Deny
    };
    let strict: Vec<&Denial> = denials.iter().filter(is_strict).collect();
    let all_have_patches = strict.iter().all(|denial| !denial.patches.is_empty());
    if strict.len() < 2 || !all_have_patches {
        return None;
    }
    let patches::Conflict { policies, text } =
        patches::conflicting(&strict, &serde_json::to_value(object).ok()?)?;
    let ResourceRef { kind, namespace, name } = resource_ref;
    let at = if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") };
    Some(Conflict { policies: policies.map(str::to_owned), text: format!("{kind} {at}: {text}") })
}

/// An `error` violation if the admission policies are unavailable.
#[must_use]
pub fn unavailable_violation(snapshot: &Snapshot) -> Option<Violation> {
    let why = snapshot.rejection(ADMISSION)?;
    Some(Violation::error(Resource::default(), why.to_owned()))
}

/// Selects the objects that are exempt from the audit. They are also exempt from the webhooks.
#[derive(Debug)]
pub struct AuditExemptions<'e> {
    exemptions: &'e Exemptions,
    ignored: BTreeSet<String>,
}

impl<'e> AuditExemptions<'e> {
    /// Exempts the objects named by `exemptions`, and objects in Namespaces with the label that disables the webhooks.
    /// `namespaces` are all Namespaces with their names.
    #[must_use]
    pub fn new<'n>(
        exemptions: &'e Exemptions,
        namespaces: impl IntoIterator<Item = (&'n str, &'n Value)>,
    ) -> Self {
        let ignored = namespaces.into_iter().filter(|(_, namespace)| Exemptions::is_ignored(namespace));
        Self { exemptions, ignored: ignored.map(|(name, _)| name.to_owned()).collect() }
    }

    /// Whether `existing` is exempt.
    #[must_use]
    pub fn has(&self, existing: ExistingObject<'_>) -> bool {
        let namespace = match existing.namespace {
            // A Namespace object counts as part of the namespace that it represents.
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
    /// A violation of a placement policy by `resource`. With `is_warning`, the enforcement is `warn` instead of `deny`.
    #[must_use]
    pub fn placement(resource: Resource, type_meta: TypeMeta, why: &str, is_warning: bool) -> Self {
        let message = truncate_bytes(&one_line(why), MAX_MESSAGE_BYTES).into_owned();
        let resolution = Resolution { message, patches: Vec::new() };
        let enforcement =
            if is_warning { EnforcementAction::Warn } else { EnforcementAction::Deny }.to_string();
        Self { resource, id: PLACEMENT_ID.to_owned(), resolution, policy: None, enforcement, type_meta }
    }

    /// Reports that `resource` could not be audited.
    #[must_use]
    pub fn error(resource: Resource, message: String) -> Self {
        let resolution = Resolution { message, patches: Vec::new() };
        let (id, enforcement, type_meta) = (String::new(), ERROR.to_owned(), TypeMeta::default());
        Self { resource, id, resolution, policy: None, enforcement, type_meta }
    }

    /// The sort key of violations.
    #[must_use]
    pub fn sort_key(&self) -> (&str, &str, &str, &str, &str) {
        let Resource { kind, namespace, name } = &self.resource;
        (kind, namespace, name, &self.id, &self.resolution.message)
    }

    /// The fields that distinguish the denials of one object.
    fn identity(&self) -> (&str, &str, Option<&str>) {
        (&self.id, &self.resolution.message, self.policy.as_deref())
    }
}

/// Converts a denial of `resource` into a violation.
fn of(snapshot: &Snapshot, resource: Resource, denial: Denial) -> Violation {
    let enforcement = match denial.is_fault {
        true => ERROR.to_owned(),
        false => denial.enforcement(|policy| snapshot.enforcement(policy)).to_string(),
    };
    let patches: Vec<_> = denial.patches.iter().map(Operation::operation).cloned().collect();
    // Large patches are omitted here. The response to a write of the object contains them.
    let is_within_limit = serde_json::to_vec(&patches).is_ok_and(|text| text.len() <= MAX_PATCH_BYTES);
    let patches = if is_within_limit { patches } else { Vec::new() };
    let resolution = Resolution { message: denial.message, patches };
    Violation {
        resource,
        id: denial.id,
        resolution,
        policy: denial.policy,
        enforcement,
        type_meta: TypeMeta::default(),
    }
}

/// A synthetic AdmissionRequest that would write `existing`.
fn request(existing: ExistingObject<'_>) -> Value {
    let ExistingObject { gvr, namespace, name, object } = existing;
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
