//! Plans the webhook entries of this controller in the two webhook configurations. The inputs are the Rego policies,
//! the synced kinds and the stored entries.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::kinds::ConfigurationKind;
use super::rows::{Configuration, entry_suffix};
use super::settings::{FailurePolicy, Settings};
use crate::rego_loading::RegoUsage;
use policy_sync_api::gateway;
use policy_sync_api::names::{ControllerName, GroupResource};
use policy_sync_api::rego_policy;
use policy_sync_rego::exemptions::{Exemptions, quoted};
use policy_sync_sync::desired::covered::ControllerScope;

/// The path of the mutating admission webhook.
pub(crate) const ADMIT: &str = "/admit";
/// The path of the validating admission webhook.
pub(crate) const ADMIT_VALIDATING: &str = "/admit/validating";
/// The timeout of the API server for a webhook, in seconds. This process responds sooner.
const TIMEOUT: u8 = 5;
/// The prefix of the user name of a ServiceAccount.
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

/// The inputs of the plan that other parts of the controller provide. An input is `None` if it is not known yet.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct EntryInputs {
    /// A summary of the existing Rego policies.
    pub rego_usage: Option<RegoUsage>,
    /// The kinds synced to the spokes.
    pub covered: Option<ControllerScope>,
    /// The user name of this process on the hub.
    pub user: Option<String>,
}

impl EntryInputs {
    /// The user whose requests are not reviewed. This is the user of this process, if it is a ServiceAccount. A shared
    /// user such as `admin` is not exempt.
    #[must_use]
    fn exempt_user(&self) -> Option<&str> {
        self.user.as_deref().filter(|user| user.starts_with(SERVICE_ACCOUNT))
    }
}

/// The change that a configuration needs.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Plan {
    /// No change: the entries are up to date.
    Nothing,
    /// No change for now: the desired entries are unknown, for this reason.
    Wait(String),
    /// Apply all entries of this controller, because some are missing.
    Apply(Vec<Value>),
    /// Replace stored entries, each at its index in the list. A server-side apply would keep fields that other
    /// clients have added.
    Replace(Vec<(usize, Value)>),
    /// Remove stored entries, each given by its index in the list and its name.
    Remove(Vec<(usize, String)>),
}

/// Plans the entries of the configuration `kind`. `stored` is its present content. `ca_bundle` is the CA
/// bundle (PEM), `None` if another controller injects it, or the reason why the bundle is unknown.
pub(super) fn plan(
    kind: ConfigurationKind,
    stored: &Configuration,
    inputs: &EntryInputs,
    ca_bundle: &Result<Option<String>, String>,
    settings: &Settings,
    controller: &ControllerName,
) -> Plan {
    let waits = |what: &str| Plan::Wait(format!("not known yet: {what}"));
    let Some(rego_usage) = &inputs.rego_usage else { return waits("the Rego policies in use") };
    let wanted = rego_usage.admission.is_some()
        || match kind {
            ConfigurationKind::Mutating => rego_usage.placement,
            ConfigurationKind::Validating => rego_usage.carriers,
        };
    let mut entries = Vec::new();
    if wanted {
        // The user name must be known first. Without it, the webhook would review the controller's own writes.
        if inputs.user.is_none() {
            return waits("the user name of this controller");
        }
        let bundle = match ca_bundle {
            Ok(bundle) => bundle.as_deref(),
            Err(why) => return Plan::Wait(why.clone()),
        };
        let entry = Entry { settings, controller, bundle };
        match kind {
            ConfigurationKind::Mutating if rego_usage.placement => {
                let Some(covered) = &inputs.covered else {
                    return waits("the kinds that GatewayClasses list");
                };
                let mut kinds = covered.kinds.clone();
                if !covered.is_whole {
                    // If the parameters of a class cannot be read, they may still list the kinds of the stored entry.
                    kinds.extend(reviewed_kinds(stored, &entry.name("placement")));
                }
                if !covered.classes.is_empty() {
                    kinds.insert(GroupResource::gateways());
                }
                entries.extend(entry.placement(&kinds, inputs, &covered.classes));
            }
            ConfigurationKind::Validating if rego_usage.carriers => entries.push(entry.policies(inputs)),
            ConfigurationKind::Mutating | ConfigurationKind::Validating => {}
        }
        if let Some(admission_kinds) = &rego_usage.admission {
            if let Some(plural) = &admission_kinds.unresolved {
                return waits(&format!("the kind of {plural}"));
            }
            let mut kinds = admission_kinds.kinds.clone();
            if !admission_kinds.is_whole {
                // A Rego policy that is unavailable may still cover the kinds of the stored entry.
                kinds.extend(reviewed_kinds(stored, &entry.name("admit")));
            }
            entries.extend(entry.admit(kind, &kinds, admission_kinds.any, inputs));
        }
    }
    let names: BTreeSet<&str> = entries.iter().filter_map(|entry| entry["name"].as_str()).collect();
    let gone =
        stored.entries.iter().chain(stored.former.iter().filter(|(_, entry)| points_here(settings, entry)));
    let gone = gone.filter_map(|(place, entry)| {
        let name = entry["name"].as_str().unwrap_or_default();
        (!names.contains(name)).then(|| (*place, name.to_owned()))
    });
    let mut gone: Vec<_> = gone.collect();
    gone.sort();
    if !gone.is_empty() {
        return Plan::Remove(gone);
    }
    let named = |entry: &Value| stored.entries.iter().find(|(_, found)| found["name"] == entry["name"]);
    let edited = entries.iter().filter_map(|entry| {
        let (place, found) = named(entry)?;
        let entry = with_bundle_of(entry, found);
        (entry != *found).then_some((*place, entry))
    });
    let edited: Vec<_> = edited.collect();
    if !edited.is_empty() {
        Plan::Replace(edited)
    } else if entries.iter().any(|entry| named(entry).is_none()) {
        Plan::Apply(entries)
    } else {
        Plan::Nothing
    }
}

