//! Parses JSON Schemas.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::super::patterns::{Pattern, compiled};
use super::decimal::Decimal;
use super::json::Json;
use super::references::{Pool, Reference};
use super::{LEVELS, Result, SCHEMAS, SchemaError};
use crate::memory;
use crate::re2::PatternError;

/// The values of the keyword `type`.
const TYPES: [&str; 7] = ["array", "boolean", "integer", "number", "null", "object", "string"];

/// The version of JSON Schema. `Hybrid` is for a schema without a known `$schema`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Draft {
    Four,
    Six,
    Seven,
    Hybrid,
}

/// The index of a [`SchemaNode`] in a [`Schema`].
pub(super) type Id = usize;

/// A keyword whose value is a schema or a boolean.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum BoolOrSchema {
    #[default]
    Missing,
    Bool(bool),
    Schema(Id),
}

/// The requirements that an object must meet if it has a certain property.
#[derive(Debug)]
pub(super) enum Dependency {
    Properties(Vec<String>),
    Schema(Id),
}

/// A lower and an upper limit, each inclusive or exclusive.
#[derive(Debug, Default)]
pub(super) struct Limits {
    pub(super) minimum: Option<Decimal>,
    pub(super) exclusive_minimum: Option<Decimal>,
    pub(super) maximum: Option<Decimal>,
    pub(super) exclusive_maximum: Option<Decimal>,
}

/// A minimum and a maximum size.
#[derive(Debug, Default)]
pub(super) struct Sizes {
    pub(super) least: Option<i64>,
    pub(super) most: Option<i64>,
}

/// One schema. Its nested schemas are other nodes of the [`Schema`].
#[derive(Default)]
pub(super) struct SchemaNode {
    /// The result of a boolean schema.
    pub(super) pass: Option<bool>,
    pub(super) types: Vec<&'static str>,
    /// The target of `$ref`, which replaces this schema.
    pub(super) reference: Option<Id>,
    pub(super) properties: BTreeMap<String, Id>,
    pub(super) additional_properties: BoolOrSchema,
    /// The schemas of properties whose names match a regular expression.
    pub(super) pattern_properties: Vec<(Pattern, Id)>,
    pub(super) property_names: Option<Id>,
    pub(super) dependencies: BTreeMap<String, Dependency>,
    pub(super) items: Vec<Id>,
    pub(super) is_single_item: bool,
    pub(super) additional_items: BoolOrSchema,
    pub(super) multiple_of: Option<Decimal>,
    pub(super) limits: Limits,
    pub(super) length: Sizes,
    pub(super) pattern: Option<(String, Pattern)>,
    pub(super) format: Option<String>,
    pub(super) property_count: Sizes,
    pub(super) required: Vec<String>,
    pub(super) item_count: Sizes,
    pub(super) unique_items: bool,
    pub(super) contains: Option<Id>,
    pub(super) constant: Option<String>,
    /// The values of `enum` as JSON: in one text in order, and as a set.
    pub(super) values: Option<(String, HashSet<String>)>,
    pub(super) one_of: Vec<Id>,
    pub(super) any_of: Vec<Id>,
    pub(super) all_of: Vec<Id>,
    pub(super) not: Option<Id>,
    pub(super) condition: Option<Id>,
    pub(super) then: Option<Id>,
    pub(super) otherwise: Option<Id>,
}

/// A schema with all its nested schemas. The first schema is the root.
pub(super) struct Schema {
    pub(super) nodes: Vec<SchemaNode>,
}

/// The fields of an object.
type Fields = BTreeMap<String, Json>;

struct Parser<'j> {
    document: &'j Json,
    pool: Pool,
    /// The draft that the document names in `$schema`, if any.
    draft: Option<Draft>,
    nodes: Vec<SchemaNode>,
    references: HashMap<String, Id>,
    level: usize,
}

fn invalid_type(expected: &str, given: &str) -> SchemaError {
    SchemaError::schema(format!("Invalid type. Expected: {expected}, given: {given}"))
}

fn must_be(key: &str, article: &str, what: &str) -> SchemaError {
    SchemaError::schema(format!("{key} must be of {article} {what}"))
}

