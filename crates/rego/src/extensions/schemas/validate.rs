//! Validates JSON documents against JSON Schemas.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};

use super::decimal::Decimal;
use super::json::Json;
use super::parse::{BoolOrSchema, Dependency, Id, Schema, SchemaNode};
use super::{LEVELS, Result, STEPS, SchemaError, formats};
use crate::memory;

/// The name of the document in errors.
const ROOT: &str = "(Root)";

/// The cost of compiling a pattern, in steps.
const PATTERN: usize = 4_000;

/// An error in the result of a validation.
pub(super) struct ValidationError {
    pub(super) kind: &'static str,
    pub(super) field: String,
    pub(super) text: String,
}

/// The errors of a value, and a score for how well the value matches.
#[derive(Default)]
struct ValidationResult {
    errors: Vec<ValidationError>,
    score: i64,
}

impl ValidationResult {
    fn is_valid(&self) -> bool {
        self.errors.is_empty()
    }

    fn add(&mut self, place: &InstancePath<'_>, kind: &'static str, text: String) -> Result<()> {
        let field = place.field();
        // The result of the builtin gets copies of the texts. The list may be copied while it grows.
        let list = if self.errors.len() == self.errors.capacity() { self.errors.len() } else { 0 };
        memory::check(3 * (field.len() + text.len()) + 1_024 + 3 * list * size_of::<ValidationError>())?;
        self.errors.push(ValidationError { kind, field, text });
        self.score -= 2;
        Ok(())
    }

    fn merge(&mut self, other: Self) -> Result<()> {
        memory::check((self.errors.len() + other.errors.len()) * 2 * size_of::<ValidationError>())?;
        self.errors.extend(other.errors);
        self.score += other.score;
        Ok(())
    }
}

/// The path of a value in the document.
struct InstancePath<'p> {
    name: &'p str,
    parent: Option<&'p InstancePath<'p>>,
}

impl<'p> InstancePath<'p> {
    fn below(&'p self, name: &'p str) -> InstancePath<'p> {
        InstancePath { name, parent: Some(self) }
    }

    /// The path without the root, or the name of the root.
    fn field(&self) -> String {
        let (mut names, mut place) = (Vec::new(), self);
        while let Some(parent) = place.parent {
            names.push(place.name);
            place = parent;
        }
        if names.is_empty() {
            return ROOT.to_owned();
        }
        names.reverse();
        names.join(".")
    }
}

impl Schema {
    /// Validates `document` and returns its errors.
    pub(super) fn validate(&self, document: &Json) -> Result<Vec<ValidationError>> {
        let mut validation = Validation { nodes: &self.nodes, steps: STEPS, level: 0 };
        let mut outcome = ValidationResult::default();
        let root = InstancePath { name: ROOT, parent: None };
        validation.value(0, document, &mut outcome, &root)?;
        Ok(outcome.errors)
    }
}

struct Validation<'s> {
    nodes: &'s [SchemaNode],
    /// The remaining steps.
    steps: usize,
    level: usize,
}

fn type_of(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        Json::Number(number) if number.is_integer() => "integer",
        Json::Number(_) => "number",
        Json::Text(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    }
}

impl<'s> Validation<'s> {
    fn step(&mut self, steps: usize) -> Result<()> {
        match self.steps.checked_sub(steps) {
            Some(left) => {
                self.steps = left;
                Ok(())
            }
            None => {
                Err(SchemaError::Evaluation(anyhow::anyhow!("the validation takes more than {STEPS} steps")))
            }
        }
    }

    /// Validates `value` against schema `id`, with a separate result.
    fn alone(&mut self, id: Id, value: &Json, place: &InstancePath<'_>) -> Result<ValidationResult> {
        let mut outcome = ValidationResult::default();
        self.value(id, value, &mut outcome, place)?;
        Ok(outcome)
    }

