//! Parses parameters by hand, because the errors must have the place, the expected value and the actual value. All
//! errors are collected.

use super::{
    CheckedParams, Conflicts, Level, Merge, Params, ParamsError, PolicyToSync, PolicyWaitAction,
    ResourceToSync, StatusField, TlsSecrets,
};
use crate::json::tree::Json;
use crate::text::escaped_excerpt;

const KEYS: [&str; 10] = [
    "downstreamClass",
    "policiesToSync",
    "resourcesToSync",
    "gatewayStatusFields",
    "tlsSecrets",
    "conflicts",
    "policyWaitSeconds",
    "policyWaitAction",
    "maxGraceSeconds",
    "metadataToSkip",
];
const OLD_KEY: &str = "experimentalPolicySync";

/// Parses `text`. Invalid values are replaced by their defaults in the result.
pub(super) fn read(text: &str) -> CheckedParams {
    let json: Json = match serde_json::from_str(text) {
        Ok(json) => json,
        Err(error) => {
            let fault = format!("not JSON: {error}");
            let faults = vec![ParamsError { place: String::new(), fault }];
            return CheckedParams { faults, ..CheckedParams::default() };
        }
    };
    let mut reader = ParamsReader::default();
    let params = reader.params(json);
    CheckedParams { params, faults: reader.faults, warnings: reader.warnings }
}

#[derive(Default)]
struct ParamsReader {
    faults: Vec<ParamsError>,
    warnings: Vec<ParamsError>,
}

/// An object from which keys are removed one at a time.
struct Fields {
    place: String,
    entries: Vec<(String, Json)>,
}

impl Fields {
    fn at(&self, key: &str) -> String {
        if self.place.is_empty() { key.to_owned() } else { format!("{}.{key}", self.place) }
    }

    /// Removes and returns the value of `key`, with its place.
    fn take(&mut self, key: &str) -> Option<(String, Json)> {
        let index = self.entries.iter().position(|(found, _)| found == key)?;
        Some((self.at(key), self.entries.remove(index).1))
    }

    /// Like [`Self::take`], with `null` treated as absent.
    fn take_optional(&mut self, key: &str) -> Option<(String, Json)> {
        self.take(key).filter(|(_, value)| !matches!(value, Json::Null))
    }
}

impl ParamsReader {
    fn fault(&mut self, place: impl Into<String>, fault: impl Into<String>) {
        self.faults.push(ParamsError { place: place.into(), fault: fault.into() });
    }

    fn expected(&mut self, place: impl Into<String>, expected: &str, found: &Json) {
        self.fault(place, format!("expected {expected}, found {found}"));
    }

    /// The fields of an object. Duplicate keys are faults. Keys that are neither in `known` nor in `old` (former names)
    /// are also faults.
    fn fields(&mut self, place: String, json: Json, known: &[&str], old: &[&str]) -> Option<Fields> {
        let entries = match json {
            Json::Object(entries) => entries,
            other => {
                self.expected(place, "an object", &other);
                return None;
            }
        };
        let mut fields = Fields { place, entries: Vec::new() };
        for (key, value) in entries {
            if !known.contains(&key.as_str()) && !old.contains(&key.as_str()) {
                let place = fields.at(&escaped_excerpt(&key));
                self.fault(place, format!("unknown key, expected one of {}", known.join(", ")));
            } else if fields.entries.iter().any(|(earlier, _)| *earlier == key) {
                self.fault(fields.at(&key), "duplicate key");
            } else {
                fields.entries.push((key, value));
            }
        }
        Some(fields)
    }

    fn text(&mut self, (place, json): (String, Json)) -> Option<String> {
        match json {
            Json::Text(text) => Some(text),
            other => {
                self.expected(place, "a string", &other);
                None
            }
        }
    }

    fn list(&mut self, (place, json): (String, Json)) -> Vec<(String, Json)> {
        match json {
            Json::List(items) => items
                .into_iter()
                .enumerate()
                .map(|(index, item)| (format!("{place}[{index}]"), item))
                .collect(),
            other => {
                self.expected(place, "a list", &other);
                Vec::new()
            }
        }
    }

    fn number(&mut self, (place, json): (String, Json)) -> Option<u32> {
        if let Json::Number(number) = &json
            && let Some(number) = number.as_u64().and_then(|number| u32::try_from(number).ok())
        {
            return Some(number);
        }
        self.expected(place, &format!("a whole number from 0 to {}", u32::MAX), &json);
        None
    }

    fn choice<T: Copy>(&mut self, (place, json): (String, Json), choices: &[(&str, T)]) -> Option<T> {
        let chosen = match &json {
            Json::Text(text) => choices.iter().find(|(name, _)| name == text),
            _ => None,
        };
        if chosen.is_none() {
            let names: Vec<String> = choices.iter().map(|(name, _)| format!("{name:?}")).collect();
            let expected = match names.split_last() {
                Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
                _ => names.join(""),
            };
            self.expected(place, &expected, &json);
        }
        chosen.map(|(_, value)| *value)
    }

    /// The value of a required key.
    fn required_value(&mut self, fields: &mut Fields, key: &str) -> Option<(String, Json)> {
        let found = fields.take(key);
        if found.is_none() {
            self.fault(fields.place.clone(), format!("{key} is required"));
        }
        found
    }

