//! Checks and indexes the definitions of a GraphQL schema, like gqlparser's `validator.ValidateSchemaDocument`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use super::ast::{
    ArgumentDefinition, Definition, Directive, DirectiveDefinition, FieldDefinition, SchemaDefinition,
    SchemaDocument, Text, Type, ValueKind,
};
use super::{DocumentError, Steps, parser};

/// The built-in types and directives of each schema: those of the
/// [specification](https://spec.graphql.org/October2021/#sec-Schema-Introspection) in gqlparser's version.
const PRELUDE: &str = include_str!("prelude.graphql");

/// A valid schema.
#[derive(Default)]
pub(super) struct Schema {
    types: BTreeMap<Text, Definition>,
    directives: BTreeMap<Text, DirectiveDefinition>,
    /// By type, the object types that a value of the type may have: the members of a union, the implementations of an
    /// interface, or the object type itself.
    possible_types: BTreeMap<Text, Vec<Text>>,
    query: Option<Text>,
    mutation: Option<Text>,
    subscription: Option<Text>,
}

fn valid(is: bool) -> Result<(), DocumentError> {
    if is { Ok(()) } else { Err(DocumentError::Invalid) }
}

/// Finds a field by its name. Lists are searched from the start, and each comparison counts as a step.
pub(super) fn field<'a>(
    fields: &'a [FieldDefinition],
    name: &str,
    steps: &Steps,
) -> Result<Option<&'a FieldDefinition>, DocumentError> {
    steps.count(fields.len())?;
    Ok(fields.iter().find(|field| *field.name == *name))
}

/// Finds an argument by its name.
pub(super) fn argument<'a>(
    arguments: &'a [ArgumentDefinition],
    name: &str,
    steps: &Steps,
) -> Result<Option<&'a ArgumentDefinition>, DocumentError> {
    steps.count(arguments.len())?;
    Ok(arguments.iter().find(|argument| *argument.name == *name))
}

fn named(name: &str, non_null: bool) -> Type {
    Type { named: name.into(), element: None, non_null }
}

impl Schema {
    /// Checks and indexes `document`.
    ///
    /// # Errors
    ///
    /// If the document is invalid or the check exceeds a limit.
    pub(super) fn new(document: SchemaDocument, steps: &Steps) -> Result<Self, DocumentError> {
        static PARSED: LazyLock<Option<SchemaDocument>> = LazyLock::new(|| {
            let mut prelude = parser::schema(PRELUDE).ok()?;
            prelude.definitions.iter_mut().for_each(|definition| definition.built_in = true);
            Some(prelude)
        });
        let prelude = PARSED.clone().ok_or(DocumentError::Unsupported("introspection"))?;
        let mut schema = Self::default();
        schema.add_types(prelude.definitions.into_iter().chain(document.definitions), document.extensions)?;
        schema.add_possible_types();
        for directive in prelude.directives.into_iter().chain(document.directives) {
            let replaced = schema.directives.insert(directive.name.clone(), directive);
            let may_be_replaced = |name: &str| {
                ["include", "skip", "deprecated", "specifiedBy", "defer", "oneOf"].contains(&name)
            };
            valid(replaced.is_none_or(|replaced| may_be_replaced(&replaced.name)))?;
        }
        valid(document.schema.len() <= 1)?;
        let has_definition = !document.schema.is_empty();
        for definition in document.schema.iter().chain(&document.schema_extensions) {
            schema.add_roots(definition, steps)?;
        }
        for definition in schema.types.values() {
            schema.check_definition(definition, steps)?;
        }
        schema.check_input_cycles()?;
        for directive in schema.directives.values() {
            check_name(&directive.name)?;
            schema.check_arguments(&directive.arguments, Some(&directive.name), steps)?;
        }
        schema.complete_roots(has_definition);
        Ok(schema)
    }

    fn add_types(
        &mut self,
        definitions: impl Iterator<Item = Definition>,
        extensions: Vec<Definition>,
    ) -> Result<(), DocumentError> {
        for definition in definitions {
            valid(self.types.insert(definition.name.clone(), definition).is_none())?;
        }
        for extension in extensions {
            let base = self.types.entry(extension.name.clone()).or_insert_with(|| Definition {
                kind: extension.kind.clone(),
                name: extension.name.clone(),
                ..Definition::default()
            });
            valid(base.kind == extension.kind)?;
            base.directives.extend(extension.directives);
            base.interfaces.extend(extension.interfaces);
            base.fields.extend(extension.fields);
            base.types.extend(extension.types);
            base.enum_values.extend(extension.enum_values);
        }
        Ok(())
    }

    fn add_possible_types(&mut self) {
        for definition in self.types.values() {
            let mut add = |of: &Text, name: &Text| {
                self.possible_types.entry(of.clone()).or_default().push(name.clone())
            };
            match &*definition.kind {
                "UNION" => definition.types.iter().for_each(|member| add(&definition.name, member)),
                "INPUT_OBJECT" | "OBJECT" => {
                    definition.interfaces.iter().for_each(|interface| add(interface, &definition.name));
                    add(&definition.name, &definition.name);
                }
                "INTERFACE" => {
                    definition.interfaces.iter().for_each(|interface| add(interface, &definition.name))
                }
                _ => {}
            }
        }
    }