    fn value(
        &mut self,
        id: Id,
        value: &Json,
        outcome: &mut ValidationResult,
        place: &InstancePath<'_>,
    ) -> Result<()> {
        let nodes = self.nodes;
        let (mut node, mut references) = (&nodes[id], 0);
        self.step(1)?;
        loop {
            if let Some(pass) = node.pass {
                return if pass {
                    Ok(())
                } else {
                    outcome.add(place, "false", "False always fails validation".to_owned())
                };
            }
            let Some(reference) = node.reference else { break };
            node = &nodes[reference];
            references += 1;
            if references > LEVELS {
                return Err(SchemaError::unsupported("a reference to itself"));
            }
        }
        self.level += 1;
        if self.level > LEVELS {
            return Err(SchemaError::unsupported(&format!("a validation with more than {LEVELS} levels")));
        }
        self.typed(node, value, outcome, place)?;
        self.level -= 1;
        Ok(())
    }

    fn typed(
        &mut self,
        node: &'s SchemaNode,
        value: &Json,
        outcome: &mut ValidationResult,
        place: &InstancePath<'_>,
    ) -> Result<()> {
        let given = type_of(value);
        let is_of = |name: &&str| *name == given || (*name == "number" && given == "integer");
        if !node.types.is_empty() && !node.types.iter().any(is_of) {
            let expected = match node.types.as_slice() {
                [one] => (*one).to_owned(),
                all => format!("[{}]", all.join(",")),
            };
            let text = format!("Invalid type. Expected: {expected}, given: {given}");
            return outcome.add(place, "invalid_type", text);
        }
        self.combinations(node, value, outcome, place)?;
        match value {
            Json::Null => self.common(node, value, outcome, place)?,
            Json::Array(items) => {
                self.array(node, items, outcome, place)?;
                self.common(node, value, outcome, place)?;
            }
            Json::Object(fields) => {
                self.object(node, fields, outcome, place)?;
                self.common(node, value, outcome, place)?;
                self.step(node.properties.len() / 8)?;
                for (name, property) in &node.properties {
                    if let Some(value) = fields.get(name) {
                        self.value(*property, value, outcome, &place.below(name))?;
                    }
                }
            }
            Json::Number(number) => {
                self.number(node, number, outcome, place)?;
                self.common(node, value, outcome, place)?;
            }
            Json::Text(text) => {
                self.common(node, value, outcome, place)?;
                self.text(node, text, outcome, place)?;
            }
            Json::Bool(_) => self.common(node, value, outcome, place)?,
        }
        outcome.score += 1;
        Ok(())
    }

    /// Validates `value` against the combined schemas (`allOf` and the like).
    fn combinations(
        &mut self,
        node: &'s SchemaNode,
        value: &Json,
        outcome: &mut ValidationResult,
        place: &InstancePath<'_>,
    ) -> Result<()> {
        self.any_of(node, value, outcome, place)?;
        self.one_of(node, value, outcome, place)?;
        if !node.all_of.is_empty() {
            let mut is_valid = true;
            for id in &node.all_of {
                let found = self.alone(*id, value, place)?;
                is_valid &= found.is_valid();
                outcome.merge(found)?;
            }
            if !is_valid {
                outcome.add(place, "number_all_of", "Must validate all the schemas (allOf)".to_owned())?;
            }
        }
        if let Some(not) = node.not
            && self.alone(not, value, place)?.is_valid()
        {
            outcome.add(place, "number_not", "Must not validate the schema (not)".to_owned())?;
        }
        if let Json::Object(fields) = value {
            self.dependencies(node, value, fields, outcome, place)?;
        }
        self.condition(node, value, outcome, place)?;
        outcome.score += 1;
        Ok(())
    }

    fn any_of(
        &mut self,
        node: &'s SchemaNode,
        value: &Json,
        outcome: &mut ValidationResult,
        place: &InstancePath<'_>,
    ) -> Result<()> {
        let mut best: Option<ValidationResult> = None;
        for id in &node.any_of {
            let found = self.alone(*id, value, place)?;
            if found.is_valid() {
                return Ok(());
            }
            if best.as_ref().is_none_or(|best| found.score > best.score) {
                best = Some(found);
            }
        }
        match best {
            Some(best) => {
                outcome.add(
                    place,
                    "number_any_of",
                    "Must validate at least one schema (anyOf)".to_owned(),
                )?;
                outcome.merge(best)
            }
            None => Ok(()),
        }
    }