/// Returns `entry`. If it has no `caBundle` because another controller injects it, adds the `caBundle` of the stored
/// entry.
fn with_bundle_of(entry: &Value, stored: &Value) -> Value {
    let mut entry = entry.clone();
    if entry["clientConfig"].get("caBundle").is_none()
        && let Some(bundle) = stored["clientConfig"].get("caBundle")
    {
        entry["clientConfig"]["caBundle"] = bundle.clone();
    }
    entry
}

/// Whether a stored entry points to the webhooks of this controller.
fn points_here(settings: &Settings, entry: &Value) -> bool {
    let path = entry["clientConfig"]["service"]["path"].as_str();
    let url = entry["clientConfig"]["url"].as_str().and_then(|url| url.rsplit_once('/'));
    let paths = path.map(str::to_owned).into_iter().chain(url.map(|(_, path)| format!("/{path}")));
    let mut config = entry["clientConfig"].clone();
    if let Some(config) = config.as_object_mut() {
        config.remove("caBundle");
    }
    paths.into_iter().any(|path| settings.url.client_config(&path) == config)
}

/// The kinds in the rules of the stored entry `name`.
fn reviewed_kinds(stored: &Configuration, name: &str) -> Vec<GroupResource> {
    let named = stored.entries.iter().filter(|(_, entry)| entry["name"] == name);
    named.flat_map(|(_, entry)| kinds_of_rules(entry)).collect()
}

fn kinds_of_rules(entry: &Value) -> Vec<GroupResource> {
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(|text| Some(text.as_str()?.to_owned())).collect()
    };
    let of_rule = |rule: &Value| {
        let groups = texts(&rule["apiGroups"]);
        let resources = texts(&rule["resources"]);
        groups
            .iter()
            .flat_map(|group| resources.iter().map(|resource| GroupResource::new(group, resource)))
            .collect::<Vec<_>>()
    };
    entry["rules"].as_array().into_iter().flatten().flat_map(of_rule).collect()
}

/// The CA bundle of each stored entry. Empty if the bundle is not valid base64 text.
pub(super) fn bundles(stored: &Configuration) -> impl Iterator<Item = String> {
    let bundle = |entry: &Value| {
        let bytes = STANDARD.decode(entry["clientConfig"]["caBundle"].as_str()?).ok()?;
        String::from_utf8(bytes).ok()
    };
    stored.entries.iter().map(move |(_, entry)| bundle(entry).unwrap_or_default())
}

/// The common parts of all entries.
struct Entry<'e> {
    settings: &'e Settings,
    controller: &'e ControllerName,
    bundle: Option<&'e str>,
}