/// The draft of `document`. As in OPA, it is `None` for an unknown URL.
fn draft_of(document: &Json) -> Result<Option<Draft>> {
    let fields = match document {
        Json::Bool(_) => return Ok(None),
        Json::Object(fields) => fields,
        _ => return Err(SchemaError::schema("schema is invalid")),
    };
    let Some(url) = fields.get("$schema") else { return Ok(None) };
    let Json::Text(url) = url else { return Err(SchemaError::schema("$schema must be of type string")) };
    Ok(match Reference::read(url)?.to_string().as_str() {
        "http://json-schema.org/draft-04/schema" => Some(Draft::Four),
        "http://json-schema.org/draft-06/schema" => Some(Draft::Six),
        "http://json-schema.org/draft-07/schema" => Some(Draft::Seven),
        _ => None,
    })
}

impl Schema {
    /// Parses the schema of `document`.
    pub(super) fn parse(mut document: Json) -> Result<Self> {
        let draft = draft_of(&document)?;
        let pool = Pool::collect(&mut document)?;
        let mut parser = Parser {
            document: &document,
            pool,
            draft,
            nodes: Vec::new(),
            references: HashMap::new(),
            level: 0,
        };
        parser.node(&document, draft.unwrap_or(Draft::Hybrid))?;
        Ok(Self { nodes: parser.nodes })
    }
}

fn text<'j>(fields: &'j Fields, key: &str) -> Result<Option<&'j str>> {
    match fields.get(key) {
        None => Ok(None),
        Some(Json::Text(text)) => Ok(Some(text)),
        Some(_) => Err(invalid_type("string", key)),
    }
}

fn list<'j>(fields: &'j Fields, key: &str) -> Result<&'j [Json]> {
    match fields.get(key) {
        None => Ok(&[]),
        Some(Json::Array(items)) => Ok(items),
        Some(_) => Err(must_be(key, "an", "array")),
    }
}

fn size(fields: &Fields, key: &str) -> Result<Option<i64>> {
    let Some(value) = fields.get(key) else { return Ok(None) };
    let number = match value {
        Json::Number(number) => number.as_i64(),
        _ => None,
    };
    let number = number.ok_or_else(|| must_be(key, "an", "integer"))?;
    if number < 0 {
        return Err(SchemaError::schema(format!("{key} must be greater than or equal to 0")));
    }
    Ok(Some(number))
}

fn sizes(fields: &Fields, least_key: &str, most_key: &str) -> Result<Sizes> {
    Ok(Sizes { least: size(fields, least_key)?, most: size(fields, most_key)? })
}

fn check_order(sizes: &Sizes, least_key: &str, most_key: &str) -> Result<()> {
    match (sizes.least, sizes.most) {
        (Some(least), Some(most)) if least > most => {
            Err(SchemaError::schema(format!("{least_key} cannot be greater than {most_key}")))
        }
        _ => Ok(()),
    }
}

/// Reads the limit `key`, for example `maximum`, and its exclusive form `exclusive_key`.
fn limit(
    fields: &Fields,
    key: &str,
    exclusive_key: &str,
    draft: Draft,
) -> Result<(Option<Decimal>, Option<Decimal>)> {
    let limit = match fields.get(key) {
        None => None,
        Some(Json::Number(number)) => Some(number.clone()),
        Some(_) => return Err(must_be(key, "a", "Number")),
    };
    let Some(exclusive) = fields.get(exclusive_key) else { return Ok((limit, None)) };
    match exclusive {
        Json::Bool(is_exclusive) if matches!(draft, Draft::Four | Draft::Hybrid) => match limit {
            None => Err(SchemaError::schema(format!("{exclusive_key} cannot be used without {key}"))),
            Some(limit) if *is_exclusive => Ok((None, Some(limit))),
            limit => Ok((limit, None)),
        },
        Json::Number(number) if draft != Draft::Four => Ok((limit, Some(number.clone()))),
        _ => {
            let expected = match draft {
                Draft::Four => "boolean",
                Draft::Hybrid => "boolean/number",
                Draft::Six | Draft::Seven => "number",
            };
            Err(invalid_type(expected, exclusive_key))
        }
    }
}

/// The compiled `pattern`; `None` if Go rejects it.
fn pattern(pattern: &str) -> Result<Option<Pattern>> {
    match compiled(pattern) {
        Ok(compiled) => Ok(Some(compiled)),
        Err(PatternError::Syntax(_)) => Ok(None),
        Err(error) => Err(SchemaError::unsupported(&format!("the pattern {pattern:?}, which {error}"))),
    }
}