    fn one_of(
        &mut self,
        node: &'s SchemaNode,
        value: &Json,
        outcome: &mut ValidationResult,
        place: &InstancePath<'_>,
    ) -> Result<()> {
        let (mut valid, mut best) = (0, None::<ValidationResult>);
        for id in &node.one_of {
            let found = self.alone(*id, value, place)?;
            if found.is_valid() {
                valid += 1;
            } else if valid == 0 && best.as_ref().is_none_or(|best| found.score > best.score) {
                best = Some(found);
            }
        }
        if node.one_of.is_empty() || valid == 1 {
            return Ok(());
        }
        let text = "Must validate one and only one schema (oneOf)";
        outcome.add(place, "number_one_of", text.to_owned())?;
        match best.filter(|_| valid == 0) {
            Some(best) => outcome.merge(best),
            None => Ok(()),
        }
    }

    fn dependencies(
        &mut self,
        node: &'s SchemaNode,
        value: &Json,
        fields: &BTreeMap<String, Json>,
        outcome: &mut ValidationResult,
        place: &InstancePath<'_>,
    ) -> Result<()> {
        for (name, dependency) in &node.dependencies {
            self.step(1)?;
            if !fields.contains_key(name) {
                continue;
            }
            match dependency {
                Dependency::Properties(names) => {
                    for name in names {
                        self.step(1)?;
                        if !fields.contains_key(name) {
                            outcome.add(
                                place,
                                "missing_dependency",
                                format!("Has a dependency on {name}"),
                            )?;
                        }
                    }
                }
                Dependency::Schema(id) => self.value(*id, value, outcome, place)?,
            }
        }
        Ok(())
    }

    fn condition(
        &mut self,
        node: &'s SchemaNode,
        value: &Json,
        outcome: &mut ValidationResult,
        place: &InstancePath<'_>,
    ) -> Result<()> {
        let Some(condition) = node.condition else { return Ok(()) };
        let is_valid = self.alone(condition, value, place)?.is_valid();
        let (branch, kind, text) = if is_valid {
            (node.then, "condition_then", "Must validate \"then\" as \"if\" was valid")
        } else {
            (node.otherwise, "condition_else", "Must validate \"else\" as \"if\" was not valid")
        };
        let Some(branch) = branch else { return Ok(()) };
        let found = self.alone(branch, value, place)?;
        if !found.is_valid() {
            outcome.add(place, kind, text.to_owned())?;
            outcome.merge(found)?;
        }
        Ok(())
    }

    /// The text of `value`. Each part of the value costs a step.
    fn written(&mut self, value: &Json) -> Result<String> {
        let text = value.text();
        self.step(text.len() / 8)?;
        Ok(text)
    }

    fn common(
        &mut self,
        node: &'s SchemaNode,
        value: &Json,
        outcome: &mut ValidationResult,
        place: &InstancePath<'_>,
    ) -> Result<()> {
        if let Some(constant) = &node.constant
            && self.written(value)? != *constant
        {
            let text = format!("{} does not match: {constant}", place.field());
            outcome.add(place, "const", text)?;
        }
        if let Some((all, set)) = &node.values
            && !set.contains(&self.written(value)?)
        {
            memory::check(all.len() * 4)?;
            let text = format!("{} must be one of the following: {all}", place.field());
            outcome.add(place, "enum", text)?;
        }
        if let (Some(format), Json::Text(text)) = (&node.format, value) {
            self.step(text.len() / 32 + if format == "regex" { PATTERN } else { 0 })?;
            if !formats::is_of(format, text)? {
                outcome.add(place, "format", format!("Does not match format '{format}'"))?;
            }
        }
        outcome.score += 1;
        Ok(())
    }

