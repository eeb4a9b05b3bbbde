//! Checks the GraphQL rules for values: arguments, and defaults of variables.

use super::super::DocumentError;
use super::super::ast::{Definition, InputValue, Type, ValueKind, VariableDefinition};
use super::super::schema::{self, are_unique};
use super::{Walk, Walker, valid};

/// The expected type of a value. For lists, the definition is that of the innermost elements.
#[derive(Clone, Copy)]
pub(super) struct Expected<'a> {
    pub(super) of: &'a Type,
    pub(super) definition: Option<&'a Definition>,
}

/// Whether `default` is a value other than null.
pub(super) fn has_default(default: Option<&InputValue>) -> bool {
    default.is_some_and(|default| !default.is(ValueKind::Null))
}

impl<'a> Walker<'a> {
    /// Checks a value. `has_default` states whether the argument or field with this value has a default other than
    /// null.
    pub(super) fn value(
        &'a self,
        value: &'a InputValue,
        expected: Option<Expected<'a>>,
        has_default: bool,
        walk: &mut Walk<'a>,
    ) -> Result<(), DocumentError> {
        self.steps.count(1)?;
        match value.kind {
            Some(ValueKind::Variable) => return self.variable(value, expected, has_default, walk),
            Some(ValueKind::Object) => {
                let fields = expected.and_then(|expected| expected.definition).map(|of| &of.fields);
                for child in &value.children {
                    let field = match fields {
                        Some(fields) => schema::field(fields, &child.name, self.steps)?,
                        None => None,
                    };
                    let expected = field.map(|field| Expected {
                        of: &field.of,
                        definition: self.schema.get(field.of.name()),
                    });
                    let has_default = field
                        .map_or(child.value.has_default, |field| self::has_default(field.default.as_ref()));
                    self.value(&child.value, expected, has_default, walk)?;
                }
                valid(are_unique(value.children.iter().map(|child| &child.name)))?;
            }
            Some(ValueKind::List) => {
                let of_elements = expected.and_then(|expected| {
                    let of = expected.of.element.as_deref()?;
                    Some(Expected { of, definition: expected.definition })
                });
                for child in &value.children {
                    self.value(&child.value, of_elements, child.value.has_default, walk)?;
                }
            }
            _ => {}
        }
        let Some(Expected { of, definition: Some(definition) }) = expected else { return Ok(()) };
        self.typed_value(value, of, definition, walk)
    }

    fn variable(
        &'a self,
        value: &'a InputValue,
        expected: Option<Expected<'a>>,
        has_default: bool,
        walk: &mut Walk<'a>,
    ) -> Result<(), DocumentError> {
        // A fragment uses the variables of the operations that use the fragment. Outside of an operation, these
        // variables are unknown.
        let Some((at, variable)) = self.lookup(value, walk)? else {
            return valid(walk.operation.is_none());
        };
        walk.used.insert(at);
        let Some(expected) = expected else { return Ok(()) };
        let may_be_null = has_default || self::has_default(variable.default.as_ref());
        valid(variable.of.is_compatible_if(expected.of, expected.of.non_null && !may_be_null))?;
        if let Some(definition) = expected.definition
            && !is_custom_scalar(definition)
            && let Some(default) = &variable.default
        {
            self.check_numbers(default, walk)?;
        }
        Ok(())
    }

    fn lookup(
        &self,
        value: &InputValue,
        walk: &Walk<'a>,
    ) -> Result<Option<(usize, &'a VariableDefinition)>, DocumentError> {
        let Some(operation) = walk.operation else { return Ok(None) };
        self.steps.count(operation.variables.len())?;
        Ok(operation.variables.iter().enumerate().find(|(_, variable)| variable.variable == value.raw))
    }