    fn add_roots(&mut self, definition: &SchemaDefinition, steps: &Steps) -> Result<(), DocumentError> {
        for root in &definition.operation_types {
            valid(self.types.contains_key(&root.of))?;
            match &*root.operation {
                "query" => self.query = Some(root.of.clone()),
                "mutation" => self.mutation = Some(root.of.clone()),
                "subscription" => self.subscription = Some(root.of.clone()),
                _ => {}
            }
        }
        self.check_directives(&definition.directives, "SCHEMA", None, true, steps)
    }

    /// If the document does not define the schema, the roots are the types with the default names.
    fn complete_roots(&mut self, has_definition: bool) {
        if !has_definition {
            let types = &self.types;
            for (root, name) in [
                (&mut self.query, "Query"),
                (&mut self.mutation, "Mutation"),
                (&mut self.subscription, "Subscription"),
            ] {
                if root.is_none() {
                    *root = types.get_key_value(name).map(|(name, _)| name.clone());
                }
            }
        }
        let Some(query) = self.query.as_ref().and_then(|query| self.types.get_mut(query)) else { return };
        let name =
            ArgumentDefinition { name: "name".into(), of: named("String", true), ..Default::default() };
        query.fields.extend([
            FieldDefinition { name: "__schema".into(), of: named("__Schema", true), ..Default::default() },
            FieldDefinition {
                name: "__type".into(),
                of: named("__Type", false),
                arguments: vec![name],
                ..Default::default()
            },
        ]);
    }

    /// The type of this name.
    pub(super) fn get(&self, name: &str) -> Option<&Definition> {
        self.types.get(name)
    }

    pub(super) fn directive(&self, name: &str) -> Option<&DirectiveDefinition> {
        self.directives.get(name)
    }

    /// The object types that a value of this type may have.
    pub(super) fn possible_types(&self, name: &str) -> &[Text] {
        self.possible_types.get(name).map_or(&[], Vec::as_slice)
    }

    /// The root type for an operation: `query`, `mutation` or `subscription`.
    pub(super) fn root(&self, operation: &str) -> Option<&Definition> {
        let root = match operation {
            "query" | "" => &self.query,
            "mutation" => &self.mutation,
            "subscription" => &self.subscription,
            _ => return None,
        };
        self.types.get(root.as_ref()?)
    }

    fn check_definition(&self, definition: &Definition, steps: &Steps) -> Result<(), DocumentError> {
        let kind = &*definition.kind;
        let is_input = kind == "INPUT_OBJECT";
        let location = if is_input { "INPUT_FIELD_DEFINITION" } else { "FIELD_DEFINITION" };
        for field in &definition.fields {
            check_name(&field.name)?;
            self.check_type(&field.of)?;
            self.check_arguments(&field.arguments, None, steps)?;
            self.check_directives(&field.directives, location, None, true, steps)?;
        }
        for member in &definition.types {
            valid(self.get(member).is_some_and(|member| &*member.kind == "OBJECT"))?;
        }
        for interface in &definition.interfaces {
            self.check_implementation(definition, interface, steps)?;
        }
        match kind {
            "OBJECT" | "INTERFACE" | "INPUT_OBJECT" => {
                valid(!definition.fields.is_empty())?;
                for field in &definition.fields {
                    let kind = self.get(field.of.name()).map_or("", |of| &*of.kind);
                    valid(match kind {
                        "SCALAR" | "ENUM" => true,
                        "OBJECT" | "INTERFACE" | "UNION" => !is_input,
                        "INPUT_OBJECT" => is_input,
                        _ => false,
                    })?;
                }
            }
            "ENUM" => {
                valid(!definition.enum_values.is_empty())?;
                for value in &definition.enum_values {
                    valid(!["true", "false", "null"].contains(&&*value.name))?;
                    self.check_directives(&value.directives, "ENUM_VALUE", None, true, steps)?;
                }
            }
            _ => {}
        }
        valid(are_unique(definition.fields.iter().map(|field| &field.name)))?;
        valid(are_unique(definition.enum_values.iter().map(|value| &value.name)))?;
        valid(are_unique(definition.types.iter()))?;
        if !definition.built_in {
            check_name(&definition.name)?;
        }
        self.check_directives(&definition.directives, kind, None, false, steps)
    }

    fn check_type(&self, of: &Type) -> Result<(), DocumentError> {
        valid(self.types.contains_key(of.name()))
    }

    fn check_arguments(
        &self,
        arguments: &[ArgumentDefinition],
        directive: Option<&str>,
        steps: &Steps,
    ) -> Result<(), DocumentError> {
        for argument in arguments {
            check_name(&argument.name)?;
            valid(self.get(argument.of.name()).is_some_and(is_input))?;
            self.check_directives(&argument.directives, "ARGUMENT_DEFINITION", directive, true, steps)?;
        }
        Ok(())
    }