    fn array(
        &mut self,
        node: &'s SchemaNode,
        items: &[Json],
        outcome: &mut ValidationResult,
        place: &InstancePath<'_>,
    ) -> Result<()> {
        for (nth, item) in items.iter().enumerate() {
            let schema = match (node.is_single_item, node.items.get(nth), node.additional_items) {
                (true, ..) => node.items[0],
                (false, Some(schema), _) => *schema,
                (false, None, BoolOrSchema::Schema(schema)) if !node.items.is_empty() => schema,
                _ => break,
            };
            let name = nth.to_string();
            let found = self.alone(schema, item, &place.below(&name))?;
            outcome.merge(found)?;
        }
        let has_more = !node.is_single_item && !node.items.is_empty() && items.len() > node.items.len();
        if has_more && matches!(node.additional_items, BoolOrSchema::Bool(false)) {
            let text = "No additional items allowed on array";
            outcome.add(place, "array_no_additional_items", text.to_owned())?;
        }
        let count = items.len() as i64;
        if let Some(least) = node.item_count.least.filter(|least| count < *least) {
            outcome.add(place, "array_min_items", format!("Array must have at least {least} items"))?;
        }
        if let Some(most) = node.item_count.most.filter(|most| count > *most) {
            outcome.add(place, "array_max_items", format!("Array must have at most {most} items"))?;
        }
        if node.unique_items {
            self.unique(items, outcome, place)?;
        }
        if let Some(contains) = node.contains {
            self.contains(contains, items, outcome, place)?;
        }
        outcome.score += 1;
        Ok(())
    }

    fn unique(
        &mut self,
        items: &[Json],
        outcome: &mut ValidationResult,
        place: &InstancePath<'_>,
    ) -> Result<()> {
        let mut known = HashMap::new();
        for (nth, item) in items.iter().enumerate() {
            let text = self.written(item)?;
            self.step(1)?;
            memory::check(3 * text.len() + 1_024)?;
            if let Some(before) = known.insert(text, nth) {
                outcome.add(place, "unique", format!("array items[{before},{nth}] must be unique"))?;
            }
        }
        Ok(())
    }

    fn contains(
        &mut self,
        schema: Id,
        items: &[Json],
        outcome: &mut ValidationResult,
        place: &InstancePath<'_>,
    ) -> Result<()> {
        let mut best: Option<ValidationResult> = None;
        for (nth, item) in items.iter().enumerate() {
            let name = nth.to_string();
            let found = self.alone(schema, item, &place.below(&name))?;
            if found.is_valid() {
                return Ok(());
            }
            if best.as_ref().is_none_or(|best| found.score > best.score) {
                best = Some(found);
            }
        }
        outcome.add(place, "contains", "At least one of the items must match".to_owned())?;
        best.map_or(Ok(()), |best| outcome.merge(best))
    }

    fn object(
        &mut self,
        node: &'s SchemaNode,
        fields: &BTreeMap<String, Json>,
        outcome: &mut ValidationResult,
        place: &InstancePath<'_>,
    ) -> Result<()> {
        let count = fields.len() as i64;
        if let Some(least) = node.property_count.least.filter(|least| count < *least) {
            outcome.add(place, "array_min_properties", format!("Must have at least {least} properties"))?;
        }
        if let Some(most) = node.property_count.most.filter(|most| count > *most) {
            outcome.add(place, "array_max_properties", format!("Must have at most {most} properties"))?;
        }
        for name in &node.required {
            self.step(1)?;
            if fields.contains_key(name) {
                outcome.score += 1;
            } else {
                outcome.add(place, "required", format!("{name} is required"))?;
            }
        }
        for (name, value) in fields {
            self.step(1)?;
            let is_known = node.properties.contains_key(name);
            let has_pattern = self.patterns(node, name, value, outcome, place)?;
            if is_known || has_pattern {
                continue;
            }
            match node.additional_properties {
                BoolOrSchema::Bool(false) => {
                    let text = format!("Additional property {name} is not allowed");
                    outcome.add(place, "additional_property_not_allowed", text)?;
                }
                BoolOrSchema::Schema(schema) => {
                    let found = self.alone(schema, value, &place.below(name))?;
                    outcome.merge(found)?;
                }
                BoolOrSchema::Bool(true) | BoolOrSchema::Missing => {}
            }
        }
        if let Some(schema) = node.property_names {
            for name in fields.keys() {
                let found = self.alone(schema, &Json::Text(name.clone()), place)?;
                if !found.is_valid() {
                    let text = format!("Property name of \"{name}\" does not match");
                    outcome.add(place, "invalid_property_name", text)?;
                    outcome.merge(found)?;
                }
            }
        }
        outcome.score += 1;
        Ok(())
    }