impl<'j> Parser<'j> {
    /// Parses the schema `value` in a schema of this `draft`.
    fn node(&mut self, value: &'j Json, draft: Draft) -> Result<Id> {
        let id = self.reserve()?;
        self.fill(id, value, draft)?;
        Ok(id)
    }

    fn reserve(&mut self) -> Result<Id> {
        if self.nodes.len() >= SCHEMAS {
            return Err(SchemaError::unsupported(&format!("more than {SCHEMAS} schemas and references")));
        }
        // The vector may be copied while it grows.
        memory::check(
            3 * size_of::<SchemaNode>()
                + if self.nodes.len() == self.nodes.capacity() {
                    self.nodes.len() * 3 * size_of::<SchemaNode>()
                } else {
                    0
                },
        )?;
        self.nodes.push(SchemaNode::default());
        Ok(self.nodes.len() - 1)
    }

    fn fill(&mut self, id: Id, value: &'j Json, draft: Draft) -> Result<()> {
        self.level += 1;
        if self.level > LEVELS {
            return Err(SchemaError::unsupported(&format!(
                "a chain of more than {LEVELS} schemas and references"
            )));
        }
        let filled = match value {
            Json::Bool(pass) if draft >= Draft::Six => {
                self.nodes[id].pass = Some(*pass);
                Ok(())
            }
            Json::Object(fields) => self.fields(id, fields, draft),
            _ => Err(SchemaError::schema("Expected: Valid Schema, given: Invalid JSON")),
        };
        self.level -= 1;
        filled
    }

    fn fields(&mut self, id: Id, fields: &'j Fields, draft: Draft) -> Result<()> {
        let is_old_id = draft == Draft::Four || (draft == Draft::Hybrid && fields.contains_key("id"));
        if let Some(id) = text(fields, if is_old_id { "id" } else { "$id" })? {
            Reference::read(id)?;
        }
        self.definitions(fields, draft)?;
        text(fields, "title")?;
        text(fields, "description")?;
        if let Some(reference) = text(fields, "$ref")? {
            let reference = Reference::read(reference)?;
            match self.references.get(&reference.to_string()) {
                Some(known) => self.nodes[id].reference = Some(*known),
                None => return self.referred(id, &reference, draft),
            }
        }
        self.types(id, fields)?;
        self.properties(id, fields, draft)?;
        self.items(id, fields, draft)?;
        self.numbers(id, fields, draft)?;
        self.texts(id, fields)?;
        self.sizes(id, fields)?;
        self.values(id, fields, draft)?;
        self.combinations(id, fields, draft)?;
        self.conditions(id, fields, draft)
    }

    /// The schemas in `definitions` must be valid, too.
    fn definitions(&mut self, fields: &'j Fields, draft: Draft) -> Result<()> {
        let invalid = || invalid_type("Array Of Schemas", "definitions");
        let Some(definitions) = fields.get("definitions") else { return Ok(()) };
        let Json::Object(definitions) = definitions else { return Err(invalid()) };
        for definition in definitions.values() {
            if !matches!(definition, Json::Bool(_) | Json::Object(_)) {
                return Err(invalid());
            }
            self.node(definition, draft)?;
        }
        Ok(())
    }

    /// Parses the target of `reference`. Other keywords of the schema `id` are ignored.
    fn referred(&mut self, id: Id, reference: &Reference, draft: Draft) -> Result<()> {
        let referred = self.reserve()?;
        self.references.insert(reference.to_string(), referred);
        let value = self.pool.get(self.document, reference)?;
        if !matches!(value, Json::Bool(_) | Json::Object(_)) {
            return Err(SchemaError::schema("Valid Schema must be of type object"));
        }
        self.fill(referred, value, self.draft.unwrap_or(draft))?;
        self.nodes[id].reference = Some(referred);
        Ok(())
    }

    fn types(&mut self, id: Id, fields: &Fields) -> Result<()> {
        let invalid = || invalid_type("type", "string/Array Of Strings");
        let names: Vec<&Json> = match fields.get("type") {
            None => return Ok(()),
            Some(name @ Json::Text(_)) => vec![name],
            Some(Json::Array(names)) => names.iter().collect(),
            Some(_) => return Err(invalid()),
        };
        for name in names {
            let Json::Text(name) = name else { return Err(invalid()) };
            let known = TYPES.into_iter().find(|known| known == name).ok_or_else(|| {
                SchemaError::schema(format!(
                    "has a primitive type that is NOT VALID -- given: /{name}/ Expected valid values are:[{}]",
                    TYPES.join(" ")
                ))
            })?;
            if self.nodes[id].types.contains(&known) {
                return Err(SchemaError::schema(format!("{name} type is duplicated")));
            }
            self.nodes[id].types.push(known);
        }
        Ok(())
    }