    /// Checks the directives at a location. With `at_one_place`, a directive must not occur twice. The directives of a
    /// type come from its definition and its extensions, so the same directive may occur more than once there.
    fn check_directives(
        &self,
        directives: &[Directive],
        location: &str,
        within: Option<&str>,
        at_one_place: bool,
        steps: &Steps,
    ) -> Result<(), DocumentError> {
        let mut seen = BTreeSet::new();
        for directive in directives {
            check_name(&directive.name)?;
            valid(within != Some(&directive.name))?;
            let definition = self.directive(&directive.name).ok_or(DocumentError::Invalid)?;
            valid(!at_one_place || seen.insert(&directive.name) || definition.repeatable)?;
            steps.count(definition.locations.len())?;
            valid(definition.locations.iter().any(|allowed| **allowed == *location))?;
            for given in &directive.arguments {
                valid(argument(&definition.arguments, &given.name, steps)?.is_some())?;
            }
            for argument in &definition.arguments {
                steps.count(directive.arguments.len())?;
                let given = || directive.arguments.iter().find(|given| given.name == argument.name);
                valid(
                    !argument.of.non_null
                        || argument.default.is_some()
                        || given().is_some_and(|given| !given.value.is(ValueKind::Null)),
                )?;
            }
        }
        Ok(())
    }

    fn check_implementation(
        &self,
        definition: &Definition,
        interface: &str,
        steps: &Steps,
    ) -> Result<(), DocumentError> {
        let interface = self.get(interface).ok_or(DocumentError::Invalid)?;
        valid(&*interface.kind == "INTERFACE")?;
        for required in &interface.fields {
            let found = field(&definition.fields, &required.name, steps)?.ok_or(DocumentError::Invalid)?;
            valid(self.is_covariant(&required.of, &found.of, steps)?)?;
            for of_required in &required.arguments {
                let of_found =
                    argument(&found.arguments, &of_required.name, steps)?.ok_or(DocumentError::Invalid)?;
                valid(of_required.of.is_compatible(&of_found.of))?;
            }
            for of_found in &found.arguments {
                let is_optional = !of_found.of.non_null || of_found.default.is_some();
                valid(is_optional || argument(&required.arguments, &of_found.name, steps)?.is_some())?;
            }
        }
        for transitive in &interface.interfaces {
            steps.count(definition.interfaces.len())?;
            valid(definition.interfaces.contains(transitive))?;
        }
        Ok(())
    }

    fn is_covariant(&self, required: &Type, actual: &Type, steps: &Steps) -> Result<bool, DocumentError> {
        if required.non_null && !actual.non_null {
            return Ok(false);
        }
        if required.named.is_empty() {
            let (Some(required), Some(actual)) = (&required.element, &actual.element) else {
                return Ok(false);
            };
            return self.is_covariant(required, actual, steps);
        }
        let possible = self.possible_types(&required.named);
        steps.count(possible.len())?;
        Ok(required.named == actual.named || possible.contains(&actual.named))
    }

    /// An input object must not contain itself through fields that are neither lists nor nullable.
    fn check_input_cycles(&self) -> Result<(), DocumentError> {
        let inputs = self.types.values().filter(|definition| &*definition.kind == "INPUT_OBJECT");
        let mut needs: BTreeMap<&str, Vec<&str>> = inputs
            .map(|input| {
                let fields = input.fields.iter().filter(|field| field.of.non_null);
                (&*input.name, fields.map(|field| &*field.of.named).collect())
            })
            .collect();
        valid(!has_cycle(&mut needs))
    }
}

/// Whether the graph has a cycle. Edges to nodes outside of the graph are ignored.
pub(super) fn has_cycle<'a>(edges: &mut BTreeMap<&'a str, Vec<&'a str>>) -> bool {
    let nodes: Vec<&str> = edges.keys().copied().collect();
    let mut open = BTreeSet::new();
    for node in nodes {
        let Some(first) = edges.remove(node) else { continue };
        open.insert(node);
        let mut path = vec![(node, first)];
        while let Some((node, rest)) = path.last_mut() {
            match rest.pop() {
                Some(next) if open.contains(next) => return true,
                Some(next) => {
                    if let Some(nexts) = edges.remove(next) {
                        open.insert(next);
                        path.push((next, nexts));
                    }
                }
                None => {
                    open.remove(*node);
                    path.pop();
                }
            }
        }
    }
    false
}

/// Rejects names that begin with two underscores. GraphQL reserves these names.
fn check_name(name: &str) -> Result<(), DocumentError> {
    valid(!name.starts_with("__"))
}

/// Whether a type can be used for a variable or an argument.
pub(super) fn is_input(definition: &Definition) -> bool {
    matches!(&*definition.kind, "SCALAR" | "ENUM" | "INPUT_OBJECT")
}

/// Whether a type has fields or members, so that it may be the condition of a fragment.
pub(super) fn is_composite(definition: &Definition) -> bool {
    matches!(&*definition.kind, "OBJECT" | "INTERFACE" | "UNION")
}

pub(super) fn are_unique<'a>(names: impl Iterator<Item = &'a Text>) -> bool {
    let mut seen = BTreeSet::new();
    names.into_iter().all(|name| seen.insert(name))
}