    fn typed_value(
        &self,
        value: &InputValue,
        of: &Type,
        definition: &Definition,
        walk: &Walk<'a>,
    ) -> Result<(), DocumentError> {
        valid(!(value.is(ValueKind::Null) && of.non_null))?;
        if is_custom_scalar(definition) {
            return self.one_of_variables(value, definition, walk);
        }
        self.check_numbers(value, walk)?;
        let name = &*definition.name;
        let is_enum = &*definition.kind == "ENUM";
        match value.kind {
            None | Some(ValueKind::Null | ValueKind::Variable) => Ok(()),
            Some(ValueKind::List) => valid(of.element.is_some()),
            Some(ValueKind::Int) => valid(matches!(name, "Int" | "Float" | "ID")),
            Some(ValueKind::Float) => valid(name == "Float"),
            Some(ValueKind::String | ValueKind::Block) => valid(!is_enum && matches!(name, "String" | "ID")),
            Some(ValueKind::Boolean) => valid(name == "Boolean"),
            Some(ValueKind::Enum) => {
                self.steps.count(definition.enum_values.len())?;
                valid(is_enum && definition.enum_values.iter().any(|allowed| allowed.name == value.raw))
            }
            Some(ValueKind::Object) => self.object(value, definition, walk),
        }
    }

    fn object(
        &self,
        value: &InputValue,
        definition: &Definition,
        walk: &Walk<'a>,
    ) -> Result<(), DocumentError> {
        for field in &definition.fields {
            self.steps.count(value.children.len())?;
            let is_required = field.of.non_null && field.default.is_none();
            valid(!is_required || value.children.iter().any(|child| child.name == field.name))?;
        }
        for child in &value.children {
            valid(schema::field(&definition.fields, &child.name, self.steps)?.is_some())?;
        }
        if definition.directives.iter().any(|directive| &*directive.name == "oneOf") {
            valid(value.children.len() == 1 && !value.children[0].value.is(ValueKind::Null))?;
        }
        self.one_of_variables(value, definition, walk)
    }

    /// A variable for a field of an object with `@oneOf` must be non-null.
    fn one_of_variables(
        &self,
        value: &InputValue,
        definition: &Definition,
        walk: &Walk<'a>,
    ) -> Result<(), DocumentError> {
        self.steps.count(definition.directives.len())?;
        let is_one_of = definition.directives.iter().any(|directive| &*directive.name == "oneOf");
        if !value.is(ValueKind::Object) || !is_one_of {
            return Ok(());
        }
        for child in value.children.iter().filter(|child| child.value.is(ValueKind::Variable)) {
            let variable = self.lookup(&child.value, walk)?;
            valid(variable.is_none_or(|(_, variable)| variable.of.non_null))?;
        }
        Ok(())
    }

    /// Checks that all numbers in a value are in range: 64-bit integers and finite floats. For a variable, its default
    /// is checked.
    fn check_numbers(&self, value: &InputValue, walk: &Walk<'a>) -> Result<(), DocumentError> {
        self.steps.count(1)?;
        match value.kind {
            Some(ValueKind::Int) => valid(value.raw.parse::<i64>().is_ok()),
            Some(ValueKind::Float) => valid(value.raw.parse::<f64>().is_ok_and(f64::is_finite)),
            Some(ValueKind::Boolean) => {
                let accepted =
                    ["1", "t", "T", "TRUE", "true", "True", "0", "f", "F", "FALSE", "false", "False"];
                valid(accepted.contains(&&*value.raw))
            }
            Some(ValueKind::List | ValueKind::Object) => {
                value.children.iter().try_for_each(|child| self.check_numbers(&child.value, walk))
            }
            Some(ValueKind::Variable) => {
                let default = self.lookup(value, walk)?.and_then(|(_, variable)| variable.default.as_ref());
                // A default contains no variables.
                default.map_or(Ok(()), |default| self.check_numbers(default, &Walk::default()))
            }
            _ => Ok(()),
        }
    }
}

/// Scalars that a schema defines accept any value.
fn is_custom_scalar(definition: &Definition) -> bool {
    let name = &*definition.name;
    &*definition.kind == "SCALAR" && !matches!(name, "Int" | "Float" | "String" | "Boolean" | "ID")
}