    fn properties(&mut self, id: Id, fields: &'j Fields, draft: Draft) -> Result<()> {
        if let Some(properties) = fields.get("properties") {
            let Json::Object(properties) = properties else {
                return Err(SchemaError::schema("Properties must be of type object"));
            };
            for (name, property) in properties {
                let property = self.node(property, draft)?;
                self.nodes[id].properties.insert(name.clone(), property);
            }
        }
        self.nodes[id].additional_properties = self.bool_or_schema(fields, "additionalProperties", draft)?;
        match fields.get("patternProperties") {
            None => {}
            Some(Json::Object(patterns)) => {
                for (text, property) in patterns {
                    let Some(pattern) = pattern(text)? else {
                        return Err(SchemaError::schema(format!("Invalid regex pattern '{text}'")));
                    };
                    let property = self.node(property, draft)?;
                    self.nodes[id].pattern_properties.push((pattern, property));
                }
            }
            Some(_) => return Err(invalid_type("Valid Schema", "patternProperties")),
        }
        if let Some(names) = fields.get("propertyNames").filter(|_| draft >= Draft::Six) {
            if !matches!(names, Json::Bool(_) | Json::Object(_)) {
                return Err(invalid_type("Valid Schema", "patternProperties"));
            }
            self.nodes[id].property_names = Some(self.node(names, draft)?);
        }
        match fields.get("dependencies") {
            None => Ok(()),
            Some(Json::Object(dependencies)) => self.dependencies(id, dependencies, draft),
            Some(_) => Err(SchemaError::schema("dependencies must be of type object")),
        }
    }

    fn dependencies(&mut self, id: Id, dependencies: &'j Fields, draft: Draft) -> Result<()> {
        let invalid = || SchemaError::schema("Dependency must be of type Schema Or Array Of Strings");
        for (name, value) in dependencies {
            let dependency = match value {
                Json::Array(names) => {
                    let text = |name: &Json| match name {
                        Json::Text(name) => Ok(name.clone()),
                        _ => Err(invalid()),
                    };
                    Dependency::Properties(names.iter().map(text).collect::<Result<_>>()?)
                }
                Json::Bool(_) | Json::Object(_) => Dependency::Schema(self.node(value, draft)?),
                _ => return Err(invalid()),
            };
            self.nodes[id].dependencies.insert(name.clone(), dependency);
        }
        Ok(())
    }

    fn bool_or_schema(&mut self, fields: &'j Fields, key: &str, draft: Draft) -> Result<BoolOrSchema> {
        match fields.get(key) {
            None => Ok(BoolOrSchema::Missing),
            Some(Json::Bool(value)) => Ok(BoolOrSchema::Bool(*value)),
            Some(schema @ Json::Object(_)) => Ok(BoolOrSchema::Schema(self.node(schema, draft)?)),
            Some(_) => Err(invalid_type("boolean/Valid Schema", key)),
        }
    }

    fn items(&mut self, id: Id, fields: &'j Fields, draft: Draft) -> Result<()> {
        let invalid = || invalid_type("Valid Schema/Array Of Schemas", "items");
        match fields.get("items") {
            None => {}
            Some(Json::Array(items)) => {
                for item in items {
                    if !matches!(item, Json::Bool(_) | Json::Object(_)) {
                        return Err(invalid());
                    }
                    let item = self.node(item, draft)?;
                    self.nodes[id].items.push(item);
                }
            }
            Some(item @ (Json::Bool(_) | Json::Object(_))) => {
                let item = self.node(item, draft)?;
                self.nodes[id].items.push(item);
                self.nodes[id].is_single_item = true;
            }
            Some(_) => return Err(invalid()),
        }
        self.nodes[id].additional_items = self.bool_or_schema(fields, "additionalItems", draft)?;
        Ok(())
    }

