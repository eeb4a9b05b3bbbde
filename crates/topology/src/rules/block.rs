//! The part of a spec that contains the rules: `defaults`, `overrides`, or the whole spec.

use serde_json::{Map, Value};

use super::PolicyRule;
use super::strategy::Strategy;
use crate::fault::Fault;
use policy_sync_api::json::step::Step;
use policy_sync_api::text::excerpt;

/// The part of a spec that contains the rules, without its target fields.
pub(super) struct Block<'s> {
    /// The path of the part: `spec`, `spec.defaults` or `spec.overrides`.
    place: &'static str,
    fields: &'s Map<String, Value>,
    /// Fields that contain no rules.
    others: &'static [&'static str],
    pub(super) strategy: Strategy,
}

impl<'s> Block<'s> {
    /// Finds the part of `spec` with the rules. Also returns the faults in the fields that select the merge
    /// strategy.
    pub(super) fn read(spec: &'s Map<String, Value>) -> Result<(Self, Vec<Fault>), Fault> {
        let part = |key: &str| spec.get(key).filter(|part| !part.is_null());
        let (place, part, overrides) = match (part("defaults"), part("overrides")) {
            (Some(defaults), _) => ("spec.defaults", defaults, false),
            (None, Some(overrides)) => ("spec.overrides", overrides, true),
            (None, None) => {
                let others = &["defaults", "overrides", "targetRef", "targetRefs", "targetSelectors"];
                let strategy = Strategy::AtomicDefaults;
                return Ok((Self { place: "spec", fields: spec, others, strategy }, Vec::new()));
            }
        };
        let mut faults = Vec::new();
        if !overrides && spec.get("overrides").is_some_and(|overrides| !overrides.is_null()) {
            let text = "defaults and overrides are both set: only the defaults are used".to_owned();
            faults.push(Fault { place: "spec.overrides".to_owned(), text });
        }
        let fields = part.as_object().ok_or_else(|| Fault::expected(place, "an object", part))?;
        let merged = match fields.get("strategy") {
            None | Some(Value::Null) => false,
            Some(Value::String(strategy)) if strategy == "atomic" => false,
            Some(Value::String(strategy)) if strategy == "merge" || strategy == "patch" => true,
            Some(Value::String(strategy)) => {
                let text = format!("unknown strategy {:?}: \"atomic\" is used", excerpt(strategy));
                faults.push(Fault { place: format!("{place}.strategy"), text });
                false
            }
            Some(other) => return Err(Fault::expected(format!("{place}.strategy"), "a string", other)),
        };
        let strategy = match (overrides, merged) {
            (false, false) => Strategy::AtomicDefaults,
            (false, true) => Strategy::MergedDefaults,
            (true, false) => Strategy::AtomicOverrides,
            (true, true) => Strategy::MergedOverrides,
        };
        Ok((Self { place, fields, others: &["strategy"], strategy }, faults))
    }

    /// The whole `spec` of a policy of Envoy Gateway.
    pub(super) fn of_envoy(spec: &'s Map<String, Value>, strategy: Strategy) -> Self {
        let others = &["mergeType", "targetRef", "targetRefs", "targetSelectors"];
        Self { place: "spec", fields: spec, others, strategy }
    }

    /// The part of a spec at `place`. All of its fields are rules.
    pub(super) fn of_part(place: &'static str, fields: &'s Map<String, Value>, strategy: Strategy) -> Self {
        Self { place, fields, others: &[], strategy }
    }

    /// The fields that contain rules.
    pub(super) fn fields(&self) -> impl Iterator<Item = (&'s String, &'s Value)> {
        self.fields.iter().filter(|(key, _)| !self.others.contains(&key.as_str()))
    }

    /// The field `key` and its path.
    pub(super) fn field(&self, key: &str) -> Option<(String, &'s Value)> {
        let value = self.fields.get(key).filter(|value| !value.is_null())?;
        Some((format!("{}.{key}", self.place), value))
    }

    /// A rule for each entry of the object at `key`. Fails if an entry is not as `expected`.
    pub(super) fn entries(&self, key: &str, expected: Expected) -> Result<Vec<PolicyRule>, Fault> {
        let Some((place, value)) = self.field(key) else { return Ok(Vec::new()) };
        entries(&place, value, key, expected)
    }

    /// The rule `key` for the list at `field`. The list has no effect without other rules.
    pub(super) fn list(&self, field: &str, key: &str) -> Result<Option<PolicyRule>, Fault> {
        let Some((place, value)) = self.field(field) else { return Ok(None) };
        if !value.is_array() {
            return Err(Fault::expected(place, "a list", value));
        }
        Ok(Some(PolicyRule::addition(key.to_owned(), value)))
    }
}

/// The valid types of the entries of an object.
#[derive(Clone, Copy)]
pub(super) enum Expected {
    Object,
    ObjectOrList,
}

/// A rule `<key>#<name>` for each entry of the object `value` at `place`.
pub(super) fn entries(
    place: &str,
    value: &Value,
    key: &str,
    expected: Expected,
) -> Result<Vec<PolicyRule>, Fault> {
    let entries = object(place, value)?;
    let rule = |(name, entry): (&String, &Value)| match (expected, entry) {
        (_, Value::Object(_)) | (Expected::ObjectOrList, Value::Array(_)) => {
            Ok(PolicyRule::new(format!("{key}#{name}"), entry))
        }
        _ => Err(Fault::expected(format!("{place}{}", Step::key(name)), "an object", entry)),
    };
    entries.iter().map(rule).collect()
}

/// Returns `value` as an object. `place` is its path in a message.
pub(super) fn object<'v>(place: &str, value: &'v Value) -> Result<&'v Map<String, Value>, Fault> {
    value.as_object().ok_or_else(|| Fault::expected(place, "an object", value))
}