    /// The string value of a required key.
    fn required(&mut self, fields: &mut Fields, key: &str) -> Option<String> {
        let found = self.required_value(fields, key)?;
        self.text(found)
    }

    fn params(&mut self, json: Json) -> Params {
        let mut params = Params::default();
        let Some(mut fields) = self.fields(String::new(), json, &KEYS, &[OLD_KEY]) else { return params };
        if let Some(found) = fields.take_optional("downstreamClass")
            && let Some(class) = self.text(found)
        {
            params.downstream_class = class;
        }
        let (new, old) = (fields.take_optional("policiesToSync"), fields.take_optional(OLD_KEY));
        match (&new, &old) {
            (Some(_), Some(_)) => {
                self.fault(OLD_KEY, "is an old name of policiesToSync: only one of them is allowed")
            }
            (None, Some(_)) => self.warnings.push(ParamsError {
                place: OLD_KEY.into(),
                fault: "is an old name of policiesToSync".into(),
            }),
            _ => {}
        }
        if let Some(found) = new.or(old) {
            let items = self.list(found);
            params.policies_to_sync = items.into_iter().filter_map(|item| self.policy(item)).collect();
        }
        if let Some(found) = fields.take_optional("resourcesToSync") {
            let items = self.list(found);
            params.resources_to_sync = items.into_iter().filter_map(|item| self.resource(item)).collect();
        }
        params.gateway_status_fields = self.status_fields(&mut fields, "gatewayStatusFields");
        if let Some(found) = fields.take_optional("tlsSecrets") {
            let choices = [("none", TlsSecrets::None), ("copy", TlsSecrets::Copy)];
            params.tls_secrets = self.choice(found, &choices).unwrap_or(params.tls_secrets);
        }
        if let Some(found) = fields.take_optional("conflicts") {
            let choices = [("keep", Conflicts::Keep), ("overwrite", Conflicts::Overwrite)];
            params.conflicts = self.choice(found, &choices).unwrap_or(params.conflicts);
        }
        if let Some(found) = fields.take_optional("policyWaitSeconds") {
            params.policy_wait_seconds = self.number(found).unwrap_or(params.policy_wait_seconds);
        }
        if let Some(found) = fields.take_optional("policyWaitAction") {
            let choices = [("hold", PolicyWaitAction::Hold), ("serve", PolicyWaitAction::Serve)];
            params.policy_wait_action = self.choice(found, &choices).unwrap_or(params.policy_wait_action);
        }
        if let Some(found) = fields.take_optional("maxGraceSeconds") {
            params.max_grace_seconds = self.number(found).unwrap_or(params.max_grace_seconds);
        }
        if let Some(found) = fields.take_optional("metadataToSkip") {
            let items = self.list(found);
            params.metadata_to_skip = items.into_iter().filter_map(|item| self.text(item)).collect();
        }
        params
    }

    fn policy(&mut self, (place, json): (String, Json)) -> Option<PolicyToSync> {
        let known = ["group", "version", "resource", "statusFields", "merge"];
        let mut fields = self.fields(place, json, &known, &[])?;
        let [group, version, resource] =
            ["group", "version", "resource"].map(|key| self.required(&mut fields, key));
        let status_fields = self.status_fields(&mut fields, "statusFields");
        let merge = fields.take_optional("merge").and_then(|found| self.merge(found));
        Some(PolicyToSync { group: group?, version: version?, resource: resource?, status_fields, merge })
    }

    fn merge(&mut self, (place, json): (String, Json)) -> Option<Merge> {
        let mut fields = self.fields(place, json, &["level", "rules"], &[])?;
        let levels = [
            ("gateway", Level::Gateway),
            ("listener", Level::Listener),
            ("route", Level::Route),
            ("rule", Level::Rule),
        ];
        let level = self.required_value(&mut fields, "level").and_then(|found| self.choice(found, &levels));
        let rules = fields.take_optional("rules").map(|found| self.list(found)).unwrap_or_default();
        let rules = rules.into_iter().filter_map(|item| self.text(item)).collect();
        Some(Merge { level: level?, rules })
    }

    fn resource(&mut self, (place, json): (String, Json)) -> Option<ResourceToSync> {
        let known = ["group", "version", "resource", "placement", "statusFields"];
        let mut fields = self.fields(place, json, &known, &[])?;
        let [group, version, resource] =
            ["group", "version", "resource"].map(|key| self.required(&mut fields, key));
        let placement = fields.take_optional("placement").and_then(|found| self.text(found));
        let status_fields = self.status_fields(&mut fields, "statusFields");
        Some(ResourceToSync {
            group: group?,
            version: version?,
            resource: resource?,
            placement,
            status_fields,
        })
    }

    fn status_fields(&mut self, fields: &mut Fields, key: &str) -> Vec<StatusField> {
        let items = fields.take_optional(key).map(|found| self.list(found)).unwrap_or_default();
        items.into_iter().filter_map(|item| self.status_field(item)).collect()
    }

    fn status_field(&mut self, (place, json): (String, Json)) -> Option<StatusField> {
        let mut fields = self.fields(place, json, &["name", "path"], &[])?;
        let [name, path] = ["name", "path"].map(|key| self.required(&mut fields, key));
        Some(StatusField { name: name?, path: path? })
    }
}