    fn numbers(&mut self, id: Id, fields: &Fields, draft: Draft) -> Result<()> {
        match fields.get("multipleOf") {
            None => {}
            Some(Json::Number(number)) if number.is_positive() => {
                self.nodes[id].multiple_of = Some(number.clone());
            }
            Some(Json::Number(_)) => {
                return Err(SchemaError::schema("multipleOf must be strictly greater than 0"));
            }
            Some(_) => return Err(invalid_type("Number", "multipleOf")),
        }
        let (minimum, exclusive_minimum) = limit(fields, "minimum", "exclusiveMinimum", draft)?;
        let (maximum, exclusive_maximum) = limit(fields, "maximum", "exclusiveMaximum", draft)?;
        self.nodes[id].limits = Limits { minimum, exclusive_minimum, maximum, exclusive_maximum };
        Ok(())
    }

    fn texts(&mut self, id: Id, fields: &Fields) -> Result<()> {
        let length = sizes(fields, "minLength", "maxLength")?;
        check_order(&length, "minLength", "maxLength")?;
        self.nodes[id].length = length;
        if let Some(text) = text(fields, "pattern")? {
            let pattern =
                pattern(text)?.ok_or_else(|| SchemaError::schema("pattern must be a valid regex"))?;
            self.nodes[id].pattern = Some((text.to_owned(), pattern));
        }
        self.nodes[id].format =
            text(fields, "format")?.filter(|format| !format.is_empty()).map(str::to_owned);
        Ok(())
    }

    fn sizes(&mut self, id: Id, fields: &Fields) -> Result<()> {
        let properties = sizes(fields, "minProperties", "maxProperties")?;
        check_order(&properties, "minProperties", "maxProperties")?;
        self.nodes[id].property_count = properties;
        let mut names = HashSet::new();
        for name in list(fields, "required")? {
            let Json::Text(name) = name else { return Err(invalid_type("string", "required")) };
            if !names.insert(name) {
                return Err(SchemaError::schema("required items must be unique"));
            }
            self.nodes[id].required.push(name.clone());
        }
        self.nodes[id].item_count = sizes(fields, "minItems", "maxItems")?;
        self.nodes[id].unique_items = match fields.get("uniqueItems") {
            None => false,
            Some(Json::Bool(value)) => *value,
            Some(_) => return Err(must_be("uniqueItems", "a", "boolean")),
        };
        Ok(())
    }

    fn values(&mut self, id: Id, fields: &'j Fields, draft: Draft) -> Result<()> {
        if let Some(contains) = fields.get("contains").filter(|_| draft >= Draft::Six) {
            self.nodes[id].contains = Some(self.node(contains, draft)?);
        }
        self.nodes[id].constant = fields.get("const").filter(|_| draft >= Draft::Six).map(Json::text);
        if fields.contains_key("enum") {
            let (mut all, mut set) = (Vec::new(), HashSet::new());
            for value in list(fields, "enum")? {
                let value = value.text();
                memory::check(value.len() * 4)?;
                if !set.insert(value.clone()) {
                    return Err(SchemaError::schema("enum items must be unique"));
                }
                all.push(value);
            }
            self.nodes[id].values = Some((all.join(", "), set));
        }
        Ok(())
    }

    fn combinations(&mut self, id: Id, fields: &'j Fields, draft: Draft) -> Result<()> {
        let mut all = |key: &str| {
            list(fields, key)?.iter().map(|schema| self.node(schema, draft)).collect::<Result<Vec<Id>>>()
        };
        let (one_of, any_of, all_of) = (all("oneOf")?, all("anyOf")?, all("allOf")?);
        let not = self.operand(fields, "not", draft)?;
        let node = &mut self.nodes[id];
        (node.one_of, node.any_of, node.all_of, node.not) = (one_of, any_of, all_of, not);
        Ok(())
    }

    fn conditions(&mut self, id: Id, fields: &'j Fields, draft: Draft) -> Result<()> {
        if draft < Draft::Seven {
            return Ok(());
        }
        let mut operand = |key| self.operand(fields, key, draft);
        let (condition, then, otherwise) = (operand("if")?, operand("then")?, operand("else")?);
        let node = &mut self.nodes[id];
        (node.condition, node.then, node.otherwise) = (condition, then, otherwise);
        Ok(())
    }

    fn operand(&mut self, fields: &'j Fields, key: &str, draft: Draft) -> Result<Option<Id>> {
        match fields.get(key) {
            None => Ok(None),
            Some(schema @ (Json::Bool(_) | Json::Object(_))) => Ok(Some(self.node(schema, draft)?)),
            Some(_) => Err(must_be(key, "an", "object")),
        }
    }
}