impl Entry<'_> {
    /// The entry for `/placement` with these kinds.
    fn placement(
        &self,
        kinds: &BTreeSet<GroupResource>,
        inputs: &EntryInputs,
        classes: &BTreeSet<Arc<str>>,
    ) -> Option<Value> {
        if kinds.is_empty() {
            return None;
        }
        let mut conditions = self.settings.exemptions.conditions(inputs.exempt_user());
        let classes: Vec<String> = classes.iter().map(|class| quoted(class)).collect();
        let expression = format!(
            "request.resource.group != {} || request.resource.resource != \"gateways\" || \
             has(object.spec) && has(object.spec.gatewayClassName) && object.spec.gatewayClassName in [{}]",
            quoted(gateway::GROUP),
            classes.join(", ")
        );
        conditions.push(json!({"name": "gateways-of-ours", "expression": expression}));
        let rules = rules(kinds, "Namespaced");
        let mut entry =
            self.entry(("placement", "/placement"), rules, self.settings.failure_policy, conditions);
        entry["namespaceSelector"] = Exemptions::selector();
        entry["reinvocationPolicy"] = "IfNeeded".into();
        Some(entry)
    }

    /// The entry for `/policies`, which checks Rego policies when they are written. If the webhook fails, the API
    /// server allows the write, so that Rego policies can always be repaired.
    fn policies(&self, inputs: &EntryInputs) -> Value {
        let kinds = [
            GroupResource::new("", "configmaps"),
            GroupResource::new(rego_policy::GROUP, rego_policy::PLURAL),
        ];
        let conditions = Exemptions::default().conditions(inputs.exempt_user());
        let rules = rules(&kinds.into(), "*");
        let mut entry = self.entry(("policies", "/policies"), rules, FailurePolicy::Ignore, conditions);
        let namespaces = &self.settings.policy_namespaces;
        let within = json!({"key": "kubernetes.io/metadata.name", "operator": "In", "values": namespaces});
        entry["namespaceSelector"] = json!({"matchExpressions": [within]});
        entry
    }

    /// The entry for `/admit` with these kinds, or with all kinds.
    fn admit(
        &self,
        kind: ConfigurationKind,
        kinds: &BTreeSet<GroupResource>,
        all: bool,
        inputs: &EntryInputs,
    ) -> Option<Value> {
        let rules = match all {
            true => rules(&[GroupResource::new("*", "*")].into(), "*"),
            false if kinds.is_empty() => return None,
            false => rules(kinds, "*"),
        };
        let exemptions = &self.settings.exemptions;
        let mut conditions = exemptions.conditions(inputs.exempt_user());
        conditions.extend(exemptions.own_condition());
        conditions.push(Exemptions::kinds_condition());
        let path = match kind {
            ConfigurationKind::Mutating => ADMIT,
            ConfigurationKind::Validating => ADMIT_VALIDATING,
        };
        let mut entry = self.entry(("admit", path), rules, self.settings.failure_policy, conditions);
        entry["namespaceSelector"] = Exemptions::selector();
        if kind == ConfigurationKind::Mutating {
            entry["reinvocationPolicy"] = "IfNeeded".into();
        }
        Some(entry)
    }

    fn name(&self, of: &str) -> String {
        format!("{of}{}", entry_suffix(self.controller))
    }

    fn entry(
        &self,
        (name, path): (&str, &str),
        rules: Value,
        failure: FailurePolicy,
        conditions: Vec<Value>,
    ) -> Value {
        let mut client = self.settings.url.client_config(path);
        if let Some(bundle) = self.bundle {
            client["caBundle"] = STANDARD.encode(bundle).into();
        }
        json!({
            "name": self.name(name),
            "admissionReviewVersions": ["v1"],
            "clientConfig": client,
            "failurePolicy": failure.to_string(),
            "matchConditions": conditions,
            "matchPolicy": "Equivalent",
            "objectSelector": {},
            "rules": rules,
            "sideEffects": "NoneOnDryRun",
            "timeoutSeconds": TIMEOUT,
        })
    }
}

/// The rules for these kinds in this scope.
fn rules(kinds: &BTreeSet<GroupResource>, scope: &str) -> Value {
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for kind in kinds {
        groups.entry(&kind.group).or_default().push(&kind.resource);
    }
    let rule = |(group, resources)| {
        json!({"apiGroups": [group], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"], "resources": resources,
            "scope": scope})
    };
    groups.into_iter().map(rule).collect::<Vec<Value>>().into()
}

#[cfg(test)]
mod tests;