    /// Validates the property `name` against the schemas whose patterns match it. Returns whether a pattern matches.
    fn patterns(
        &mut self,
        node: &'s SchemaNode,
        name: &str,
        value: &Json,
        outcome: &mut ValidationResult,
        place: &InstancePath<'_>,
    ) -> Result<bool> {
        let mut is_matched = false;
        for (pattern, schema) in &node.pattern_properties {
            if self.is_match(pattern, name)? {
                is_matched = true;
                let found = self.alone(*schema, value, &place.below(name))?;
                outcome.merge(found)?;
            }
        }
        outcome.score += i64::from(is_matched);
        Ok(is_matched)
    }

    fn is_match(&mut self, pattern: &super::super::patterns::Pattern, text: &str) -> Result<bool> {
        self.step(1 + text.len() / 32)?;
        match pattern.clone().for_text(text) {
            Some(regex) => Ok(regex.is_match(text)),
            None => Err(SchemaError::unsupported("a text that is too long for its pattern")),
        }
    }

    fn text(
        &mut self,
        node: &'s SchemaNode,
        text: &str,
        outcome: &mut ValidationResult,
        place: &InstancePath<'_>,
    ) -> Result<()> {
        self.step(text.len() / 32)?;
        let count = text.chars().count() as i64;
        if let Some(least) = node.length.least.filter(|least| count < *least) {
            let text = format!("String length must be greater than or equal to {least}");
            outcome.add(place, "string_gte", text)?;
        }
        if let Some(most) = node.length.most.filter(|most| count > *most) {
            let text = format!("String length must be less than or equal to {most}");
            outcome.add(place, "string_lte", text)?;
        }
        if let Some((written, pattern)) = &node.pattern
            && !self.is_match(pattern, text)?
        {
            outcome.add(place, "pattern", format!("Does not match pattern '{written}'"))?;
        }
        outcome.score += 1;
        Ok(())
    }

    fn number(
        &mut self,
        node: &'s SchemaNode,
        number: &Decimal,
        outcome: &mut ValidationResult,
        place: &InstancePath<'_>,
    ) -> Result<()> {
        if let Some(multiple) = &node.multiple_of {
            // Comparing numbers with very different exponents takes long.
            self.step(20)?;
            if !number.is_multiple_of(multiple) {
                outcome.add(place, "multiple_of", format!("Must be a multiple of {}", multiple.go_text()))?;
            }
        }
        let limits = [
            (&node.limits.maximum, "number_lte", "less than or equal to", Ordering::Greater, false),
            (&node.limits.exclusive_maximum, "number_lt", "less than", Ordering::Greater, true),
            (&node.limits.minimum, "number_gte", "greater than or equal to", Ordering::Less, false),
            (&node.limits.exclusive_minimum, "number_gt", "greater than", Ordering::Less, true),
        ];
        for (limit, kind, text, fails, is_exclusive) in limits {
            let Some(limit) = limit else { continue };
            self.step(20)?;
            let order = number.compare(limit);
            if order == fails || (is_exclusive && order == Ordering::Equal) {
                outcome.add(place, kind, format!("Must be {text} {}", limit.go_text()))?;
            }
        }
        outcome.score += 1;
        Ok(())
    }
}
