//! Which entries each configuration should have, and what of that is not so.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::facts::Facts;
use super::kinds::Sort;
use super::rows::{Configuration, entry_suffix};
use super::settings::{FailurePolicy, Settings};
use policy_sync_api::gateway;
use policy_sync_api::names::{ControllerName, GroupResource};
use policy_sync_api::rego_policy;
use policy_sync_rego::exemptions::{Exemptions, quoted};

/// The path of reviews whose answers may change what is written.
pub(crate) const ADMIT: &str = "/admit";
/// The path of reviews of what is stored.
pub(crate) const ADMIT_LAST: &str = "/admit/validating";
/// How long the API server waits for an answer, in seconds; this process answers sooner.
const TIMEOUT: u8 = 5;

/// What to do about the entries of a configuration.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Plan {
    /// They are up to date.
    Nothing,
    /// Leave them as they are: what they should be is not known, and why.
    Wait(String),
    /// Apply these, which are all of ours, and not there.
    Apply(Vec<Value>),
    /// Put these in the place of what is there, each with its place in the list: others may have added to it.
    Replace(Vec<(usize, Value)>),
    /// Take these out, each by its place in the list and its name.
    Remove(Vec<(usize, String)>),
}

/// Plans the entries of the configuration `sort`, which is `stored`, where whoever asks is to trust what `trusted` says: PEM,
/// nothing where others write it, or why that is not known.
pub(super) fn plan(
    sort: Sort,
    stored: &Configuration,
    facts: &Facts,
    trusted: &Result<Option<String>, String>,
    settings: &Settings,
    controller: &ControllerName,
) -> Plan {
    let waits = |what: &str| Plan::Wait(format!("it is not known yet {what}"));
    let Some(in_use) = &facts.in_use else { return waits("which policies there are") };
    let wanted = in_use.admission.is_some()
        || match sort {
            Sort::Mutating => in_use.placement,
            Sort::Validating => in_use.carriers,
        };
    let mut entries = Vec::new();
    if wanted {
        // Who we are first: else our own writes would be reviewed.
        if facts.user.is_none() {
            return waits("who this controller is");
        }
        let bundle = match trusted {
            Ok(bundle) => bundle.as_deref(),
            Err(why) => return Plan::Wait(why.clone()),
        };
        let entry = Entry { settings, controller, bundle };
        match sort {
            Sort::Mutating if in_use.placement => {
                let Some(covered) = &facts.covered else { return waits("what the classes list") };
                let mut kinds = covered.kinds.clone();
                if !covered.is_whole {
                    // A class that cannot be read may list what it did.
                    kinds.extend(reviewed(stored, &entry.name("placement")));
                }
                if !covered.classes.is_empty() {
                    kinds.insert(GroupResource::gateways());
                }
                entries.extend(entry.placement(&kinds, facts, &covered.classes));
            }
            Sort::Validating if in_use.carriers => entries.push(entry.policies(facts)),
            Sort::Mutating | Sort::Validating => {}
        }
        if let Some(gated) = &in_use.admission {
            if let Some(plural) = &gated.awaited {
                return waits(&format!("what {plural} are"));
            }
            let mut kinds = gated.kinds.clone();
            if !gated.is_whole {
                // A policy that cannot be asked may name what it did.
                kinds.extend(reviewed(stored, &entry.name("admit")));
            }
            entries.extend(entry.admit(sort, &kinds, gated.any, facts));
        }
    }
    let names: BTreeSet<&str> = entries.iter().filter_map(|entry| entry["name"].as_str()).collect();
    let gone = stored.entries.iter().chain(stored.former.iter().filter(|(_, entry)| is_at(settings, entry)));
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

/// `entry` with the `caBundle` that is stored, which is another's where the entry names none.
fn with_bundle_of(entry: &Value, stored: &Value) -> Value {
    let mut entry = entry.clone();
    if entry["clientConfig"].get("caBundle").is_none()
        && let Some(bundle) = stored["clientConfig"].get("caBundle")
    {
        entry["clientConfig"]["caBundle"] = bundle.clone();
    }
    entry
}

/// Whether a stored entry has our webhooks asked.
fn is_at(settings: &Settings, entry: &Value) -> bool {
    let path = entry["clientConfig"]["service"]["path"].as_str();
    let url = entry["clientConfig"]["url"].as_str().and_then(|url| url.rsplit_once('/'));
    let paths = path.map(str::to_owned).into_iter().chain(url.map(|(_, path)| format!("/{path}")));
    let mut config = entry["clientConfig"].clone();
    if let Some(config) = config.as_object_mut() {
        config.remove("caBundle");
    }
    paths.into_iter().any(|path| settings.url.client_config(&path) == config)
}

/// The kinds that the stored entry of this name has reviewed.
fn reviewed(stored: &Configuration, name: &str) -> Vec<GroupResource> {
    let named = stored.entries.iter().filter(|(_, entry)| entry["name"] == name);
    named.flat_map(|(_, entry)| reviewed_by(entry)).collect()
}

fn reviewed_by(entry: &Value) -> Vec<GroupResource> {
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

/// The `caBundle` of each entry.
pub(super) fn bundles(stored: &Configuration) -> impl Iterator<Item = String> {
    let bundle = |entry: &Value| {
        let bytes = STANDARD.decode(entry["clientConfig"]["caBundle"].as_str()?).ok()?;
        String::from_utf8(bytes).ok()
    };
    stored.entries.iter().map(move |(_, entry)| bundle(entry).unwrap_or_default())
}

/// What all entries have.
struct Entry<'e> {
    settings: &'e Settings,
    controller: &'e ControllerName,
    bundle: Option<&'e str>,
}

impl Entry<'_> {
    /// The entry that has `/placement` asked of these kinds.
    fn placement(
        &self,
        kinds: &BTreeSet<GroupResource>,
        facts: &Facts,
        classes: &BTreeSet<Arc<str>>,
    ) -> Option<Value> {
        if kinds.is_empty() {
            return None;
        }
        let mut conditions = self.settings.exemptions.conditions(facts.exempt_user());
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

    /// The entry that has policies checked as they are written. It never keeps one from being mended.
    fn policies(&self, facts: &Facts) -> Value {
        let kinds = [
            GroupResource::new("", "configmaps"),
            GroupResource::new(rego_policy::GROUP, rego_policy::PLURAL),
        ];
        let conditions = Exemptions::default().conditions(facts.exempt_user());
        let rules = rules(&kinds.into(), "*");
        let mut entry = self.entry(("policies", "/policies"), rules, FailurePolicy::Ignore, conditions);
        let namespaces = &self.settings.policy_namespaces;
        let within = json!({"key": "kubernetes.io/metadata.name", "operator": "In", "values": namespaces});
        entry["namespaceSelector"] = json!({"matchExpressions": [within]});
        entry
    }

    /// The entry that has `/admit` asked of these kinds, or of all.
    fn admit(&self, sort: Sort, kinds: &BTreeSet<GroupResource>, all: bool, facts: &Facts) -> Option<Value> {
        let rules = match all {
            true => rules(&[GroupResource::new("*", "*")].into(), "*"),
            false if kinds.is_empty() => return None,
            false => rules(kinds, "*"),
        };
        let exemptions = &self.settings.exemptions;
        let mut conditions = exemptions.conditions(facts.exempt_user());
        conditions.extend(exemptions.own_condition());
        conditions.push(Exemptions::kinds_condition());
        let path = match sort {
            Sort::Mutating => ADMIT,
            Sort::Validating => ADMIT_LAST,
        };
        let mut entry = self.entry(("admit", path), rules, self.settings.failure_policy, conditions);
        entry["namespaceSelector"] = Exemptions::selector();
        if sort == Sort::Mutating {
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

/// The rules that name these kinds in this scope.
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
